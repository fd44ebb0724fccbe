//! Copies of the binaries that cargo has built, each in a file of its own, named by its digest.
//!
//! Cargo writes a binary where the last one was. The functions run copies, so that a build neither disturbs a running process nor
//! starts half-written code, and a function that could not be replaced still has the binary that it runs.
//!
//! Each session has a folder of its own, and holds a lock on the file `lock` in it. A folder that is not locked belongs to a session that was
//! killed; the next session removes it.

use super::watch::Stamp;
use anyhow::Context as _;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// How many hexadecimal digits of a digest are in a name.
const DIGITS: usize = 16;
/// The file in a session's folder that the session locks; in the folder of all sessions, the one that is locked to create or remove folders.
const LOCK: &str = "lock";

/// See the module.
#[derive(Debug)]
pub(super) struct Shelf {
    /// The folder of all sessions.
    all: PathBuf,
    /// The folder of this session.
    folder: PathBuf,
    /// Copies by binary, with its state when it was copied: an unchanged one is not read again.
    copies: BTreeMap<PathBuf, (Stamp, PathBuf)>,
    /// The copies that were in use when the shelf was last tidied.
    previous: BTreeSet<PathBuf>,
    /// Locked until this is dropped.
    _lock: File,
}

impl Shelf {
    /// A shelf for this session in the folder of all sessions, which is created. Removes the folders of sessions that were killed.
    pub(super) fn open(all: PathBuf) -> anyhow::Result<Shelf> {
        let opened = fs::create_dir_all(&all).and_then(|()| {
            let _alone = alone(&all)?;
            remove_abandoned(&all);
            claim(&all)
        });
        let (folder, lock) = opened.with_context(|| format!("{} cannot be written", all.display()))?;
        Ok(Shelf {
            all,
            folder,
            copies: BTreeMap::new(),
            previous: BTreeSet::new(),
            _lock: lock,
        })
    }

    /// The copy of this binary. Binaries with the same content have the same copy.
    pub(super) fn put(&mut self, binary: &Path) -> anyhow::Result<PathBuf> {
        let cannot = || format!("{} cannot be copied to {}", binary.display(), self.folder.display());
        let stamp = Stamp::of(binary).with_context(|| format!("{} was built and is not there", binary.display()))?;
        if let Some((known, copy)) = self.copies.get(binary)
            && *known == stamp
            && copy.exists()
        {
            return Ok(copy.clone());
        }
        let copy = self.folder.join(name(binary).with_context(cannot)?);
        if !copy.exists() {
            // Whoever finds the name finds the whole file.
            let unfinished = copy.with_extension(std::process::id().to_string());
            let copied = fs::copy(binary, &unfinished).and_then(|_| fs::rename(&unfinished, &copy));
            copied.with_context(cannot)?;
        }
        self.copies.insert(binary.to_owned(), (stamp, copy.clone()));
        Ok(copy)
    }

    /// Removes all copies but these and those of the last time: a process that was requested before a replacement may not have executed its
    /// binary yet. A process that runs a copy is not disturbed.
    pub(super) fn tidy(&mut self, used: BTreeSet<PathBuf>) {
        let previous = std::mem::replace(&mut self.previous, used);
        let lock = self.folder.join(LOCK);
        for path in entries(&self.folder) {
            if path != lock && !previous.contains(&path) && !self.previous.contains(&path) {
                // It costs space only, and the next time removes it.
                fs::remove_file(path).unwrap_or_default();
            }
        }
    }
}

impl Drop for Shelf {
    fn drop(&mut self) {
        let _alone = alone(&self.all);
        // What is left costs space only, and the next session removes it.
        fs::remove_dir_all(&self.folder).unwrap_or_default();
    }
}

/// Waits until no other session creates or removes a folder; none does until this is dropped.
fn alone(all: &Path) -> io::Result<File> {
    let lock = lock_file(all)?;
    // A file system without locks: only sessions that start or end at the same moment are in danger.
    lock.lock().unwrap_or_default();
    Ok(lock)
}

/// A folder for this session, and its lock.
fn claim(all: &Path) -> io::Result<(PathBuf, File)> {
    let id = std::process::id();
    let mut name = id.to_string();
    let mut more = 1;
    loop {
        let folder = all.join(&name);
        fs::create_dir_all(&folder)?;
        let lock = lock_file(&folder)?;
        // In use: in another container, a process may have the same id.
        if !matches!(lock.try_lock(), Err(TryLockError::WouldBlock)) {
            return Ok((folder, lock));
        }
        more += 1;
        name = format!("{id}-{more}");
    }
}

