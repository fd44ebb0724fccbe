//! The strict checks: what the service refuses is refused and counted.

mod common;

use std::time::Duration;

use common::{CONTAINER, Client, DOCS, NONE, Request, Response, now, server, server_with};
use cosmos_emulator::{CosmosServer, ServerOptions, TokenClaims};
use reqwest::Method;
use serde_json::{Value, json};

/// Sends a request that must be refused, and checks that it was, was counted, and wrote nothing.
async fn refused(server: &CosmosServer, request: Request<'_>, status: u16) -> Response {
    let before = server.listener().counts();
    let response = request.ok().await.is(status);
    let counted = server.listener().counts() - before;
    assert_eq!(
        (counted.requests, counted.refused, counted.documents_written),
        (1, 1, 0),
        "{response:?}"
    );
    assert!(
        response.body["code"].is_string() && !response.message().is_empty(),
        "{response:?}"
    );
    assert!(response.header("x-ms-activity-id").is_some());
    response
}

#[tokio::test]
async fn a_request_must_be_signed_with_the_key_of_the_account() {
    let (server, client) = server().await;
    let other = client.with_key("c29tZW9uZSBlbHNl");
    let wrong = refused(&server, other.read("p", "a"), 401).await;
    assert!(
        wrong.message().contains("get\\ndocs\\ndbs/db/colls/items/docs/a\\n"),
        "{}",
        wrong.message()
    );
    refused(&server, client.read("p", "a").header("authorization", NONE), 401).await;
    refused(
        &server,
        client
            .read("p", "a")
            .header("authorization", "type%3Daad%26ver%3D1.0%26sig%3Dx"),
        401,
    )
    .await;
    refused(&server, client.read("p", "a").header("authorization", "nonsense"), 401).await;
    client.get("/").ok().await.is(200);
}

/// The header of a token.
fn aad(token: &str) -> String {
    format!("type%3Daad%26ver%3D1.0%26sig%3D{token}")
}

#[tokio::test]
async fn a_token_is_accepted_from_the_accounts_issuer_for_cosmos_db_and_in_its_time_only() {
    let (server, client) = server().await;
    client.create("p", "a").ok().await.is(201);
    let read = |token: &str| client.read("p", "a").header("authorization", aad(token));
    let good = server.tokens().issue(Duration::from_secs(60));
    read(&good).ok().await.is(200);
    let plain = format!("type=aad&ver=1.0&sig={good}");
    client.read("p", "a").header("authorization", plain).ok().await.is(200);

    let now = now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let claims = |aud: &str, nbf: u64, exp: u64| TokenClaims {
        aud: aud.to_owned(),
        nbf,
        exp,
        oid: "me".to_owned(),
        jti: 1,
    };
    let ours = "https://cosmos.azure.com";
    for (claims, why) in [
        (claims("https://management.azure.com", now - 9, now + 60), "audience"),
        (claims(ours, now - 60, now - 1), "expired"),
        (claims(ours, now + 60, now + 120), "not valid yet"),
    ] {
        let response = refused(&server, read(&server.tokens().issue_with(&claims)), 401).await;
        assert!(response.message().contains(why), "{}", response.message());
    }
    let (head, _) = good.rsplit_once('.').unwrap();
    refused(&server, read(&format!("{head}.AAAA")), 401).await;
    server.tokens().revoke_all();
    refused(&server, read(&good), 401).await;
    read(&server.tokens().issue(Duration::from_secs(60))).ok().await.is(200);
}

#[tokio::test]
async fn a_token_cannot_change_databases_and_containers_and_a_disabled_key_opens_nothing() {
    let (server, client) = server().await;
    let token = aad(&server.tokens().issue(Duration::from_secs(60)));
    for request in [
        client.post("/dbs").json(json!({"id": "x"})),
        client.post("/dbs/db/colls").json(json!({"id": "x"})),
        client.request(Method::DELETE, CONTAINER),
        client.get("/offers"),
    ] {
        let response = refused(&server, request.header("authorization", &token), 403).await;
        assert_eq!(response.substatus(), Some("5300"));
    }
    client.get(CONTAINER).header("authorization", &token).ok().await.is(200);
    client.create("p", "a").ok().await.is(201);
    server.disable_key();
    let response = refused(&server, client.read("p", "a"), 401).await;
    assert_eq!(response.substatus(), Some("5202"));
    client.read("p", "a").header("authorization", &token).ok().await.is(200);
}

