//! A data directory that cannot be used is refused with a clear message, and left as it was.

mod common;

use std::path::Path;
use std::process::Command;

use common::{Scratch, all_documents, make, start};
use cosmos_emulator::{CosmosServer, ServerOptions, StartError, StorageError};
use serde_json::json;

async fn refused(path: &Path) -> StorageError {
    let options = ServerOptions {
        data: Some(path.to_owned()),
        ..ServerOptions::default()
    };
    match CosmosServer::start(options).await {
        Err(StartError::Data(error)) => error,
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("it started"),
    }
}

/// What the command says when it does not start.
fn said(path: &Path) -> String {
    let done = Command::new(env!("CARGO_BIN_EXE_cosmos-emulator"))
        .args(["--port", "0", "--data"])
        .arg(path)
        .output()
        .expect("it runs");
    assert_eq!(done.status.code(), Some(1));
    assert!(done.stdout.is_empty());
    String::from_utf8(done.stderr).expect("it speaks UTF-8")
}

/// A directory with a few documents, that nobody has open.
async fn filled() -> Scratch {
    let scratch = Scratch::new();
    let (server, client) = start(&scratch).await;
    make(&client, json!({})).await;
    for id in ["a", "b", "c"] {
        client.create("p", id).ok().await.is(201);
    }
    server.shutdown().await.expect("it stops");
    scratch
}

#[tokio::test]
async fn one_of_a_newer_version_is_refused() {
    let scratch = filled().await;
    let mut bytes = std::fs::read(scratch.journal()).unwrap();
    bytes[8] += 1;
    std::fs::write(scratch.journal(), bytes).unwrap();
    // Not even the lock file is made again.
    std::fs::remove_file(scratch.path().join("cosmos.lock")).unwrap();
    let before = scratch.files();
    let error = refused(scratch.path()).await;
    assert!(
        matches!(error, StorageError::Newer { found: 2, known: 1, .. }),
        "{error}"
    );
    let said = said(scratch.path());
    assert!(
        said.contains("newer version") && said.contains(scratch.path().to_str().unwrap()),
        "{said}"
    );
    assert_eq!(scratch.files(), before);
}

#[tokio::test]
async fn one_that_is_in_use_is_refused() {
    let scratch = Scratch::new();
    let (server, client) = start(&scratch).await;
    make(&client, json!({})).await;
    let before = scratch.files();
    assert!(matches!(refused(scratch.path()).await, StorageError::InUse(_)));
    let said = said(scratch.path());
    assert!(said.contains("in use by another process"), "{said}");
    assert_eq!(scratch.files(), before);
    client.create("p", "a").ok().await.is(201);
    server.shutdown().await.unwrap();
    let (_server, client) = start(&scratch).await;
    assert_eq!(all_documents(&client).await.len(), 1);
}

#[tokio::test]
async fn one_with_other_files_is_refused() {
    for (name, contents) in [
        ("notes.txt", "mine"),
        ("cosmos.journal", "mine"),
        ("cosmos.journal", ""),
    ] {
        let scratch = Scratch::new();
        std::fs::create_dir_all(scratch.path()).unwrap();
        std::fs::write(scratch.path().join(name), contents).unwrap();
        let before = scratch.files();
        assert!(
            matches!(refused(scratch.path()).await, StorageError::NotOurs(_)),
            "{name}"
        );
        assert!(said(scratch.path()).contains("holds other files"));
        assert_eq!(scratch.files(), before);
    }
}

#[tokio::test]
async fn a_file_or_a_place_where_nothing_can_be_made_is_refused() {
    let scratch = filled().await;
    let file = scratch.journal();
    assert!(matches!(refused(&file).await, StorageError::NotADirectory(_)));
    assert!(said(&file).contains("is not a directory"));
    let nowhere = Path::new("/proc/self/nowhere");
    assert!(matches!(refused(nowhere).await, StorageError::Io { .. }));
    let said = said(nowhere);
    assert!(
        said.contains("cannot make the directory /proc/self/nowhere: "),
        "{said}"
    );
}

