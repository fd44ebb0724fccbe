//! Faults, planned crashes, pauses and refusals, as a client sees them.

mod common;

use std::time::{Duration, Instant};

use common::{CONTAINER, Client, server};
use cosmos_emulator::{Counts, CrashPoint, Faults, Listener, Refusing, RequestKind, sequential_round_trips};
use serde_json::json;

/// Whether the store has a document, seen through a listener without faults.
async fn exists(listener: &Listener, id: &str) -> bool {
    Client::new(listener).read("p", id).ok().await.status == 200
}

#[tokio::test]
async fn a_request_lost_before_is_not_done_and_sent_only_once() {
    let (server, client) = server().await;
    let other = server.open_listener().await.unwrap();
    // The second request reuses the connection of the first: there an HTTP client might retry by itself.
    client.create("p", "first").ok().await.is(201);
    server.listener().set_faults(Faults {
        lost_before: 1.0,
        ..Faults::default()
    });
    let error = client.create("p", "a").send().await.unwrap_err();
    assert!(error.is_request() || error.is_connect(), "{error:?}");
    client.read("p", "first").send().await.unwrap_err();
    assert!(!exists(&other, "a").await);
    let counts = server.listener().counts();
    assert_eq!((counts.creates, counts.reads, counts.documents_written), (2, 1, 1));
    assert_eq!(server.listener().log()[1].status, None);
    server.listener().clear_faults();
    client.create("p", "a").ok().await.is(201);
}

#[tokio::test]
async fn a_request_lost_after_is_done_and_sent_only_once() {
    let (server, client) = server().await;
    let other = server.open_listener().await.unwrap();
    client.create("p", "first").ok().await.is(201);
    server.listener().set_faults(Faults {
        lost_after: 1.0,
        ..Faults::default()
    });
    client.create("p", "a").send().await.unwrap_err();
    let operation = json!({ "operationType": "Create", "resourceBody": { "id": "b", "pk": "p" } });
    client.batch("p", json!([operation])).send().await.unwrap_err();
    assert!(exists(&other, "a").await && exists(&other, "b").await);
    let counts = server.listener().counts();
    assert_eq!((counts.creates, counts.batches, counts.documents_written), (2, 1, 3));
    assert_eq!(server.listener().log().last().unwrap().status, None);
}

#[tokio::test]
async fn a_throttled_response_says_when_to_retry() {
    let (server, client) = server().await;
    let retry_after = Duration::from_millis(37);
    server.listener().set_faults(Faults {
        throttled: 1.0,
        retry_after,
        ..Faults::default()
    });
    let response = client.create("p", "a").ok().await.is(429);
    assert_eq!(response.header("x-ms-retry-after-ms"), Some("37"));
    assert_eq!(response.substatus(), Some("3200"));
    client.query("SELECT * FROM c").key("p").ok().await.is(429);
    server.listener().clear_faults();
    assert!(!exists(server.listener(), "a").await);
    assert_eq!(server.listener().counts().refused, 0);
}

#[tokio::test]
async fn a_request_that_gets_503_is_not_done() {
    let (server, client) = server().await;
    server.listener().set_faults(Faults {
        unavailable: 1.0,
        writes_only: true,
        ..Faults::default()
    });
    client.create("p", "a").ok().await.is(503);
    client.read("p", "a").ok().await.is(404);
}

#[tokio::test]
async fn only_document_requests_fail() {
    let (server, client) = server().await;
    server.listener().set_faults(Faults {
        lost_before: 1.0,
        ..Faults::default()
    });
    for path in ["/", "/dbs/db", CONTAINER, "/dbs/db/colls/items/pkranges"] {
        client.get(path).ok().await.is(200);
    }
    let counts = server.listener().counts();
    assert_eq!((counts.metadata, counts.pkranges), (3, 1));
}

#[tokio::test]
async fn the_same_seed_hits_the_same_requests() {
    let (server, client) = server().await;
    let mut runs = Vec::new();
    for _ in 0..2 {
        server.listener().set_faults(Faults {
            seed: 5,
            throttled: 0.5,
            ..Faults::default()
        });
        let mut statuses = Vec::new();
        for _ in 0..30 {
            statuses.push(client.read("p", "a").ok().await.status);
        }
        runs.push(statuses);
    }
    assert_eq!(runs[0], runs[1]);
    assert!(runs[0].contains(&429) && runs[0].contains(&404));
}