#[tokio::test]
async fn a_request_needs_a_current_date_and_a_version() {
    let (server, client) = server().await;
    for age in [-16, 16] {
        let minutes = Duration::from_secs(60 * i64::unsigned_abs(age));
        let then = if age < 0 { now() - minutes } else { now() + minutes };
        let request = client.read("p", "a").header("x-ms-date", httpdate::fmt_http_date(then));
        let response = refused(&server, request, 403).await;
        assert!(response.message().contains("not valid at the current time"));
    }
    let recent = httpdate::fmt_http_date(now() - Duration::from_secs(60 * 14));
    client.read("p", "a").header("x-ms-date", recent).ok().await.is(404);
    refused(&server, client.read("p", "a").without("x-ms-date"), 403).await;
    refused(&server, client.read("p", "a").without("x-ms-version"), 400).await;
}

#[tokio::test]
async fn an_id_that_no_path_can_address_is_refused_everywhere() {
    let (server, client) = server().await;
    let long = "x".repeat(1024);
    for id in ["a/b", "a\\b", "a?b", "a#b", "a ", "", "a\tb", &long] {
        refused(&server, client.create("p", id), 400).await;
        refused(&server, client.upsert("p", json!({ "id": id, "pk": "p" })), 400).await;
        let create = json!({ "operationType": "Create", "resourceBody": { "id": id, "pk": "p" } });
        refused(&server, client.batch("p", json!([create])), 400).await;
        refused(
            &server,
            client.batch("p", json!([{ "operationType": "Delete", "id": id }])),
            400,
        )
        .await;
    }
    refused(&server, client.read("p", "a/b"), 400).await;
    refused(&server, client.post(DOCS).key("p").json(json!({ "pk": "p" })), 400).await;
    refused(
        &server,
        client.post(DOCS).key("p").json(json!({ "id": 1, "pk": "p" })),
        400,
    )
    .await;
    client.create("p", &long[1..]).ok().await.is(201);
}

#[tokio::test]
async fn every_document_request_needs_a_partition_key() {
    let (server, client) = server().await;
    const KEY: &str = "x-ms-documentdb-partitionkey";
    let document = json!({ "id": "a", "pk": "p" });
    let asks = || {
        [
            client.create("p", "a"),
            client.read("p", "a"),
            client.replace("p", document.clone()),
            client.upsert("p", document.clone()),
            client.delete("p", "a"),
            client.batch("p", json!([{ "operationType": "Read", "id": "a" }])),
        ]
    };
    for request in asks() {
        refused(&server, request.without(KEY), 400).await;
    }
    for key in ["p", "\"p\"", "[]", "[\"p\",\"q\"]", "[\"é\"]", "[[\"p\"]]"] {
        for request in asks() {
            refused(&server, request.header(KEY, key), 400).await;
        }
    }
    refused(&server, client.create(&"x".repeat(2049), "a"), 400).await;
    client.create(&"x".repeat(2048), "a").ok().await.is(201);
}

#[tokio::test]
async fn a_document_must_have_the_key_of_the_header() {
    let (server, client) = server().await;
    let astray = json!({ "id": "a", "pk": "q" });
    let operation = json!({ "operationType": "Upsert", "resourceBody": astray });
    for request in [
        client.post(DOCS).key("p").json(astray.clone()),
        client.replace("p", astray.clone()),
        client.upsert("p", astray.clone()),
        client.batch("p", json!([operation])),
        client.post(DOCS).key("p").json(json!({ "id": "a" })),
    ] {
        assert_eq!(refused(&server, request, 400).await.substatus(), Some("1001"));
    }
}

#[tokio::test]
async fn a_batch_is_bounded_in_size_and_in_its_operations() {
    let (server, client) = server().await;
    let create = |n: usize| json!({ "operationType": "Create", "resourceBody": { "id": format!("d{n}"), "pk": "p" } });
    let many = |n: usize| Value::Array((0..n).map(create).collect());
    refused(&server, client.batch("p", many(101)), 400).await;
    refused(&server, client.batch("p", json!([])), 400).await;
    refused(&server, client.batch("p", json!({})), 400).await;
    for header in ["x-ms-cosmos-batch-atomic", "x-ms-cosmos-batch-continue-on-error"] {
        refused(&server, client.batch("p", many(1)).without(header), 400).await;
    }
    for operation in [
        json!({ "operationType": "Patch", "id": "a", "resourceBody": { "operations": [] } }),
        json!({ "operationType": "create", "resourceBody": { "id": "a", "pk": "p" } }),
        json!({ "operationType": "Create" }),
        json!({ "operationType": "Delete" }),
        json!({ "operationType": "Replace", "resourceBody": { "id": "a", "pk": "p" } }),
        json!({ "operationType": "Replace", "id": "b", "resourceBody": { "id": "a", "pk": "p" } }),
        json!({ "id": "a" }),
    ] {
        refused(&server, client.batch("p", json!([operation])), 400).await;
    }
    let fat =
        json!([{ "operationType": "Create", "resourceBody": { "id": "a", "pk": "p", "x": "x".repeat(2_097_152) } }]);
    refused(&server, client.batch("p", fat), 413).await;
    client.batch("p", many(100)).ok().await.is(200);
}

