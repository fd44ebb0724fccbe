//! Reading one's own writes from a region that lags, against the emulator.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod support;

use std::time::Duration;

use cosmos::{CosmosClient, Error, Query, Retry};
use cosmos_emulator::{Faults, Lag, ServerOptions};
use serde_json::{Value, json};
use support::account::Account;
use support::{Scripted, answer, create, pk};

/// An account whose reads go to a region that follows after about `lag`.
async fn lagging(lag: Duration) -> Account {
    let options = ServerOptions {
        lag: Some(Lag {
            min: lag,
            max: lag * 2,
            seed: 1,
        }),
        ..ServerOptions::default()
    };
    let account = Account::start(options).await;
    account.server.catch_up().await;
    account.server.listener().set_faults(Faults {
        stale_reads: true,
        ..Faults::default()
    });
    account
}

#[tokio::test]
async fn a_client_reads_its_own_writes_from_a_lagging_region() {
    let account = lagging(Duration::from_millis(150)).await;
    let container = account.container();
    for n in 0..6 {
        // Several partitions, so that the tokens of several ranges are sent.
        let key = pk(&format!("p{n}"));
        container
            .create(&key, &json!({"id": "a", "pk": key.as_str(), "n": n}), Retry::Once)
            .await
            .unwrap();
        let found = container.read::<Value>(&key, "a").await.unwrap();
        assert_eq!(found.expect("its own write").doc["n"], n);
        let query = Query::new("SELECT VALUE c.n FROM c");
        assert_eq!(container.query::<u64>(&key, &query).await.unwrap(), [n]);
    }
    let mut all = container
        .scan::<u64>(&Query::new("SELECT VALUE c.n FROM c"))
        .await
        .unwrap();
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2, 3, 4, 5]);
    assert!(
        container.consistency_token().unwrap().contains(','),
        "several ranges were seen"
    );
    let behind = account
        .recorder
        .all()
        .iter()
        .filter(|one| one.substatus == Some(1002))
        .count();
    assert!(behind > 0, "no read met the lag, so the test shows nothing");
}

#[tokio::test]
async fn a_second_client_reads_old_data_until_it_absorbs_the_token() {
    let account = lagging(Duration::from_secs(2)).await;
    let container = account.container();
    create(&container, Retry::Once).await.unwrap();
    let second = account.second_client().container("db", "things");
    assert!(second.consistency_token().is_none());
    assert!(
        second.read::<Value>(&pk("p"), "a").await.unwrap().is_none(),
        "the region lags by seconds"
    );
    second.absorb_consistency_token("no token");
    second.absorb_consistency_token(&container.consistency_token().unwrap());
    assert!(second.read::<Value>(&pk("p"), "a").await.unwrap().is_some());
}

#[tokio::test]
async fn a_region_that_does_not_catch_up_in_time_is_a_transient_error_and_not_an_absent_document() {
    let account = lagging(Duration::from_secs(60)).await;
    let container = account.container();
    create(&container, Retry::Once).await.unwrap();
    let within = container.within(tokio::time::Instant::now() + Duration::from_secs(3));
    let error = within.read::<Value>(&pk("p"), "a").await.unwrap_err();
    assert!(
        matches!(error, Error::ReplicaBehind { .. }) && error.is_transient(),
        "{error}"
    );
}

#[tokio::test]
async fn a_token_that_no_replica_ever_reaches_is_forgotten_after_a_while() {
    // As after a forced failover that lost the newest writes: the token names writes that no replica has.
    let behind = answer(404)
        .with("x-ms-substatus", 1002)
        .with("x-ms-session-token", "0:-1#12");
    let server = Scripted::start(move |_, request| match request.header("x-ms-session-token") {
        Some(_) => behind.clone(),
        None => answer(200),
    })
    .await;
    let config = server.config().consistency_patience(Duration::from_millis(50));
    let container = CosmosClient::new(config).container("db", "things");
    container.absorb_consistency_token("0:-1#12,1:-1#3");
    assert!(container.read::<Value>(&pk("p"), "a").await.unwrap().is_some());
    assert_eq!(container.consistency_token(), None, "the lost token is forgotten");
    let seen = server.seen();
    assert!(seen.len() > 2, "it waited first: {seen:?}");
}

