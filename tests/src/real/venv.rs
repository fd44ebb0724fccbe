//! The Python programs of the real parts, in virtual environments below the target directory.
//!
//! Made once and reused by later runs; a lock file keeps concurrent test processes from making one twice. Packages that
//! conflict, or that only few tests need, have an environment of their own.
//!
//! Every package is pinned, also the indirect ones: `constraints/` holds the output of `pip freeze` of an environment that
//! passed, with Python 3.11. An environment that was made with other constraints is made again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::install::{lock, parts, run};

const CARGO_LAMBDA: &str = "1.9.2";
const MOTO: &str = "5.2.5";
const ZIG: &str = "0.17.0";
const SAM: &str = "1.170.0";
const CFN_LINT: &str = "1.58.0";
const CHECKOV: &str = "3.3.30";
const AZURE_COSMOS: &str = "4.17.1";
const SCHEMATHESIS: &str = "4.32.5";
const OPENAPI_PYTHON_CLIENT: &str = "0.29.1";

/// An environment in which some programs are installed.
#[derive(Debug, Clone)]
pub struct Venv {
    root: PathBuf,
}

/// What is installed: each line of `installs` is one call of pip.
struct Contents {
    name: String,
    installs: Vec<String>,
    /// The version of each package, as pip's constraints.
    constraints: &'static str,
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
            constraints: include_str!("constraints/moto.txt"),
            probe: "moto",
        })
        .await
    }

    /// `cargo-lambda` with its compiler, to build what is deployed.
    pub async fn builder() -> Result<Venv> {
        Venv::with(Contents {
            name: format!("cargo-lambda-{CARGO_LAMBDA}-zig-{ZIG}"),
            installs: vec![format!("cargo-lambda=={CARGO_LAMBDA} ziglang=={ZIG}")],
            // Both are named, and there is nothing else.
            constraints: "",
            probe: "ziglang",
        })
        .await
    }

    /// `sam`, with the transform that CloudFormation does, and `cfn-lint`.
    pub async fn sam() -> Result<Venv> {
        Venv::with(Contents {
            name: format!("sam-{SAM}-cfn-lint-{CFN_LINT}"),
            installs: vec![format!("aws-sam-cli=={SAM} cfn-lint=={CFN_LINT}")],
            constraints: include_str!("constraints/sam.txt"),
            probe: "samcli",
        })
        .await
    }

    /// `checkov`, with the Bicep parser that it brings.
    pub async fn checkov() -> Result<Venv> {
        Venv::with(Contents {
            name: format!("checkov-{CHECKOV}"),
            installs: vec![format!("checkov=={CHECKOV}")],
            constraints: include_str!("constraints/checkov.txt"),
            probe: "checkov",
        })
        .await
    }

    /// `azure-cosmos`, Microsoft's SDK.
    pub async fn azure_cosmos() -> Result<Venv> {
        Venv::with(Contents {
            name: format!("azure-cosmos-{AZURE_COSMOS}"),
            installs: vec![format!("azure-cosmos=={AZURE_COSMOS}")],
            constraints: include_str!("constraints/azure-cosmos.txt"),
            probe: "azure.cosmos",
        })
        .await
    }

    /// `schemathesis`, which tests an API against its OpenAPI document.
    pub async fn schemathesis() -> Result<Venv> {
        Venv::with(Contents {
            name: format!("schemathesis-{SCHEMATHESIS}"),
            installs: vec![format!("schemathesis=={SCHEMATHESIS}")],
            constraints: include_str!("constraints/schemathesis.txt"),
            probe: "schemathesis",
        })
        .await
    }

    /// `openapi-python-client`, which generates a client from an OpenAPI document; the client's own packages are among its.
    pub async fn openapi_python_client() -> Result<Venv> {
        Venv::with(Contents {
            name: format!("openapi-python-client-{OPENAPI_PYTHON_CLIENT}"),
            installs: vec![format!("openapi-python-client=={OPENAPI_PYTHON_CLIENT}")],
            constraints: include_str!("constraints/openapi-python-client.txt"),
            probe: "openapi_python_client",
        })
        .await
    }

    async fn with(contents: Contents) -> Result<Venv> {
        tokio::task::spawn_blocking(move || Venv::make(&contents)).await?
    }

    fn make(contents: &Contents) -> Result<Venv> {
        let parent = parts()?;
        let root = parent.join(&contents.name);
        let venv = Venv { root };
        let _lock = lock(&parent.join(format!("{}.lock", contents.name)))?;
        if !venv.is_ready(contents) {
            venv.install(contents)
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

    /// Written last: the constraints that all was installed with.
    fn marker(&self) -> PathBuf {
        self.root.join("installed")
    }

    /// The interpreter is a link to the system's, which may have been replaced since: it must still find what is installed.
    fn is_ready(&self, contents: &Contents) -> bool {
        let probe = contents.probe;
        let find = format!("import importlib.util, sys; sys.exit(importlib.util.find_spec('{probe}') is None)");
        let found = || run(Command::new(self.python()).args(["-c", &find]));
        fs::read_to_string(self.marker()).is_ok_and(|with| with == contents.constraints) && found().is_ok()
    }

    fn install(&self, contents: &Contents) -> Result<()> {
        if self.root.exists() {
            fs::remove_dir_all(&self.root)?;
        }
        let mut python = Command::new("python3");
        run(python.args(["-m", "venv"]).arg(&self.root))
            .context("Python 3 with its venv module is needed: on Debian, apt-get install python3 python3-venv")?;
        let constraints = self.root.join("constraints.txt");
        fs::write(&constraints, contents.constraints)?;
        for what in &contents.installs {
            self.pip(what, &constraints)?;
        }
        fs::rename(constraints, self.marker())?;
        Ok(())
    }

    fn pip(&self, what: &str, constraints: &Path) -> Result<()> {
        let mut pip = Command::new(self.python());
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        pip.arg("--constraint").arg(constraints);
        run(pip.args(what.split(' '))).with_context(|| format!("pip cannot install {what}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_is_pinned_and_the_pins_agree() {
        for (constraints, named) in [
            (include_str!("constraints/moto.txt"), &[("moto", MOTO)] as &[_]),
            (
                include_str!("constraints/sam.txt"),
                &[("aws-sam-cli", SAM), ("cfn-lint", CFN_LINT)],
            ),
            (include_str!("constraints/checkov.txt"), &[("checkov", CHECKOV)]),
            (
                include_str!("constraints/azure-cosmos.txt"),
                &[("azure-cosmos", AZURE_COSMOS)],
            ),
            (
                include_str!("constraints/schemathesis.txt"),
                &[("schemathesis", SCHEMATHESIS)],
            ),
            (
                include_str!("constraints/openapi-python-client.txt"),
                &[("openapi-python-client", OPENAPI_PYTHON_CLIENT)],
            ),
        ] {
            let pins: Vec<(&str, &str)> = constraints.lines().filter_map(|line| line.split_once("==")).collect();
            assert_eq!(pins.len(), constraints.lines().count(), "each line is NAME==VERSION");
            assert!(pins.len() > 5, "{pins:?}");
            for pin in named {
                assert!(pins.contains(pin), "{pin:?}");
            }
        }
    }
}
