//! Builds the function binaries of this workspace with cargo.
//!
//! Cargo decides what is missing or stale. Its progress goes to standard error.

use serde_json::Value;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What to build, and how.
#[derive(Clone, Debug)]
pub struct Build {
    /// The packages whose features cargo unifies, as its arguments. With the packages of the command that built the
    /// caller, the build reuses that command's libraries.
    pub selection: Vec<String>,
    /// Cargo's profile.
    pub profile: String,
    /// The target directory; `None` leaves the choice to cargo.
    pub target_dir: Option<PathBuf>,
    /// Hide cargo's progress. Its errors are part of [`BuildError::Failed`] then.
    pub quiet: bool,
}

/// Why there are no binaries.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The sources have moved since this program was built.
    #[error(
        "the sources of the functions are not at {0}: name the binaries with --orchestrator, --worker, --maintenance and --api"
    )]
    NoSources(PathBuf),
    /// Cargo could not be started.
    #[error("cargo does not start")]
    NoCargo(#[source] std::io::Error),
    /// Cargo reported errors.
    #[error("the functions do not build{0}")]
    Failed(String),
    /// Cargo did not name the path of a binary.
    #[error("cargo built no binary {0}")]
    Missing(String),
}

impl Build {
    /// As `cargo run` built this program: the same profile and the same libraries, or the release profile.
    pub fn like_this_program(release: bool) -> Build {
        let packages = ["duroxide-lambda-cli", "orchestrator", "worker", "maintenance", "api"];
        let release = release || !cfg!(debug_assertions);
        Build {
            selection: packages
                .iter()
                .flat_map(|name| ["-p".to_owned(), (*name).to_owned()])
                .collect(),
            profile: if release { "release" } else { "dev" }.to_owned(),
            target_dir: None,
            quiet: false,
        }
    }

    /// Builds these binaries and returns their paths in the order of the names.
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
            let errors = String::from_utf8_lossy(&output.stderr);
            return Err(BuildError::Failed(format!("\n{errors}").trim_end().to_owned()));
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
