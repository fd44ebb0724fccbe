//! The programs that a deployment needs, and how they are called.

use anyhow::{Context as _, bail};
use std::env;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Stdio;
use tokio::process::Command;

/// A program, and how to get it.
const PROGRAMS: [(&str, &str); 4] = [
    ("cargo", "https://rustup.rs"),
    ("cargo-lambda", "pip install cargo-lambda"),
    ("sam", "pip install aws-sam-cli"),
    ("aws", "https://aws.amazon.com/cli"),
];

/// The programs, run in the project's directory.
#[derive(Clone, Debug)]
pub(super) struct Tools {
    directory: PathBuf,
    /// The AWS CLI and `sam` must use the same region; `sam` reads `AWS_DEFAULT_REGION` only.
    region: Option<String>,
}

impl Tools {
    /// Checks that the named programs are installed.
    pub(super) fn find(directory: PathBuf, needed: &[&str]) -> anyhow::Result<Tools> {
        let path = env::var_os("PATH").unwrap_or_default();
        let is_installed = |name: &str| env::split_paths(&path).any(|directory| directory.join(name).is_file());
        let needed = PROGRAMS.iter().filter(|(name, _)| needed.contains(name));
        let missing: Vec<String> = needed
            .filter(|(name, _)| !is_installed(name))
            .map(|(name, how)| format!("{name} is not installed ({how})"))
            .collect();
        if !missing.is_empty() {
            bail!("{}", missing.join("; "));
        }
        let region = env::var("AWS_REGION").ok().filter(|region| !region.is_empty());
        Ok(Tools { directory, region })
    }

    fn command(&self, program: &str, arguments: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .kill_on_drop(true);
        if let Some(region) = &self.region {
            command.env("AWS_DEFAULT_REGION", region);
        }
        // The key is for the store only.
        command.env_remove("COSMOS_KEY").env_remove("COSMOS_TOKEN");
        command
    }

    /// Runs a program whose output people read; it must succeed.
    pub(super) async fn run(&self, program: &str, arguments: &[impl AsRef<OsStr>]) -> anyhow::Result<()> {
        let status = self.command(program, arguments).status().await;
        let status = status.with_context(|| format!("{program} does not start"))?;
        if !status.success() {
            let first = arguments.first().map(|it| it.as_ref().to_string_lossy().into_owned());
            bail!("{program} {} failed ({status})", first.unwrap_or_default());
        }
        Ok(())
    }

    /// Runs a program whose output we read: what it prints, or what it says when it fails.
    pub(super) async fn read(
        &self,
        program: &str,
        arguments: &[impl AsRef<OsStr>],
    ) -> anyhow::Result<Result<String, String>> {
        let output = self.command(program, arguments).output().await;
        let output = output.with_context(|| format!("{program} does not start"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(text(&output.stderr)),
        })
    }
}