/// Removes the folders that no session has locked, and keeps those of which the file system does not say it.
fn remove_abandoned(all: &Path) {
    for path in entries(all) {
        if !path.is_dir() {
            continue;
        }
        if let Ok(lock) = lock_file(&path)
            && lock.try_lock().is_ok()
        {
            // It costs space only, and the next session tries again.
            fs::remove_dir_all(&path).unwrap_or_default();
        }
    }
}

fn lock_file(folder: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true);
    options.open(folder.join(LOCK))
}

/// What is in a folder; nothing, if it cannot be read.
fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.flatten().map(|entry| entry.path())
}

/// The binary's name and digest.
fn name(binary: &Path) -> io::Result<String> {
    let mut digest = Sha256::new();
    io::copy(&mut File::open(binary)?, &mut digest)?;
    let digest: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let name = binary.file_stem().unwrap_or_default().to_string_lossy();
    Ok(format!("{name}-{}", &digest[..DIGITS]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_content_has_a_file_of_its_own_that_a_build_does_not_change() {
        let root = std::env::temp_dir().join(format!("shelf-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        let binary = root.join("worker");
        let mut shelf = Shelf::open(root.join("bin")).unwrap();
        fs::write(&binary, "first").unwrap();
        let first = shelf.put(&binary).unwrap();
        assert_eq!(shelf.put(&binary).unwrap(), first);
        fs::write(&binary, "second one").unwrap();
        let second = shelf.put(&binary).unwrap();
        assert_ne!(first, second);
        assert_eq!(fs::read_to_string(&first).unwrap(), "first");
        assert_eq!(fs::read_to_string(&second).unwrap(), "second one");
        fs::write(&binary, "first").unwrap();
        assert_eq!(shelf.put(&binary).unwrap(), first, "the same content again");
        shelf.tidy([second.clone()].into());
        let left = (first.exists(), second.exists());
        fs::remove_file(&binary).unwrap();
        let gone = shelf.put(&binary).unwrap_err().to_string();
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(left, (false, true));
        assert!(gone.contains("is not there"), "{gone}");
    }

    #[test]
    fn the_copies_before_the_last_replacement_are_kept() {
        let root = std::env::temp_dir().join(format!("shelf-previous-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        let binary = root.join("worker");
        let mut shelf = Shelf::open(root.join("bin")).unwrap();
        let mut copies = Vec::new();
        let mut left = Vec::new();
        for content in ["1", "22", "333"] {
            fs::write(&binary, content).unwrap();
            copies.push(shelf.put(&binary).unwrap());
            shelf.tidy(copies.last().cloned().into_iter().collect());
            left.push(copies.iter().map(|copy| copy.exists()).collect::<Vec<bool>>());
        }
        drop(shelf);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(left, [vec![true], vec![true, true], vec![false, true, true]]);
    }

    #[test]
    fn sessions_keep_their_copies_apart_and_remove_those_of_killed_ones() {
        let root = std::env::temp_dir().join(format!("shelf-sessions-{}", std::process::id()));
        let all = root.join("bin");
        let killed = all.join("1-killed");
        fs::create_dir_all(&killed).unwrap();
        fs::write(killed.join("worker-0"), "old").unwrap();
        let binary = root.join("worker");
        fs::write(&binary, "text").unwrap();
        let mut one = Shelf::open(all.clone()).unwrap();
        let first = one.put(&binary).unwrap();
        let mut other = Shelf::open(all.clone()).unwrap();
        let second = other.put(&binary).unwrap();
        other.tidy(BTreeSet::new());
        let both = (killed.exists(), first.exists(), second.exists());
        // The lock is still held.
        drop(Shelf::open(all.clone()).unwrap());
        let opened = (first.exists(), other.folder.exists());
        drop(one);
        let ended = (first.exists(), other.folder.exists());
        drop(other);
        let left: Vec<PathBuf> = entries(&all).collect();
        fs::remove_dir_all(&root).unwrap();
        assert_ne!(first, second);
        assert_eq!(both, (false, true, false));
        assert_eq!(opened, (true, true));
        assert_eq!(ended, (false, true));
        assert_eq!(left, [all.join(LOCK)]);
    }
}
