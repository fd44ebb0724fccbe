//! The data directory: whose it is, who uses it, and what its files are called.
//!
//! | file | what it is |
//! |---|---|
//! | `cosmos.journal` | the journal; a directory without one is new |
//! | `cosmos.journal.new` | a compaction that has not happened yet; removed at the next start |
//! | `cosmos.lock` | locked by the process that has the directory open, and empty |
//!
//! A directory is looked at before anything in it is touched: what is refused is left as it was.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::journal;

const JOURNAL: &str = "cosmos.journal";
const NEW_JOURNAL: &str = "cosmos.journal.new";
const LOCK: &str = "cosmos.lock";

/// Why a data directory cannot be used. Nothing in it was changed.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The path is something else.
    #[error("{0} is not a directory: name one that is, or one that does not exist yet")]
    NotADirectory(PathBuf),
    /// There are files in it that are not ours.
    #[error(
        "{0} holds other files and no data of this server: name an empty directory, or one that does not exist yet"
    )]
    NotOurs(PathBuf),
    /// Another process has it open.
    #[error("{0} is in use by another process: stop that one first, or name another directory")]
    InUse(PathBuf),
    /// A newer version of this program wrote it.
    #[error(
        "{path} was written by a newer version of this program (format {found}, this one reads up to {known}): use that version, or name another directory"
    )]
    Newer {
        /// The directory.
        path: PathBuf,
        /// The version of what was found.
        found: u32,
        /// The version that this program writes.
        known: u32,
    },
    /// Part of the journal is broken, and what follows it is not.
    #[error(
        "{path} is damaged at byte {at} ({what}), and this is not the end of it: restore a copy, or move it away to begin anew"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the damage begins.
        at: u64,
        /// What is wrong there.
        what: String,
    },
    /// The system said no.
    #[error("cannot {what} {path}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// With which file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl StorageError {
    pub(super) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StorageError {
        let path = path.to_owned();
        move |source| StorageError::Io { what, path, source }
    }
}

/// A directory that is ours alone as long as this lives, or until it is released.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    lock: File,
}

impl Directory {
    pub(super) fn open(path: &Path) -> Result<Directory, StorageError> {
        if path.exists() && !path.is_dir() {
            return Err(StorageError::NotADirectory(path.to_owned()));
        }
        std::fs::create_dir_all(path).map_err(StorageError::io("make the directory", path))?;
        let path = path.canonicalize().map_err(StorageError::io("find", path))?;
        refuse_foreign(&path)?;
        let lock_path = path.join(LOCK);
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock_path)
            .map_err(StorageError::io("write", &lock_path))?;
        match lock.try_lock() {
            Ok(()) => Ok(Directory { path, lock }),
            Err(TryLockError::WouldBlock) => Err(StorageError::InUse(path)),
            Err(TryLockError::Error(source)) => Err(StorageError::io("lock", &lock_path)(source)),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn journal(&self) -> PathBuf {
        self.path.join(JOURNAL)
    }

    pub(super) fn new_journal(&self) -> PathBuf {
        self.path.join(NEW_JOURNAL)
    }

    /// Makes a rename in it survive a power cut.
    pub(super) fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    /// Lets others open it.
    pub(super) fn release(&self) -> io::Result<()> {
        self.lock.unlock()
    }
}

/// Refuses a directory that is neither empty nor ours, and one that we cannot read.
fn refuse_foreign(path: &Path) -> Result<(), StorageError> {
    let journal_path = path.join(JOURNAL);
    if journal_path.exists() {
        let mut file = File::open(&journal_path).map_err(StorageError::io("read", &journal_path))?;
        return journal::read_header(&mut file, path);
    }
    let entries = std::fs::read_dir(path).map_err(StorageError::io("read", path))?;
    for entry in entries {
        let name = entry.map_err(StorageError::io("read", path))?.file_name();
        if name != LOCK && name != NEW_JOURNAL {
            return Err(StorageError::NotOurs(path.to_owned()));
        }
    }
    Ok(())
}
