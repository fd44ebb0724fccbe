//! Documents: create, read, replace, delete, batches and queries.

mod common;

use common::{DOCS, server};
use cosmos_emulator::Counts;
use serde_json::json;

#[tokio::test]
async fn a_document_is_created_read_replaced_and_deleted() {
    let (server, client) = server().await;
    let created = client.create("p", "a").ok().await.is(201);
    let etag = created.header("etag").unwrap().to_owned();
    for header in ["x-ms-request-charge", "x-ms-session-token", "x-ms-activity-id"] {
        assert!(created.header(header).is_some(), "{header}");
    }
    assert_eq!(created.body["_etag"], json!(etag));
    client.create("p", "a").ok().await.is(409);

    let replaced = client
        .replace("p", json!({ "id": "a", "pk": "p", "n": 1 }))
        .header("if-match", &etag)
        .ok()
        .await
        .is(200);
    client
        .replace("p", json!({ "id": "a", "pk": "p", "n": 2 }))
        .header("if-match", &etag)
        .ok()
        .await
        .is(412);
    let read = client.read("p", "a").ok().await.is(200);
    assert_eq!(read.body["n"], 1);
    assert_eq!(read.header("etag"), replaced.header("etag"));

    client.delete("p", "a").header("if-match", &etag).ok().await.is(412);
    client.delete("p", "a").ok().await.is(204);
    client.read("p", "a").ok().await.is(404);

    let counts = server.listener().counts();
    assert_eq!(
        Counts {
            charge_hundredths: 0,
            request_bytes: 0,
            response_bytes: 0,
            ..counts.clone()
        },
        Counts {
            requests: 8,
            creates: 2,
            replaces: 2,
            reads: 2,
            deletes: 2,
            documents_written: 3,
            ..Counts::default()
        }
    );
    assert!(counts.request_bytes > 0 && counts.response_bytes > 0);
}

#[tokio::test]
async fn a_batch_is_all_or_nothing() {
    let (server, client) = server().await;
    let create = |id: &str| json!({ "operationType": "Create", "id": id, "resourceBody": { "id": id, "pk": "p" } });
    let done = client
        .batch(
            "p",
            json!([create("a"), create("b"), { "operationType": "Read", "id": "a" }]),
        )
        .ok()
        .await
        .is(200);
    assert_eq!(done.body.as_array().unwrap().len(), 3);
    assert!(done.body[0]["eTag"].is_string());

    let failed = client.batch("p", json!([create("c"), create("a")])).ok().await.is(207);
    assert_eq!(
        (&failed.body[0]["statusCode"], &failed.body[1]["statusCode"]),
        (&json!(424), &json!(409))
    );
    client.read("p", "c").ok().await.is(404);

    let counts = server.listener().counts();
    assert_eq!(
        (counts.batches, counts.batch_operations, counts.documents_written),
        (2, 5, 2)
    );
    assert_eq!(server.listener().log()[0].operations, 3);
}

#[tokio::test]
async fn a_query_of_one_partition_sees_only_that_partition() {
    let (server, client) = server().await;
    for (pk, id) in [("p", "a"), ("p", "b"), ("q", "c")] {
        client.create(pk, id).ok().await.is(201);
    }
    let found = client
        .query("SELECT c.id FROM c ORDER BY c.id DESC")
        .key("p")
        .ok()
        .await
        .is(200);
    assert_eq!(found.documents(), [json!({ "id": "b" }), json!({ "id": "a" })]);
    let by_parameter = client
        .query("")
        .json(json!({ "query": "SELECT VALUE c.id FROM c WHERE c.id = @id", "parameters": [{ "name": "@id", "value": "a" }] }))
        .key("p")
        .ok()
        .await
        .is(200);
    assert_eq!(by_parameter.documents(), [json!("a")]);
    assert_eq!(server.listener().counts().queries, 2);
    assert_eq!(
        server.listener().log().last().unwrap().partition_key.as_deref(),
        Some("[\"p\"]")
    );
}

#[tokio::test]
async fn if_match_star_requires_only_that_the_document_exists() {
    let (_server, client) = server().await;
    let document = json!({ "id": "a", "pk": "p", "n": 1 });
    client
        .replace("p", document.clone())
        .header("if-match", "*")
        .ok()
        .await
        .is(404);
    client.create("p", "a").ok().await.is(201);
    client
        .replace("p", document.clone())
        .header("if-match", "*")
        .ok()
        .await
        .is(200);
    client
        .upsert("p", document.clone())
        .header("if-match", "*")
        .ok()
        .await
        .is(200);
    let operation = json!({ "operationType": "Replace", "id": "a", "resourceBody": document, "ifMatch": "*" });
    client.batch("p", json!([operation])).ok().await.is(200);
    client.delete("p", "a").header("if-match", "*").ok().await.is(204);
    client.delete("p", "a").header("if-match", "*").ok().await.is(404);
}

#[tokio::test]
async fn an_upsert_with_a_condition_never_creates() {
    let (_server, client) = server().await;
    let document = json!({ "id": "a", "pk": "p" });
    client
        .upsert("p", document.clone())
        .header("if-match", "\"x\"")
        .ok()
        .await
        .is(412);
    client
        .upsert("p", document.clone())
        .header("if-match", "*")
        .ok()
        .await
        .is(412);
    let operation = json!({ "operationType": "Upsert", "resourceBody": document, "ifMatch": "\"x\"" });
    let failed = client.batch("p", json!([operation])).ok().await.is(207);
    assert_eq!(failed.body[0]["statusCode"], 412);
    client.read("p", "a").ok().await.is(404);

    let created = client.upsert("p", document.clone()).ok().await.is(201);
    let etag = created.header("etag").unwrap();
    let updated = client
        .upsert("p", document.clone())
        .header("if-match", etag)
        .ok()
        .await
        .is(200);
    client.upsert("p", document).header("if-match", etag).ok().await.is(412);
    assert_ne!(updated.header("etag"), Some(etag));
}

#[tokio::test]
async fn a_percent_sign_in_an_id_is_escaped_in_the_path_and_plain_in_the_signature() {
    let (_server, client) = server().await;
    client.create("p", "100%-a b").ok().await.is(201);
    assert_eq!(client.read("p", "100%-a b").ok().await.is(200).body["id"], "100%-a b");
}

#[tokio::test]
async fn a_trailing_slash_is_ignored() {
    let (_server, client) = server().await;
    client.create("p", "a").ok().await.is(201);
    client.get(&format!("{DOCS}/a/")).key("p").ok().await.is(200);
}
