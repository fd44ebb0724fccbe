//! With a data directory, committed writes survive a restart.

mod common;

use std::time::{Duration, Instant};

use common::{CONTAINER, DOCS, Scratch, all_documents, make, server, start};
use cosmos_emulator::{CosmosServer, Lag, Recovered, ServerOptions};
use reqwest::Method;
use serde_json::{Value, json};

#[tokio::test]
async fn every_kind_of_write_survives_a_restart() {
    let scratch = Scratch::new();
    let (server, client) = start(&scratch).await;
    assert_eq!(server.recovered(), Some(Recovered::default()));
    make(&client, json!({})).await;
    client.create("p", "created").ok().await.is(201);
    for id in ["replaced", "deleted", "old name", "upserted", "met", "gone"] {
        client.create("p", id).ok().await.is(201);
    }
    let document = |id: &str, n: u32| json!({ "id": id, "pk": "p", "n": n, "_etag": "\"mine\"", "_ts": 1 });
    // The responses are minimal, and whole documents are stored.
    let minimal = |request: common::Request<'static>| request.header("prefer", "return=minimal");
    let client: &'static common::Client = Box::leak(Box::new(client));
    minimal(client.replace("p", document("replaced", 1))).ok().await.is(200);
    minimal(client.upsert("p", document("upserted", 2))).ok().await.is(200);
    minimal(client.upsert("p", document("new", 3))).ok().await.is(201);
    client
        .upsert("p", document("met", 4))
        .header("if-match", "*")
        .ok()
        .await
        .is(200);
    client
        .upsert("p", document("absent", 5))
        .header("if-match", "*")
        .ok()
        .await
        .is(412);
    client.delete("p", "deleted").ok().await.is(204);
    let rename = client.request(Method::PUT, &format!("{DOCS}/old%20name")).key("p");
    rename.json(document("new name", 6)).ok().await.is(200);
    let operations = json!([
        { "operationType": "Create", "resourceBody": document("b1", 7) },
        { "operationType": "Upsert", "resourceBody": document("b2", 8) },
        { "operationType": "Upsert", "resourceBody": document("met", 9), "ifMatch": "*" },
        { "operationType": "Replace", "id": "b1", "resourceBody": document("b1", 10) },
        { "operationType": "Read", "id": "b1" },
        { "operationType": "Delete", "id": "gone" },
    ]);
    client.batch("p", operations).ok().await.is(200);
    let failing = json!([
        { "operationType": "Create", "resourceBody": document("half", 11) },
        { "operationType": "Create", "resourceBody": document("b1", 12) },
    ]);
    client.batch("p", failing).ok().await.is(207);

    let before = all_documents(client).await;
    assert_eq!(before.len(), 8, "{before:#?}");
    server.shutdown().await.unwrap();
    let (server, client) = start(&scratch).await;
    assert_eq!(all_documents(&client).await, before);
    let expected = Recovered {
        containers: 1,
        documents: 8,
    };
    assert_eq!(server.recovered(), Some(expected));
}

#[tokio::test]
async fn a_container_with_a_null_unique_key_policy_survives_a_restart() {
    let scratch = Scratch::new();
    let (server, client) = start(&scratch).await;
    make(&client, json!({ "uniqueKeyPolicy": null })).await;
    client.create("p", "a").ok().await.is(201);
    let redefined = json!({
        "id": "items", "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 }, "uniqueKeyPolicy": null,
        "defaultTtl": -1,
    });
    client
        .request(Method::PUT, CONTAINER)
        .json(redefined)
        .ok()
        .await
        .is(200);
    server.shutdown().await.unwrap();
    let (_server, client) = start(&scratch).await;
    assert_eq!(all_documents(&client).await.len(), 1);
}