#[tokio::test]
async fn delayed_requests_that_are_sent_together_are_one_round_trip() {
    const DELAY: Duration = Duration::from_secs(1);
    let (server, client) = server().await;
    server.listener().set_faults(Faults {
        delay: Some(DELAY),
        ..Faults::default()
    });
    let begun = Instant::now();
    let (a, b, c) = tokio::join!(
        client.read("p", "a").send(),
        client.read("p", "b").send(),
        client.get("/").send()
    );
    assert!(a.is_ok() && b.is_ok() && c.is_ok());
    assert!(begun.elapsed() >= DELAY);
    assert_eq!(sequential_round_trips(&server.listener().log()), 1);
    client.read("p", "a").ok().await;
    assert_eq!(sequential_round_trips(&server.listener().log()), 2);
    let kinds: Vec<_> = server.listener().log().iter().map(|record| record.kind).collect();
    assert_eq!(kinds.iter().filter(|&&kind| kind == RequestKind::Read).count(), 3);
}

#[tokio::test]
async fn a_crash_before_a_write_leaves_it_unwritten_and_closes_the_listener() {
    let (server, client) = server().await;
    let other = server.open_listener().await.unwrap();
    client.create("p", "before").ok().await.is(201);
    server.listener().crash_at_write(2, CrashPoint::BeforeApplied);
    client.create("p", "a").ok().await.is(201);
    client.read("p", "a").ok().await.is(200);
    assert!(!server.listener().crashed());
    client.create("p", "b").send().await.unwrap_err();
    assert!(server.listener().crashed());
    for _ in 0..3 {
        client.read("p", "a").send().await.unwrap_err();
        Client::new(server.listener())
            .create("p", "c")
            .send()
            .await
            .unwrap_err();
    }
    assert!(exists(&other, "a").await && !exists(&other, "b").await && !exists(&other, "c").await);
    assert!(!other.crashed());
}

#[tokio::test]
async fn a_crash_after_a_write_leaves_it_written_and_closes_the_listener() {
    let (server, client) = server().await;
    let other = server.open_listener().await.unwrap();
    server.listener().set_faults(Faults {
        lost_before: 1.0,
        writes_only: true,
        limit: Some(0),
        ..Faults::default()
    });
    server.listener().crash_at_write(1, CrashPoint::AfterApplied);
    client.create("p", "a").send().await.unwrap_err();
    assert!(server.listener().crashed());
    client.read("p", "a").send().await.unwrap_err();
    assert!(exists(&other, "a").await);
    assert_eq!(server.listener().counts().documents_written, 1);
}

#[tokio::test]
async fn writes_that_arrive_after_the_crash_are_not_applied() {
    let (server, client) = server().await;
    let other = server.open_listener().await.unwrap();
    server.listener().crash_at_write(5, CrashPoint::AfterApplied);
    let mut writes = tokio::task::JoinSet::new();
    for n in 0..40 {
        let client = client.clone();
        writes.spawn(async move { client.create("p", &format!("d{n}")).send().await.is_ok() });
    }
    writes.join_all().await;
    let found = Client::new(&other)
        .query("SELECT VALUE c.id FROM c")
        .key("p")
        .ok()
        .await
        .is(200);
    assert!(found.documents().len() <= 5, "{}", found.documents().len());
    assert!(!found.documents().is_empty());
}

#[tokio::test]
async fn closing_a_listener_ends_requests_in_progress() {
    let (server, client) = server().await;
    let other = server.open_listener().await.unwrap();
    server.listener().set_faults(Faults {
        delay: Some(Duration::from_secs(30)),
        ..Faults::default()
    });
    let asked = {
        let client = client.clone();
        tokio::spawn(async move { client.create("p", "a").send().await })
    };
    while server.listener().counts().creates == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    server.listener().close();
    let cut = tokio::time::timeout(Duration::from_secs(20), asked)
        .await
        .expect("cut off at once")
        .unwrap();
    cut.unwrap_err();
    client.get("/").send().await.unwrap_err();
    assert!(!server.listener().crashed());
    assert!(!exists(&other, "a").await);
}

