//! The Python programs of the real parts, in a virtual environment below the target directory.
//!
//! Made once and reused by later runs; a lock file keeps concurrent test processes from making it twice. The directory
//! is named after the pinned versions, so another pin makes another environment.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::build::target_dir;

const CARGO_LAMBDA: &str = "1.9.2";
const MOTO: &str = "5.2.5";

/// An environment in which both programs are installed.
#[derive(Debug, Clone)]
pub struct Venv {
    root: PathBuf,
}

impl Venv {
    /// The environment, made if there is none. The first time takes half a minute and needs a package index.
    pub async fn ready() -> Result<Venv> {
        tokio::task::spawn_blocking(Venv::make).await?
    }

    fn make() -> Result<Venv> {
        let parent = target_dir()?.join("real-parts");
        fs::create_dir_all(&parent)?;
        let root = parent.join(format!("cargo-lambda-{CARGO_LAMBDA}-moto-{MOTO}"));
        let venv = Venv { root };
        let lock = File::create(parent.join("lock"))?;
        lock.lock()
            .context("the lock of the virtual environment cannot be taken")?;
        if !venv.is_ready() {
            venv.install()
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

    fn program(&self, name: &str) -> PathBuf {
        self.root.join("bin").join(name)
    }

    fn marker(&self) -> PathBuf {
        self.root.join("installed")
    }

    /// The interpreter is a link to the system's, which may have been replaced since: it must still find moto.
    fn is_ready(&self) -> bool {
        let imports = || run(Command::new(self.python()).args(["-c", "import moto"]));
        self.marker().exists() && imports().is_ok()
    }

    fn install(&self) -> Result<()> {
        if self.root.exists() {
            fs::remove_dir_all(&self.root)?;
        }
        let mut python = Command::new("python3");
        run(python.args(["-m", "venv"]).arg(&self.root))
            .context("Python 3 with its venv module is needed: on Debian, apt-get install python3 python3-venv")?;
        // Its only dependency is a compiler for other platforms (400 MB), which serving the Runtime API does not need.
        self.pip(&["--no-deps", &format!("cargo-lambda=={CARGO_LAMBDA}")])?;
        self.pip(&[&format!("moto[server]=={MOTO}")])?;
        File::create(self.marker())?;
        Ok(())
    }

    fn pip(&self, what: &[&str]) -> Result<()> {
        let mut pip = Command::new(self.python());
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        run(pip.args(what)).with_context(|| format!("pip cannot install {}", what.join(" ")))
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
