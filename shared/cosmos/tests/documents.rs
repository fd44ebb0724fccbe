//! Documents one at a time, against the emulator.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod support;

use cosmos::{
    Changed, ClientConfig, Container, CosmosClient, Error, Etag, Found, MAX_ITEM_BYTES, PageOptions, Query, Retry,
};
use cosmos_emulator::Faults;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use support::account::account;
use support::pk;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Thing {
    id: String,
    pk: String,
    n: u32,
}

fn thing(id: &str, pk: &str, n: u32) -> Thing {
    Thing {
        id: id.into(),
        pk: pk.into(),
        n,
    }
}

async fn create(container: &Container, thing: Thing, retry: Retry) -> Result<Etag, Error> {
    container.create(&pk(&thing.pk), &thing, retry).await
}

/// The next request is applied, and its answer is lost.
fn lost_after() -> Faults {
    Faults {
        lost_after: 1.0,
        limit: Some(1),
        ..Faults::default()
    }
}

#[tokio::test]
async fn a_document_lives_from_create_to_delete_with_an_etag_for_each_version() {
    let account = account().await;
    let container = account.container();
    let key = pk("p");
    let first = create(&container, thing("a", "p", 1), Retry::Once).await.unwrap();
    let found = container.read::<Thing>(&key, "a").await.unwrap().unwrap();
    assert_eq!((found.doc, &found.etag), (thing("a", "p", 1), &first));

    let second = container
        .replace(&key, "a", &thing("a", "p", 2), Some(&first), Retry::Once)
        .await
        .unwrap();
    assert_ne!(first, second);
    let stale = container
        .replace(&key, "a", &thing("a", "p", 3), Some(&first), Retry::Once)
        .await
        .unwrap_err();
    assert!(stale.is_precondition_failed() && !stale.after_ambiguity(), "{stale}");
    let stale = container
        .delete(&key, "a", Some(&first), Retry::Once)
        .await
        .unwrap_err();
    assert!(stale.is_precondition_failed(), "{stale}");

    assert_eq!(container.read::<Thing>(&key, "a").await.unwrap().unwrap().doc.n, 2);

    container.delete(&key, "a", Some(&second), Retry::Once).await.unwrap();
    assert_eq!(container.read::<Thing>(&key, "a").await.unwrap(), None);
    let gone = container.delete(&key, "a", None, Retry::Once).await.unwrap_err();
    assert!(gone.is_not_found(), "{gone}");
    let gone = container
        .replace(&key, "a", &thing("a", "p", 6), None, Retry::Once)
        .await
        .unwrap_err();
    assert!(gone.is_not_found(), "{gone}");
}

#[tokio::test]
async fn the_same_id_conflicts_within_a_partition_only() {
    let account = account().await;
    let container = account.container();
    create(&container, thing("a", "p", 1), Retry::Once).await.unwrap();
    let error = create(&container, thing("a", "p", 2), Retry::Once).await.unwrap_err();
    assert!(
        error.is_conflict() && !error.after_ambiguity() && !error.is_transient(),
        "{error}"
    );
    create(&container, thing("a", "q", 3), Retry::Once).await.unwrap();
    assert_eq!(container.read::<Thing>(&pk("p"), "a").await.unwrap().unwrap().doc.n, 1);
}

#[tokio::test]
async fn any_partition_key_within_the_limit_can_be_written_and_read() {
    let account = account().await;
    let container = account.container();
    for value in [
        "plain",
        "quo\"te",
        "back\\slash",
        "tab\tline\n",
        "日本",
        "🦀",
        "a/b?c#d%20",
        &"x".repeat(2_048),
    ] {
        create(&container, thing("a", value, 1), Retry::Once).await.unwrap();
        assert_eq!(
            container.read::<Thing>(&pk(value), "a").await.unwrap().unwrap().doc.pk,
            value
        );
        let query = Query::new("SELECT VALUE c.pk FROM c");
        assert_eq!(container.query::<String>(&pk(value), &query).await.unwrap(), [value]);
    }
}

