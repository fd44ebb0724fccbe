use super::*;
use crate::aws::scripted::{Scripted, is_child, nobody, sdk};
use serde_json::Value;

/// The answer of STS with this token.
fn token(text: &str) -> Value {
    Value::String(format!(
        "<GetWebIdentityTokenResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><GetWebIdentityTokenResult>\
         <WebIdentityToken>{text}</WebIdentityToken><Expiration>2026-11-17T06:00:00Z</Expiration>\
         </GetWebIdentityTokenResult></GetWebIdentityTokenResponse>"
    ))
}

fn refusal(code: &str) -> Value {
    Value::String(format!(
        "<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><Error><Type>Sender</Type>\
         <Code>{code}</Code><Message>as the test says</Message></Error></ErrorResponse>"
    ))
}

fn source(server: &Scripted) -> WebIdentity {
    WebIdentity::with_client(Client::new(&server.sdk()))
}

#[tokio::test]
async fn the_role_is_proved_by_a_token_for_entra_id_and_by_a_new_one_each_time() {
    let server = Scripted::start(|number, _| (200, token(&format!("hush-{number}"))));
    let source = source(&server);
    for number in 0..2 {
        let proof = source.proof().await.unwrap();
        assert!(proof == ClientProof::Assertion(format!("hush-{number}")));
        assert!(!format!("{proof:?} {source:?}").contains("hush"));
    }
    let requests = server.requests();
    let form = requests[0].as_str().unwrap();
    for part in [
        "Action=GetWebIdentityToken",
        "Audience.member.1=api%3A%2F%2FAzureADTokenExchange",
        "SigningAlgorithm=RS256",
        "DurationSeconds=300",
    ] {
        assert!(form.contains(part), "{part}: {form}");
    }
}

#[tokio::test]
async fn each_refusal_of_sts_says_what_to_do() {
    for (code, status, transient, advice) in [
        (
            "OutboundWebIdentityFederationDisabledException",
            400,
            false,
            "aws iam enable-outbound-web-identity-federation",
        ),
        ("AccessDenied", 403, false, "sts:GetWebIdentityToken"),
        ("ExpiredToken", 403, false, "renew them"),
        ("SignatureDoesNotMatch", 403, false, "clock"),
        ("Throttling", 400, true, "check the region"),
        ("InternalFailure", 500, true, "check the region"),
    ] {
        let server = Scripted::start(move |_, _| (status, refusal(code)));
        let error = source(&server).proof().await.unwrap_err();
        assert_eq!(error.is_transient(), transient, "{error}");
        let shown = error.to_string();
        assert!(shown.contains(advice) && shown.contains(code), "{advice}: {shown}");
    }
    let error = WebIdentity::with_client(Client::new(&sdk(&nobody())))
        .proof()
        .await
        .unwrap_err();
    assert!(
        error.is_transient() && error.to_string().contains("dispatch failure"),
        "{error}"
    );
}

#[test]
fn the_client_is_made_from_the_environment_with_the_first_request() {
    let server = Scripted::start(|_, _| (200, token("hush")));
    server.run_child(module_path!(), "child_that_proves_its_role_by_its_environment");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn child_that_proves_its_role_by_its_environment() {
    if !is_child() {
        return;
    }
    let source = WebIdentity::new();
    assert!(!source.client.initialized());
    assert!(source.proof().await.unwrap() == ClientProof::Assertion("hush".to_owned()));
}
