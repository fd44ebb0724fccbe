//! `kill -9` and a full disk: acknowledged writes are kept, and no batch is kept in part.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::{Client, Scratch, all_documents, make, process};
use serde_json::json;
use tokio::sync::mpsc;

const WRITERS: u64 = 4;
const BATCH: u64 = 5;

/// One batch: new documents, and one document that every batch of the writer rewrites.
fn batch(pk: &str, number: u64) -> serde_json::Value {
    let mut operations: Vec<_> = (0..BATCH)
        .map(|n| {
            let document = json!({ "id": format!("{number}-{n}"), "pk": pk, "batch": number });
            json!({ "operationType": "Create", "resourceBody": document })
        })
        .collect();
    let last = json!({ "id": "last", "pk": pk, "last": number });
    operations.push(json!({ "operationType": "Upsert", "resourceBody": last }));
    operations.into()
}

/// Sends batches until one gets no response, and reports each acknowledged one. Returns the number of the first without a
/// response.
async fn write(client: Client, writer: u64, from: u64, acknowledged: mpsc::UnboundedSender<(u64, u64)>) -> u64 {
    let pk = format!("w{writer}");
    for number in from.. {
        match client.batch(&pk, batch(&pk, number)).send().await {
            Ok(response) if response.status == 200 => {
                acknowledged.send((writer, number)).expect("the receiver is alive");
            }
            Ok(response) => panic!("{response:?}"),
            Err(_) => return number,
        }
    }
    unreachable!("a writer ends when the server does")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_kill_acknowledged_batches_are_whole_and_others_whole_or_absent() {
    let scratch = Scratch::new();
    let mut rng = fastrand::Rng::with_seed(2_026);
    let mut known = BTreeSet::new();
    let mut next = [0; WRITERS as usize];
    let mut unknown = 0;
    for round in 0..6 {
        let mut server = process(scratch.path(), "");
        if round == 0 {
            make(&server.client, json!({})).await;
        }
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let mut writers = tokio::task::JoinSet::new();
        for writer in 0..WRITERS {
            let (client, sender, from) = (server.client.clone(), sender.clone(), next[writer as usize]);
            writers.spawn(async move { (writer, write(client, writer, from, sender).await) });
        }
        drop(sender);
        for _ in 0..rng.u32(5..60) {
            known.insert(receiver.recv().await.unwrap());
        }
        server.kill();
        for (writer, stopped) in writers.join_all().await {
            // Its outcome is unknown: its ids are not used again.
            next[writer as usize] = stopped + 1;
        }
        while let Some(one) = receiver.recv().await {
            known.insert(one);
        }

        let server = process(scratch.path(), "");
        let mut found: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        let mut last = BTreeMap::new();
        for document in all_documents(&server.client).await {
            let writer: u64 = document["pk"].as_str().unwrap()[1..].parse().unwrap();
            match document["batch"].as_u64() {
                Some(number) => *found.entry((writer, number)).or_default() += 1,
                None => drop(last.insert(writer, document["last"].as_u64().unwrap())),
            }
        }
        assert!(
            found.values().all(|&documents| documents == BATCH),
            "half a batch: {found:?}"
        );
        for one in &known {
            assert!(
                found.contains_key(one),
                "round {round}: the acknowledged batch {one:?} is lost"
            );
        }
        for (writer, number) in last {
            let newest = found.keys().filter(|(w, _)| *w == writer).map(|(_, n)| *n).max();
            assert_eq!(newest, Some(number), "a batch is whole in its rewritten document too");
        }
        unknown = found.len() - known.len();
    }
    assert!(known.len() >= 30, "{}", known.len());
    println!("{} batches acknowledged, {unknown} more were there", known.len());
}

#[tokio::test]
async fn a_full_disk_stops_the_store_and_loses_no_acknowledged_write() {
    let scratch = Scratch::new();
    // The file may grow to 4 MB; then the system refuses writes, as it does when the disk is full.
    let server = process(scratch.path(), "trap '' XFSZ; ulimit -f 8192; ");
    let client = &server.client;
    make(client, json!({})).await;
    let padding = "x".repeat(20_000);
    let mut acknowledged = Vec::new();
    let failed = loop {
        let id = format!("a{:03}", acknowledged.len());
        let document = json!({ "id": id, "pk": "p", "padding": padding });
        let response = client.upsert("p", document.clone()).ok().await;
        if response.status != 201 {
            break response.is(500);
        }
        acknowledged.push(document);
        assert!(acknowledged.len() < 1_000, "the disk is never full");
    };
    assert!(failed.message().contains("a write to the data directory"), "{failed:?}");
    // No client can read data that is not stored, or add to it.
    for response in [
        client.read("p", &format!("a{:03}", acknowledged.len())).ok().await,
        client.read("p", "a000").ok().await,
        client.create("p", "small").ok().await,
        client.get("/dbs/db/colls/items").ok().await,
    ] {
        let response = response.is(503);
        assert!(
            response.message().contains("make room and start the server again"),
            "{response:?}"
        );
    }
    drop(server);
    let server = process(scratch.path(), "");
    assert_eq!(all_documents(&server.client).await, acknowledged);
    server.client.create("p", "small").ok().await.is(201);
}

#[tokio::test]
async fn a_start_on_a_full_disk_is_refused_with_the_reason() {
    let scratch = Scratch::new();
    // The file may not even grow to redb's initial size.
    let script = "trap '' XFSZ; ulimit -f 8; exec \"$0\" --port 0 --data \"$1\"";
    let done = std::process::Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_cosmos-emulator")])
        .arg(scratch.path())
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{message}");
    assert!(
        message.contains("cannot write") && message.contains("too large"),
        "{message}"
    );
    let server = process(scratch.path(), "");
    make(&server.client, json!({})).await;
    server.client.create("p", "a").ok().await.is(201);
}
