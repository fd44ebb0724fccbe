//! Writes a project: all of its files or none.
//!
//! The directory is new or empty, so whatever is in it after an error was written here, and is removed.

use super::files::File;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    #[error("{} exists and is not empty (it has {found}): choose another name, or remove it", directory.display())]
    NotEmpty { directory: PathBuf, found: String },
    #[error("{} exists and is no directory: choose another name, or remove it", .0.display())]
    NotADirectory(PathBuf),
    #[error("{} cannot be written; nothing is left of the project", path.display())]
    Failed { path: PathBuf, source: io::Error },
    #[error("{} cannot be written, and the unfinished project cannot be removed ({removing}): remove {}", path.display(), root.display())]
    LeftOver {
        path: PathBuf,
        root: PathBuf,
        removing: io::Error,
        source: io::Error,
    },
}

/// Writes the files below a directory that does not exist or is empty. A repository of git without files counts as empty.
pub(crate) fn create(root: &Path, files: &[File]) -> Result<(), WriteError> {
    let is_new = prepare(root)?;
    for File { path, text } in files {
        let path = root.join(path);
        if let Err(source) = write(&path, text) {
            return Err(match remove(root, is_new, files) {
                Ok(()) => WriteError::Failed { path, source },
                Err(removing) => WriteError::LeftOver {
                    path,
                    root: root.to_owned(),
                    removing,
                    source,
                },
            });
        }
    }
    Ok(())
}

/// Creates the directory, or finds it empty. Answers whether it is new.
fn prepare(root: &Path) -> Result<bool, WriteError> {
    let failed = |source| WriteError::Failed {
        path: root.to_owned(),
        source,
    };
    match fs::create_dir(root) {
        Ok(()) => return Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed(error)),
    }
    if !root.is_dir() {
        return Err(WriteError::NotADirectory(root.to_owned()));
    }
    for entry in fs::read_dir(root).map_err(failed)? {
        let found = entry.map_err(failed)?.file_name();
        if found != ".git" {
            return Err(WriteError::NotEmpty {
                directory: root.to_owned(),
                found: found.to_string_lossy().escape_debug().to_string(),
            });
        }
    }
    Ok(false)
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(path, text)
}

/// Removes what was written: the directory if it is new, otherwise the first parts of the files' paths.
fn remove(root: &Path, is_new: bool, files: &[File]) -> io::Result<()> {
    if is_new {
        return fs::remove_dir_all(root);
    }
    for file in files {
        let Some(first) = file.path.components().next() else {
            continue;
        };
        let written = root.join(first);
        let removed = match fs::symlink_metadata(&written) {
            Ok(found) if found.is_dir() => fs::remove_dir_all(&written),
            Ok(_) => fs::remove_file(&written),
            Err(error) => Err(error),
        };
        match removed {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
