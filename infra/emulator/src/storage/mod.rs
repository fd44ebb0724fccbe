//! The data directory: committed writes survive a restart of the server.
//!
//! ```text
//!   write:  request -> Writer (one at a time) -> emulator applies -> redb commits -> reply
//!                                                  (memory)            (file)
//!   start:  file -> checked copy in memory -> Contents -> emulator -> listener opens
//! ```
//!
//! | file | role |
//! |---|---|
//! | `change` | what one request changed |
//! | `tables` | the tables of the embedded store (redb), and how a change becomes a transaction |
//! | `file` | the storage file under redb, and when it is forced to the disk |
//! | `directory` | the directory: its file names, its lock, and which directories are refused |
//!
//! **Atomicity and order.** Each request that changes something is one redb transaction, so a batch is stored as a whole or not
//! at all. Changes are derived from the request, not from the reply: `Prefer: return=minimal` stores whole documents too. A
//! [`Writer`] applies a request to the emulator and commits it before the next one starts, so the transactions have the order
//! in which the writes became visible, and a crash leaves a prefix of them. Reads do not wait for a `Writer`: a read may see a
//! write just before its commit, and a crash in that moment undoes the write. The service would not do that.
//!
//! **Durability.** A commit reaches the operating system before the reply is sent, so acknowledged writes survive `kill -9`.
//! The file is forced to the disk only when the server shuts down: a power cut may lose or damage recent writes.
//!
//! **Damage.** A start reads the file into memory and checks every checksum there before it opens the file itself. A damaged
//! file is refused and left as it was.
//!
//! **A failed commit** (a full disk) leaves the memory ahead of the file. That write gets 500, and every later request, reads
//! included, gets 503 with the reason, so that nobody builds on data that is not stored. A restart shows the last committed
//! state.
//!
//! **What a restart changes**: ETags, `_ts`, `_rid` and consistency tokens are new. An `If-Match` with an older ETag fails with 412;
//! ETags are random, so an old one never matches by chance. An older consistency token may be ahead of every replica (404/1002). A
//! document's time to live counts from its original write. A container keeps the number of partitions with which it was
//! created, but not its splits.

mod change;
mod directory;
mod file;
mod tables;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use redb::Database;
use tokio::sync::{Mutex, MutexGuard};

pub(crate) use change::{Change, canonical_key};
pub use directory::StorageError;
pub(crate) use tables::{Contents, StoredDocument};

use directory::Directory;

/// What a server found in its data directory when it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// The number of containers.
    pub containers: u64,
    /// The number of documents in all containers.
    pub documents: u64,
}

impl Recovered {
    /// One line for the user.
    pub fn describe(&self, data: &Path) -> String {
        format!(
            "The data directory {} has {} documents in {} containers.",
            data.display(),
            self.documents,
            self.containers
        )
    }
}

/// An open data directory. No other process can open it meanwhile.
pub(crate) struct Storage {
    directory: Directory,
    /// `None` after [`Storage::close`].
    database: Mutex<Option<Database>>,
    /// Why the store has stopped.
    failure: OnceLock<String>,
}

/// The exclusive right to change the emulator and the file.
pub(crate) struct Writer<'a> {
    storage: &'a Storage,
    database: MutexGuard<'a, Option<Database>>,
}

impl Storage {
    /// Opens a directory, creates it if necessary, and returns what it holds.
    pub(crate) fn open(path: &Path) -> Result<(Arc<Storage>, Contents), StorageError> {
        let directory = Directory::open(path)?;
        let (database, contents) = tables::open(&directory)?;
        let storage = Storage {
            directory,
            database: Mutex::new(Some(database)),
            failure: OnceLock::new(),
        };
        Ok((Arc::new(storage), contents))
    }

    /// Why the store has stopped; `None` while it works.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Stops the store, because memory and file differ or may differ.
    pub(crate) fn fail(&self, why: &str) {
        if self.failure.set(why.to_owned()).is_ok() {
            tracing::error!(directory = %self.directory.path().display(), why, "the store has stopped");
        }
    }

    /// Waits until no other request is changing anything.
    pub(crate) async fn writer(&self) -> Result<Writer<'_>, String> {
        let database = self.database.lock().await;
        match self.failure() {
            Some(why) => Err(why.to_owned()),
            None => Ok(Writer {
                storage: self,
                database,
            }),
        }
    }

    /// Forces everything to the disk and releases the directory. Nothing is written afterwards.
    pub(crate) async fn close(&self) -> std::io::Result<()> {
        let mut database = self.database.lock().await;
        // If this fails, the store had stopped before: the first reason is the one to keep.
        drop(self.failure.set("the server has been stopped".to_owned()));
        // Dropping it writes redb's own state and closes the file.
        drop(database.take());
        self.directory.sync()?;
        self.directory.release()
    }
}

impl Writer<'_> {
    /// Commits what was just applied to the emulator. An error stops the store: see the module.
    pub(crate) fn commit(&mut self, at: u64, changes: &[Change]) -> Result<(), String> {
        let database = self.database.as_ref().ok_or("the server has been stopped")?;
        tables::write(database, at, changes).map_err(|error| {
            let why = format!(
                "a write to the data directory {} failed ({error}); make room and start the server again",
                self.storage.directory.path().display()
            );
            self.storage.fail(&why);
            why
        })
    }
}

#[cfg(test)]
mod tests;
