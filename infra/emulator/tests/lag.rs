//! The lagging region: what stale reads see.

mod common;

use std::time::{Duration, Instant};

use common::{Client, server_with};
use cosmos_emulator::{CosmosServer, Faults, Lag, ServerOptions};
use serde_json::json;

async fn lagging(min: Duration, max: Duration) -> (CosmosServer, Client) {
    let options = ServerOptions {
        lag: Some(Lag { min, max, seed: 1 }),
        ..ServerOptions::default()
    };
    let (server, client) = server_with(options, json!({})).await;
    server.listener().set_faults(Faults {
        stale_reads: true,
        ..Faults::default()
    });
    (server, client)
}

/// A lag that only `catch_up` ends.
async fn lagging_until_catch_up() -> (CosmosServer, Client) {
    lagging(Duration::from_secs(3_600), Duration::from_secs(7_200)).await
}

#[tokio::test]
async fn a_read_without_a_consistency_token_is_stale_and_one_with_a_newer_token_gets_404_1002() {
    let (server, client) = lagging_until_catch_up().await;
    let written = client.create("p", "a").ok().await.is(201);
    let token = written.header("x-ms-session-token").unwrap();

    let stale = client.read("p", "a").ok().await.is(404);
    assert_eq!(stale.substatus(), None);
    let behind = client
        .read("p", "a")
        .header("x-ms-session-token", token)
        .ok()
        .await
        .is(404);
    assert_eq!(behind.substatus(), Some("1002"));
    let query = || client.query("SELECT * FROM c").key("p");
    assert!(query().ok().await.is(200).documents().is_empty());
    assert_eq!(
        query()
            .header("x-ms-session-token", token)
            .ok()
            .await
            .is(404)
            .substatus(),
        Some("1002")
    );
    assert!(
        client
            .query("SELECT * FROM c")
            .across()
            .ok()
            .await
            .is(200)
            .documents()
            .is_empty()
    );

    server.catch_up().await;
    client.read("p", "a").ok().await.is(200);
    client
        .read("p", "a")
        .header("x-ms-session-token", token)
        .ok()
        .await
        .is(200);
    assert_eq!(
        query()
            .header("x-ms-session-token", token)
            .ok()
            .await
            .is(200)
            .documents()
            .len(),
        1
    );
}

#[tokio::test]
async fn every_kind_of_write_reaches_the_lagging_region() {
    let (server, client) = lagging_until_catch_up().await;
    let document = |id: &str, n: u32| json!({ "id": id, "pk": "p", "n": n });
    for id in ["replaced", "upserted", "deleted", "in a batch"] {
        client.create("p", id).ok().await.is(201);
    }
    client.replace("p", document("replaced", 1)).ok().await.is(200);
    client.upsert("p", document("upserted", 2)).ok().await.is(200);
    client.delete("p", "deleted").ok().await.is(204);
    client.create("p", "again").ok().await.is(201);
    client.delete("p", "again").ok().await.is(204);
    let last = client.upsert("p", document("again", 3)).ok().await.is(201);
    let operations = json!([
        { "operationType": "Delete", "id": "in a batch" },
        { "operationType": "Create", "resourceBody": document("new", 4) },
    ]);
    client.batch("p", operations).ok().await.is(200);
    server.catch_up().await;

    let found = client
        .query("SELECT c.id, c.n FROM c ORDER BY c.id")
        .key("p")
        .ok()
        .await
        .is(200);
    let expected =
        [("again", 3), ("new", 4), ("replaced", 1), ("upserted", 2)].map(|(id, n)| json!({ "id": id, "n": n }));
    assert_eq!(found.documents(), expected);
    assert_eq!(
        client.read("p", "again").ok().await.is(200).header("etag"),
        last.header("etag")
    );
}

#[tokio::test]
async fn writes_and_other_listeners_are_never_stale() {
    let (server, client) = lagging_until_catch_up().await;
    let other = Client::new(&server.open_listener().await.unwrap());
    let written = client.create("p", "a").ok().await.is(201);
    client.create("p", "a").ok().await.is(409);
    other.read("p", "a").ok().await.is(200);
    let etag = written.header("etag").unwrap();
    client
        .replace("p", json!({ "id": "a", "pk": "p" }))
        .header("if-match", etag)
        .ok()
        .await
        .is(200);
    client.read("p", "a").ok().await.is(404);
}

