//! Which files count as sources, and when they have changed. Looking is polling: a few hundred files cost about a millisecond, and it
//! works on every file system.
//!
//! A change is reported when two looks in a row see the same files: an editor or a `git checkout` that is still writing is not disturbed. A file that
//! never rests, such as a log, delays the others only for a moment.
//! Invariant: what changes while somebody handles a change is seen by the next look.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The time between two looks.
pub(crate) const PERIOD: Duration = Duration::from_millis(300);
/// The looks after which files that rest are reported although others do not.
const MOST_LOOKS: u32 = 10;
/// A folder whose files are no sources, wherever it is.
const NO_SOURCES: &str = "node_modules";
/// The file by which cargo marks a target directory. A folder with its name may hold a module.
const TARGET_DIRECTORY: &str = "CACHEDIR.TAG";

/// What distinguishes two states of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    modified: Option<SystemTime>,
    length: u64,
}

impl Stamp {
    /// Of a file that exists.
    pub(crate) fn of(path: &Path) -> Option<Stamp> {
        let found = std::fs::metadata(path).ok().filter(|found| found.is_file())?;
        Some(Stamp {
            modified: found.modified().ok(),
            length: found.len(),
        })
    }
}

/// The state of all files.
pub(crate) type Snapshot = BTreeMap<PathBuf, Stamp>;

/// The files to look at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sources {
    /// With all that is below them.
    pub(crate) folders: BTreeSet<PathBuf>,
    /// One by one; they need not exist.
    pub(crate) files: BTreeSet<PathBuf>,
    /// Folders below which nothing counts.
    pub(crate) ignored: BTreeSet<PathBuf>,
}

impl Sources {
    /// Looks at all files. Those that cannot be read do not exist.
    pub(crate) fn look(&self) -> Snapshot {
        let mut seen = Snapshot::new();
        for folder in &self.folders {
            // Below another one, it is seen from there.
            if !folder.ancestors().skip(1).any(|above| self.folders.contains(above)) {
                self.walk(folder, &mut seen);
            }
        }
        for file in &self.files {
            if let Some(stamp) = Stamp::of(file) {
                seen.insert(file.clone(), stamp);
            }
        }
        seen
    }

    /// These and others.
    pub(super) fn with(&self, others: Sources) -> Sources {
        let both = |one: &BTreeSet<PathBuf>, other: BTreeSet<PathBuf>| one.iter().cloned().chain(other).collect();
        Sources {
            folders: both(&self.folders, others.folders),
            files: both(&self.files, others.files),
            ignored: both(&self.ignored, others.ignored),
        }
    }

    fn walk(&self, folder: &Path, seen: &mut Snapshot) {
        let Ok(entries) = std::fs::read_dir(folder) else {
            return;
        };
        for entry in entries.flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                if is_folder_of_sources(&path, &name) && !self.ignored.contains(&path) {
                    self.walk(&path, seen);
                }
            } else if is_source(&name)
                && let Some(stamp) = Stamp::of(&path)
            {
                seen.insert(path, stamp);
            }
        }
    }
}

/// The names under which a walk may find this folder, which need not exist: absolute, and without symbolic links and `..`.
pub(super) fn as_walked(folder: &Path) -> [PathBuf; 2] {
    // Without a current directory, nothing relative is found either.
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let resolved = |above: &Path| Some(above.canonicalize().ok()?.join(absolute.strip_prefix(above).ok()?));
    let resolved = absolute.ancestors().find_map(resolved);
    let resolved = resolved.unwrap_or_else(|| absolute.clone());
    [absolute, resolved]
}

fn is_folder_of_sources(path: &Path, name: &OsStr) -> bool {
    let is_target = || name == "target" && path.join(TARGET_DIRECTORY).exists();
    !is_hidden(name) && name != NO_SOURCES && !is_target()
}