#[tokio::test]
async fn keys_of_every_type_and_unusual_ids_survive_a_restart() {
    let scratch = Scratch::new();
    let (server, client) = start(&scratch).await;
    make(&client, json!({})).await;
    let keys = [
        "[\"日本 🚂 \\\"\\\\\"]",
        "[1]",
        "[1.5]",
        "[-3e30]",
        "[null]",
        "[true]",
        "[\"1\"]",
        "[{}]",
        "[\"\"]",
    ];
    let header = "x-ms-documentdb-partitionkey";
    let ascii = |key: &str| key.replace("日本 🚂", "\\u65e5\\u672c \\ud83d\\ude82");
    for key in keys {
        let value: Value = serde_json::from_str(key).unwrap();
        let mut document = json!({ "id": "same ä% id" });
        if !value[0].is_object() {
            document["pk"] = value[0].clone();
        }
        let request = client.post(DOCS).header(header, ascii(key)).json(document);
        request.ok().await.is(201);
    }
    // Two spellings of one key mean the same document.
    let gone = client.request(Method::DELETE, &format!("{DOCS}/same%20%C3%A4%25%20id"));
    gone.header(header, "[ 1.0 ]").ok().await.is(204);
    server.shutdown().await.unwrap();
    let (_server, client) = start(&scratch).await;
    assert_eq!(all_documents(&client).await.len(), keys.len() - 1);
    for key in keys {
        let request = client.get(&format!("{DOCS}/same%20%C3%A4%25%20id"));
        let status = request.header(header, ascii(key)).ok().await.status;
        assert_eq!(status, if key == "[1]" { 404 } else { 200 }, "{key}");
    }
}

