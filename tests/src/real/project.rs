//! A project of a user, made by `duroxide-lambda new`.
//!
//! Projects are outside of this repository, as users' are: cargo, rustfmt and clippy look for settings in the directories above. All of
//! them share one target directory below that of the tests, so that their dependencies are built once; a lock keeps two of them from
//! being built at the same time, because their binaries have the same names. A project has the same path in each run, so that what
//! an earlier run has built is used again.

use super::Binaries;
use super::build::target_dir;
use super::install::lock;
use anyhow::{Context, Result, ensure};
use local_cloud::Functions;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A project, with a lock on the target directory of all projects.
#[derive(Debug)]
pub struct Project {
    /// Its directory.
    pub root: PathBuf,
    target: PathBuf,
    _lock: File,
}

impl Project {
    /// Makes a project with this name and these options of `new`, and returns what `new` has printed, too.
    pub async fn generate(binaries: &Binaries, name: &str, options: &[&str]) -> Result<(Project, String)> {
        let project = Project::place(name).await?;
        let mut command = binaries.local(&["new"]);
        command.arg(&project.root).args(options);
        let said = output(command).await?;
        Ok((project, said))
    }

    /// The place of a project with this name, where nothing is.
    pub async fn place(name: &str) -> Result<Project> {
        let target = target_dir()?;
        let mut hasher = DefaultHasher::new();
        target.hash(&mut hasher);
        let all = std::env::temp_dir().join(format!("duroxide-lambda-projects-{:x}", hasher.finish()));
        let root = all.join(name);
        let locked = target.join("projects.lock");
        let lock = tokio::task::spawn_blocking(move || lock(&locked)).await??;
        if root.exists() {
            fs::remove_dir_all(&root)?;
        }
        fs::create_dir_all(&all)?;
        let target = target.join("projects");
        Ok(Project {
            root,
            target,
            _lock: lock,
        })
    }

    /// Runs cargo in the project. The crates are those of this repository's lock file, which are on this machine.
    pub async fn cargo(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new("cargo");
        command.args(arguments);
        output(self.inside(command)).await
    }

    /// The command in the directory and with the target directory of the project.
    pub fn inside(&self, mut command: Command) -> Command {
        // The test is run by a cargo of its own, whose settings are not those of a user.
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") || name == "RUSTFLAGS" {
                command.env_remove(name.as_ref());
            }
        }
        command
            .current_dir(&self.root)
            .env("CARGO_NET_OFFLINE", "true")
            // Nothing is built twice in the same place.
            .env("CARGO_INCREMENTAL", "0")
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_TARGET_DIR", &self.target);
        command
    }

    /// Builds the functions.
    pub async fn functions(&self) -> Result<Functions> {
        self.cargo(&["build"]).await?;
        let binary = |name: &str| -> Result<PathBuf> {
            let path = self.target.join("debug").join(name);
            ensure!(path.is_file(), "cargo built no {}", path.display());
            Ok(path)
        };
        Ok(Functions {
            orchestrator: binary("orchestrator")?,
            worker: binary("worker")?,
            maintenance: binary("maintenance")?,
            api: Some(binary("api")?),
        })
    }

    /// A file of the project.
    pub fn read(&self, file: impl AsRef<Path>) -> Result<String> {
        let path = self.root.join(file);
        fs::read_to_string(&path).with_context(|| path.display().to_string())
    }
}

/// What a command prints, which must succeed.
async fn output(mut command: Command) -> Result<String> {
    let shown = format!("{command:?}");
    let ran = tokio::task::spawn_blocking(move || command.output()).await?;
    let ran = ran.with_context(|| format!("{shown} does not start"))?;
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    ensure!(
        ran.status.success(),
        "{shown} failed ({})\n{said}{}",
        ran.status,
        String::from_utf8_lossy(&ran.stderr)
    );
    Ok(said)
}
