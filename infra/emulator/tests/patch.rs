//! PATCH: of one document, and in batches.

#![allow(clippy::unwrap_used, reason = "in tests a panic is a failure")]

mod common;

use common::{Client, DOCS, Request, Scratch, all_documents, make, server, start};
use reqwest::Method;
use serde_json::{Value, json};

fn patch<'c>(client: &'c Client, id: &str, body: Value) -> Request<'c> {
    client
        .request(Method::PATCH, &format!("{DOCS}/{id}"))
        .key("p")
        .header("content-type", "application/json_patch+json")
        .json(body)
}

fn set(path: &str, value: impl Into<Value>) -> Value {
    json!({ "op": "set", "path": path, "value": value.into() })
}

#[tokio::test]
async fn a_patch_changes_a_document_and_returns_it() {
    let (server, client) = server().await;
    let created = client
        .upsert("p", json!({ "id": "a", "pk": "p", "n": 1, "old": true }))
        .ok()
        .await
        .is(201);
    let operations = json!([
        { "op": "incr", "path": "/n", "value": 2 },
        { "op": "remove", "path": "/old" },
        set("/list", json!([1])),
        { "op": "add", "path": "/list/-", "value": 2 },
    ]);
    let patched = patch(&client, "a", json!({ "operations": operations }))
        .ok()
        .await
        .is(200);
    assert_eq!((&patched.body["n"], &patched.body["list"]), (&json!(3), &json!([1, 2])));
    assert!(patched.body.get("old").is_none() && patched.body["_etag"] != created.body["_etag"]);
    assert_eq!(patched.header("etag"), patched.body["_etag"].as_str());
    assert_eq!(client.read("p", "a").ok().await.is(200).body, patched.body);
    let counts = server.listener().counts();
    assert_eq!((counts.patches, counts.writes(), counts.documents_written), (1, 2, 2));
    patch(&client, "missing", json!({ "operations": [set("/n", 1)] }))
        .ok()
        .await
        .is(404);
}

#[tokio::test]
async fn a_patch_obeys_if_match_and_its_condition() {
    let (_server, client) = server().await;
    let created = client
        .upsert("p", json!({ "id": "a", "pk": "p", "n": 1 }))
        .ok()
        .await
        .is(201);
    let etag = created.body["_etag"].as_str().unwrap().to_owned();
    let body = json!({ "operations": [set("/m", 1)] });
    patch(&client, "a", body.clone())
        .header("if-match", "\"another\"")
        .ok()
        .await
        .is(412);
    let patched = patch(&client, "a", body.clone())
        .header("if-match", etag.clone())
        .ok()
        .await
        .is(200);
    let stale = patch(&client, "a", body.clone())
        .header("if-match", etag)
        .ok()
        .await
        .is(412);
    // As with a replace, the client learns how new the document is that it missed.
    assert_eq!(stale.header("x-ms-session-token"), patched.header("x-ms-session-token"));
    assert!(stale.header("x-ms-session-token").is_some());
    patch(&client, "a", body).header("if-match", "*").ok().await.is(200);
    let when = |condition: &str| json!({ "condition": condition, "operations": [set("/m", 2)] });
    patch(&client, "a", when("from c where c.n > 1")).ok().await.is(412);
    assert_eq!(client.read("p", "a").ok().await.body["m"], patched.body["m"]);
    patch(&client, "a", when("FROM x WHERE x.n = 1 OR x.n = 5"))
        .ok()
        .await
        .is(200);
    patch(&client, "a", when("c.n = 1")).ok().await.is(400);
    patch(&client, "missing", when("from c where c.n = 1"))
        .ok()
        .await
        .is(404);
}

#[tokio::test]
async fn what_a_patch_may_not_do_is_refused_and_changes_nothing() {
    let (_server, client) = server().await;
    let created = client
        .upsert("p", json!({ "id": "a", "pk": "p", "n": 1 }))
        .ok()
        .await
        .is(201);
    let eleven: Vec<Value> = (0..11).map(|n| set(&format!("/p{n}"), n)).collect();
    for operations in [
        json!(eleven),
        json!([]),
        json!([set("/m", 1), set("/id", "b")]),
        json!([set("/pk", "q")]),
        json!([set("/_ts", 1)]),
        json!([set("/m", 1), { "op": "replace", "path": "/missing", "value": 1 }]),
        json!([{ "op": "copy", "path": "/m", "value": 1 }]),
    ] {
        patch(&client, "a", json!({ "operations": operations }))
            .ok()
            .await
            .is(400);
    }
    let plain = patch(&client, "a", json!({ "operations": [set("/m", 1)] })).header("content-type", "application/json");
    plain.ok().await.is(400);
    let large = json!({ "operations": [set("/m", "x".repeat(1_100_000))] });
    patch(&client, "a", large.clone()).ok().await.is(200);
    let more = json!({ "operations": [set("/k", "x".repeat(1_100_000))] });
    patch(&client, "a", more).ok().await.is(413);
    patch(
        &client,
        "a",
        json!({ "operations": [{ "op": "remove", "path": "/m" }] }),
    )
    .ok()
    .await
    .is(200);
    assert_eq!(client.read("p", "a").ok().await.body["n"], created.body["n"]);
}