#[tokio::test]
async fn a_batch_without_its_header_is_refused_as_a_document() {
    let (server, client) = server().await;
    let batch = client.batch("p", json!([{ "operationType": "Read", "id": "a" }]));
    refused(&server, batch.without("x-ms-cosmos-is-batch-request"), 400).await;
}

#[tokio::test]
async fn a_document_over_two_megabytes_is_refused() {
    let (server, client) = server().await;
    let document = |size: usize| json!({ "id": "a", "pk": "p", "x": "x".repeat(size) });
    refused(&server, client.upsert("p", document(2_097_152)), 413).await;
    client.upsert("p", document(2_096_000)).ok().await.is(201);
}

#[tokio::test]
async fn a_query_needs_its_headers_and_a_target() {
    let (server, client) = server().await;
    let sql = "SELECT * FROM c";
    refused(&server, client.query(sql), 400).await;
    refused(
        &server,
        client.query(sql).key("p").header("content-type", "application/json"),
        400,
    )
    .await;
    for size in ["0", "-2", "x"] {
        refused(
            &server,
            client.query(sql).key("p").header("x-ms-max-item-count", size),
            400,
        )
        .await;
    }
    let nameless = json!({ "query": sql, "parameters": [{ "name": "x", "value": 1 }] });
    refused(&server, client.query(sql).key("p").json(nameless), 400).await;
    for request in [
        client.query(sql).key("p"),
        client.query(sql).across(),
        client.query(sql).range(0),
    ] {
        request.ok().await.is(200);
    }
}

#[tokio::test]
async fn clauses_that_need_merging_are_refused_across_partitions_and_answered_within_one() {
    let (server, client) = server().await;
    client.create("p", "a").ok().await.is(201);
    for sql in [
        "SELECT * FROM c ORDER BY c.id",
        "SELECT TOP 1 * FROM c",
        "SELECT * FROM c OFFSET 0 LIMIT 1",
        "SELECT DISTINCT c.pk FROM c",
        "SELECT DISTINCT VALUE c.pk FROM c",
        "SELECT c.pk FROM c GROUP BY c.pk",
        "SELECT VALUE COUNT(1) FROM c",
        "SELECT COUNT(1) AS n FROM c",
        "SELECT VALUE SUM(c.n) FROM c",
        "SELECT VALUE MIN(c.n) FROM c",
        "SELECT VALUE MAX(c._ts) FROM c",
        "SELECT VALUE AVG(c.n) FROM c",
    ] {
        let response = refused(&server, client.query(sql).across(), 400).await;
        assert_eq!(response.substatus(), Some("1004"), "{sql}: {response:?}");
        client.query(sql).key("p").ok().await.is(200);
        client.query(sql).range(0).ok().await.is(200);
    }
    for sql in [
        "SELECT c.top, c[\"order\"] FROM c WHERE c.count > 1",
        "SELECT * FROM c WHERE c.x = 'ORDER BY TOP 1'",
    ] {
        client.query(sql).across().ok().await.is(200);
    }
}

