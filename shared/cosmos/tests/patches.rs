//! PATCH of one document, against the emulator and a scripted server.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod support;

use cosmos::{Error, Etag, Patch, Retry};
use cosmos_emulator::Faults;
use serde_json::{Value, json};
use support::account::account;
use support::{Scripted, answer, pk};

/// The next request is applied, and its answer is lost.
fn lost_after() -> Faults {
    Faults {
        lost_after: 1.0,
        limit: Some(1),
        ..Faults::default()
    }
}

fn claim(n: i64) -> Patch {
    Patch::new()
        .set("/holder", json!({"token": "t"}))
        .increment("/n", n)
        .increment("/new", 5)
}

#[tokio::test]
async fn a_patch_changes_the_version_that_it_names_and_answers_the_whole_document() {
    let account = account().await;
    let container = account.container();
    let key = pk("p \"日本");
    let first = container
        .create(&key, &json!({"id": "a", "pk": "p \"日本", "n": 1}), Retry::Once)
        .await
        .unwrap();
    let found = container
        .patch::<Value>(&key, "a", &claim(2), &first, Retry::Once)
        .await
        .unwrap();
    assert_eq!((&found.doc["n"], &found.doc["new"]), (&json!(3), &json!(5)));
    assert_eq!(found.doc["holder"]["token"], "t");
    assert_ne!(found.etag, first);
    let read = container.read::<Value>(&key, "a").await.unwrap().unwrap();
    assert_eq!((read.doc, read.etag), (found.doc, found.etag));

    let stale = container
        .patch::<Value>(&key, "a", &claim(2), &first, Retry::Idempotent)
        .await
        .unwrap_err();
    assert!(stale.is_precondition_failed() && !stale.after_ambiguity(), "{stale}");
    let gone = container
        .patch::<Value>(&key, "b", &claim(2), &first, Retry::Idempotent)
        .await
        .unwrap_err();
    assert!(gone.is_not_found() && !gone.after_ambiguity(), "{gone}");
    assert!(gone.to_string().starts_with("patch document `b`"), "{gone}");
}

#[tokio::test]
async fn a_patch_whose_answer_is_lost_is_applied_once_and_says_that_it_may_have_been() {
    let account = account().await;
    let container = account.container();
    let key = pk("p");
    let first = container
        .create(&key, &json!({"id": "a", "pk": "p", "n": 1}), Retry::Once)
        .await
        .unwrap();
    account.server.listener().set_faults(lost_after());
    let error = container
        .patch::<Value>(&key, "a", &claim(1), &first, Retry::Idempotent)
        .await
        .unwrap_err();
    assert!(error.is_precondition_failed() && error.after_ambiguity(), "{error}");
    let now = container.read::<Value>(&key, "a").await.unwrap().unwrap();
    assert_eq!(now.doc["n"], 2, "it was applied once");

    account.server.listener().set_faults(lost_after());
    let error = container
        .patch::<Value>(&key, "a", &claim(1), &now.etag, Retry::Once)
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Ambiguous { .. }), "{error}");
}

#[tokio::test]
async fn a_patch_asks_for_the_document_and_names_its_content() {
    let body = json!({"id": "a", "pk": "p", "n": 7, "_etag": "\"1\""});
    let server = Scripted::playing(vec![answer(200).saying(&body)]).await;
    let patched = server
        .container()
        .patch::<Value>(&pk("p"), "a", &claim(1), &Etag::new("\"0\""), Retry::Once)
        .await
        .unwrap();
    assert_eq!((patched.doc, patched.etag), (body, Etag::new("\"1\"")));
    let seen = &server.seen()[0];
    assert!(
        seen.line.starts_with("PATCH /dbs/db/colls/things/docs/a "),
        "{}",
        seen.line
    );
    assert_eq!(seen.header("content-type"), Some("application/json_patch+json"));
    assert_eq!(seen.header("if-match"), Some("\"0\""));
    assert_eq!(seen.header("prefer"), None);
    let body: Value = serde_json::from_str(&seen.body).unwrap();
    assert_eq!(
        body["operations"],
        json!([
            {"op": "set", "path": "/holder", "value": {"token": "t"}},
            {"op": "incr", "path": "/n", "value": 1},
            {"op": "incr", "path": "/new", "value": 5},
        ])
    );
}
