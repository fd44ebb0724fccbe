//! What was committed survives a restart: a directory with one journal of applied writes.
//!
//! ```text
//!   request -> turn -> emulator applies -> journal appends -> answer
//!                        (memory)            (disk)
//!   start:  journal -> scan (whole frames) -> State (live documents) -> emulator -> listener opens
//! ```
//!
//! The journal is one file: a header with a format version, then frames (`frame`), one for each request that changed
//! something. A frame holds what the request left behind (`change`): whole documents, deletions, containers. A batch is
//! one frame, so it is there whole or not at all. Frames are made from the request, not from the answer: what is stored is
//! the document that was sent, whatever `Prefer` says about the answer, and each operation of a batch is a put, a
//! deletion or nothing.
//!
//! **Order.** Applying and appending are one step, one request at a time ([`Storage::turn`]): the journal is the order in
//! which the writes became visible. So what a crash leaves is a prefix of what anybody saw: never a write without the
//! one that its writer had read before. Reads take no turn: one may show a write in the moment before it is kept, and a crash
//! in that very moment takes it back, which the service would not do. A server without a directory has no turns at all.
//!
//! **Durability.** A frame is written to the operating system before the answer is sent: that survives `kill -9` of the
//! server. It is forced to the disk only by compaction and by an orderly stop: a power cut may take the last seconds, and a disk
//! that wrote the end before the middle may leave damage, which is refused as below.
//!
//! **A torn tail** is what a crash in the middle of an append leaves: bytes at the end that are no whole frame. They are
//! cut off, with a warning and in [`Recovered::cut_bytes`]. Damage with whole frames after it is something else: the server
//! refuses to start and changes nothing.
//!
//! **Compaction** (`compact`) folds the journal into one put for each live document, in a second file that takes the first one's
//! place by a rename. Before the rename the old file counts, after it the new one; both hold the same.
//!
//! **When the disk refuses a write** the memory is ahead of the journal and cannot be turned back. That write is answered
//! with 500, and from then on every request, reads too, with 503 and the reason: nobody builds on what is not kept.
//! Starting again, with room, shows the last state that was kept.
//!
//! **What is new after a restart**: ETags, `_ts`, `_rid` and session tokens. An `If-Match` with an ETag of before fails
//! with 412, as after any write by somebody else; ETags are random, so an old one never fits by chance. A session token of
//! before may be ahead of every replica (404/1002): our client forgets a session that no replica meets. How long a
//! document lives is counted from the time in its frame, not from the restart. A container keeps the number of partitions
//! that it was made with, but not its splits.

mod change;
mod compact;
mod directory;
mod frame;
mod journal;
mod state;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use tokio::sync::{Mutex, MutexGuard};

pub(crate) use change::{Change, Record, canonical_key};
pub use directory::StorageError;
pub(crate) use state::{Container, Document, State};

use directory::Directory;
use journal::Journal;

/// What a server found in its data directory when it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// How many containers there are.
    pub containers: u64,
    /// How many documents they hold.
    pub documents: u64,
    /// How long the torn tail was that had to be cut off; 0 after an orderly stop, and nearly always.
    pub cut_bytes: u64,
}

impl Recovered {
    /// What was found in the data directory, for people.
    pub fn describe(&self, data: &Path) -> String {
        let mut text = format!(
            "The data directory {} has {} documents in {} containers.",
            data.display(),
            self.documents,
            self.containers
        );
        if self.cut_bytes > 0 {
            text += &format!(
                "\nThe last write there was cut short by a crash; {} bytes of it were dropped.",
                self.cut_bytes
            );
        }
        text
    }
}

/// An open data directory. No other process can open it meanwhile.
pub(crate) struct Storage {
    directory: Directory,
    journal: Mutex<Journal>,
    /// Held while the journal is being compacted.
    compaction: Mutex<()>,
    /// Why nothing is written any more.
    failure: OnceLock<String>,
}

/// The right to change the store and the journal, together.
pub(crate) struct Turn<'a> {
    storage: &'a Arc<Storage>,
    journal: MutexGuard<'a, Journal>,
}

impl Storage {
    /// Opens a directory, makes it if it is not there, and gives what is in it.
    pub(crate) fn open(path: &Path) -> Result<(Arc<Storage>, State, Recovered), StorageError> {
        let directory = Directory::open(path)?;
        let (mut journal, state, cut_bytes) = Journal::open(&directory)?;
        if cut_bytes > 0 {
            tracing::warn!(
                directory = %path.display(),
                cut_bytes,
                "the journal ended in the middle of a record, which was cut off"
            );
        }
        if journal.is_worth_compacting_at_start(&state) {
            compact::at_start(&directory, &mut journal, &state);
        }
        let recovered = Recovered {
            containers: state.containers() as u64,
            documents: state.documents() as u64,
            cut_bytes,
        };
        let storage = Storage {
            directory,
            journal: Mutex::new(journal),
            compaction: Mutex::new(()),
            failure: OnceLock::new(),
        };
        Ok((Arc::new(storage), state, recovered))
    }

    /// Why nothing is written any more, if so.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Stops everything: memory and journal differ, or may.
    pub(crate) fn fail(&self, why: &str) {
        if self.failure.set(why.to_owned()).is_ok() {
            tracing::error!(directory = %self.directory.path().display(), why, "the store has stopped");
        }
    }

    /// Waits for the right to change something.
    pub(crate) async fn turn(self: &Arc<Self>) -> Result<Turn<'_>, String> {
        let journal = self.journal.lock().await;
        match self.failure() {
            Some(why) => Err(why.to_owned()),
            None => Ok(Turn { storage: self, journal }),
        }
    }

    /// Forces everything to the disk and gives the directory free. Nothing is written afterwards.
    pub(crate) async fn close(&self) -> std::io::Result<()> {
        let _quiet = self.compaction.lock().await;
        let journal = self.journal.lock().await;
        // A second one changes nothing, and the first is the reason that matters.
        drop(self.failure.set("the server has been stopped".to_owned()));
        journal.sync()?;
        self.directory.release()
    }
}

impl Turn<'_> {
    /// Keeps what was just applied. An error stops the store for good: see the module.
    pub(crate) fn append(&mut self, record: &Record) -> Result<(), String> {
        if let Err(error) = self.journal.append(record) {
            let why = format!(
                "the data directory {} took no write ({error}); make room and start the server again",
                self.storage.directory.path().display()
            );
            self.storage.fail(&why);
            return Err(why);
        }
        if self.journal.is_worth_compacting() && self.storage.compaction.try_lock().is_ok() {
            let storage = Arc::clone(self.storage);
            // It runs beside the requests, and says itself when it fails.
            drop(tokio::task::spawn_blocking(move || compact::while_running(&storage)));
        }
        Ok(())
    }
}