#[tokio::test]
async fn containers_keep_their_last_definition_and_their_number_of_partitions() {
    let scratch = Scratch::new();
    let options = |partitions, lag| ServerOptions {
        partitions,
        lag,
        data: Some(scratch.path().to_owned()),
        ..ServerOptions::default()
    };
    let server = CosmosServer::start(options(3, None)).await.unwrap();
    let client = common::Client::new(server.listener());
    make(&client, json!({})).await;
    client.create("p", "a").ok().await.is(201);
    let defined = |id: &str, policy: Value| json!({ "id": id, "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 }, "indexingPolicy": policy, "defaultTtl": -1 });
    let policy = json!({ "indexingMode": "consistent", "automatic": true, "includedPaths": [{ "path": "/due/?" }], "excludedPaths": [{ "path": "/*" }] });
    client
        .request(Method::PUT, CONTAINER)
        .json(defined("items", policy.clone()))
        .ok()
        .await
        .is(200);
    client
        .post("/dbs/db/colls")
        .json(defined("dropped", policy.clone()))
        .ok()
        .await
        .is(201);
    client
        .request(Method::DELETE, "/dbs/db/colls/dropped")
        .ok()
        .await
        .is(204);
    client.post("/dbs").json(json!({ "id": "dropped" })).ok().await.is(201);
    client.request(Method::DELETE, "/dbs/dropped").ok().await.is(204);
    client.post("/dbs").json(json!({ "id": "empty" })).ok().await.is(201);
    server.split_partition("db", "items", 0).await;
    client.create("p", "b").ok().await.is(201);
    server.shutdown().await.unwrap();

    let lag = Lag {
        min: Duration::from_millis(20),
        max: Duration::from_millis(60),
        seed: 1,
    };
    let server = CosmosServer::start(options(5, Some(lag))).await.unwrap();
    let client = common::Client::new(server.listener());
    assert_eq!(server.partition_ids("db", "items").await.len(), 3);
    let read = client.get(CONTAINER).ok().await.is(200).body;
    assert_eq!((&read["indexingPolicy"], &read["defaultTtl"]), (&policy, &json!(-1)));
    for (path, status) in [
        ("/dbs/db/colls/dropped", 404),
        ("/dbs/dropped", 404),
        ("/dbs/empty", 200),
    ] {
        assert_eq!(client.get(path).ok().await.status, status, "{path}");
    }
    // A stale read sees the state before the restart, not an empty account.
    server.listener().set_faults(cosmos_emulator::Faults {
        stale_reads: true,
        ..cosmos_emulator::Faults::default()
    });
    for id in ["a", "b"] {
        client.read("p", id).ok().await.is(200);
    }
    client
        .post("/dbs/db/colls")
        .json(defined("later", policy))
        .ok()
        .await
        .is(201);
    assert_eq!(server.partition_ids("db", "later").await.len(), 5);
}

#[tokio::test]
async fn an_etag_from_before_the_restart_never_matches() {
    let scratch = Scratch::new();
    let (server, client) = start(&scratch).await;
    make(&client, json!({})).await;
    let etag = client
        .create("p", "a")
        .ok()
        .await
        .is(201)
        .header("etag")
        .unwrap()
        .to_owned();
    server.shutdown().await.unwrap();
    let (_server, client) = start(&scratch).await;
    let replace = || client.replace("p", json!({ "id": "a", "pk": "p", "n": 1 }));
    replace().header("if-match", &etag).ok().await.is(412);
    let fresh = client.read("p", "a").ok().await.is(200);
    replace()
        .header("if-match", fresh.header("etag").unwrap())
        .ok()
        .await
        .is(200);
}

#[tokio::test]
async fn rewriting_documents_does_not_let_the_storage_file_grow() {
    let scratch = Scratch::new();
    let (server, client) = start(&scratch).await;
    make(&client, json!({})).await;
    let padding = "x".repeat(100_000);
    for n in 0..150 {
        let document = json!({ "id": format!("a{}", n % 3), "pk": "p", "n": n, "padding": padding });
        client.upsert("p", document).ok().await;
    }
    let length = || std::fs::metadata(scratch.storage_file()).unwrap().len();
    assert!(length() < 150 * 100_000 / 3, "{} bytes", length());
    server.shutdown().await.unwrap();
    let (_server, client) = start(&scratch).await;
    let numbers: Vec<_> = all_documents(&client)
        .await
        .iter()
        .map(|document| document["n"].clone())
        .collect();
    assert_eq!(numbers, [147, 148, 149]);
}

#[tokio::test]
async fn a_start_compacts_a_storage_file_that_is_mostly_empty() {
    let scratch = Scratch::new();
    let (server, client) = start(&scratch).await;
    make(&client, json!({})).await;
    let padding = "x".repeat(500_000);
    for n in 0..40 {
        let document = json!({ "id": format!("a{n}"), "pk": "p", "padding": padding });
        client.upsert("p", document).ok().await.is(201);
    }
    for n in 1..40 {
        client.delete("p", &format!("a{n}")).ok().await.is(204);
    }
    let length = || std::fs::metadata(scratch.storage_file()).unwrap().len();
    let before = length();
    server.shutdown().await.unwrap();
    let (_server, client) = start(&scratch).await;
    assert_eq!(all_documents(&client).await.len(), 1);
    assert!(length() < before / 3, "{before} to {} bytes", length());
}

#[tokio::test]
async fn memory_and_disk_agree_after_clients_disconnect() {
    let scratch = Scratch::new();
    let (server, client) = start(&scratch).await;
    make(&client, json!({})).await;
    let mut rng = fastrand::Rng::with_seed(5);
    let padding = "x".repeat(10_000);
    for n in 0..200 {
        let request = client.upsert("p", json!({ "id": format!("a{n}"), "pk": "p", "padding": padding }));
        let patience = Duration::from_micros(rng.u64(0..4_000));
        // Either outcome is fine, as long as memory and disk agree.
        drop(tokio::time::timeout(patience, request.send()).await);
    }
    client.create("p", "last").ok().await.is(201);
    // A write without a client may still be waiting for others.
    let limit = Instant::now() + Duration::from_secs(60);
    let mut before = all_documents(&client).await;
    loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let now = all_documents(&client).await;
        if now == before {
            break;
        }
        assert!(Instant::now() < limit);
        before = now;
    }
    server.shutdown().await.unwrap();
    let (_server, client) = start(&scratch).await;
    assert_eq!(all_documents(&client).await.len(), before.len());
}

/// Run with `--release -- --ignored --nocapture`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: a measurement of throughput, on a quiet machine"]
async fn a_data_directory_does_not_make_writes_much_slower() {
    let scratch = Scratch::new();
    let (_memory, plain) = server().await;
    let (_disk, durable) = start(&scratch).await;
    make(&durable, json!({})).await;
    let mut rates = [Vec::new(), Vec::new()];
    for round in 0..6 {
        for (which, client) in [&plain, &durable].into_iter().enumerate() {
            let began = Instant::now();
            let mut tasks = tokio::task::JoinSet::new();
            for writer in 0..4 {
                let client = client.clone();
                tasks.spawn(async move {
                    for n in 0..500 {
                        let pk = format!("{round}-{writer}-{}", n % 20);
                        client.create(&pk, &n.to_string()).ok().await.is(201);
                    }
                });
            }
            tasks.join_all().await;
            rates[which].push(2_000.0 / began.elapsed().as_secs_f64());
        }
    }
    let best = rates.clone().map(|rates| rates.into_iter().fold(0.0, f64::max));
    println!(
        "creates per second without {:.0}, with {:.0}: ratio {:.2}; all {rates:.0?}",
        best[0],
        best[1],
        best[1] / best[0]
    );
    assert!(
        best[1] / best[0] > 0.2,
        "a write to the directory must not dominate the request"
    );
}