#[tokio::test]
async fn a_document_over_the_limit_is_refused_and_nothing_is_sent() {
    let account = account().await;
    let container = account.container();
    let before = account.server.listener().counts().requests;
    let big = json!({"id": "big", "pk": "p", "x": "x".repeat(MAX_ITEM_BYTES)});
    for result in [
        container.create(&pk("p"), &big, Retry::Once).await,
        container.replace(&pk("p"), "big", &big, None, Retry::Once).await,
    ] {
        let error = result.unwrap_err();
        assert!(
            matches!(&error, Error::ItemTooLarge { id, limit: MAX_ITEM_BYTES, .. } if id == "big"),
            "{error}"
        );
    }
    assert_eq!(account.server.listener().counts().requests, before);
}

#[tokio::test]
async fn a_query_of_one_partition_has_pages_that_continue() {
    let account = account().await;
    let container = account.container();
    let key = pk("p");
    for n in 0..7 {
        create(&container, thing(&format!("a{n}"), "p", n), Retry::Once)
            .await
            .unwrap();
        create(&container, thing(&format!("a{n}"), "q", 100 + n), Retry::Once)
            .await
            .unwrap();
    }
    let query = Query::new("SELECT VALUE c.n FROM c WHERE c.n >= @least ORDER BY c.n DESC").param("@least", 2);
    let mut options = PageOptions {
        max_items: Some(2),
        continuation: None,
    };
    let mut pages = Vec::new();
    loop {
        let page = container.query_page::<u32>(&key, &query, &options).await.unwrap();
        pages.push(page.items);
        options.continuation = page.continuation;
        if options.continuation.is_none() {
            break;
        }
    }
    assert_eq!(pages, [vec![6, 5], vec![4, 3], vec![2]]);
    assert_eq!(container.query::<u32>(&key, &query).await.unwrap(), [6, 5, 4, 3, 2]);
    let count = container
        .query::<u32>(&key, &Query::new("SELECT VALUE COUNT(1) FROM c"))
        .await
        .unwrap();
    assert_eq!(count, [7]);
}

#[tokio::test]
async fn a_query_collects_more_items_than_one_page_holds() {
    let account = account().await;
    let container = account.container();
    for n in 0..12 {
        let doc = json!({"id": format!("a{n}"), "pk": "p", "n": n, "x": "x".repeat(600_000)});
        container.create(&pk("p"), &doc, Retry::Once).await.unwrap();
    }
    let before = account.server.listener().counts().queries;
    let all = container
        .query::<Value>(&pk("p"), &Query::new("SELECT * FROM c"))
        .await
        .unwrap();
    assert_eq!(all.len(), 12);
    assert!(
        account.server.listener().counts().queries - before >= 2,
        "7 MB do not fit a page of 4 MB"
    );
}

#[tokio::test]
async fn a_lost_answer_of_an_idempotent_create_comes_back_as_a_conflict_that_may_be_its_own() {
    let account = account().await;
    let container = account.container();
    account.server.listener().set_faults(lost_after());
    let error = create(&container, thing("a", "p", 1), Retry::Idempotent)
        .await
        .unwrap_err();
    assert!(error.is_conflict() && error.after_ambiguity(), "{error}");
    assert_eq!(container.read::<Thing>(&pk("p"), "a").await.unwrap().unwrap().doc.n, 1);

    let etag = container.read::<Thing>(&pk("p"), "a").await.unwrap().unwrap().etag;
    account.server.listener().set_faults(lost_after());
    let result = container
        .replace(&pk("p"), "a", &thing("a", "p", 2), Some(&etag), Retry::Idempotent)
        .await;
    let error = result.unwrap_err();
    assert!(error.is_precondition_failed() && error.after_ambiguity(), "{error}");

    account.server.listener().set_faults(lost_after());
    let error = container
        .delete(&pk("p"), "a", None, Retry::Idempotent)
        .await
        .unwrap_err();
    assert!(error.is_not_found() && error.after_ambiguity(), "{error}");
}

