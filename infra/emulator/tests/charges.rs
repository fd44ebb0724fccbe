//! The charge of each kind of request, on the wire and in the counters. The prices themselves are tested in `charge/model.rs`.

#![allow(clippy::unwrap_used, reason = "in tests a panic is a failure")]

mod common;

use common::{CONTAINER, DOCS, Response, Scratch, make, server, server_with, start};
use cosmos_emulator::{Faults, ServerOptions};
use reqwest::Method;
use serde_json::{Value, json};

#[track_caller]
fn costs(response: &Response, expected: f64) {
    let charge: f64 = response.header("x-ms-request-charge").unwrap().parse().unwrap();
    assert!(
        (charge - expected).abs() < 0.011,
        "{charge} instead of {expected}: {:?}",
        response.body
    );
}

/// Indexes `pk`, `a` and `b`, and both of the latter together.
fn few_paths() -> Value {
    json!({ "indexingPolicy": {
        "includedPaths": [{ "path": "/pk/?" }, { "path": "/a/?" }, { "path": "/b/?" }],
        "excludedPaths": [{ "path": "/*" }],
        "compositeIndexes": [[{ "path": "/a" }, { "path": "/b" }]],
    } })
}

fn document(id: &str, a: i64, payload: usize) -> Value {
    json!({ "id": id, "pk": "p", "a": a, "b": 2, "payload": "x".repeat(payload) })
}

#[tokio::test]
async fn a_write_costs_by_size_and_by_the_index_entries_that_it_changes() {
    let (_server, client) = server_with(ServerOptions::default(), few_paths()).await;
    // Three paths and a composite index.
    costs(
        &client.upsert("p", document("x", 1, 500)).ok().await.is(201),
        4.95 + 4.0 * 0.19,
    );
    costs(
        &client.replace("p", document("x", 1, 100)).ok().await.is(200),
        2.0 * 4.95,
    );
    // The value of `a`, and with it the entry of the composite index.
    costs(
        &client.upsert("p", document("x", 7, 100)).ok().await.is(200),
        2.0 * 4.95 + 4.0 * 0.19,
    );
    let patch = client
        .request(Method::PATCH, &format!("{DOCS}/x"))
        .key("p")
        .header("content-type", "application/json_patch+json")
        .json(json!({ "operations": [{ "op": "remove", "path": "/b" }] }));
    costs(&patch.ok().await.is(200), 2.0 * 4.95 + 2.0 * 0.19);
    costs(&client.delete("p", "x").ok().await.is(204), 4.95 + 2.0 * 0.19);
    let large = client.post(DOCS).key("p").json(document("large", 1, 64 * 1024 - 50));
    costs(&large.ok().await.is(201), 22.67 + 4.0 * 0.19);
    costs(&client.read("p", "large").ok().await.is(200), 4.77);
}

#[tokio::test]
async fn the_default_policy_indexes_every_property() {
    let (_server, client) = server().await;
    // pk, a, b and payload.
    let create = client.post(DOCS).key("p").json(document("x", 1, 500));
    costs(&create.ok().await.is(201), 4.95 + 4.0 * 0.19);
    costs(&client.create("p", "y").ok().await.is(201), 4.95 + 0.19);
    costs(&client.read("p", "x").ok().await.is(200), 1.0);
}

#[tokio::test]
async fn a_batch_costs_the_sum_of_its_operations() {
    let (_server, client) = server().await;
    client.create("p", "old").ok().await.is(201);
    let operations = json!([
        { "operationType": "Create", "resourceBody": document("x", 1, 500) },
        { "operationType": "Replace", "id": "x", "resourceBody": document("x", 2, 500) },
        { "operationType": "Upsert", "resourceBody": { "id": "y", "pk": "p" } },
        { "operationType": "Delete", "id": "old" },
        { "operationType": "Read", "id": "x" },
        { "operationType": "Patch", "id": "y", "resourceBody": { "operations": [{ "op": "set", "path": "/n", "value": 1 }] } },
    ]);
    let prices = [
        4.95 + 4.0 * 0.19,
        2.0 * 4.95 + 2.0 * 0.19,
        4.95 + 0.19,
        4.95 + 0.19,
        1.0,
        2.0 * 4.95 + 0.19,
    ];
    let done = client.batch("p", operations).ok().await.is(200);
    for (result, expected) in done.body.as_array().unwrap().iter().zip(prices) {
        let charge = result["requestCharge"].as_f64().unwrap();
        assert!(
            (charge - expected).abs() < 0.011,
            "{charge} instead of {expected}: {result}"
        );
    }
    costs(&done, prices.iter().sum());
}

