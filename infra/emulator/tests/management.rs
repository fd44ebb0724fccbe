//! The account, databases and containers.

mod common;

use common::{CONTAINER, Client, server, server_with};
use cosmos_emulator::{CosmosServer, ServerOptions, StartError};
use reqwest::Method;
use serde_json::json;

#[tokio::test]
async fn the_account_names_the_endpoint_of_the_request() {
    let (server, _) = server().await;
    let other = server.open_listener().await.unwrap();
    for listener in [server.listener(), &other] {
        let account = Client::new(listener).get("/").ok().await.is(200).body;
        let endpoint = format!("{}/", listener.endpoint());
        assert_eq!(account["writableLocations"][0]["databaseAccountEndpoint"], endpoint);
        assert_eq!(account["readableLocations"][0]["databaseAccountEndpoint"], endpoint);
        assert_eq!(account["readableLocations"].as_array().unwrap().len(), 1);
        assert_eq!(account["userConsistencyPolicy"]["defaultConsistencyLevel"], "Session");
    }
}

#[tokio::test]
async fn existing_databases_and_containers_cannot_be_created_again() {
    let (_server, client) = server().await;
    client.post("/dbs").json(json!({ "id": "db" })).ok().await.is(409);
    let definition = json!({ "id": "items", "partitionKey": { "paths": ["/pk"], "kind": "Hash" } });
    client.post("/dbs/db/colls").json(definition.clone()).ok().await.is(409);
    client.post("/dbs/missing/colls").json(definition).ok().await.is(404);
}

#[tokio::test]
async fn one_of_many_concurrent_creates_of_a_container_succeeds() {
    let (_server, client) = server().await;
    let mut creates = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let client = client.clone();
        let definition = json!({ "id": "new", "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 } });
        creates.spawn(async move { client.post("/dbs/db/colls").json(definition).ok().await.status });
    }
    let statuses = creates.join_all().await;
    assert_eq!(statuses.iter().filter(|&&status| status == 201).count(), 1);
    assert_eq!(statuses.iter().filter(|&&status| status == 409).count(), 9);
}

#[tokio::test]
async fn a_container_is_read_as_it_was_defined() {
    let policy = json!({
        "indexingMode": "consistent",
        "automatic": true,
        "includedPaths": [{ "path": "/due/?" }],
        "excludedPaths": [{ "path": "/*" }],
    });
    let properties = json!({ "indexingPolicy": policy, "defaultTtl": -1 });
    let options = ServerOptions {
        partitions: 3,
        ..ServerOptions::default()
    };
    let (server, client) = server_with(options, properties).await;
    let read = client.get(CONTAINER).ok().await.is(200);
    assert_eq!(read.body["indexingPolicy"], policy);
    assert_eq!(read.body["defaultTtl"], -1);
    assert_eq!(
        read.body["partitionKey"],
        json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 })
    );
    assert_eq!(read.header("etag"), read.body["_etag"].as_str());
    assert_eq!(server.partition_ids("db", "items").await.len(), 3);
}

#[tokio::test]
async fn creating_a_container_returns_its_definition() {
    let (_server, client) = server().await;
    let definition = json!({ "id": "new one", "partitionKey": { "paths": ["/a/b"], "kind": "Hash", "version": 2 }, "defaultTtl": 60 });
    let request = client
        .post("/dbs/db/colls")
        .json(definition)
        .header("x-ms-offer-throughput", "400");
    let created = request.ok().await.is(201);
    assert_eq!(
        (&created.body["id"], &created.body["defaultTtl"]),
        (&json!("new one"), &json!(60))
    );
    assert!(created.body["indexingPolicy"].is_object());
    let document = json!({ "id": "x", "a": { "b": "p" } });
    client
        .post("/dbs/db/colls/new%20one/docs")
        .key("p")
        .json(document.clone())
        .ok()
        .await
        .is(201);
    client
        .post("/dbs/db/colls/new%20one/docs")
        .key("q")
        .json(document)
        .ok()
        .await
        .is(400);
}

#[tokio::test]
async fn a_changed_definition_applies_at_once() {
    let (_server, client) = server().await;
    let ordered = || client.query("SELECT * FROM c ORDER BY c.due").key("p");
    ordered().ok().await.is(200);
    let definition = json!({
        "id": "items",
        "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 },
        "indexingPolicy": { "excludedPaths": [{ "path": "/*" }] },
    });
    client
        .request(Method::PUT, CONTAINER)
        .json(definition)
        .ok()
        .await
        .is(200);
    ordered().ok().await.is(400);
    client.request(Method::DELETE, CONTAINER).ok().await.is(204);
    ordered().ok().await.is(404);
    client.create("p", "a").ok().await.is(404);
}

#[tokio::test]
async fn a_port_in_use_is_reported() {
    let (server, _) = server().await;
    let port = server.listener().address().port();
    let error = CosmosServer::start(ServerOptions {
        port,
        ..ServerOptions::default()
    })
    .await
    .err()
    .unwrap();
    assert!(matches!(error, StartError::Listen { address, .. } if address.port() == port));
    assert!(error.to_string().contains(&format!("127.0.0.1:{port}")));
    let error = CosmosServer::start(ServerOptions {
        key: "%".to_owned(),
        ..ServerOptions::default()
    })
    .await
    .err();
    assert!(matches!(error, Some(StartError::Key(_))));
}