#[tokio::test]
async fn listeners_share_the_store_but_no_faults_and_counters() {
    let (server, client) = server().await;
    let other = server.open_listener().await.unwrap();
    server.listener().set_faults(Faults {
        throttled: 1.0,
        ..Faults::default()
    });
    Client::new(&other).create("p", "a").ok().await.is(201);
    client.read("p", "a").ok().await.is(429);
    assert_eq!(
        (server.listener().counts().reads, server.listener().counts().creates),
        (1, 0)
    );
    assert_eq!((other.counts().reads, other.counts().creates), (0, 1));
    other.reset();
    assert_eq!(other.counts(), Counts::default());
    assert!(other.log().is_empty());
    assert_ne!(other.endpoint(), server.listener().endpoint());
}

#[tokio::test]
async fn a_dropped_server_stops_listening() {
    let (server, client) = server().await;
    let listener = server.open_listener().await.unwrap();
    client.get("/").ok().await.is(200);
    drop(server);
    let error = client.get("/").send().await.unwrap_err();
    assert!(error.is_connect() || error.is_request(), "{error:?}");
    let port = listener.address();
    for _ in 0..200 {
        if tokio::net::TcpListener::bind(port).await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{port} is still taken");
}

#[tokio::test]
async fn a_paused_request_is_done_only_after_the_pause_is_dropped() {
    let (server, client) = server().await;
    let other = server.open_listener().await.unwrap();
    server.listener().reset();
    let hold = server.listener().pause_when(|log| log.len() == 1);
    client.create("p", "first").ok().await.is(201);
    let held = tokio::spawn(async move { client.create("p", "second").ok().await.status });
    while !hold.is_reached() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(exists(&other, "first").await && !exists(&other, "second").await);
    drop(hold);
    assert_eq!(held.await.unwrap(), 201);
    assert!(exists(&other, "second").await);
}

#[tokio::test]
async fn only_the_chosen_requests_are_refused() {
    let (server, client) = server().await;
    let listener = server.listener();
    listener.refuse_when(|request| {
        let chosen = request.kind.is_write() && request.partition_key.as_deref() == Some("[\"full\"]");
        chosen.then(Refusing::partition_full)
    });
    listener.crash_at_write(2, CrashPoint::BeforeApplied);
    let refused = client.create("full", "a").ok().await;
    assert_eq!(refused.status, 403);
    assert!(!exists(listener, "a").await);
    client.create("p", "a").ok().await.is(201);
    assert!(!listener.crashed(), "a refused write is none");
    listener.refuse_nothing();
    client.create("full", "a").send().await.unwrap_err();
    assert!(listener.crashed());
}

#[tokio::test]
async fn a_full_partition_takes_what_is_smaller_and_nothing_that_grows() {
    let (server, client) = server().await;
    let document = |text: &str| json!({ "id": "a", "pk": "full", "text": text });
    let operation =
        |kind: &str, text: &str| json!({ "operationType": kind, "id": "a", "resourceBody": document(text) });
    client.upsert("full", document("medium")).ok().await.is(201);
    client.create("full", "b").ok().await.is(201);
    server.listener().fill_partition("full");
    client.create("full", "c").ok().await.is(403);
    client.upsert("full", document("larger than before")).ok().await.is(403);
    client
        .replace("full", document("larger than before"))
        .ok()
        .await
        .is(403);
    let grows = json!([operation("Replace", "larger than before"), { "operationType": "Delete", "id": "b" }]);
    let refused = client.batch("full", grows).ok().await;
    assert_eq!(refused.status, 403);
    client.create("p", "c").ok().await.is(201);
    client.replace("full", document("MEDIUM")).ok().await.is(200);
    let shrinks = json!([operation("Replace", "small"), { "operationType": "Delete", "id": "b" }]);
    client.batch("full", shrinks).ok().await.is(200);
    client.delete("full", "a").ok().await.is(204);
}