/// Any file may be included by a source. What editors write beside them is none.
fn is_source(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    !is_hidden(OsStr::new(&*name)) && !name.ends_with('~') && !name.ends_with(".tmp") && !name.starts_with('#')
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Changes {
    /// What was handled.
    known: Snapshot,
    /// What the last look has seen, if it was something else.
    seen: Option<Snapshot>,
    /// How many looks in a row have seen something else than the look before.
    unrest: u32,
}

impl Changes {
    pub(crate) fn since(known: Snapshot) -> Changes {
        Changes {
            known,
            seen: None,
            unrest: 0,
        }
    }

    /// Takes what a look has seen, and returns the files that have changed once they rest.
    pub(crate) fn take(&mut self, now: Snapshot) -> Option<BTreeSet<PathBuf>> {
        if now == self.known {
            *self = Changes::since(now);
            return None;
        }
        let moving = match &self.seen {
            Some(seen) => differing(seen, &now),
            None => differing(&self.known, &now),
        };
        self.unrest += u32::from(!moving.is_empty());
        if !moving.is_empty() && self.unrest < MOST_LOOKS {
            self.seen = Some(now);
            return None;
        }
        let mut changed = differing(&self.known, &now);
        changed.retain(|path| !moving.contains(path));
        // What moves is reported when it rests.
        let known = self.without(now, moving);
        *self = Changes::since(known);
        (!changed.is_empty()).then_some(changed)
    }

    /// A snapshot in which these files are as they are known.
    fn without(&self, mut snapshot: Snapshot, files: impl IntoIterator<Item = PathBuf>) -> Snapshot {
        for path in files {
            match self.known.get(&path) {
                Some(stamp) => snapshot.insert(path, stamp.clone()),
                None => snapshot.remove(&path),
            };
        }
        snapshot
    }

    /// Takes the present state of a file as known: this program has caused its change.
    pub(crate) fn expect(&mut self, file: &Path) {
        match Stamp::of(file) {
            Some(stamp) => self.known.insert(file.to_owned(), stamp),
            None => self.known.remove(file),
        };
    }

    /// Goes on with new sources, as they are now. Only the files of the old ones for which `keep` holds stay as they are known: if one has
    /// changed since, the next look sees it.
    pub(super) fn follow(&mut self, old: &Sources, new: &Sources, keep: impl Fn(&Path) -> bool) {
        let known = new.look();
        // The second look: a change between the two is not lost.
        let changed = differing(&self.known, &old.look());
        let known = self.without(known, changed.into_iter().filter(|path| keep(path)));
        *self = Changes::since(known);
    }

    /// Looks until files have changed and rest.
    pub(crate) async fn next(&mut self, sources: &Sources) -> BTreeSet<PathBuf> {
        loop {
            tokio::time::sleep(PERIOD).await;
            let sources = sources.clone();
            // A task that panics has seen nothing: the next look follows.
            if let Ok(now) = tokio::task::spawn_blocking(move || sources.look()).await
                && let Some(changed) = self.take(now)
            {
                return changed;
            }
        }
    }
}

fn differing(before: &Snapshot, now: &Snapshot) -> BTreeSet<PathBuf> {
    let all = before.keys().chain(now.keys());
    all.filter(|path| before.get(*path) != now.get(*path))
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(files: &[(&str, u64)]) -> Snapshot {
        let stamp = |length| Stamp { modified: None, length };
        files
            .iter()
            .map(|(path, length)| (PathBuf::from(path), stamp(*length)))
            .collect()
    }

    fn paths(names: &[&str]) -> BTreeSet<PathBuf> {
        names.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn a_change_is_reported_once_and_only_when_the_files_rest() {
        let mut changes = Changes::since(snapshot(&[("a", 1), ("b", 1)]));
        assert_eq!(changes.take(snapshot(&[("a", 1), ("b", 1)])), None);
        assert_eq!(changes.take(snapshot(&[("a", 2), ("b", 1)])), None, "just now");
        assert_eq!(changes.take(snapshot(&[("a", 3), ("c", 1)])), None, "still changing");
        let rests = snapshot(&[("a", 3), ("c", 1)]);
        assert_eq!(changes.take(rests.clone()), Some(paths(&["a", "b", "c"])));
        assert_eq!(changes.take(rests), None);
    }

    #[test]
    fn a_file_that_never_rests_does_not_hide_the_others() {
        let mut changes = Changes::since(snapshot(&[("lib.rs", 1), ("log", 1)]));
        let looks = (2..40).map(|look| changes.take(snapshot(&[("lib.rs", 2), ("log", look)])));
        let reported: Vec<BTreeSet<PathBuf>> = looks.flatten().collect();
        assert_eq!(reported, [paths(&["lib.rs"])]);
        let rests = snapshot(&[("lib.rs", 2), ("log", 39)]);
        assert_eq!(
            [changes.take(rests.clone()), changes.take(rests)],
            [Some(paths(&["log"])), None]
        );
    }

    #[test]
    fn a_change_that_is_undone_before_it_rests_is_none() {
        let mut changes = Changes::since(snapshot(&[("a", 1)]));
        assert_eq!(changes.take(snapshot(&[])), None);
        assert_eq!(changes.take(snapshot(&[("a", 1)])), None);
        assert_eq!(changes.take(snapshot(&[])), None, "two looks in a row");
        assert_eq!(changes.take(snapshot(&[])), Some(paths(&["a"])));
    }

    #[test]
    fn sources_are_all_files_but_those_of_builds_editors_and_git() {
        let root = std::env::temp_dir().join(format!("sources-{}", std::process::id()));
        let files = [
            ("package/src/lib.rs", true),
            ("package/src/query.sql", true),
            ("package/Cargo.toml", true),
            ("package/inner/build.rs", true),
            ("package/target/debug/out.rs", false),
            ("package/target/CACHEDIR.TAG", false),
            ("package/src/target/mod.rs", true),
            ("package/.git/index", false),
            ("package/src/.lib.rs.swp", false),
            ("package/src/lib.rs~", false),
            ("package/state/data.redb", false),
            ("beside/src/lib.rs", false),
            ("Cargo.lock", true),
        ];
        for (file, _) in files {
            let path = root.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "text").unwrap();
        }
        let sources = Sources {
            folders: [root.join("package"), root.join("package/inner")].into(),
            files: [root.join("Cargo.lock"), root.join("missing.toml")].into(),
            ignored: [root.join("package/state")].into(),
        };
        let seen: BTreeSet<PathBuf> = sources.look().into_keys().collect();
        let mut changes = Changes::since(sources.look());
        std::fs::write(root.join("Cargo.lock"), "another text").unwrap();
        changes.expect(&root.join("Cargo.lock"));
        let after = [sources.look(), sources.look()].map(|now| changes.take(now));
        std::fs::remove_dir_all(&root).unwrap();
        let expected = files.iter().filter(|(_, counts)| *counts);
        assert_eq!(seen, expected.map(|(file, _)| root.join(file)).collect());
        assert_eq!(after, [None, None], "an expected change is none");
    }

    #[test]
    fn a_manifest_that_changes_while_cargo_reads_it_is_reported() {
        let root = std::env::temp_dir().join(format!("follow-{}", std::process::id()));
        let package = root.join("package");
        std::fs::create_dir_all(&package).unwrap();
        std::fs::create_dir_all(root.join("beside")).unwrap();
        let write = |file: &str, text: &str| std::fs::write(root.join(file), text).unwrap();
        for file in ["package/Cargo.toml", "package/lib.rs", "beside/Cargo.toml"] {
            write(file, "old");
        }
        let of = |folder: &Path| Sources {
            folders: [folder.to_owned()].into(),
            ..Sources::default()
        };
        let (old, new) = (of(&root), of(&package));
        let mut changes = Changes::since(old.look());
        write("package/Cargo.toml", "corrected");
        write("package/lib.rs", "built with it");
        changes.follow(&old, &new, |path| path.ends_with("Cargo.toml"));
        let seen = [new.look(), new.look(), new.look()].map(|now| changes.take(now));
        std::fs::remove_dir_all(&root).unwrap();
        let reported = BTreeSet::from([package.join("Cargo.toml")]);
        assert_eq!(seen, [None, Some(reported), None]);
    }

    #[test]
    fn a_folder_is_ignored_however_it_is_named() {
        let root = std::env::temp_dir().join(format!("walked-{}", std::process::id()));
        std::fs::create_dir_all(root.join("package/src")).unwrap();
        let real = root.canonicalize().unwrap();
        std::os::unix::fs::symlink(real.join("package"), real.join("link")).unwrap();
        let named = ["package/state", "package/src/../state", "link/state"].map(|name| as_walked(&real.join(name)));
        std::fs::remove_dir_all(&root).unwrap();
        for names in named {
            assert!(names.contains(&real.join("package/state")), "{names:?}");
        }
        let here = std::env::current_dir().unwrap();
        assert!(as_walked(Path::new("state")).contains(&here.join("state")));
    }
}
