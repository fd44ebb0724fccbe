//! Creating databases and containers, against the emulator.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod support;

use cosmos::{ContainerSpec, CosmosClient, Ensured, Error, IndexingPolicy, Order, Query, Retry, Throughput};
use cosmos_emulator::{CosmosServer, ServerOptions};
use serde_json::{Value, json};
use support::account::{account, config, spec};
use support::{Scripted, answer, pk};

#[tokio::test]
async fn the_second_bootstrap_finds_what_the_first_created() {
    let server = CosmosServer::start(ServerOptions::default()).await.unwrap();
    let client = CosmosClient::new(config(&server));
    assert!(client.read_container("db", "things").await.unwrap().is_none());
    assert_eq!(
        client
            .ensure_database("db", Some(&Throughput::Manual(400)))
            .await
            .unwrap(),
        Ensured::Created
    );
    assert_eq!(client.ensure_database("db", None).await.unwrap(), Ensured::Existed);
    assert_eq!(
        client.ensure_container("db", &spec("/pk")).await.unwrap(),
        Ensured::Created
    );
    assert_eq!(
        client.ensure_container("db", &spec("/pk")).await.unwrap(),
        Ensured::Existed
    );
    let found = client.read_container("db", "things").await.unwrap().unwrap();
    assert_eq!(
        (found.name.as_str(), found.partition_key_paths),
        ("things", vec!["/pk".to_owned()])
    );
    assert_eq!(found.default_ttl, Some(-1));
}

#[tokio::test]
async fn the_index_policy_reaches_the_service() {
    let server = CosmosServer::start(ServerOptions::default()).await.unwrap();
    let client = CosmosClient::new(config(&server));
    client.ensure_database("db", None).await.unwrap();
    let composite = vec![vec![
        ("/a".to_owned(), Order::Ascending),
        ("/b".to_owned(), Order::Descending),
    ]];
    let indexing = IndexingPolicy {
        included: vec!["/a/?".into(), "/b/?".into()],
        excluded: vec!["/*".into()],
        composite,
    };
    let spec = ContainerSpec {
        indexing: indexing.clone(),
        throughput: Throughput::Serverless,
        ..spec("/pk")
    };
    client.ensure_container("db", &spec).await.unwrap();
    let found = client.read_container("db", "things").await.unwrap().unwrap();
    assert_eq!(found.indexing.included, indexing.included);
    assert_eq!(found.indexing.composite, indexing.composite);
    assert!(found.indexing.excluded.contains(&"/*".to_owned()));
}

#[tokio::test]
async fn a_container_with_another_partition_key_is_refused_with_both_named() {
    let account = account().await;
    let error = account
        .client
        .ensure_container("db", &spec("/instance"))
        .await
        .unwrap_err();
    assert!(
        matches!(error, Error::ContainerMismatch { .. }) && !error.is_transient(),
        "{error}"
    );
    let message = error.to_string();
    for part in [
        "`/pk`",
        "`/instance`",
        "db/things",
        "delete it or choose another container name",
    ] {
        assert!(message.contains(part), "{part} in {message}");
    }
}

#[tokio::test]
async fn other_differences_are_left_as_they_are() {
    let account = account().await;
    let other = ContainerSpec {
        default_ttl: None,
        ..spec("/pk")
    };
    assert_eq!(
        account.client.ensure_container("db", &other).await.unwrap(),
        Ensured::Existed
    );
    let found = account.client.read_container("db", "things").await.unwrap().unwrap();
    assert_eq!(found.default_ttl, Some(-1));
}

#[tokio::test]
async fn a_missing_container_is_not_reported_as_a_missing_document() {
    let account = account().await;
    let missing = account.client.container("db", "elsewhere");
    let query = Query::new("SELECT * FROM c");
    let mut batch = cosmos::Batch::new();
    batch.create("a", &json!({"id": "a", "pk": "p"})).unwrap();
    for error in [
        missing
            .create(&pk("p"), &json!({"id": "a", "pk": "p"}), Retry::Once)
            .await
            .unwrap_err(),
        missing.query::<Value>(&pk("p"), &query).await.unwrap_err(),
        missing.scan::<Value>(&query).await.unwrap_err(),
        missing.batch(&pk("p"), &batch, Retry::Once).await.unwrap_err(),
        account
            .client
            .ensure_container("nowhere", &spec("/pk"))
            .await
            .unwrap_err(),
    ] {
        assert!(
            matches!(error, Error::ContainerMissing { .. }) && !error.is_not_found(),
            "{error}"
        );
        assert!(error.to_string().contains("bootstrap"), "{error}");
    }
}

#[tokio::test]
async fn the_substatus_distinguishes_a_missing_container_from_a_missing_document() {
    let server = Scripted::playing(vec![answer(404).with("x-ms-substatus", 1003), answer(404)]).await;
    let error = server.container().read::<Value>(&pk("p"), "a").await.unwrap_err();
    assert!(matches!(error, Error::ContainerMissing { .. }), "{error}");
    assert!(server.container().read::<Value>(&pk("p"), "a").await.unwrap().is_none());
}

#[tokio::test]
async fn the_throughput_is_sent_in_the_headers_of_the_service() {
    let server = Scripted::playing(vec![answer(201)]).await;
    let client = CosmosClient::new(server.config());
    for throughput in [
        Throughput::Serverless,
        Throughput::Manual(400),
        Throughput::Autoscale(4_000),
    ] {
        client
            .ensure_container(
                "db",
                &ContainerSpec {
                    throughput,
                    ..spec("/pk")
                },
            )
            .await
            .unwrap();
    }
    let sent: Vec<_> = server
        .seen()
        .iter()
        .map(|seen| {
            let text = |name| seen.header(name).map(str::to_owned);
            (
                text("x-ms-offer-throughput"),
                text("x-ms-cosmos-offer-autopilot-settings"),
            )
        })
        .collect();
    let autoscale = Some(r#"{"maxThroughput":4000}"#.to_owned());
    assert_eq!(sent, [(None, None), (Some("400".to_owned()), None), (None, autoscale)]);
}
