//! Compaction: the journal as if every live document had been written once.
//!
//! ```text
//!   old journal [ header | frames .................. | tail ]        writes go on
//!   new file    [ header | one frame per document    ] sync           without the turn
//!                                                    [ + tail ] sync, rename over the old, sync the directory
//!                                                              with the turn
//! ```
//!
//! A crash before the rename leaves the old journal and a file that the next start removes; a crash after it leaves the
//! new journal, which is whole and on the disk. There is no state between.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use super::Storage;
use super::directory::Directory;
use super::frame;
use super::journal::{self, Journal};
use super::state::State;

/// Writers that are faster than this go on without: the next write asks again.
const ROUNDS: u32 = 4;

/// The places where a crash makes a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Created,
    HalfWritten,
    Written,
    Synced,
    TailCopied,
    TailSynced,
    Renamed,
    DirectorySynced,
}

/// Called at each step; a test stops there, as a crash would.
type Watch<'a> = &'a mut dyn FnMut(Step) -> io::Result<()>;

/// Compacts a journal that nobody writes to yet. Failing costs room, no data.
pub(super) fn at_start(directory: &Directory, journal: &mut Journal, state: &State) {
    let upto = journal.length();
    let watch = &mut |_| Ok(());
    let done = write(directory, state, watch).and_then(|file| take_over(directory, file, journal, upto, watch));
    if let Err(error) = done {
        put_off(directory, journal, &error);
    }
}

/// Compacts a journal while writes go on; does nothing if that is being done already.
pub(super) fn while_running(storage: &Arc<Storage>) {
    let Ok(_alone) = storage.compaction.try_lock() else {
        return;
    };
    for _ in 0..ROUNDS {
        match run(storage, &mut |_| Ok(())) {
            // What was written meanwhile may be worth another round, and nobody may write again and ask for it.
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => return put_off(&storage.directory, &mut storage.journal.blocking_lock(), &error),
        }
    }
}

/// Compacts it once, if that is worth it; answers whether it was.
fn run(storage: &Storage, watch: Watch<'_>) -> io::Result<bool> {
    let upto = {
        let journal = storage.journal.blocking_lock();
        // Another compaction may have been done since this one was asked for, or the directory given away.
        if !journal.is_worth_compacting() || storage.failure().is_some() {
            return Ok(false);
        }
        journal.length()
    };
    compact(storage, upto, watch)?;
    Ok(true)
}

fn compact(storage: &Storage, upto: u64, watch: Watch<'_>) -> io::Result<()> {
    let path = storage.directory.journal();
    let mut bytes = Vec::new();
    File::open(&path)?.take(upto).read_to_end(&mut bytes)?;
    let (state, _) = journal::read(&bytes, &path).map_err(io::Error::other)?;
    drop(bytes);
    let file = write(&storage.directory, &state, watch)?;
    let mut journal = storage.journal.blocking_lock();
    take_over(&storage.directory, file, &mut journal, upto, watch)
}

/// Writes the new file, without the tail.
fn write(directory: &Directory, state: &State, watch: Watch<'_>) -> io::Result<File> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .open(directory.new_journal())?;
    watch(Step::Created)?;
    let mut file = BufWriter::new(file);
    journal::write_header(&mut file)?;
    let mut buffer = Vec::new();
    let half = (state.documents() / 2).max(1);
    for (index, record) in state.records().enumerate() {
        buffer.clear();
        frame::put(&mut buffer, &serde_json::to_vec(&record)?)?;
        file.write_all(&buffer)?;
        if index == half {
            file.flush()?;
            watch(Step::HalfWritten)?;
        }
    }
    let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
    watch(Step::Written)?;
    file.sync_all()?;
    watch(Step::Synced)?;
    Ok(file)
}

/// Adds what was appended after `upto`, and puts the new file in the place of the old.
fn take_over(
    directory: &Directory,
    mut file: File,
    journal: &mut Journal,
    upto: u64,
    watch: Watch<'_>,
) -> io::Result<()> {
    let base = file.stream_position()?;
    let mut old = File::open(directory.journal())?;
    old.seek(SeekFrom::Start(upto))?;
    io::copy(&mut old.take(journal.length() - upto), &mut file)?;
    watch(Step::TailCopied)?;
    file.sync_all()?;
    watch(Step::TailSynced)?;
    let length = file.stream_position()?;
    std::fs::rename(directory.new_journal(), directory.journal())?;
    // From here on the new file is the journal, whatever else fails: an append to the old one would be lost.
    *journal = Journal::compacted(file, length, base);
    watch(Step::Renamed)?;
    directory.sync()?;
    watch(Step::DirectorySynced)
}

fn put_off(directory: &Directory, journal: &mut Journal, error: &io::Error) {
    tracing::warn!(%error, directory = %directory.path().display(), "the journal was not compacted, and grows on");
    journal.put_off_compaction();
    // It takes room that may be missing; the next start would remove it too.
    if let Err(error) = std::fs::remove_file(directory.new_journal())
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, "an unfinished compaction stays until the next start");
    }
}

#[cfg(test)]
#[path = "compact_tests.rs"]
mod tests;
