//! Transactional batches, against the emulator.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod support;

use cosmos::{Batch, Container, Error, Etag, MAX_BATCH_OPERATIONS, MAX_REQUEST_BYTES, Retry};
use cosmos_emulator::Faults;
use serde_json::{Value, json};
use support::account::account;
use support::pk;

fn doc(id: &str, n: u32) -> Value {
    json!({"id": id, "pk": "p", "n": n})
}

async fn n_of(container: &Container, id: &str) -> Option<u64> {
    container
        .read::<Value>(&pk("p"), id)
        .await
        .unwrap()
        .and_then(|found| found.doc["n"].as_u64())
}

#[tokio::test]
async fn all_kinds_of_operations_are_applied_together() {
    let account = account().await;
    let container = account.container();
    let replaced = container
        .create(&pk("p"), &doc("replaced", 1), Retry::Once)
        .await
        .unwrap();
    let deleted = container
        .create(&pk("p"), &doc("deleted", 1), Retry::Once)
        .await
        .unwrap();
    let mut batch = Batch::new();
    batch.create("created", &doc("created", 2)).unwrap();
    batch.upsert("upserted", &doc("upserted", 3)).unwrap();
    batch
        .replace("replaced", &doc("replaced", 4), Some(replaced.clone()))
        .unwrap();
    batch.delete("deleted", Some(deleted)).unwrap();
    let results = container.batch(&pk("p"), &batch, Retry::Once).await.unwrap();
    let statuses: Vec<u16> = results.iter().map(|result| result.status).collect();
    assert_eq!(statuses, [201, 201, 200, 204]);
    let etag = results[2].etag.clone().unwrap();
    assert_ne!(etag, replaced);
    assert_eq!(
        container
            .read::<Value>(&pk("p"), "replaced")
            .await
            .unwrap()
            .unwrap()
            .etag,
        etag
    );
    assert_eq!(n_of(&container, "created").await, Some(2));
    assert_eq!(n_of(&container, "upserted").await, Some(3));
    assert_eq!(n_of(&container, "deleted").await, None);
}

#[tokio::test]
async fn one_failing_operation_undoes_the_batch_and_is_named() {
    let account = account().await;
    let container = account.container();
    container.create(&pk("p"), &doc("there", 1), Retry::Once).await.unwrap();
    let stale = Etag::new("\"not-its-etag\"");
    type Means = fn(&Error) -> bool;
    let cases: [(&str, Means); 3] = [
        ("conflict", Error::is_conflict),
        ("changed", Error::is_precondition_failed),
        ("missing", Error::is_not_found),
    ];
    for (case, expected) in cases {
        let mut batch = Batch::new();
        batch.create("new", &doc("new", 1)).unwrap();
        match case {
            "conflict" => batch.create("there", &doc("there", 2)).unwrap(),
            "changed" => batch.replace("there", &doc("there", 2), Some(stale.clone())).unwrap(),
            _ => batch.delete("absent", None).unwrap(),
        };
        batch.upsert("last", &doc("last", 1)).unwrap();
        let error = container.batch(&pk("p"), &batch, Retry::Idempotent).await.unwrap_err();
        assert!(expected(&error), "{case}: {error}");
        assert_eq!(error.batch_index(), Some(1), "{case}: {error}");
        assert!(!error.is_transient() && !error.after_ambiguity(), "{case}: {error}");
        let message = error.to_string();
        assert!(message.contains("`p`") && message.contains("operation 1"), "{message}");
        assert!(
            message.contains(if case == "missing" { "`absent`" } else { "`there`" }),
            "{message}"
        );
        assert_eq!(n_of(&container, "new").await, None, "{case}");
        assert_eq!(n_of(&container, "last").await, None, "{case}");
        assert_eq!(n_of(&container, "there").await, Some(1), "{case}");
    }
}

