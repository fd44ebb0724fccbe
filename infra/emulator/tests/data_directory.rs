//! Data directories that cannot be used are refused with a clear message and left as they were.

mod common;

use std::path::Path;
use std::process::Command;

use common::{Scratch, all_documents, make, start};
use cosmos_emulator::{CosmosServer, ServerOptions, StartError, StorageError};
use serde_json::json;

/// Why a server does not start on a directory.
async fn refusal(path: &Path) -> StorageError {
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

/// What the binary prints when it does not start.
fn message(path: &Path) -> String {
    let done = Command::new(env!("CARGO_BIN_EXE_cosmos-emulator"))
        .args(["--port", "0", "--data"])
        .arg(path)
        .output()
        .expect("it runs");
    assert_eq!(done.status.code(), Some(1));
    assert!(done.stdout.is_empty());
    String::from_utf8(done.stderr).expect("it prints UTF-8")
}

/// A directory with three documents, which no server has open.
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
async fn a_directory_of_a_newer_version_is_refused() {
    let scratch = filled().await;
    std::fs::rename(scratch.storage_file(), scratch.path().join("cosmos-3.redb")).unwrap();
    // Not even the lock file is created again.
    std::fs::remove_file(scratch.path().join("cosmos.lock")).unwrap();
    let before = scratch.files();
    let error = refusal(scratch.path()).await;
    assert!(
        matches!(error, StorageError::Newer { found: 3, known: 2, .. }),
        "{error}"
    );
    let message = message(scratch.path());
    assert!(
        message.contains("newer version") && message.contains(scratch.path().to_str().unwrap()),
        "{message}"
    );
    assert_eq!(scratch.files(), before);
}

#[tokio::test]
async fn a_directory_of_the_old_journal_format_is_refused() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path()).unwrap();
    std::fs::write(scratch.path().join("cosmos.journal"), b"DXCOSMOS\x01\0\0\0\0\0\0\0").unwrap();
    std::fs::write(scratch.path().join("cosmos.lock"), b"").unwrap();
    let before = scratch.files();
    let error = refusal(scratch.path()).await;
    assert!(matches!(error, StorageError::Older(_)), "{error}");
    let message = message(scratch.path());
    assert!(message.contains("start with a new directory"), "{message}");
    assert_eq!(scratch.files(), before);
}

#[tokio::test]
async fn a_directory_in_use_is_refused() {
    let scratch = Scratch::new();
    let (server, client) = start(&scratch).await;
    make(&client, json!({})).await;
    let before = scratch.files();
    assert!(matches!(refusal(scratch.path()).await, StorageError::InUse(_)));
    let message = message(scratch.path());
    assert!(message.contains("in use by another process"), "{message}");
    assert_eq!(scratch.files(), before);
    client.create("p", "a").ok().await.is(201);
    server.shutdown().await.unwrap();
    let (_server, client) = start(&scratch).await;
    assert_eq!(all_documents(&client).await.len(), 1);
}

#[tokio::test]
async fn a_directory_with_other_files_is_refused() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path()).unwrap();
    std::fs::write(scratch.path().join("notes.txt"), "mine").unwrap();
    let before = scratch.files();
    assert!(matches!(refusal(scratch.path()).await, StorageError::NotOurs(_)));
    assert!(message(scratch.path()).contains("holds other files"));
    assert_eq!(scratch.files(), before);
}

#[tokio::test]
async fn a_file_and_a_path_where_nothing_can_be_created_are_refused() {
    let scratch = filled().await;
    let file = scratch.storage_file();
    assert!(matches!(refusal(&file).await, StorageError::NotADirectory(_)));
    assert!(message(&file).contains("is not a directory"));
    let nowhere = Path::new("/proc/self/nowhere");
    assert!(matches!(refusal(nowhere).await, StorageError::Io { .. }));
    let message = message(nowhere);
    assert!(
        message.contains("cannot create the directory /proc/self/nowhere: "),
        "{message}"
    );
}

#[tokio::test]
async fn a_damaged_storage_file_is_refused_and_left_as_it_was() {
    let scratch = filled().await;
    let good = std::fs::read(scratch.storage_file()).unwrap();
    let document = good.windows(8).position(|window| window == b"\"id\":\"a\"").unwrap();
    let mut flipped = good.clone();
    flipped[document + 6] = b'z';
    let truncated = good[..good.len() - 4_096].to_vec();
    for bad in [flipped, truncated, b"mine".to_vec(), Vec::new()] {
        std::fs::write(scratch.storage_file(), &bad).unwrap();
        let before = scratch.files();
        let error = refusal(scratch.path()).await;
        assert!(matches!(error, StorageError::Damaged { .. }), "{error}");
        let message = message(scratch.path());
        assert!(
            message.contains("is damaged") && message.contains("restore a copy"),
            "{message}"
        );
        assert_eq!(scratch.files(), before);
    }
    std::fs::write(scratch.storage_file(), &good).unwrap();
    let (_server, client) = start(&scratch).await;
    assert_eq!(all_documents(&client).await.len(), 3);
}

#[tokio::test]
async fn a_storage_file_whose_creation_was_interrupted_is_created_again() {
    for leftover in [&b""[..], b"redb", b"anything"] {
        let scratch = Scratch::new();
        std::fs::create_dir_all(scratch.path()).unwrap();
        let new = scratch.path().join("cosmos-2.redb.new");
        std::fs::write(&new, leftover).unwrap();
        let (server, client) = start(&scratch).await;
        assert_eq!(server.recovered().unwrap().documents, 0);
        assert!(!new.exists());
        make(&client, json!({})).await;
        client.create("p", "a").ok().await.is(201);
        server.shutdown().await.unwrap();
        let (server, _) = start(&scratch).await;
        assert_eq!(server.recovered().unwrap().documents, 1);
    }
}
