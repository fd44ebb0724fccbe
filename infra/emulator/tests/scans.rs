//! Queries over several partitions that no index serves, and the number of documents that a query examines.

mod common;

use common::{Client, server_with};
use cosmos_emulator::{CosmosServer, ServerOptions};
use serde_json::{Value, json};

fn policy() -> Value {
    json!({ "indexingPolicy": {
        "includedPaths": [{ "path": "/queue/?" }, { "path": "/due/?" }, { "path": "/tag/?" }],
        "excludedPaths": [{ "path": "/*" }],
        "compositeIndexes": [[{ "path": "/queue" }, { "path": "/due" }]],
    }})
}

/// 30 documents: 10 in a queue, of which 4 are due, and 2 of those have a tag.
async fn filled(options: ServerOptions) -> (CosmosServer, Client) {
    let (server, client) = server_with(options, policy()).await;
    for n in 0..30 {
        let mut document = json!({ "id": format!("d{n}"), "pk": format!("p{n}"), "due": n, "name": "x" });
        if n < 10 {
            document["queue"] = json!("turn");
        }
        if n < 2 {
            document["tag"] = json!("gpu");
        }
        client.upsert(&format!("p{n}"), document).ok().await.is(201);
    }
    server.listener().reset();
    (server, client)
}

const SCANS: [(&str, &str); 4] = [
    ("SELECT * FROM c WHERE c.name = 'x'", "c.name, which is not indexed"),
    ("SELECT * FROM c WHERE c.queue != 'turn'", "no condition of its filter"),
    (
        "SELECT * FROM c WHERE c.queue = 'turn' AND c.due < 4 ORDER BY c.due",
        "it filters on c.queue and orders by c.due",
    ),
    (
        "SELECT VALUE COUNT(1) FROM c WHERE c.tag = 'gpu' AND c.due < 4",
        "no composite index",
    ),
];

#[tokio::test]
async fn a_query_over_partitions_that_would_scan_is_refused() {
    let (server, client) = filled(ServerOptions::default()).await;
    for (sql, why) in SCANS {
        let refused = client.query(sql).range(0).ok().await.is(400);
        assert!(refused.message().contains("would scan"), "{}", refused.message());
        assert!(refused.message().contains(why), "{sql}: {}", refused.message());
        client.query(sql).key("p1").ok().await.is(200);
    }
    assert_eq!(server.listener().counts().refused, SCANS.len() as u64);
    for sql in [
        "SELECT * FROM c",
        "SELECT VALUE COUNT(1) FROM c WHERE c.queue = 'turn' AND c.due < 4",
        "SELECT * FROM c WHERE c.queue = 'turn' AND c.due < 4 ORDER BY c.queue, c.due",
    ] {
        client.query(sql).range(0).ok().await.is(200);
    }
}

#[tokio::test]
async fn scans_can_be_permitted() {
    let options = ServerOptions {
        allow_scans: true,
        ..ServerOptions::default()
    };
    let (_server, client) = filled(options).await;
    for (sql, _) in SCANS {
        client.query(sql).range(0).ok().await.is(200);
    }
}

#[tokio::test]
async fn the_documents_that_an_index_finds_are_counted_as_examined() {
    let options = ServerOptions {
        count_examined: true,
        ..ServerOptions::default()
    };
    let (server, client) = filled(options).await;
    let ranges = server.partition_ids("db", "items").await;
    for (sql, examined) in [
        ("SELECT * FROM c", 30),
        ("SELECT * FROM c WHERE c.queue = 'turn'", 10),
        (
            "SELECT * FROM c WHERE c.queue = 'turn' AND c.due < 4 ORDER BY c.queue, c.due",
            4,
        ),
        // The tag narrows what is found by the composite index.
        (
            "SELECT * FROM c WHERE c.queue = 'turn' AND c.due < 4 AND c.tag = 'gpu' ORDER BY c.queue, c.due",
            4,
        ),
        ("SELECT * FROM c WHERE c.queue = 'turn' AND c.tag = 'gpu'", 2),
        ("SELECT * FROM c WHERE c.queue = 'repair'", 0),
    ] {
        server.listener().reset();
        for range in &ranges {
            client.query(sql).range(range).ok().await.is(200);
        }
        assert_eq!(server.listener().counts().examined, examined, "{sql}");
    }
    server.listener().reset();
    client
        .query("SELECT * FROM c WHERE c.name = 'x'")
        .key("p1")
        .ok()
        .await
        .is(200);
    assert_eq!(
        server.listener().counts().examined,
        0,
        "within one partition nothing is counted"
    );
}

#[tokio::test]
async fn a_page_in_the_order_of_an_index_examines_what_it_returns() {
    let options = ServerOptions {
        count_examined: true,
        partitions: 1,
        ..ServerOptions::default()
    };
    let (server, client) = filled(options).await;
    let ranges = server.partition_ids("db", "items").await;
    for (condition, examined) in [
        ("c.queue = 'turn'", 3),
        ("c.queue = 'turn' AND c.due <= 5 AND (c.due < 5 OR c.due = 5)", 3),
        // What narrows makes the service read on until the page is full.
        ("c.queue = 'turn' AND c.tag = 'gpu'", 10),
    ] {
        server.listener().reset();
        let sql = format!("SELECT * FROM c WHERE {condition} ORDER BY c.queue DESC, c.due DESC");
        let page = client.query(&sql).range(ranges[0]).header("x-ms-max-item-count", "3");
        page.ok().await.is(200);
        assert_eq!(server.listener().counts().examined, examined, "{sql}");
    }
}
