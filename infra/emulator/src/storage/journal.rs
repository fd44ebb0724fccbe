//! The journal file: its header, reading it from the start, and appending to it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use super::change::Record;
use super::directory::{Directory, StorageError};
use super::frame;
use super::state::State;

/// The format that this program writes. Raise it with every change that an older program would misread.
const VERSION: u32 = 1;

/// Header: the mark, the version (little-endian), and zeros.
const MARK: &[u8; 8] = b"DXCOSMOS";
const HEADER: usize = 16;

/// A running journal is let grow by so much beyond three times what it was after the last compaction.
const ROOM: u64 = 4 * 1024 * 1024;
/// A journal at start is let be so much beyond twice its live documents.
const ROOM_AT_START: u64 = 64 * 1024;

/// An open journal.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    /// Where the last whole frame ends, and the file.
    length: u64,
    /// How long it was when it was opened, or what compaction made of it: without what was written meanwhile.
    base: u64,
}

impl Journal {
    /// Opens the journal of a directory, or makes an empty one; gives what it comes to, and how much was cut off its end.
    pub(super) fn open(directory: &Directory) -> Result<(Journal, State, u64), StorageError> {
        let path = directory.journal();
        let unfinished = directory.new_journal();
        match std::fs::remove_file(&unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(StorageError::io("remove", &unfinished)(error));
            }
            _ => {}
        }
        if !path.exists() {
            create(directory).map_err(StorageError::io("write", &path))?;
        }
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .map_err(StorageError::io("write", &path))?;
        read_header(&mut file, directory.path())?;
        let bytes = std::fs::read(&path).map_err(StorageError::io("read", &path))?;
        let (state, end) = read(&bytes, &path)?;
        let cut = bytes.len() as u64 - end;
        if cut > 0 {
            file.set_len(end)
                .and_then(|()| file.sync_all())
                .map_err(StorageError::io("cut off the end of", &path))?;
        }
        Ok((Journal::at_end(file, end)?, state, cut))
    }

    fn at_end(mut file: File, length: u64) -> Result<Journal, StorageError> {
        file.seek(SeekFrom::Start(length))
            .map_err(StorageError::io("read", Path::new("the journal")))?;
        Ok(Journal {
            file,
            length,
            base: length,
        })
    }

    /// A journal that takes the place of another, positioned at its end; `base` is where its compacted part ends.
    pub(super) fn compacted(file: File, length: u64, base: u64) -> Journal {
        Journal { file, length, base }
    }

    /// Writes a record to the operating system, whole or, after an error, not at all.
    pub(super) fn append(&mut self, record: &Record) -> io::Result<()> {
        let mut frame = Vec::new();
        frame::put(&mut frame, &serde_json::to_vec(record)?)?;
        if let Err(error) = self.file.write_all(&frame) {
            // What is left of it would be cut off at the next start anyway: an error here loses nothing.
            if let Err(error) = self.file.set_len(self.length) {
                tracing::warn!(%error, "a torn record stays at the end of the journal");
            }
            return Err(error);
        }
        self.length += frame.len() as u64;
        Ok(())
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    pub(super) fn is_worth_compacting(&self) -> bool {
        self.length > ROOM + 3 * self.base
    }

    pub(super) fn is_worth_compacting_at_start(&self, state: &State) -> bool {
        self.length > ROOM_AT_START + 2 * state.bytes()
    }

    /// After a compaction that failed: the next one is tried when it has grown as much again.
    pub(super) fn put_off_compaction(&mut self) {
        self.base = self.length;
    }
}

/// Begins a file.
pub(super) fn write_header(file: &mut impl Write) -> io::Result<()> {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(MARK);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    file.write_all(&header)
}

/// Refuses what is no journal, or one of a newer version.
pub(super) fn read_header(file: &mut File, directory: &Path) -> Result<(), StorageError> {
    let mut header = [0; HEADER];
    match file.read_exact(&mut header) {
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
            return Err(StorageError::io("read", directory)(error));
        }
        Err(_) => return Err(StorageError::NotOurs(directory.to_owned())),
        Ok(()) if &header[..8] != MARK => return Err(StorageError::NotOurs(directory.to_owned())),
        Ok(()) => {}
    }
    let found = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
    if found > VERSION {
        return Err(StorageError::Newer {
            path: directory.to_owned(),
            found,
            known: VERSION,
        });
    }
    Ok(())
}

/// What the bytes of a journal come to, and where their last whole frame ends.
pub(super) fn read(bytes: &[u8], path: &Path) -> Result<(State, u64), StorageError> {
    let damaged = |at: usize, what: String| StorageError::Damaged {
        path: path.to_owned(),
        at: at as u64,
        what,
    };
    let scan = frame::scan(bytes, HEADER)
        .map_err(|broken| damaged(broken.at, "a record whose checksum is wrong".to_owned()))?;
    let mut state = State::default();
    for payload in scan.payloads {
        let at = payload.as_ptr().addr() - bytes.as_ptr().addr();
        let record: Record = serde_json::from_slice(payload)
            .map_err(|error| damaged(at, format!("a record that cannot be read: {error}")))?;
        state
            .apply(record)
            .map_err(|what| damaged(at, format!("a record about {what}, which was never made")))?;
    }
    Ok((state, scan.end as u64))
}

/// A new journal is there with its whole header, or not at all.
fn create(directory: &Directory) -> io::Result<()> {
    let path = directory.new_journal();
    let mut file = File::create(&path)?;
    write_header(&mut file)?;
    file.sync_all()?;
    std::fs::rename(&path, directory.journal())?;
    directory.sync()
}