#[tokio::test]
async fn an_order_by_needs_an_index() {
    let policy = json!({ "indexingPolicy": {
        "includedPaths": [{ "path": "/due/?" }],
        "excludedPaths": [{ "path": "/*" }],
        "compositeIndexes": [[{ "path": "/due" }, { "path": "/name" }]],
    }});
    let (server, client) = server_with(ServerOptions::default(), policy).await;
    let excluded = refused(&server, client.query("SELECT * FROM c ORDER BY c.name").key("p"), 400).await;
    assert_eq!(
        excluded.message(),
        "The index path corresponding to the specified order-by item is excluded."
    );
    refused(
        &server,
        client.query("SELECT * FROM c ORDER BY c[\"due\"]").range(0),
        400,
    )
    .await;
    refused(
        &server,
        client.query("SELECT * FROM c ORDER BY c.due.inner").range(0),
        400,
    )
    .await;
    refused(
        &server,
        client.query("SELECT * FROM c ORDER BY c.due, c.id").key("p"),
        400,
    )
    .await;
    refused(
        &server,
        client.query("SELECT * FROM c ORDER BY c.due, c.name DESC").key("p"),
        400,
    )
    .await;
    for sql in [
        "SELECT * FROM c ORDER BY c.due",
        "SELECT * FROM c ORDER BY c._ts",
        "SELECT * FROM c ORDER BY c.due, c.name",
        "SELECT * FROM c ORDER BY c.due DESC, c.name DESC",
        "SELECT * FROM c WHERE c.name = 'filters scan'",
    ] {
        client.query(sql).key("p").ok().await.is(200);
    }
}

#[tokio::test]
async fn a_query_of_any_shape_is_answered_within_one_partition() {
    let (_server, client) = server().await;
    client
        .upsert("p", json!({ "id": "a", "pk": "p", "tags": ["x", "y"], "n": 1 }))
        .ok()
        .await
        .is(201);
    for sql in [
        "SELECT VALUE t FROM c JOIN t IN c.tags",
        "SELECT * FROM c WHERE ARRAY_CONTAINS(c.tags, 'x') AND STARTSWITH(c.id, 'a') AND IS_DEFINED(c.n)",
        "SELECT * FROM c WHERE c.pk = 'p' AND c.id IN ('a', 'b') AND c.n BETWEEN 0 AND 2",
        "SELECT c.id, c.n + 1 AS next FROM c WHERE NOT IS_NULL(c.n) ORDER BY c.n DESC OFFSET 0 LIMIT 10",
        "SELECT TOP 1 VALUE c FROM c WHERE c.pk = 'q' OR c.n >= 1",
    ] {
        client.query(sql).key("p").ok().await.is(200);
    }
    let by_parameter = json!({
        "query": "SELECT TOP @top c.id FROM c WHERE c.pk = @pk AND ARRAY_CONTAINS(@ids, c.id)",
        "parameters": [{ "name": "@top", "value": 5 }, { "name": "@pk", "value": "p" }, { "name": "@ids", "value": ["a"] }],
    });
    let found = client.query("").json(by_parameter).key("p").ok().await.is(200);
    assert_eq!(found.documents(), [json!({ "id": "a" })]);
}

#[tokio::test]
async fn unsupported_requests_are_refused_with_a_clear_message() {
    let (server, client) = server().await;
    let response = refused(&server, client.create("p", "a").header("if-none-match", "*"), 400).await;
    assert!(response.message().contains("not supported by this test server"));
}

#[tokio::test]
async fn an_invalid_container_definition_is_refused() {
    let (server, client) = server().await;
    let create = |client: &Client, body: Value| {
        let client = client.clone();
        async move { client.post("/dbs/db/colls").json(body).ok().await }
    };
    let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
    for body in [
        json!({ "id": "c" }),
        json!({ "id": "c", "partitionKey": { "paths": [] } }),
        json!({ "id": "c", "partitionKey": { "paths": ["pk"] } }),
        json!({ "partitionKey": key }),
        json!({ "id": "c/d", "partitionKey": key }),
        json!({ "id": "c", "partitionKey": key, "indexingPolicy": { "includedPaths": [{ "path": "/a/?" }] } }),
        json!({ "id": "c", "partitionKey": key, "uniqueKeyPolicy": { "uniqueKeys": [] } }),
    ] {
        create(&client, body).await.is(400);
    }
    let valid = json!({ "id": "c", "partitionKey": key });
    for (header, value) in [
        ("x-ms-offer-throughput", "300"),
        ("x-ms-offer-throughput", "450"),
        ("x-ms-cosmos-offer-autopilot-settings", "{\"maxThroughput\": 500}"),
    ] {
        refused(
            &server,
            client.post("/dbs/db/colls").json(valid.clone()).header(header, value),
            400,
        )
        .await;
    }
    let autoscaled = client.post("/dbs/db/colls").json(valid);
    autoscaled
        .header("x-ms-cosmos-offer-autopilot-settings", "{\"maxThroughput\": 1000}")
        .ok()
        .await
        .is(201);
    client.get(CONTAINER).ok().await.is(200);
}
