//! Pages, physical partitions and their splits.

mod common;

use common::{Client, Request, server};
use serde_json::{Value, json};

async fn fill(client: &Client, pk: &str, ids: impl Iterator<Item = usize>) {
    let operations: Vec<Value> = ids
        .map(|n| json!({ "operationType": "Create", "resourceBody": { "id": format!("{pk}{n:04}"), "pk": pk, "n": (n * 7919) % 10_000 } }))
        .collect();
    for chunk in operations.chunks(100) {
        client.batch(pk, json!(chunk)).ok().await.is(200);
    }
}

/// Reads all pages of a query; returns their sizes and all documents.
async fn pages(request: Request<'_>) -> (Vec<usize>, Vec<Value>) {
    let mut sizes = Vec::new();
    let mut found = Vec::new();
    let mut continuation: Option<String> = None;
    loop {
        let mut page = request.clone();
        if let Some(continuation) = &continuation {
            page = page.header("x-ms-continuation", continuation.clone());
        }
        let response = page.ok().await.is(200);
        sizes.push(response.documents().len());
        found.extend_from_slice(response.documents());
        continuation = response.header("x-ms-continuation").map(str::to_owned);
        if continuation.is_none() {
            return (sizes, found);
        }
    }
}

#[tokio::test]
async fn an_ordered_query_returns_everything_once_and_in_order_over_many_pages() {
    let (_server, client) = server().await;
    fill(&client, "p", 0..357).await;
    let (sizes, found) = pages(client.query("SELECT VALUE c.n FROM c ORDER BY c.n").key("p")).await;
    assert_eq!(sizes, [100, 100, 100, 57]);
    let mut expected: Vec<usize> = (0..357).map(|n| (n * 7919) % 10_000).collect();
    expected.sort_unstable();
    assert_eq!(json!(found), json!(expected));
}

#[tokio::test]
async fn deleting_documents_of_a_page_does_not_make_the_next_page_skip_any() {
    for sql in ["SELECT * FROM c", "SELECT * FROM c ORDER BY c.n DESC"] {
        let (server, client) = server().await;
        fill(&client, "p", 0..230).await;
        let mut seen = Vec::new();
        let mut request = client.query(sql).key("p").header("x-ms-max-item-count", "60");
        loop {
            let page = request.clone().ok().await.is(200);
            for document in page.documents() {
                let id = document["id"].as_str().unwrap().to_owned();
                client.delete("p", &id).ok().await.is(204);
                seen.push(id);
            }
            let Some(continuation) = page.header("x-ms-continuation") else {
                break;
            };
            request = request.header("x-ms-continuation", continuation);
        }
        assert_eq!(seen.len(), 230, "{sql}");
        assert_eq!(server.listener().counts().queries, 4);
    }
}

#[tokio::test]
async fn an_unfinished_ordered_query_ends_when_its_range_is_split() {
    let (server, client) = server().await;
    fill(&client, "p", 0..5).await;
    let request = |range: u32| {
        client
            .query("SELECT * FROM c ORDER BY c.n")
            .range(range)
            .header("x-ms-max-item-count", "2")
    };
    for range in server.partition_ids("db", "items").await {
        let page = request(range).ok().await.is(200);
        let Some(continuation) = page.header("x-ms-continuation") else {
            continue;
        };
        server.split_partition("db", "items", range).await;
        let gone = request(range)
            .header("x-ms-continuation", continuation)
            .ok()
            .await
            .is(410);
        assert_eq!(gone.substatus(), Some("1002"));
        return;
    }
    panic!("no range holds the documents");
}

#[tokio::test]
async fn a_page_has_the_requested_size_within_bounds() {
    let (_server, client) = server().await;
    fill(&client, "p", 0..1_250).await;
    let sizes = async |size: &str| {
        let request = client
            .query("SELECT c.id FROM c")
            .key("p")
            .header("x-ms-max-item-count", size);
        let (sizes, found) = pages(request).await;
        let mut ids: Vec<_> = found
            .iter()
            .map(|found| found["id"].as_str().unwrap().to_owned())
            .collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 1_250);
        sizes
    };
    assert_eq!(sizes("-1").await, [1_000, 250]);
    assert_eq!(sizes("5000").await, [1_000, 250]);
    assert_eq!(sizes("600").await, [600, 600, 50]);
}

