//! The storage file after a crash, a failed write or damage, tried on a file in memory.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use redb::StorageBackend;
use serde_json::value::RawValue;

use super::tables::{create_tables, open_backend, read_bytes, write};
use super::*;

/// One call of redb that changes the file.
#[derive(Clone, Debug)]
enum FileChange {
    SetLength(usize),
    Write(usize, Vec<u8>),
}

impl FileChange {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            FileChange::SetLength(length) => bytes.resize(*length, 0),
            FileChange::Write(at, data) => bytes[*at..*at + data.len()].copy_from_slice(data),
        }
    }
}

/// A file in memory that remembers every change and, from a given change on, refuses them as a full disk does.
#[derive(Clone, Debug)]
struct TestFile {
    bytes: Arc<RwLock<Vec<u8>>>,
    changes: Arc<RwLock<Vec<FileChange>>>,
    full_after: Arc<AtomicUsize>,
}

impl TestFile {
    fn new() -> TestFile {
        TestFile {
            bytes: Arc::default(),
            changes: Arc::default(),
            full_after: Arc::new(AtomicUsize::new(usize::MAX)),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        self.bytes.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn changes(&self) -> Vec<FileChange> {
        self.changes.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn change(&self, change: FileChange) -> io::Result<()> {
        let mut changes = self.changes.write().unwrap_or_else(PoisonError::into_inner);
        if changes.len() >= self.full_after.load(Ordering::SeqCst) {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        change.apply(&mut self.bytes.write().unwrap_or_else(PoisonError::into_inner));
        changes.push(change);
        Ok(())
    }
}

impl StorageBackend for TestFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let bytes = self.bytes.read().unwrap_or_else(PoisonError::into_inner);
        let at = usize::try_from(offset).unwrap();
        let found = bytes.get(at..at + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(found);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(FileChange::SetLength(usize::try_from(len).unwrap()))
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(FileChange::Write(usize::try_from(offset).unwrap(), data.to_vec()))
    }
}

fn json(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

fn put(id: &str, n: u64, padding: usize) -> Change {
    Change::Put {
        db: "db".to_owned(),
        container: "items".to_owned(),
        key: "[\"p\"]".to_owned(),
        id: id.to_owned(),
        document: json(&format!(
            "{{\"id\":\"{id}\",\"n\":{n},\"padding\":\"{}\"}}",
            "x".repeat(padding)
        )),
    }
}

fn delete(id: &str) -> Change {
    Change::Delete {
        db: "db".to_owned(),
        container: "items".to_owned(),
        key: "[\"p\"]".to_owned(),
        id: id.to_owned(),
    }
}

/// The n-th request: creates the container, then batches that create, rewrite and delete documents of all sizes.
fn request(n: u64) -> Vec<Change> {
    if n == 0 {
        return vec![
            Change::Database {
                id: "db".to_owned(),
                definition: json("{\"id\":\"db\"}"),
            },
            Change::Container {
                db: "db".to_owned(),
                id: "items".to_owned(),
                definition: json("{\"id\":\"items\"}"),
                partitions: 7,
            },
        ];
    }
    let size = usize::try_from(n * n % 13).unwrap() * 1_000;
    vec![
        put(&format!("new-{n}"), n, size),
        put(&format!("rewritten-{}", n % 3), n, 9_000),
        delete(&format!("new-{}", n.saturating_sub(4))),
    ]
}

/// A file with committed requests; the contents and the number of file changes after each of them.
struct Run {
    file: TestFile,
    contents: Vec<Contents>,
    file_changes: Vec<usize>,
}

fn run(requests: u64) -> Run {
    let file = TestFile::new();
    let database = open_backend(file.clone()).unwrap();
    create_tables(&database).unwrap();
    let mut run = Run {
        contents: vec![read_bytes(&file.bytes()).unwrap()],
        file_changes: vec![file.changes().len()],
        file: file.clone(),
    };
    for n in 0..requests {
        write(&database, 1_000 + n, &request(n)).unwrap();
        run.contents.push(read_bytes(&file.bytes()).unwrap());
        run.file_changes.push(file.changes().len());
    }
    drop(database);
    run
}

/// Ends the run after each change of the file, and in the middle of each, as `kill -9` may.
fn crash_everywhere(requests: u64) {
    let Run {
        file,
        contents,
        file_changes,
    } = run(requests);
    let mut bytes = Vec::new();
    for (done, change) in file.changes().iter().enumerate() {
        let mut states = Vec::new();
        if let FileChange::Write(at, data) = change {
            let mut torn = bytes.clone();
            FileChange::Write(*at, data[..data.len() / 2].to_vec()).apply(&mut torn);
            states.push((torn, done));
        }
        change.apply(&mut bytes);
        states.push((bytes.clone(), done + 1));
        for (crashed, done) in states {
            // The file gets its name after that.
            if done < file_changes[0] {
                continue;
            }
            let found = read_bytes(&crashed).unwrap();
            let committed = file_changes.iter().filter(|&&end| end <= done).count() - 1;
            let whole = [Some(&contents[committed]), contents.get(committed + 1)];
            assert!(
                whole.contains(&Some(&found)),
                "after {done} file changes and {committed} commits"
            );
        }
    }
}

#[test]
fn a_crash_at_any_write_to_the_file_leaves_whole_requests_and_all_that_were_committed() {
    crash_everywhere(40);
}

/// Repeats a run with a disk that is full from the n-th change of the file on, for each n.
fn full_everywhere(requests: u64) {
    let whole = run(requests);
    let all = whole.file.changes().len();
    for full_after in whole.file_changes[0]..all {
        let file = TestFile::new();
        let database = open_backend(file.clone()).unwrap();
        create_tables(&database).unwrap();
        file.full_after.store(full_after, Ordering::SeqCst);
        let committed = (0..requests)
            .take_while(|&n| write(&database, 1_000 + n, &request(n)).is_ok())
            .count();
        // Once a write has failed, all fail.
        if committed < usize::try_from(requests).unwrap() {
            write(&database, 1, &[put("later", 1, 1)]).unwrap_err();
        }
        drop(database);
        let found = read_bytes(&file.bytes()).unwrap();
        let possible = [Some(&whole.contents[committed]), whole.contents.get(committed + 1)];
        assert!(
            possible.contains(&Some(&found)),
            "full after {full_after} file changes, {committed} commits"
        );
    }
}

#[test]
fn a_disk_that_is_full_at_any_write_loses_nothing_committed() {
    full_everywhere(4);
}

#[test]
#[ignore = "exhaustive: 20 seconds of time"]
fn a_disk_that_is_full_at_any_write_of_a_long_run_loses_nothing_committed() {
    full_everywhere(60);
}

/// Flips one bit in every `step`-th byte that is not zero: the file is refused, or its contents are unchanged.
fn flip_bits(step: usize) {
    let run = run(12);
    let good = run.file.bytes();
    let expected = run.contents.last().unwrap();
    let used: Vec<usize> = (0..good.len()).filter(|&at| good[at] != 0).collect();
    let mut refused = 0;
    for at in used.iter().copied().step_by(step) {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        match read_bytes(&bad) {
            // Free pages and spare bytes of the file hold nothing.
            Ok(found) => assert_eq!(&found, expected, "byte {at}"),
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 0, "{refused} of {}", used.len().div_ceil(step));
}

#[test]
fn damage_is_refused_or_outside_the_contents() {
    flip_bits(997);
}

#[test]
#[ignore = "exhaustive: two minutes of time"]
fn damage_of_any_byte_is_refused_or_outside_the_contents() {
    flip_bits(1);
}

#[test]
fn a_truncated_file_is_refused() {
    let run = run(12);
    let good = run.file.bytes();
    for length in [1, 8, 100, 4_096, good.len() / 2, good.len() - 4_096, good.len() - 1] {
        assert!(read_bytes(&good[..length]).is_err(), "{length} of {} bytes", good.len());
    }
}

#[test]
fn dropping_a_container_or_a_database_removes_its_documents_only() {
    let file = TestFile::new();
    let database = open_backend(file.clone()).unwrap();
    create_tables(&database).unwrap();
    for db in ["a", "b"] {
        let id = db.to_owned();
        let definition = json("{}");
        write(&database, 1, &[Change::Database { id, definition }]).unwrap();
        for container in ["x", "y"] {
            let (db, container) = (db.to_owned(), container.to_owned());
            let changes = [
                Change::Container {
                    db: db.clone(),
                    id: container.clone(),
                    definition: json("{}"),
                    partitions: 3,
                },
                Change::Put {
                    db,
                    container,
                    key: "[1]".to_owned(),
                    id: "one".to_owned(),
                    document: json("{}"),
                },
            ];
            write(&database, 1, &changes).unwrap();
        }
    }
    let left = |file: &TestFile| {
        let contents = read_bytes(&file.bytes()).unwrap();
        let containers = contents.containers.iter().map(|c| format!("{}/{}", c.db, c.id));
        let documents = contents.documents.iter().map(|d| format!("{}/{}", d.db, d.container));
        let containers: Vec<String> = containers.collect();
        assert_eq!(containers, documents.collect::<Vec<_>>());
        containers
    };
    let (db, id) = ("a".to_owned(), "x".to_owned());
    write(&database, 1, &[Change::DropContainer { db, id }]).unwrap();
    assert_eq!(left(&file), ["a/y", "b/x", "b/y"]);
    let id = "b".to_owned();
    write(&database, 1, &[Change::DropDatabase { id }]).unwrap();
    assert_eq!(left(&file), ["a/y"]);
}
