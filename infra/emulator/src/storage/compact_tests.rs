//! A crash at every step of a compaction, with a write in between, and what the next start finds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::*;
use crate::change::{Change, Record};

const STEPS: [Step; 8] = [
    Step::Created,
    Step::HalfWritten,
    Step::Written,
    Step::Synced,
    Step::TailCopied,
    Step::TailSynced,
    Step::Renamed,
    Step::DirectorySynced,
];

/// A directory of this test's own, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("local-compact-{}-{name}", std::process::id()));
        drop(std::fs::remove_dir_all(&path));
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn raw(text: String) -> Box<serde_json::value::RawValue> {
    serde_json::value::RawValue::from_string(text).unwrap()
}

fn put(id: &str, n: u64, weight: usize) -> Record {
    let filling = "x".repeat(weight);
    let document = raw(format!("{{\"id\":\"{id}\",\"n\":{n},\"filling\":\"{filling}\"}}"));
    let change = Change::Put {
        db: "db".to_owned(),
        container: "items".to_owned(),
        key: "[\"p\"]".to_owned(),
        id: id.to_owned(),
        document,
    };
    Record {
        at: 1_000 + n,
        changes: vec![change],
    }
}

fn append(storage: &Storage, record: &Record) {
    storage.journal.blocking_lock().append(record).unwrap();
}

/// A store with an empty container.
fn made(path: &Path) -> Arc<Storage> {
    let (storage, ..) = Storage::open(path).unwrap();
    let definition = || raw("{\"id\":\"items\"}".to_owned());
    let changes = vec![
        Change::Database {
            id: "db".to_owned(),
            definition: raw("{\"id\":\"db\"}".to_owned()),
        },
        Change::Container {
            db: "db".to_owned(),
            id: "items".to_owned(),
            definition: definition(),
            partitions: 7,
        },
    ];
    append(&storage, &Record { at: 1, changes });
    storage
}

/// A store whose 20 documents were each written ten times, and one deleted.
fn filled(path: &Path) -> Arc<Storage> {
    let storage = made(path);
    for n in 0..200 {
        append(&storage, &put(&format!("doc-{}", n % 20), n, 2_000));
    }
    let gone = Change::Delete {
        db: "db".to_owned(),
        container: "items".to_owned(),
        key: "[\"p\"]".to_owned(),
        id: "doc-0".to_owned(),
    };
    let changes = vec![gone];
    append(&storage, &Record { at: 2_000, changes });
    storage
}

/// Everything that a state says about its documents, to be compared.
fn contents(state: &State) -> BTreeMap<String, (u64, String)> {
    let container = &state.databases["db"].containers["items"];
    assert_eq!(container.partitions, 7);
    let documents = container.documents.iter();
    documents
        .map(|((_, id), document)| (id.clone(), (document.at, document.body.get().to_owned())))
        .collect()
}

fn reopened(path: &Path) -> BTreeMap<String, (u64, String)> {
    let (storage, state, recovered) = Storage::open(path).unwrap();
    assert_eq!(recovered.cut_bytes, 0);
    assert!(
        !storage.directory.new_journal().exists(),
        "what was unfinished is removed"
    );
    contents(&state)
}

#[test]
fn a_crash_at_any_step_loses_nothing_not_even_what_was_written_meanwhile() {
    for crash in STEPS {
        let scratch = Scratch::new(&format!("{crash:?}"));
        let storage = filled(&scratch.0);
        let upto = storage.journal.blocking_lock().length();
        let mut passed = Vec::new();
        let stopped = compact(&storage, upto, &mut |step| {
            passed.push(step);
            if step == Step::HalfWritten {
                append(&storage, &put("doc-1", 777, 2_000));
                append(&storage, &put("meanwhile", 778, 2_000));
            }
            if step == crash {
                Err(io::Error::other("crash"))
            } else {
                Ok(())
            }
        });
        assert_eq!(stopped.unwrap_err().to_string(), "crash");
        assert_eq!(passed, STEPS[..passed.len()]);
        assert_eq!(passed.last(), Some(&crash));
        if crash == Step::Created {
            append(&storage, &put("doc-1", 777, 2_000));
            append(&storage, &put("meanwhile", 778, 2_000));
        }
        drop(storage);
        let found = reopened(&scratch.0);
        assert_eq!(found.len(), 20, "after a crash at {crash:?}");
        assert_eq!(found["doc-1"].0, 1_777);
        assert_eq!(found["meanwhile"].0, 1_778);
        assert_eq!(found["doc-19"].0, 1_199);
        assert!(!found.contains_key("doc-0"));
        assert_eq!(reopened(&scratch.0), found, "a start changes nothing");
    }
}

#[test]
fn a_compacted_journal_is_small_goes_on_and_is_what_it_was() {
    let scratch = Scratch::new("whole");
    let storage = filled(&scratch.0);
    let before = storage.journal.blocking_lock().length();
    compact(&storage, before, &mut |_| Ok(())).unwrap();
    let after = storage.journal.blocking_lock().length();
    assert!(after < before / 5, "{before} to {after}");
    append(&storage, &put("later", 1, 2_000));
    drop(storage);
    let found = reopened(&scratch.0);
    assert_eq!((found.len(), found["later"].0), (20, 1_001));
}

#[test]
fn a_start_compacts_what_is_mostly_old() {
    let scratch = Scratch::new("start");
    drop(filled(&scratch.0));
    let file = scratch.0.join("cosmos.journal");
    let before = std::fs::metadata(&file).unwrap().len();
    let found = reopened(&scratch.0);
    let after = std::fs::metadata(&file).unwrap().len();
    assert!(after < before / 5, "{before} to {after}");
    assert_eq!(found.len(), 19);
    assert_eq!(reopened(&scratch.0), found);
}

#[test]
fn a_journal_cut_anywhere_in_its_last_records_is_a_prefix() {
    let scratch = Scratch::new("cut");
    let storage = made(&scratch.0);
    let mut ends = vec![storage.journal.blocking_lock().length()];
    for n in 0..4 {
        let changes = ["a", "b"]
            .into_iter()
            .flat_map(|side| put(&format!("{side}{n}"), n, 10).changes);
        let changes = changes.collect();
        append(&storage, &Record { at: 5, changes });
        ends.push(storage.journal.blocking_lock().length());
    }
    drop(storage);
    let file = scratch.0.join("cosmos.journal");
    let bytes = std::fs::read(&file).unwrap();
    let first = usize::try_from(ends[0]).unwrap();
    for cut in first..=bytes.len() {
        std::fs::write(&file, &bytes[..cut]).unwrap();
        let (storage, state, recovered) = Storage::open(&scratch.0).unwrap();
        let batches = ends.iter().filter(|&&end| end <= cut as u64).count() - 1;
        let found = contents(&state).len();
        assert_eq!(found, 2 * batches, "cut at {cut}: both documents of a batch, or none");
        assert_eq!(recovered.cut_bytes, cut as u64 - ends[batches]);
        // What comes after the cut is as good as what was before it.
        append(&storage, &put("after", 9, 10));
        drop(storage);
        let (_, state, recovered) = Storage::open(&scratch.0).unwrap();
        assert_eq!(
            (contents(&state).len(), recovered.cut_bytes),
            (2 * batches + 1, 0),
            "cut at {cut}"
        );
    }
}