#[tokio::test]
async fn a_page_has_four_megabytes_at_most() {
    let (_server, client) = server().await;
    for n in 0..12 {
        let document = json!({ "id": format!("d{n:02}"), "pk": "p", "x": "x".repeat(1_000_000) });
        client.upsert("p", document).ok().await.is(201);
    }
    for sql in ["SELECT * FROM c", "SELECT * FROM c ORDER BY c.id"] {
        let first = client.query(sql).key("p").ok().await.is(200);
        assert!(
            first.size <= 4 * 1024 * 1024 && first.documents().len() > 1,
            "{}",
            first.size
        );
        let (sizes, found) = pages(client.query(sql).key("p")).await;
        assert!(sizes.len() >= 3, "{sizes:?}");
        let ids: Vec<_> = found.iter().map(|found| found["id"].as_str().unwrap()).collect();
        let expected: Vec<_> = (0..12).map(|n| format!("d{n:02}")).collect();
        assert_eq!(ids, expected);
    }
}

#[tokio::test]
async fn the_ranges_of_a_container_together_hold_every_document_once() {
    let (server, client) = server().await;
    for pk in 0..40 {
        client.create(&format!("p{pk}"), "a").ok().await.is(201);
    }
    let ranges = server.partition_ids("db", "items").await;
    assert_eq!(ranges, [0, 1, 2, 3]);
    let mut found = Vec::new();
    for range in ranges {
        let (_, part) = pages(client.query("SELECT VALUE c.pk FROM c ORDER BY c.pk").range(range)).await;
        assert!(!part.is_empty() && part.len() < 40, "range {range}: {}", part.len());
        found.extend(part.iter().map(|pk| pk.as_str().unwrap().to_owned()));
    }
    found.sort_unstable();
    found.dedup();
    assert_eq!(found.len(), 40);
    let (_, across) = pages(
        client
            .query("SELECT VALUE c.pk FROM c")
            .across()
            .header("x-ms-max-item-count", "7"),
    )
    .await;
    assert_eq!(across.len(), 40);
    assert_eq!(server.listener().counts().cross_partition_queries, 4 + 6);
}

#[tokio::test]
async fn a_split_range_is_gone_and_its_children_have_its_documents() {
    let (server, client) = server().await;
    for pk in 0..60 {
        client.create(&format!("p{pk}"), "a").ok().await.is(201);
    }
    let sql = "SELECT VALUE c.pk FROM c";
    let (_, before) = pages(client.query(sql).range(1)).await;
    let page = client
        .query(sql)
        .range(1)
        .header("x-ms-max-item-count", "2")
        .ok()
        .await
        .is(200);
    let continuation = page.header("x-ms-continuation").unwrap().to_owned();
    server.split_partition("db", "items", 1).await;

    let gone = client
        .query(sql)
        .range(1)
        .header("x-ms-continuation", continuation)
        .ok()
        .await
        .is(410);
    assert_eq!(gone.substatus(), Some("1002"));
    let listed = client.get("/dbs/db/colls/items/pkranges").ok().await.is(200);
    let ranges = listed.body["PartitionKeyRanges"].as_array().unwrap();
    let children: Vec<_> = ranges.iter().filter(|range| range["parents"] == json!(["1"])).collect();
    assert_eq!((ranges.len(), children.len()), (5, 2));
    assert!(!ranges.iter().any(|range| range["id"] == "1"));
    let mut after = Vec::new();
    for child in children {
        after.extend(pages(client.query(sql).range(child["id"].as_str().unwrap())).await.1);
    }
    let sorted = |values: &[Value]| {
        let mut values: Vec<_> = values.iter().map(Value::to_string).collect();
        values.sort_unstable();
        values
    };
    assert_eq!(sorted(&before), sorted(&after));
    assert_eq!(server.listener().counts().pkranges, 1);
    client.read("p0", "a").ok().await.is(200);
}
