//! The Python programs of the real parts, in virtual environments below the target directory.
//!
//! Made once and reused by later runs; a lock file keeps concurrent test processes from making one twice. A directory is
//! named after the pinned versions, so another pin makes another environment. What cannot live together, or what only few
//! tests need, has an environment of its own.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::build::target_dir;

const CARGO_LAMBDA: &str = "1.9.2";
const MOTO: &str = "5.2.5";
const ZIG: &str = "0.17.0";
const SAM: &str = "1.170.0";
const CFN_LINT: &str = "1.58.0";
const CHECKOV: &str = "3.3.30";

/// An environment in which some programs are installed.
#[derive(Debug, Clone)]
pub struct Venv {
    root: PathBuf,
}

/// What is installed: each line of `installs` is one call of pip.
struct Contents {
    name: String,
    installs: Vec<String>,
    /// A module that Python must find.
    probe: &'static str,
}

impl Venv {
    /// `cargo-lambda` and `moto`. The first time takes half a minute and needs a package index.
    pub async fn ready() -> Result<Venv> {
        Venv::with(Contents {
            name: format!("cargo-lambda-{CARGO_LAMBDA}-moto-{MOTO}"),
            installs: vec![
                // Its only dependency is a compiler for other platforms (400 MB), which serving the Runtime API does not need.
                format!("--no-deps cargo-lambda=={CARGO_LAMBDA}"),
                format!("moto[server]=={MOTO}"),
            ],
            probe: "moto",
        })
        .await
    }

    /// `cargo-lambda` with its compiler, to build what is deployed.
    pub async fn builder() -> Result<Venv> {
        Venv::with(Contents {
            name: format!("cargo-lambda-{CARGO_LAMBDA}-zig-{ZIG}"),
            installs: vec![format!("cargo-lambda=={CARGO_LAMBDA} ziglang=={ZIG}")],
            probe: "ziglang",
        })
        .await
    }

    /// `sam`, with the transform that CloudFormation does, and `cfn-lint`.
    pub async fn sam() -> Result<Venv> {
        Venv::with(Contents {
            name: format!("sam-{SAM}-cfn-lint-{CFN_LINT}"),
            installs: vec![format!("aws-sam-cli=={SAM} cfn-lint=={CFN_LINT}")],
            probe: "samcli",
        })
        .await
    }

    /// `checkov`, with the Bicep parser that it brings.
    pub async fn checkov() -> Result<Venv> {
        Venv::with(Contents {
            name: format!("checkov-{CHECKOV}"),
            installs: vec![format!("checkov=={CHECKOV}")],
            probe: "checkov",
        })
        .await
    }

    async fn with(contents: Contents) -> Result<Venv> {
        tokio::task::spawn_blocking(move || Venv::make(&contents)).await?
    }

    fn make(contents: &Contents) -> Result<Venv> {
        let parent = target_dir()?.join("real-parts");
        fs::create_dir_all(&parent)?;
        let root = parent.join(&contents.name);
        let venv = Venv { root };
        let lock = File::create(parent.join(format!("{}.lock", contents.name)))?;
        lock.lock()
            .context("the lock of the virtual environment cannot be taken")?;
        if !venv.is_ready(contents.probe) {
            venv.install(&contents.installs)
                .with_context(|| format!("no virtual environment in {}", venv.root.display()))?;
        }
        Ok(venv)
    }

    /// The interpreter of the environment.
    pub fn python(&self) -> PathBuf {
        self.program("python")
    }

    /// The `cargo-lambda` binary.
    pub fn cargo_lambda(&self) -> PathBuf {
        self.program("cargo-lambda")
    }

    /// One of its programs.
    pub fn program(&self, name: &str) -> PathBuf {
        self.directory().join(name)
    }

    /// Where its programs are.
    pub fn directory(&self) -> PathBuf {
        self.root.join("bin")
    }

    fn marker(&self) -> PathBuf {
        self.root.join("installed")
    }

    /// The interpreter is a link to the system's, which may have been replaced since: it must still find what is installed.
    fn is_ready(&self, probe: &str) -> bool {
        let find = format!("import importlib.util, sys; sys.exit(importlib.util.find_spec('{probe}') is None)");
        let found = || run(Command::new(self.python()).args(["-c", &find]));
        self.marker().exists() && found().is_ok()
    }

    fn install(&self, installs: &[String]) -> Result<()> {
        if self.root.exists() {
            fs::remove_dir_all(&self.root)?;
        }
        let mut python = Command::new("python3");
        run(python.args(["-m", "venv"]).arg(&self.root))
            .context("Python 3 with its venv module is needed: on Debian, apt-get install python3 python3-venv")?;
        for what in installs {
            self.pip(what)?;
        }
        File::create(self.marker())?;
        Ok(())
    }

    fn pip(&self, what: &str) -> Result<()> {
        let mut pip = Command::new(self.python());
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        run(pip.args(what.split(' '))).with_context(|| format!("pip cannot install {what}"))
    }
}

fn run(command: &mut Command) -> Result<()> {
    let program = Path::new(command.get_program()).to_owned();
    let output = command
        .output()
        .with_context(|| format!("{} does not start", program.display()))?;
    if !output.status.success() {
        let (out, err) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        bail!("{} failed ({})\n{out}{err}", program.display(), output.status);
    }
    Ok(())
}
