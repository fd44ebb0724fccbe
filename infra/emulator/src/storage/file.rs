//! The storage file under redb.
//!
//! redb asks for `sync_data` at every commit. That would cost one disk flush per write request and protect from a power cut
//! only. This file leaves the flush to [`Directory::sync`](super::directory::Directory::sync) at shutdown: a write that the
//! operating system has accepted survives the end of the process.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use redb::StorageBackend;

/// A file that is not forced to the disk at each commit.
#[derive(Debug)]
pub(super) struct UnsyncedFile(pub(super) File);

impl StorageBackend for UnsyncedFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_all_at(data, offset)
    }
}