#[tokio::test]
async fn a_lost_answer_is_ambiguous_for_a_write_that_was_declared_once() {
    let account = account().await;
    let container = account.container();
    for (faults, written) in [
        (lost_after(), true),
        (
            Faults {
                lost_before: 1.0,
                limit: Some(1),
                ..Faults::default()
            },
            false,
        ),
    ] {
        let id = format!("written-{written}");
        account.server.listener().set_faults(faults);
        let error = create(&container, thing(&id, "p", 1), Retry::Once).await.unwrap_err();
        assert!(
            matches!(error, Error::Ambiguous { .. }) && error.is_transient(),
            "{error}"
        );
        assert_eq!(container.read::<Thing>(&pk("p"), &id).await.unwrap().is_some(), written);
    }
}

#[tokio::test]
async fn a_request_lost_before_it_was_applied_is_repeated_when_idempotent() {
    let account = account().await;
    account.server.listener().set_faults(Faults {
        lost_before: 1.0,
        limit: Some(3),
        ..Faults::default()
    });
    create(&account.container(), thing("a", "p", 1), Retry::Idempotent)
        .await
        .unwrap();
    assert_eq!(account.server.listener().counts().creates, 4);
}

#[tokio::test]
async fn throttled_requests_wait_as_long_as_the_service_says() {
    let account = account().await;
    let container = account.container();
    let retry_after = std::time::Duration::from_millis(80);
    account.server.listener().set_faults(Faults {
        throttled: 1.0,
        retry_after,
        limit: Some(3),
        ..Faults::default()
    });
    let started = std::time::Instant::now();
    create(&container, thing("a", "p", 1), Retry::Once).await.unwrap();
    assert!(started.elapsed() >= retry_after * 3, "{:?}", started.elapsed());
    assert_eq!(account.server.listener().counts().creates, 4);
}

#[tokio::test]
async fn a_read_from_a_closed_listener_ends_by_the_deadline() {
    let account = account().await;
    let container = account.container();
    account.server.listener().close();
    let started = std::time::Instant::now();
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_millis(300);
    let error = container
        .within(deadline)
        .read::<Value>(&pk("p"), "a")
        .await
        .unwrap_err();
    assert!(error.is_transient(), "{error}");
    assert!(started.elapsed() < std::time::Duration::from_secs(20));
}

#[tokio::test]
async fn an_etag_that_no_header_can_carry_is_refused_before_sending() {
    let account = account().await;
    let result = account
        .container()
        .delete(&pk("p"), "a", Some(&Etag::new("line\nbreak")), Retry::Once)
        .await;
    assert!(
        matches!(result, Err(Error::InvalidHeader { ref name }) if name == "if-match"),
        "{result:?}"
    );
}

#[test]
fn operations_can_be_spawned() {
    fn sendable<T: Send>(_: T) {}
    async fn all(container: Container) -> Result<(), Error> {
        let (key, query) = (pk("p"), Query::new("SELECT * FROM c"));
        container.read::<Thing>(&key, "a").await?;
        container.batch(&key, &cosmos::Batch::new(), Retry::Once).await?;
        container.query::<Thing>(&key, &query).await?;
        container.sweep(&query, 1, None, |thing: &Thing| thing.n).await?;
        container.scan::<Thing>(&query).await?;
        container.first(&query, 1, |thing: &Thing| thing.n).await?;
        Ok(())
    }
    let container = CosmosClient::new(ClientConfig::new("https://localhost", support::key()).unwrap());
    sendable(all(container.container("db", "things")));
}

#[tokio::test]
async fn a_document_is_read_again_only_when_it_has_changed() {
    let account = account().await;
    let container = account.container();
    let key = pk("p");
    let first = create(&container, thing("a", "p", 1), Retry::Once).await.unwrap();
    let read = |seen: Etag| {
        let (container, key) = (container.clone(), key.clone());
        async move { container.read_if_changed::<Thing>(&key, "a", &seen).await.unwrap() }
    };
    assert_eq!(read(first.clone()).await, Changed::Unchanged);
    let next = thing("a", "p", 2);
    let second = container.replace(&key, "a", &next, None, Retry::Once).await.unwrap();
    let newer = Changed::Newer(Found {
        doc: next,
        etag: second.clone(),
    });
    assert_eq!(read(first).await, newer);
    container.delete(&key, "a", None, Retry::Once).await.unwrap();
    assert_eq!(read(second).await, Changed::Missing);
}
