//! The functions' binaries, built from a test as the test itself was: same target directory, same profile.
//!
//! `cargo test` lets go of the build lock before it runs the tests, so the inner `cargo build` does not wait for it.
//! Its libraries are those of the outer build when that was of the whole workspace; only the binaries are linked.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Builds the named binaries of this workspace, and answers their paths in the same order.
pub async fn build<const N: usize>(binaries: [&str; N]) -> Result<[PathBuf; N]> {
    let names = binaries.map(str::to_owned);
    tokio::task::spawn_blocking(move || build_blocking(&names)).await?
}

fn build_blocking<const N: usize>(names: &[String; N]) -> Result<[PathBuf; N]> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from(env!("CARGO")));
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("the tests lie in the workspace")?;
    let mut command = Command::new(cargo);
    // The whole workspace is selected, not the packages: features are then unified as in `cargo test --workspace`.
    command
        .current_dir(root)
        .args([
            "build",
            "--locked",
            "--workspace",
            "--message-format=json-render-diagnostics",
        ])
        .args(["--profile", &profile()?])
        .arg("--target-dir")
        .arg(target_dir()?);
    for name in names {
        command.args(["--bin", name]);
    }
    let output = command
        .stderr(Stdio::piped())
        .output()
        .context("cargo does not start")?;
    if !output.status.success() {
        bail!(
            "the functions do not build\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let messages: Vec<Value> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let mut paths = Vec::with_capacity(N);
    for name in names {
        paths.push(executable(&messages, name).with_context(|| format!("cargo did not name the binary {name}"))?);
    }
    Ok(paths.try_into().expect("one path for each name"))
}

fn executable(messages: &[Value], name: &str) -> Option<PathBuf> {
    let of = |message: &&Value| message["target"]["name"] == name && message["executable"].is_string();
    messages.iter().find(of)?["executable"].as_str().map(PathBuf::from)
}

/// The profile of the running test: the directory above `deps` is named after it.
fn profile() -> Result<String> {
    let exe = std::env::current_exe()?;
    let directory = exe
        .ancestors()
        .find(|path| path.ends_with("deps"))
        .and_then(Path::parent);
    let name = directory
        .and_then(Path::file_name)
        .with_context(|| format!("{} is not a test built by cargo", exe.display()))?;
    Ok(match name.to_string_lossy().as_ref() {
        "debug" => "dev".to_owned(),
        other => other.to_owned(),
    })
}

/// The target directory of the running test: cargo marks it as a cache.
pub fn target_dir() -> Result<PathBuf> {
    let exe = std::env::current_exe()?;
    exe.ancestors()
        .find(|path| path.join("CACHEDIR.TAG").exists())
        .map(Path::to_owned)
        .with_context(|| format!("{} is not below a target directory of cargo", exe.display()))
}
