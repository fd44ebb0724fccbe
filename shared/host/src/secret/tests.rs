use super::*;
use crate::aws::scripted::{Scripted, is_child, nobody, sdk};
use futures::future::join_all;
use serde_json::{Value, json};
use std::sync::Arc;

const ARN: &str = "arn:aws:secretsmanager:eu-west-1:1:secret:cosmos-AbCdEf";

/// `first`, `second`, `third` in base64.
const KEYS: [&str; 3] = ["Zmlyc3Q=", "c2Vjb25k", "dGhpcmQ="];

fn key(number: usize) -> Credential {
    Credential::Key(Key::from_base64(KEYS[number]).unwrap())
}

fn source(server: &Scripted) -> SecretKey {
    SecretKey::with_client(Client::new(&server.sdk()), ARN)
}

/// Rotates the key with every reading, slowly enough that concurrent readings would overlap.
fn rotating() -> Scripted {
    Scripted::start(|number, request| {
        assert_eq!(request["SecretId"], ARN);
        std::thread::sleep(Duration::from_millis(50));
        (200, json!({"ARN": ARN, "SecretString": KEYS[number]}))
    })
}

fn constant(answer: Value) -> Scripted {
    Scripted::start(move |_, _| (200, answer.clone()))
}

#[tokio::test]
async fn the_key_is_read_once_for_all_requests() {
    let server = rotating();
    let source = source(&server);
    assert!(server.requests().is_empty(), "nothing is read before it is needed");
    for answer in join_all((0..10).map(|_| source.credential())).await {
        assert!(answer.unwrap() == key(0));
    }
    assert!(source.credential().await.unwrap() == key(0));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn ten_refusals_cause_one_reading_and_a_late_one_causes_none() {
    let server = rotating();
    let source = source(&server);
    let old = source.credential().await.unwrap();
    for answer in join_all((0..10).map(|_| source.refresh(&old))).await {
        assert!(answer.unwrap() == key(1));
    }
    assert!(
        source.refresh(&old).await.unwrap() == key(1),
        "its request was signed before the refresh"
    );
    assert!(source.credential().await.unwrap() == key(1), "the new key stays");
    assert_eq!(server.requests().len(), 2);
    assert!(
        source.refresh(&key(1)).await.unwrap() == key(1),
        "a secret that is wrong is not read at every request"
    );
    tokio::time::sleep(STRAGGLER).await;
    assert!(source.refresh(&key(1)).await.unwrap() == key(2));
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn a_refusal_right_after_the_first_reading_reads_again() {
    let server = rotating();
    let source = source(&server);
    source.credential().await.unwrap();
    assert!(source.refresh(&key(0)).await.unwrap() == key(1));
}

#[tokio::test]
async fn waiting_requests_share_a_failure_and_later_ones_read_again() {
    let server = Scripted::start(|number, _| {
        std::thread::sleep(Duration::from_millis(50));
        match number {
            0 => (
                400,
                json!({"__type": "ResourceNotFoundException", "Message": "no such secret"}),
            ),
            _ => (200, json!({"SecretString": KEYS[0]})),
        }
    });
    let source = source(&server);
    for answer in join_all((0..10).map(|_| source.credential())).await {
        let error = answer.unwrap_err().to_string();
        for part in [ARN, "no such secret", "secretsmanager:GetSecretValue"] {
            assert!(error.contains(part), "{error}");
        }
    }
    assert_eq!(server.requests().len(), 1);
    assert!(source.credential().await.unwrap() == key(0));
}

#[tokio::test]
async fn a_refresh_that_fails_forgets_the_refused_key() {
    let server = Scripted::start(|number, _| match number {
        1 => (400, json!({"__type": "AccessDeniedException", "Message": "no"})),
        _ => (200, json!({"SecretString": KEYS[number / 2]})),
    });
    let source = source(&server);
    source.credential().await.unwrap();
    source.refresh(&key(0)).await.unwrap_err();
    assert!(source.credential().await.unwrap() == key(1), "it is read again");
}

#[tokio::test]
async fn a_cancelled_reading_does_not_block_the_next() {
    let server = Scripted::start(|number, _| {
        std::thread::sleep(Duration::from_millis(if number == 0 { 1500 } else { 0 }));
        (200, json!({"SecretString": KEYS[0]}))
    });
    let source = Arc::new(source(&server));
    let given_up = tokio::time::timeout(Duration::from_millis(200), source.credential()).await;
    assert!(given_up.is_err());
    assert!(source.credential().await.unwrap() == key(0));
}

#[test]
fn the_key_is_the_text_or_a_field_of_it() {
    for text in [
        "Zmlyc3Q=",
        " Zmlyc3Q=\n",
        r#"{"key":"Zmlyc3Q="}"#,
        r#" {"account":"a","key":"Zmlyc3Q=","n":1} "#,
    ] {
        assert!(key_in(text).map(Credential::Key) == Ok(key(0)), "{text}");
    }
}

#[tokio::test]
async fn a_secret_that_is_not_a_key_is_refused_without_being_shown() {
    for (secret, why) in [
        (json!({"SecretString": "hush*hush"}), "not base64"),
        (json!({"SecretString": ""}), "empty"),
        (
            json!({"SecretString": r#"{"password":"hush*hush"}"#}),
            "without a text in the field `key`",
        ),
        (
            json!({"SecretString": r#"{"key":{"a":"hush*hush"}}"#}),
            "without a text in the field `key`",
        ),
        (json!({"SecretString": r#"{"key":"hush*hush"}"#}), "not base64"),
        (json!({"SecretString": r#"{"key": hush*hush"#}), "without a text"),
        (json!({"SecretBinary": "aHVzaCpodXNo"}), "binary data"),
    ] {
        let source = source(&constant(secret.clone()));
        let error = source.credential().await.unwrap_err();
        let shown = format!("{error} {error:?} {source:?}");
        assert!(shown.contains(why) && shown.contains(ARN), "{secret}: {shown}");
        assert!(shown.contains("store the account's key as text"), "{shown}");
        assert!(!shown.contains("hush") && !shown.contains("aHVz"), "{shown}");
    }
}

#[tokio::test]
async fn the_error_of_an_unreachable_service_names_the_secret() {
    let source = SecretKey::with_client(Client::new(&sdk(&nobody())), ARN);
    let error = source.credential().await.unwrap_err().to_string();
    assert!(error.contains(ARN) && error.contains("dispatch failure"), "{error}");
}

#[tokio::test]
async fn debug_never_shows_the_key() {
    let source = source(&constant(json!({"SecretString": KEYS[0]})));
    source.credential().await.unwrap();
    let shown = format!("{source:?}");
    assert!(shown.contains(ARN) && !shown.contains("Zmlyc3Q"), "{shown}");
}

#[test]
fn the_client_is_made_from_the_environment_with_the_first_request() {
    let server = constant(json!({"SecretString": KEYS[0]}));
    server.run_child(module_path!(), "child_that_reads_by_its_environment");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn child_that_reads_by_its_environment() {
    if !is_child() {
        return;
    }
    let source = SecretKey::new(ARN);
    assert!(!source.0.client.initialized());
    assert!(source.credential().await.unwrap() == key(0));
}

#[tokio::test]
async fn a_client_secret_is_read_once_and_again_when_it_is_refused() {
    let server = Scripted::start(|number, request| {
        assert_eq!(request["SecretId"], ARN);
        (
            200,
            json!({"SecretString": format!("{{\"clientSecret\": \"hush-{number}\"}}")}),
        )
    });
    let source = SecretProof::with_client(Client::new(&server.sdk()), ARN);
    let first = source.proof().await.unwrap();
    assert!(first == ClientProof::Secret("hush-0".to_owned()));
    assert!(source.proof().await.unwrap() == first);
    for answer in join_all((0..10).map(|_| source.refresh(&first))).await {
        assert!(answer.unwrap() == ClientProof::Secret("hush-1".to_owned()));
    }
    assert_eq!(server.requests().len(), 2);
    assert!(!format!("{source:?} {first:?}").contains("hush"));
}

#[tokio::test]
async fn a_secret_without_a_client_secret_is_refused_without_being_shown() {
    for (text, why) in [
        ("", "an empty text"),
        ("hush hush", "spaces or line breaks"),
        (r#"{"key":"hush"}"#, "without a text in the field `clientSecret`"),
        (r#"{"clientSecret":" "}"#, "an empty text"),
        (
            "-----BEGIN CERTIFICATE-----\nhush\n-----END CERTIFICATE-----",
            "no block PRIVATE KEY",
        ),
    ] {
        let server = constant(json!({"SecretString": text}));
        let source = SecretProof::with_client(Client::new(&server.sdk()), ARN);
        let error = source.proof().await.unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(
            shown.contains(why) && shown.contains("clientSecret") && shown.contains(ARN),
            "{shown}"
        );
        assert!(!shown.contains("hush") && !error.is_transient(), "{shown}");
    }
    let server = Scripted::start(|_, _| (500, json!({"__type": "InternalServiceError"})));
    let source = SecretProof::with_client(Client::new(&server.sdk()), ARN);
    assert!(source.proof().await.unwrap_err().is_transient());
}

#[test]
fn a_certificate_with_its_key_is_a_proof() {
    use aws_lc_rs::encoding::AsDer as _;
    use aws_lc_rs::rsa::{KeyPair, KeySize};
    use base64::Engine as _;
    let pem = |label: &str, bytes: &[u8]| {
        let text = base64::engine::general_purpose::STANDARD.encode(bytes);
        format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
    };
    let key = KeyPair::generate(KeySize::Rsa2048).unwrap();
    let text = pem("CERTIFICATE", b"a certificate") + &pem("PRIVATE KEY", key.as_der().unwrap().as_ref());
    let proof = proof_in(&text).unwrap();
    assert!(matches!(proof, ClientProof::Certificate(_)));
    assert_eq!(format!("{proof:?}"), "Certificate(…redacted)");
}