#[tokio::test]
async fn a_batch_over_the_limits_is_refused_and_nothing_is_sent() {
    let account = account().await;
    let container = account.container();
    let mut many = Batch::new();
    for n in 0..=MAX_BATCH_OPERATIONS {
        many.upsert("a", &doc(&format!("a{n}"), 1)).unwrap();
    }
    let mut large = Batch::new();
    while large.bytes() <= MAX_REQUEST_BYTES {
        large
            .upsert(
                "a",
                &json!({"id": format!("a{}", large.len()), "pk": "p", "x": "x".repeat(300_000)}),
            )
            .unwrap();
    }
    let before = account.server.listener().counts().requests;
    for batch in [many, large] {
        let error = container.batch(&pk("p"), &batch, Retry::Once).await.unwrap_err();
        let Error::BatchTooLarge { operations, bytes, .. } = error else {
            panic!("{error}")
        };
        assert_eq!((operations, bytes), (batch.len(), batch.bytes()));
    }
    assert_eq!(account.server.listener().counts().requests, before);
}

#[tokio::test]
async fn a_batch_of_exactly_the_limits_is_accepted() {
    let account = account().await;
    let container = account.container();
    let mut many = Batch::new();
    for n in 0..MAX_BATCH_OPERATIONS {
        many.create("a", &doc(&format!("a{n}"), 1)).unwrap();
    }
    assert_eq!(container.batch(&pk("p"), &many, Retry::Once).await.unwrap().len(), 100);
    let frame = {
        let mut empty = Batch::new();
        empty
            .create("b", &json!({"id": "b", "pk": "p", "x": ""}))
            .unwrap()
            .bytes()
    };
    let mut large = Batch::new();
    large
        .create(
            "b",
            &json!({"id": "b", "pk": "p", "x": "x".repeat(MAX_REQUEST_BYTES - frame)}),
        )
        .unwrap();
    assert_eq!(large.bytes(), MAX_REQUEST_BYTES);
    container.batch(&pk("p"), &large, Retry::Once).await.unwrap();
}

#[tokio::test]
async fn an_empty_batch_sends_nothing() {
    let account = account().await;
    let before = account.server.listener().counts().requests;
    assert!(
        account
            .container()
            .batch(&pk("p"), &Batch::new(), Retry::Once)
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(account.server.listener().counts().requests, before);
}

#[tokio::test]
async fn a_lost_answer_of_a_batch_is_a_marked_conflict_or_ambiguous() {
    let account = account().await;
    let container = account.container();
    let lost = Faults {
        lost_after: 1.0,
        limit: Some(1),
        ..Faults::default()
    };
    let mut batch = Batch::new();
    batch
        .create("a", &doc("a", 1))
        .unwrap()
        .create("b", &doc("b", 1))
        .unwrap();
    account.server.listener().set_faults(lost.clone());
    let error = container.batch(&pk("p"), &batch, Retry::Idempotent).await.unwrap_err();
    assert!(
        error.is_conflict() && error.after_ambiguity() && error.batch_index() == Some(0),
        "{error}"
    );

    let mut batch = Batch::new();
    batch.create("c", &doc("c", 1)).unwrap();
    account.server.listener().set_faults(lost);
    let error = container.batch(&pk("p"), &batch, Retry::Once).await.unwrap_err();
    assert!(matches!(error, Error::Ambiguous { .. }), "{error}");
    assert_eq!(n_of(&container, "c").await, Some(1));
}

#[tokio::test]
async fn a_batch_reads_a_document_as_it_is_when_the_batch_is_applied() {
    let account = account().await;
    let container = account.container();
    let mut batch = Batch::new();
    batch.read("seen").unwrap().create("new", &doc("new", 2)).unwrap();
    let missing = container.batch(&pk("p"), &batch, Retry::Once).await.unwrap_err();
    assert!(missing.is_not_found() && missing.batch_index() == Some(0), "{missing}");
    assert_eq!(n_of(&container, "new").await, None);
    let seen = container.create(&pk("p"), &doc("seen", 7), Retry::Once).await.unwrap();
    let results = container.batch(&pk("p"), &batch, Retry::Once).await.unwrap();
    let read: Value = serde_json::from_str(results[0].resource_body.as_ref().unwrap().get()).unwrap();
    assert_eq!((read["n"].as_u64(), results[0].etag.as_ref()), (Some(7), Some(&seen)));
    assert_eq!(n_of(&container, "new").await, Some(2));
}