#[tokio::test]
async fn concurrent_patches_lose_nothing() {
    let (_server, client) = server().await;
    client
        .upsert("p", json!({ "id": "a", "pk": "p", "n": 0 }))
        .ok()
        .await
        .is(201);
    let one = |by: i32| {
        let client = client.clone();
        async move {
            let operation = json!({ "op": "incr", "path": "/n", "value": by });
            for _ in 0..10 {
                patch(&client, "a", json!({ "operations": [operation] }))
                    .ok()
                    .await
                    .is(200);
                let batch =
                    json!([{ "operationType": "Patch", "id": "a", "resourceBody": { "operations": [operation] } }]);
                client.batch("p", batch).ok().await.is(200);
            }
        }
    };
    tokio::join!(one(1), one(10), one(100), one(1_000));
    assert_eq!(client.read("p", "a").ok().await.body["n"], 22_220);
}

#[tokio::test]
async fn a_batch_may_have_patches_and_fails_as_a_whole() {
    let (_server, client) = server().await;
    let created = client
        .upsert("p", json!({ "id": "a", "pk": "p", "n": 1 }))
        .ok()
        .await
        .is(201);
    let etag = created.body["_etag"].clone();
    let patching = |id: &str, body: Value| json!({ "operationType": "Patch", "id": id, "resourceBody": body });
    let incr = json!({ "operations": [{ "op": "incr", "path": "/n", "value": 1 }] });
    let create = json!({ "operationType": "Create", "resourceBody": { "id": "b", "pk": "p", "n": 5 } });
    let statuses = |body: &Value| -> Vec<u64> {
        let results = body.as_array().unwrap();
        results
            .iter()
            .map(|result| result["statusCode"].as_u64().unwrap())
            .collect()
    };

    let mut stale = patching("a", incr.clone());
    stale["ifMatch"] = json!("\"another\"");
    let unmet = patching(
        "a",
        json!({ "condition": "from c where c.n = 7", "operations": incr["operations"] }),
    );
    for (bad, status) in [(patching("missing", incr.clone()), 404), (stale, 412), (unmet, 412)] {
        let failed = client
            .batch("p", json!([create, bad, patching("a", incr.clone())]))
            .ok()
            .await
            .is(207);
        assert_eq!(statuses(&failed.body), [424, status, 424]);
    }
    assert_eq!(client.read("p", "a").ok().await.body["n"], 1);
    client.read("p", "b").ok().await.is(404);

    let mut current = patching("a", incr.clone());
    current["ifMatch"] = etag;
    // The second patch sees what the batch itself has created.
    let done = client
        .batch("p", json!([create, current, patching("b", incr.clone())]))
        .ok()
        .await
        .is(200);
    assert_eq!(statuses(&done.body), [201, 200, 200]);
    assert_eq!(done.body[1]["resourceBody"]["n"], 2);
    assert_eq!(client.read("p", "b").ok().await.body["n"], 6);
    let eleven: Vec<Value> = (0..11).map(|n| set(&format!("/p{n}"), n)).collect();
    client
        .batch("p", json!([patching("a", json!({ "operations": eleven }))]))
        .ok()
        .await
        .is(400);
}

#[tokio::test]
async fn a_patched_document_survives_a_restart_and_expires() {
    let scratch = Scratch::new();
    let (server, client) = start(&scratch).await;
    make(&client, json!({ "defaultTtl": -1 })).await;
    client
        .upsert("p", json!({ "id": "a", "pk": "p", "n": 1 }))
        .ok()
        .await
        .is(201);
    client.upsert("p", json!({ "id": "b", "pk": "p" })).ok().await.is(201);
    patch(&client, "a", json!({ "operations": [set("/n", 2)] }))
        .ok()
        .await
        .is(200);
    patch(&client, "b", json!({ "operations": [set("/ttl", 60)] }))
        .ok()
        .await
        .is(200);
    patch(&client, "b", json!({ "operations": [set("/ttl", 0)] }))
        .ok()
        .await
        .is(400);
    server.shutdown().await.unwrap();
    let (server, client) = start(&scratch).await;
    let found = all_documents(&client).await;
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(client.read("p", "a").ok().await.is(200).body["n"], 2);
    server.expire_as_if(std::time::Duration::from_secs(61)).await;
    client.read("p", "b").ok().await.is(404);
    client.read("p", "a").ok().await.is(200);
}