#[tokio::test]
async fn a_failed_request_costs_little_and_a_refused_one_nothing() {
    let (server, client) = server().await;
    client.create("p", "x").ok().await.is(201);
    costs(&client.create("p", "x").ok().await.is(409), 1.24);
    let stale = client
        .replace("p", json!({ "id": "x", "pk": "p" }))
        .header("if-match", "\"0\"");
    costs(&stale.ok().await.is(412), 1.24);
    costs(&client.delete("p", "y").ok().await.is(404), 1.24);
    costs(&client.read("p", "y").ok().await.is(404), 1.0);
    // The operations before the one that fails were done, and undone.
    let operations = json!([
        { "operationType": "Create", "resourceBody": { "id": "new", "pk": "p" } },
        { "operationType": "Create", "resourceBody": { "id": "x", "pk": "p" } },
        { "operationType": "Delete", "id": "x" },
    ]);
    let failed = client.batch("p", operations).ok().await.is(207);
    costs(&failed, 4.95 + 0.19 + 1.24);
    costs(&client.create("p", "a/b").ok().await.is(400), 0.0);
    costs(&client.get(CONTAINER).ok().await.is(200), 0.0);
    server.listener().set_faults(Faults {
        throttled: 1.0,
        ..Faults::default()
    });
    costs(&client.read("p", "x").ok().await.is(429), 0.0);
}

#[tokio::test]
async fn a_query_costs_by_page_partition_and_size() {
    let (server, client) = server().await;
    for id in 0..5 {
        let create = client.post(DOCS).key("p").json(document(&id.to_string(), 1, 100));
        create.ok().await.is(201);
    }
    let query = |sql: &str| client.query(sql).key("p");
    costs(&query("SELECT * FROM c WHERE c.a = 9").ok().await.is(200), 2.23);
    costs(&query("SELECT * FROM c WHERE c.a = 1").ok().await.is(200), 2.23 + 0.15);
    let page = query("SELECT * FROM c ORDER BY c.a").header("x-ms-max-item-count", "3");
    let first = page.clone().ok().await.is(200);
    costs(&first, 2.23 + 0.09);
    let rest = page.header("x-ms-continuation", first.header("x-ms-continuation").unwrap());
    costs(&rest.ok().await.is(200), 2.23 + 0.06);
    let large = client
        .post(DOCS)
        .key("q")
        .json(json!({ "id": "x", "pk": "q", "payload": "x".repeat(100 * 1024) }));
    large.ok().await.is(201);
    costs(
        &client.query("SELECT * FROM c").key("q").ok().await.is(200),
        2.23 + 3.01,
    );
    let partitions = server.partition_ids("db", "items").await;
    let across = client
        .query("SELECT VALUE c.id FROM c WHERE c.a = 9")
        .across()
        .ok()
        .await
        .is(200);
    costs(&across, 2.23 * partitions.len() as f64);
    let in_a_range = client
        .query("SELECT VALUE c.id FROM c WHERE c.a = 9")
        .range(partitions[0]);
    costs(&in_a_range.ok().await.is(200), 2.23);
}

#[tokio::test]
async fn documents_that_a_query_only_examines_cost_when_they_are_counted() {
    let options = ServerOptions {
        count_examined: true,
        partitions: 1,
        ..ServerOptions::default()
    };
    let (server, client) = server_with(options, json!({})).await;
    for id in 0..10 {
        client.create("p", &id.to_string()).ok().await.is(201);
    }
    let one = client
        .query("SELECT * FROM c WHERE c.pk = 'p' AND c.id != '0'")
        .across();
    let one = one.header("x-ms-max-item-count", "1").ok().await.is(200);
    assert_eq!(server.listener().counts().examined, 10);
    costs(&one, 2.23 + 0.03 + 0.09);
}

#[tokio::test]
async fn the_counters_add_up_what_requests_cost_also_when_the_answer_is_lost() {
    let (server, client) = server().await;
    let listener = server.listener();
    client.create("p", "x").ok().await.is(201);
    client.read("p", "x").ok().await.is(200);
    assert_eq!(listener.counts().request_units(), 6.14);
    let charges: Vec<f64> = listener.log().iter().map(|record| record.charge).collect();
    assert_eq!(charges, [5.14, 1.0]);
    let before = listener.counts();
    listener.set_faults(Faults {
        lost_after: 1.0,
        ..Faults::default()
    });
    assert!(client.create("p", "y").send().await.is_err());
    assert_eq!((listener.counts() - before).request_units(), 5.14);
    listener.reset();
    assert_eq!(listener.counts().request_units(), 0.0);
}

#[tokio::test]
async fn a_document_from_before_a_restart_has_its_price() {
    let scratch = Scratch::new();
    let price = 4.95 + 4.0 * 0.19;
    {
        let (server, client) = start(&scratch).await;
        make(&client, json!({})).await;
        let create = client.post(DOCS).key("p").json(document("x", 1, 500));
        costs(&create.ok().await.is(201), price);
        server.shutdown().await.unwrap();
    }
    let (_server, client) = start(&scratch).await;
    costs(&client.delete("p", "x").ok().await.is(204), price);
}
