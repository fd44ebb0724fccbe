//! What installing programs of others has in common: a folder below the target directory, a lock file, and commands that must succeed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::build::target_dir;

/// The folder of what is installed.
pub(super) fn parts() -> Result<PathBuf> {
    let parts = target_dir()?.join("real-parts");
    fs::create_dir_all(&parts)?;
    Ok(parts)
}

/// Keeps other test processes from installing the same. Taken until the file is dropped.
pub(super) fn lock(path: &Path) -> Result<File> {
    let lock = File::create(path)?;
    lock.lock()
        .with_context(|| format!("the lock {} cannot be taken", path.display()))?;
    Ok(lock)
}

/// Runs a command to its end. What it has printed is a part of the error.
pub(super) fn run(command: &mut Command) -> Result<()> {
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
