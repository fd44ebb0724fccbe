//! The functions' binaries, built by cargo from this workspace when somebody needs them.
//!
//! Cargo decides what is missing or stale; its progress goes to standard error, where it would stand anyway.

use crate::cloud::Functions;
use serde_json::Value;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What to build, and how.
#[derive(Clone, Debug)]
pub struct Build {
    /// The packages whose features are unified, as cargo's arguments. Those of the command that built the caller reuse its
    /// libraries.
    pub selection: Vec<String>,
    /// Cargo's profile.
    pub profile: String,
    /// The target directory, unless cargo's own choice.
    pub target_dir: Option<PathBuf>,
    /// Whether cargo may say what it does; its errors are told in any case.
    pub quiet: bool,
}

/// Why there are no binaries.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The sources are not where they were when this program was built.
    #[error(
        "the sources of the functions are not at {0}: name the binaries with --orchestrator, --worker and --maintenance"
    )]
    NoSources(PathBuf),
    /// Cargo does not start.
    #[error("cargo does not start: {0}")]
    NoCargo(std::io::Error),
    /// Cargo says no.
    #[error("the functions do not build{0}")]
    Failed(String),
    /// Cargo does not say where a binary is.
    #[error("cargo built no binary {0}")]
    Missing(String),
}

impl Build {
    /// As `cargo run` built this program: the same profile, the same libraries.
    pub fn like_this_program(release: bool) -> Build {
        let packages = ["duroxide-lambda-cli", "orchestrator", "worker", "maintenance"];
        let profile = if release || !cfg!(debug_assertions) {
            "release"
        } else {
            "dev"
        };
        Build {
            selection: packages
                .iter()
                .flat_map(|name| ["-p".to_owned(), (*name).to_owned()])
                .collect(),
            profile: profile.to_owned(),
            target_dir: None,
            quiet: false,
        }
    }

    /// The three functions of this workspace.
    ///
    /// # Errors
    /// When cargo cannot build them.
    pub async fn functions(self) -> Result<Functions, BuildError> {
        let [orchestrator, worker, maintenance] = self.binaries(["orchestrator", "worker", "maintenance"]).await?;
        Ok(Functions {
            orchestrator,
            worker,
            maintenance,
        })
    }

    /// Binaries of this workspace, in the order of their names.
    ///
    /// # Errors
    /// When cargo cannot build them.
    pub async fn binaries<const N: usize>(self, names: [&str; N]) -> Result<[PathBuf; N], BuildError> {
        let names = names.map(str::to_owned);
        let built = tokio::task::spawn_blocking(move || self.run(&names)).await;
        built.unwrap_or_else(|error| Err(BuildError::Failed(format!(": {error}"))))
    }

    fn run<const N: usize>(&self, names: &[String; N]) -> Result<[PathBuf; N], BuildError> {
        let root = workspace()?;
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
        let mut command = Command::new(cargo);
        command
            .current_dir(root)
            .args(["build", "--locked", "--message-format=json-render-diagnostics"])
            .args(["--profile", &self.profile])
            .args(&self.selection);
        for name in names {
            command.args(["--bin", name]);
        }
        if let Some(directory) = &self.target_dir {
            command.arg("--target-dir").arg(directory);
        }
        let errors = if self.quiet { Stdio::piped() } else { Stdio::inherit() };
        let output = command.stderr(errors).output().map_err(BuildError::NoCargo)?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(BuildError::Failed(format!("\n{said}").trim_end().to_owned()));
        }
        let messages: Vec<Value> = String::from_utf8_lossy(&output.stdout)
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        let mut paths = Vec::with_capacity(N);
        for name in names {
            paths.push(executable(&messages, name).ok_or_else(|| BuildError::Missing(name.clone()))?);
        }
        Ok(paths.try_into().expect("one path for each name"))
    }
}

fn workspace() -> Result<PathBuf, BuildError> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    match root.canonicalize() {
        Ok(root) if root.join("functions").is_dir() => Ok(root),
        _ => Err(BuildError::NoSources(root)),
    }
}

fn executable(messages: &[Value], name: &str) -> Option<PathBuf> {
    let of = |message: &&Value| message["target"]["name"] == name && message["executable"].is_string();
    messages.iter().find(of)?["executable"].as_str().map(PathBuf::from)
}
