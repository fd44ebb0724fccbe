//! The data directory: its files, its lock, and which directories are refused.
//!
//! | file | role |
//! |---|---|
//! | `cosmos-2.redb` | the storage file; the number is the format. A directory without one is new |
//! | `cosmos-2.redb.new` | a storage file whose creation was interrupted; the next start replaces it |
//! | `cosmos.lock` | locked by the process that has the directory open, and empty |
//!
//! A directory is inspected before anything in it is changed: one that is refused is left as it was.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// The format that this program writes. Raise it with every change that an older program would misread. Format 1 was a journal
/// in files of its own (`cosmos.journal`).
const FORMAT: u32 = 2;

const LOCK: &str = "cosmos.lock";
const FORMAT_1: [&str; 2] = ["cosmos.journal", "cosmos.journal.new"];

/// Why a data directory cannot be used. Nothing in it was changed.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The path is a file or something else.
    #[error("{0} is not a directory: name a directory, or a path that does not exist yet")]
    NotADirectory(PathBuf),
    /// The directory has files that are not ours.
    #[error(
        "{0} holds other files and no data of this server: name an empty directory, or one that does not exist yet"
    )]
    NotOurs(PathBuf),
    /// Another process has it open.
    #[error("{0} is in use by another process: stop that process first, or name another directory")]
    InUse(PathBuf),
    /// An older version of this program wrote it, in a format that this version cannot read.
    #[error(
        "{0} was written by an older version of this program, in a format that this version cannot read: start with a new directory"
    )]
    Older(PathBuf),
    /// A newer version of this program wrote it.
    #[error(
        "{path} was written by a newer version of this program (format {found}, this one reads format {known}): use that version, or name another directory"
    )]
    Newer {
        /// The directory.
        path: PathBuf,
        /// The format of its storage file.
        found: u32,
        /// The format that this program reads and writes.
        known: u32,
    },
    /// The storage file is damaged.
    #[error("{path} is damaged ({what}): restore a copy, or move it away to start with an empty store")]
    Damaged {
        /// The storage file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The operating system reported an error.
    #[error("cannot {what} {path}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl StorageError {
    pub(super) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StorageError {
        let path = path.to_owned();
        move |source| StorageError::Io { what, path, source }
    }
}

/// A directory that this process has locked, until this is dropped or released.
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
        std::fs::create_dir_all(path).map_err(StorageError::io("create the directory", path))?;
        let path = path.canonicalize().map_err(StorageError::io("find", path))?;
        refuse_unreadable(&path)?;
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

    /// The storage file.
    pub(super) fn file(&self) -> PathBuf {
        self.path.join(format!("cosmos-{FORMAT}.redb"))
    }

    /// The storage file while it is being created.
    pub(super) fn new_file(&self) -> PathBuf {
        self.path.join(format!("cosmos-{FORMAT}.redb.new"))
    }

    /// Forces the storage file and its name to the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        File::open(self.file())?.sync_all()?;
        File::open(&self.path)?.sync_all()
    }

    /// Lets other processes open it.
    pub(super) fn release(&self) -> io::Result<()> {
        self.lock.unlock()
    }
}

/// Refuses a directory that a newer or older version wrote, and one that holds files but no storage file.
fn refuse_unreadable(path: &Path) -> Result<(), StorageError> {
    let entries = std::fs::read_dir(path).map_err(StorageError::io("read", path))?;
    let names = entries
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<io::Result<Vec<String>>>()
        .map_err(StorageError::io("read", path))?;
    let formats = || names.iter().filter_map(|name| format_of(name));
    match formats().max() {
        Some(found) if found > FORMAT => Err(StorageError::Newer {
            path: path.to_owned(),
            found,
            known: FORMAT,
        }),
        Some(FORMAT) => Ok(()),
        Some(_) => Err(StorageError::Older(path.to_owned())),
        None if names.iter().all(|name| name == LOCK) => Ok(()),
        None => Err(StorageError::NotOurs(path.to_owned())),
    }
}

/// The format of a storage file, by its name; `None` for any other file.
fn format_of(name: &str) -> Option<u32> {
    if FORMAT_1.contains(&name) {
        return Some(1);
    }
    let number = name.strip_prefix("cosmos-")?;
    let number = number.strip_suffix(".new").unwrap_or(number);
    number.strip_suffix(".redb")?.parse().ok()
}
