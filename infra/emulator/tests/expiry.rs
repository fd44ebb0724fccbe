//! Documents expire by their time to live, and no others disappear.

mod common;

use std::time::{Duration, Instant};

use common::{CONTAINER, Client, DOCS, Scratch, all_documents, make, server_with, start};
use cosmos_emulator::{CosmosServer, ServerOptions};
use reqwest::Method;
use serde_json::{Value, json};

async fn server_with_ttl(default: Value) -> (CosmosServer, Client) {
    server_with(ServerOptions::default(), json!({ "defaultTtl": default })).await
}

fn with_ttl(id: &str, ttl: Value) -> Value {
    json!({ "id": id, "pk": "p", "ttl": ttl })
}

async fn ids(client: &Client) -> Vec<String> {
    let documents = all_documents(client).await;
    documents
        .iter()
        .map(|document| document["id"].as_str().expect("an id").to_owned())
        .collect()
}

async fn fill(client: &Client) {
    client.create("p", "plain").ok().await.is(201);
    for (id, ttl) in [("brief", json!(60)), ("eternal", json!(-1)), ("long", json!(5_000))] {
        client.upsert("p", with_ttl(id, ttl)).ok().await.is(201);
    }
}

#[tokio::test]
async fn the_container_decides_whether_documents_expire_and_the_document_when() {
    for (default, after_a_minute, in_the_end) in [
        (
            Value::Null,
            &["brief", "eternal", "long", "plain"][..],
            &["brief", "eternal", "long", "plain"][..],
        ),
        (json!(-1), &["eternal", "long", "plain"], &["eternal", "plain"]),
        (json!(1_000), &["eternal", "long", "plain"], &["eternal"]),
    ] {
        let (server, client) = server_with_ttl(default.clone()).await;
        fill(&client).await;
        server.expire_as_if(Duration::from_secs(1)).await;
        assert_eq!(ids(&client).await.len(), 4);
        server.expire_as_if(Duration::from_secs(60)).await;
        assert_eq!(ids(&client).await, after_a_minute, "{default}");
        server.expire_as_if(Duration::from_secs(10_000)).await;
        assert_eq!(ids(&client).await, in_the_end, "{default}");
    }
}

