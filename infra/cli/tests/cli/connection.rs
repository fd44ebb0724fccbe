//! Which API commands use, and what they say when it is not there.

use crate::fixture::{Fixture, binary, dead_address};
use crate::server::FakeApi;
use std::collections::BTreeMap;

const PROBLEM: &str = r#"{"type": "urn:duroxide-lambda:problem:forbidden", "title": "The caller may not do this",
    "status": 403, "detail": "this needs the role operator"}"#;
const EMPTY: &str = r#"{"instances": []}"#;

fn only(name: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(name.to_owned(), value.to_owned())])
}

#[tokio::test(flavor = "multi_thread")]
async fn an_argument_overrides_a_variable() {
    let fixture = Fixture::idle().await;
    let url = fixture.variables["DUROXIDE_LAMBDA_URL"].clone();
    let elsewhere = only("DUROXIDE_LAMBDA_URL", &dead_address());
    let list = ["list", "--json", "--url", &url];
    let ran = binary(&elsewhere, &list, "").await.exits(0);
    assert_eq!(ran.err, "");
    binary(&elsewhere, &list[..2], "")
        .await
        .exits(1)
        .warns("does not answer");
    // A slash at the end is no part of the path.
    binary(&only("DUROXIDE_LAMBDA_URL", &format!("{url}/")), &list[..2], "")
        .await
        .exits(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_api_is_reported_with_what_to_do() {
    let nobody = only("DUROXIDE_LAMBDA_URL", &dead_address());
    let ran = binary(&nobody, &["list", "--json"], "").await.exits(1);
    assert_eq!(ran.warns("does not answer").out, "");
    let fake = FakeApi::start().await;
    let there = only("DUROXIDE_LAMBDA_URL", &fake.url);
    for (status, body) in [(404, "{}"), (200, "<html>"), (200, "[]"), (302, "")] {
        fake.answer(&[(status, body)]);
        binary(&there, &["list"], "")
            .await
            .exits(1)
            .warns("is not the API of a deployment");
    }
    fake.answer(&[(403, r#"{"Message": "Forbidden"}"#)]);
    binary(&there, &["list"], "").await.exits(1).warns("ClientPolicyArn");
    fake.answer(&[(403, PROBLEM)]);
    binary(&there, &["list"], "")
        .await
        .exits(1)
        .warns("error: this needs the role operator");
    binary(&there, &["list", "--url", "http://10.1.2.3:9401"], "")
        .await
        .exits(2)
        .warns("on another machine");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overloaded_api_is_tried_again_unless_that_could_have_a_second_effect() {
    let fake = FakeApi::start().await;
    let there = only("DUROXIDE_LAMBDA_URL", &fake.url);
    fake.answer(&[(503, ""), (429, ""), (200, EMPTY)]);
    binary(&there, &["list"], "").await.exits(0);
    assert_eq!(fake.take().len(), 3);
    fake.answer(&[(503, ""), (202, r#"{"instance": "i", "repeated": false}"#)]);
    binary(&there, &["start", "Echo"], "").await.exits(0);
    let keys: Vec<_> = fake
        .take()
        .iter()
        .map(|request| request.headers()["idempotency-key"].clone())
        .collect();
    assert!(keys.len() == 2 && keys[0] == keys[1], "the same key: {keys:?}");
    fake.answer(&[(503, "")]);
    binary(&there, &["delete", "i"], "").await.exits(1);
    assert_eq!(fake.take().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_sent_and_never_shown() {
    let fake = FakeApi::start().await;
    fake.answer(&[(200, EMPTY)]);
    let mut variables = only("DUROXIDE_LAMBDA_URL", &fake.url);
    variables.insert("RUST_LOG".to_owned(), "trace".to_owned());
    variables.insert("DUROXIDE_LAMBDA_TOKEN".to_owned(), "hush-1".to_owned());
    let sent = || fake.take()[0].headers()["authorization"].clone();
    let ran = binary(&variables, &["list"], "").await.exits(0);
    assert_eq!(sent(), "Bearer hush-1");
    assert!(!ran.err.contains("hush"), "{ran:?}");
    let ran = binary(&variables, &["list", "--token", "hush-2"], "").await.exits(0);
    assert_eq!(sent(), "Bearer hush-2");
    assert!(!ran.err.contains("hush"), "{ran:?}");
}