#[tokio::test]
async fn a_write_becomes_visible_between_the_least_and_the_greatest_lag() {
    let (min, max) = (Duration::from_millis(80), Duration::from_millis(240));
    let (_server, client) = lagging(min, max).await;
    for n in 0..4 {
        let id = format!("d{n}");
        let sent = Instant::now();
        client.create("p", &id).ok().await.is(201);
        let written = Instant::now();
        while client.read("p", &id).ok().await.status == 404 {
            tokio::time::sleep(Duration::from_millis(2)).await;
            assert!(written.elapsed() < max + Duration::from_secs(60), "never shows");
        }
        assert!(sent.elapsed() >= min, "{:?}", sent.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_read_sees_whole_batches_and_writes_in_order() {
    let (server, client) = lagging(Duration::from_millis(2), Duration::from_millis(8)).await;
    let writer = {
        let client = Client::new(&server.open_listener().await.unwrap());
        tokio::spawn(async move {
            for n in 0..150 {
                let upsert =
                    |id: &str| json!({ "operationType": "Upsert", "resourceBody": { "id": id, "pk": "p", "n": n } });
                client.batch("p", json!([upsert("x"), upsert("y")])).ok().await.is(200);
                client.upsert("p", json!({ "id": "z", "pk": "p", "n": n })).ok().await;
            }
        })
    };
    let mut last = -1;
    while !writer.is_finished() {
        let found = client
            .query("SELECT VALUE c.n FROM c ORDER BY c.id")
            .key("p")
            .ok()
            .await
            .is(200);
        let values: Vec<i64> = found.documents().iter().map(|n| n.as_i64().unwrap()).collect();
        let (x, z) = match values[..] {
            [] => continue,
            [x, y] => {
                assert_eq!(x, y);
                (x, -1)
            }
            [x, y, z] => {
                assert_eq!(x, y, "half a batch shows");
                (x, z)
            }
            _ => panic!("{values:?}"),
        };
        assert!(z == x || z == x - 1, "x is {x} and z is {z}");
        assert!(x >= last, "time ran backwards from {last} to {x}");
        last = x;
    }
    writer.await.unwrap();
    assert!(last > 0);
}

#[tokio::test]
async fn a_share_of_reads_is_fresh_if_configured() {
    let (server, client) = lagging_until_catch_up().await;
    client.create("p", "a").ok().await.is(201);
    server.listener().set_faults(Faults {
        stale_reads: true,
        fresh: 0.5,
        ..Faults::default()
    });
    let mut statuses = Vec::new();
    for _ in 0..40 {
        statuses.push(client.read("p", "a").ok().await.status);
    }
    assert!(statuses.contains(&200) && statuses.contains(&404), "{statuses:?}");
}

#[tokio::test]
async fn a_split_updates_the_lagging_region_and_loses_nothing() {
    let (server, client) = lagging_until_catch_up().await;
    for pk in 0..30 {
        client.create(&format!("p{pk}"), "a").ok().await.is(201);
    }
    for id in 0..4 {
        server.split_partition("db", "items", id).await;
    }
    let across = || client.query("SELECT VALUE c.pk FROM c").across();
    assert_eq!(across().ok().await.is(200).documents().len(), 30);
    for pk in 30..40 {
        client.create(&format!("p{pk}"), "a").ok().await.is(201);
    }
    assert_eq!(across().ok().await.is(200).documents().len(), 30, "it lags again");
    server.catch_up().await;
    assert_eq!(across().ok().await.is(200).documents().len(), 40);
}

#[tokio::test]
async fn a_batch_that_would_differ_in_the_lagging_region_is_refused() {
    let (_server, client) = lagging_until_catch_up().await;
    let operations = json!([
        { "operationType": "Create", "resourceBody": { "id": "a", "pk": "p" } },
        { "operationType": "Delete", "id": "a" },
    ]);
    client.batch("p", operations).ok().await.is(400);
}