#[tokio::test]
async fn a_token_that_the_service_refuses_is_forgotten() {
    for status in [400, 431] {
        let server = Scripted::start(move |_, request| match request.header("x-ms-session-token") {
            Some(token) if token.contains("999") => answer(status),
            _ => answer(200).with("x-ms-session-token", "0:-1#12"),
        })
        .await;
        let container = server.container();
        container.absorb_consistency_token("0:-1#3,7:-1#999");
        for _ in 0..3 {
            assert!(container.read::<Value>(&pk("p"), "a").await.unwrap().is_some());
        }
        let seen = server.seen();
        assert_eq!(seen.len(), 4, "only the first read was repeated: {seen:?}");
        assert_eq!(seen[1].header("x-ms-session-token"), None);
        assert_eq!(
            seen[2].header("x-ms-session-token"),
            Some("0:-1#12"),
            "what the answers say counts"
        );
        assert_eq!(container.consistency_token().as_deref(), Some("0:-1#12"));
    }
}

#[tokio::test]
async fn a_request_that_is_refused_without_a_token_too_keeps_the_token() {
    let server = Scripted::playing(vec![answer(400)]).await;
    let container = server.container();
    container.absorb_consistency_token("0:-1#3");
    let error = container.read::<Value>(&pk("p"), "a").await.unwrap_err();
    assert!(matches!(error, Error::BadRequest { .. }), "{error}");
    assert_eq!(server.seen().len(), 2);
    assert_eq!(container.consistency_token().as_deref(), Some("0:-1#3"));
}

#[tokio::test]
async fn forged_tokens_neither_grow_the_header_nor_travel_on() {
    let server = Scripted::playing(vec![answer(200).with("x-ms-session-token", "3:-1#12")]).await;
    let container = server.container();
    assert!(container.read::<Value>(&pk("p"), "a").await.unwrap().is_some());
    let forged = |from: u32, to: u32| (from..to).map(|n| format!("{n}:-1#7")).collect::<Vec<_>>().join(",");
    container.absorb_consistency_token(&forged(0, 80_000));
    (0..200).for_each(|part| container.absorb_consistency_token(&forged(part * 400, (part + 1) * 400)));
    assert!(container.read::<Value>(&pk("p"), "a").await.unwrap().is_some());
    let sent = server
        .seen()
        .last()
        .unwrap()
        .header("x-ms-session-token")
        .unwrap()
        .len();
    assert!(sent <= 8_000, "{sent} bytes");
    assert_eq!(container.recent_consistency_token(2_000).as_deref(), Some("3:-1#12"));
}

#[tokio::test]
async fn a_client_reads_its_own_writes_from_before_and_after_a_split() {
    let account = lagging(Duration::from_millis(100)).await;
    let container = account.container();
    let write = async |id: &str| {
        for n in 0..20 {
            let key = pk(&format!("p{n}"));
            let doc = json!({"id": id, "pk": key.as_str()});
            container.create(&key, &doc, Retry::Once).await.unwrap();
        }
    };
    write("before").await;
    for id in account.server.partition_ids("db", "things").await {
        account.server.split_partition("db", "things", id).await;
    }
    let query = Query::new("SELECT VALUE c.id FROM c");
    assert_eq!(container.scan::<String>(&query).await.unwrap().len(), 20);
    write("after").await;
    assert_eq!(container.scan::<String>(&query).await.unwrap().len(), 40);
    for n in 0..20 {
        for id in ["before", "after"] {
            let found = container.read::<Value>(&pk(&format!("p{n}")), id).await.unwrap();
            assert!(found.is_some(), "{n} {id}");
        }
    }
}

#[tokio::test]
async fn two_handles_of_one_client_share_what_they_have_seen_and_two_containers_do_not() {
    let server = Scripted::playing(vec![answer(201).with("x-ms-session-token", "3:-1#12"), answer(200)]).await;
    let client = cosmos::CosmosClient::new(server.config());
    let (one, two) = (client.container("db", "things"), client.container("db", "things"));
    create(&one, Retry::Once).await.unwrap();
    assert_eq!(two.consistency_token().as_deref(), Some("3:-1#12"));
    assert_eq!(client.container("db", "others").consistency_token(), None);
    two.read::<Value>(&pk("p"), "a").await.unwrap();
    let seen = server.seen();
    assert_eq!(seen[0].header("x-ms-session-token"), None, "a write needs no token");
    assert_eq!(seen[1].header("x-ms-session-token"), Some("3:-1#12"));
}