#[tokio::test]
async fn damage_in_the_middle_is_refused_and_at_the_end_cut_off() {
    let scratch = filled().await;
    let good = std::fs::read(scratch.journal()).unwrap();
    // The first document, whose record is followed by two others.
    let first = good.windows(8).position(|window| window == b"\"id\":\"a\"").unwrap();
    let mut bad = good.clone();
    bad[first + 6] = b'z';
    std::fs::write(scratch.journal(), &bad).unwrap();
    let before = scratch.files();
    let error = refused(scratch.path()).await;
    assert!(matches!(error, StorageError::Damaged { .. }), "{error}");
    let said = said(scratch.path());
    assert!(
        said.contains("is damaged at byte") && said.contains("restore a copy"),
        "{said}"
    );
    assert_eq!(scratch.files(), before);

    let mut bad = good.clone();
    *bad.last_mut().unwrap() ^= 1;
    std::fs::write(scratch.journal(), &bad).unwrap();
    let (server, client) = start(&scratch).await;
    assert_eq!(all_documents(&client).await.len(), 2);
    assert!(server.recovered().unwrap().cut_bytes > 100);
    // It goes on from there.
    client.create("p", "d").ok().await.is(201);
    server.shutdown().await.unwrap();
    let (server, client) = start(&scratch).await;
    assert_eq!(all_documents(&client).await.len(), 3);
    assert_eq!(server.recovered().unwrap().cut_bytes, 0);
}

#[tokio::test]
async fn a_journal_cut_within_its_last_batches_has_them_whole_or_not_at_all() {
    let scratch = filled().await;
    let batch = |n: u32| {
        let create = |id: String| json!({ "operationType": "Create", "resourceBody": { "id": id, "pk": "p" } });
        let id = ["a", "b"][n as usize];
        let gone = json!({ "operationType": "Delete", "id": id });
        json!([
            create(format!("x{n}")),
            create(format!("y{n}")),
            create(format!("z{n}")),
            gone
        ])
    };
    let mut ends = vec![std::fs::read(scratch.journal()).unwrap().len()];
    let (server, client) = start(&scratch).await;
    for n in 0..2 {
        client.batch("p", batch(n)).ok().await.is(200);
        ends.push(std::fs::read(scratch.journal()).unwrap().len());
    }
    server.shutdown().await.unwrap();
    let bytes = std::fs::read(scratch.journal()).unwrap();
    // At every byte this is tried inside the storage; here the server's own batches are cut, and a start takes its time.
    let near = |cut: usize| ends.iter().any(|end| cut.abs_diff(*end) <= 1);
    for cut in (ends[0]..=bytes.len()).filter(|cut| cut % 7 == 0 || near(*cut)) {
        std::fs::write(scratch.journal(), &bytes[..cut]).unwrap();
        let (server, client) = start(&scratch).await;
        let whole = ends.iter().filter(|&&end| end <= cut).count() - 1;
        let found = server.recovered().unwrap();
        assert_eq!(found.documents as usize, 3 + 2 * whole, "cut at {cut}");
        assert_eq!(found.cut_bytes as usize, cut - ends[whole], "cut at {cut}");
        if cut % 50 == 0 {
            assert_eq!(all_documents(&client).await.len(), 3 + 2 * whole);
        }
        server.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn what_a_compaction_left_unfinished_is_not_looked_at() {
    let scratch = filled().await;
    let unfinished = scratch.path().join("cosmos.journal.new");
    for contents in [&b""[..], b"DXCOSMOS", b"anything"] {
        std::fs::write(&unfinished, contents).unwrap();
        let (server, client) = start(&scratch).await;
        assert_eq!(all_documents(&client).await.len(), 3);
        assert!(!unfinished.exists());
        server.shutdown().await.unwrap();
    }
    // A crash before the very first journal was in its place: there was nothing yet.
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path()).unwrap();
    std::fs::write(scratch.path().join("cosmos.journal.new"), b"DXCO").unwrap();
    let (server, _) = start(&scratch).await;
    assert_eq!(server.recovered().unwrap().documents, 0);
}
