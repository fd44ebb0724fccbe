//! The functions' binaries, built from a test as the test itself was: same target directory, same profile.
//!
//! `cargo test` lets go of the build lock before it runs the tests, so the inner `cargo build` does not wait for it.
//! Its libraries are those of the outer build when that was of the whole workspace; only the binaries are linked.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use local_cloud::Build;

/// Builds the named binaries of this workspace, and answers their paths in the same order.
pub async fn build<const N: usize>(binaries: [&str; N]) -> Result<[PathBuf; N]> {
    let build = Build {
        // The whole workspace is selected, not the packages: features are then unified as in `cargo test --workspace`.
        selection: vec!["--workspace".to_owned()],
        profile: profile()?,
        target_dir: Some(target_dir()?),
        quiet: true,
    };
    Ok(build.binaries(binaries).await?)
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