#[tokio::test]
async fn an_expired_document_is_invisible_and_its_id_is_free() {
    let (_server, client) = server_with_ttl(json!(-1)).await;
    let create = |id: &str| json!({ "operationType": "Create", "resourceBody": with_ttl(id, json!(1)) });
    // Taken before sending: the response may take longer than the documents live.
    let written = Instant::now();
    client
        .batch("p", json!([create("a"), create("b"), create("c")]))
        .ok()
        .await
        .is(200);
    client.create("p", "other").ok().await.is(201);
    let limit = Instant::now() + Duration::from_secs(60);
    while client.read("p", "a").ok().await.status == 200 {
        assert!(Instant::now() < limit, "it never expires");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(
        written.elapsed() > Duration::from_millis(900),
        "too early: {:?}",
        written.elapsed()
    );
    let found = client.query("SELECT VALUE c.id FROM c").key("p").ok().await.is(200);
    assert_eq!(found.documents(), [json!("other")]);
    client.replace("p", with_ttl("b", json!(1))).ok().await.is(404);
    client
        .batch("p", json!([create("a"), { "operationType": "Read", "id": "other" }]))
        .ok()
        .await
        .is(200);
    client.create("p", "c").ok().await.is(201);
}

#[tokio::test]
async fn the_time_to_live_counts_from_the_last_write_and_deleted_documents_stay_deleted() {
    let (server, client) = server_with_ttl(json!(-1)).await;
    for id in ["kept", "renewed", "shortened", "deleted", "made anew"] {
        client.upsert("p", with_ttl(id, json!(60))).ok().await.is(201);
    }
    client
        .replace("p", json!({ "id": "kept", "pk": "p" }))
        .ok()
        .await
        .is(200);
    client.upsert("p", with_ttl("renewed", json!(600))).ok().await.is(200);
    client.upsert("p", with_ttl("shortened", json!(6))).ok().await.is(200);
    for id in ["deleted", "made anew"] {
        client.delete("p", id).ok().await.is(204);
    }
    client.create("p", "made anew").ok().await.is(201);
    server.expire_as_if(Duration::from_secs(6)).await;
    assert_eq!(ids(&client).await, ["kept", "made anew", "renewed"]);
    server.expire_as_if(Duration::from_secs(60)).await;
    assert_eq!(ids(&client).await, ["kept", "made anew", "renewed"]);
    server.expire_as_if(Duration::from_secs(600)).await;
    assert_eq!(ids(&client).await, ["kept", "made anew"]);
}

#[tokio::test]
async fn a_changed_default_applies_to_existing_documents() {
    let (server, client) = server_with_ttl(Value::Null).await;
    fill(&client).await;
    let define = |default: Value| {
        let definition = json!({ "id": "items", "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 }, "defaultTtl": default });
        client.request(Method::PUT, CONTAINER).json(definition)
    };
    define(json!(600)).ok().await.is(200);
    server.expire_as_if(Duration::from_secs(61)).await;
    assert_eq!(ids(&client).await, ["eternal", "long", "plain"]);
    define(json!(6_000)).ok().await.is(200);
    server.expire_as_if(Duration::from_secs(700)).await;
    assert_eq!(ids(&client).await, ["eternal", "long", "plain"]);
    define(Value::Null).ok().await.is(200);
    server.expire_as_if(Duration::from_secs(10_000)).await;
    assert_eq!(ids(&client).await, ["eternal", "long", "plain"]);
}

#[tokio::test]
async fn an_invalid_time_to_live_is_refused() {
    let (_server, client) = server_with_ttl(json!(-1)).await;
    for ttl in [
        json!(0),
        json!(-2),
        json!("60"),
        json!(1.5),
        json!(2_147_483_648_u64),
        json!({}),
    ] {
        let refused = client.upsert("p", with_ttl("a", ttl.clone())).ok().await.is(400);
        assert!(refused.message().contains("ttl"), "{refused:?}");
        client
            .post(DOCS)
            .key("p")
            .json(with_ttl("a", ttl.clone()))
            .ok()
            .await
            .is(400);
        let operation = json!({ "operationType": "Create", "resourceBody": with_ttl("a", ttl.clone()) });
        client.batch("p", json!([operation])).ok().await.is(400);
        let definition =
            json!({ "id": "new", "partitionKey": { "paths": ["/pk"], "kind": "Hash" }, "defaultTtl": ttl });
        client.post("/dbs/db/colls").json(definition).ok().await.is(400);
    }
    client.read("p", "a").ok().await.is(404);
    let (_server, client) = server_with_ttl(Value::Null).await;
    client
        .upsert("p", with_ttl("a", json!("a property like any other")))
        .ok()
        .await
        .is(201);
}

#[tokio::test]
async fn a_restart_keeps_the_remaining_time_to_live() {
    let scratch = Scratch::new();
    let (server, client) = start(&scratch).await;
    make(&client, json!({ "defaultTtl": -1 })).await;
    client.upsert("p", with_ttl("long", json!(1_000))).ok().await.is(201);
    client
        .upsert("p", with_ttl("expired before", json!(60)))
        .ok()
        .await
        .is(201);
    server.expire_as_if(Duration::from_secs(60)).await;
    server.shutdown().await.unwrap();

    let (server, client) = start(&scratch).await;
    assert_eq!(
        server.recovered().unwrap().documents,
        1,
        "expiry is stored like any deletion"
    );
    assert_eq!(ids(&client).await, ["long"]);
    server.expire_as_if(Duration::from_secs(900)).await;
    assert_eq!(ids(&client).await, ["long"]);
    client.upsert("p", with_ttl("brief", json!(2))).ok().await.is(201);
    server.shutdown().await.unwrap();
    let stopped = Instant::now();
    while stopped.elapsed() < Duration::from_millis(2_100) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (server, client) = start(&scratch).await;
    assert_eq!(server.recovered().unwrap().documents, 2);
    assert_eq!(
        client.read("p", "brief").ok().await.status,
        404,
        "it expired while the server was down"
    );
    assert_eq!(ids(&client).await, ["long"]);
    server.expire_as_if(Duration::from_secs(1_000)).await;
    assert!(ids(&client).await.is_empty());
}

/// The ids in all ranges, in the order of the query, which the index answers.
async fn ordered_ids(server: &CosmosServer, client: &Client) -> Vec<String> {
    let mut found = Vec::new();
    for range in server.partition_ids("db", "items").await {
        let query = client.query("SELECT VALUE c.id FROM c WHERE c.rank >= 0 ORDER BY c.rank DESC");
        let page = query.range(range).ok().await.is(200);
        found.extend(page.documents().iter().map(|id| id.as_str().expect("an id").to_owned()));
    }
    found
}

#[tokio::test]
async fn queries_of_an_index_see_expiry_and_what_a_restart_has_loaded() {
    let scratch = Scratch::new();
    let (server, client) = start(&scratch).await;
    make(&client, json!({ "defaultTtl": -1 })).await;
    // The index leaves small containers to the emulator.
    let others = (0..300).map(|n| json!({ "id": n.to_string(), "pk": "p", "ttl": -1 }));
    for others in others.collect::<Vec<_>>().chunks(100) {
        let operations = others
            .iter()
            .map(|one| json!({ "operationType": "Create", "resourceBody": one }));
        client.batch("p", operations.collect()).ok().await.is(200);
    }
    for (id, ttl, rank) in [("a", 60, 1), ("b", 5_000, 2), ("c", 60, 3), ("d", 5_000, 4)] {
        let document = json!({ "id": id, "pk": "p", "ttl": ttl, "rank": rank });
        client.upsert("p", document).ok().await.is(201);
    }
    assert_eq!(ordered_ids(&server, &client).await, ["d", "c", "b", "a"]);
    server.expire_as_if(Duration::from_secs(60)).await;
    assert_eq!(ordered_ids(&server, &client).await, ["d", "b"]);
    let again = json!({ "id": "b", "pk": "p", "ttl": 5_000, "rank": 9 });
    client.upsert("p", again).ok().await.is(200);
    assert_eq!(ordered_ids(&server, &client).await, ["b", "d"]);
    server.shutdown().await.unwrap();

    let (server, client) = start(&scratch).await;
    assert_eq!(ordered_ids(&server, &client).await, ["b", "d"]);
    client.delete("p", "d").ok().await.is(204);
    assert_eq!(ordered_ids(&server, &client).await, ["b"]);
    server.expire_as_if(Duration::from_secs(10_000)).await;
    assert!(ordered_ids(&server, &client).await.is_empty());
}
