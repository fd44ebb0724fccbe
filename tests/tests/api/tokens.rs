//! Bearer tokens: what is refused, with the same answer each time and nothing read; and how keys are rotated.

use crate::issuer::Issuer;
use aws_lc_rs::hmac;
use aws_lc_rs::signature::KeyPair as _;
use cosmos::{Clock as _, SystemClock};
use duroxide_lambda::config::ApiAuth;
use duroxide_lambda_api::types::ProblemType;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tests::ManualClock;
use tests::api::*;

fn encode(bytes: impl AsRef<[u8]>) -> String {
    Signer::encode(bytes)
}

async fn site(issuer: &Issuer) -> Site {
    Site::with(Options {
        auth: issuer.auth(),
        ..Options::default()
    })
    .await
}

fn bearing(token: &str) -> http::Request<axum::body::Body> {
    with(
        request("GET", "/v1/counts", None),
        "authorization",
        &format!("Bearer {token}"),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_of_both_algorithms_are_accepted_with_their_role() {
    let issuer = Issuer::start();
    let (rsa, p256) = (Signer::rsa("r"), Signer::p256("e"));
    issuer.add(rsa.jwk());
    issuer.add(p256.jwk());
    let site = site(&issuer).await;
    for key in [&rsa, &p256] {
        site.send(bearing(&key.token(&issuer.claims()))).await.is(200);
        let lower = with(
            request("GET", "/v1/counts", None),
            "authorization",
            &format!("bearer {}", key.token(&issuer.claims())),
        );
        site.send(lower).await.is(200);
    }
    assert_eq!(issuer.fetches(), 1, "the keys are kept");
    let mut claims = issuer.claims();
    let start = |token: &str| {
        let start = request("POST", "/v1/orchestrations/Echo/instances", Some(json!({"input": 1})));
        with(start, "authorization", &format!("Bearer {token}"))
    };
    site.listener.reset();
    site.send(start(&rsa.token(&claims)))
        .await
        .is_problem(ProblemType::Forbidden);
    claims["roles"] = json!([]);
    site.send(bearing(&rsa.token(&claims)))
        .await
        .is_problem(ProblemType::Forbidden);
    assert_eq!(site.listener.counts().requests, 0);
    claims["roles"] = json!("client");
    site.send(start(&rsa.token(&claims))).await.is(202);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_wrong_token_gets_the_same_answer_and_reads_nothing() {
    let issuer = Issuer::start();
    let (key, other, p256) = (Signer::rsa("r"), Signer::rsa("r"), Signer::p256("e"));
    issuer.add(key.jwk());
    issuer.add(p256.jwk());
    let site = site(&issuer).await;
    let now = SystemClock.now_ms() / 1000;
    let changed = |name: &str, value: Value| {
        let mut claims = issuer.claims();
        claims[name] = value;
        key.token(&claims)
    };
    let whole = key.token(&issuer.claims());
    let (signed, signature) = whole.rsplit_once('.').expect("a signature");
    let Signer::Rsa(_, pair) = &key else {
        unreachable!("it is an RSA key")
    };
    let public: Vec<u8> = pair.public_key().as_ref().to_vec();
    let hs256 = |secret: &[u8]| {
        let header = json!({"alg": "HS256", "kid": "r", "typ": "JWT"});
        let signed = format!("{}.{}", encode(header.to_string()), encode(issuer.claims().to_string()));
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), signed.as_bytes());
        format!("{signed}.{}", encode(tag))
    };
    let none = {
        let header = json!({"alg": "none", "kid": "r"});
        format!(
            "{}.{}.",
            encode(header.to_string()),
            encode(issuer.claims().to_string())
        )
    };
    let headers = |header: Value| key.signed(&header, &issuer.claims());
    let tampered = {
        let (header, _) = signed.split_once('.').expect("claims");
        let mut claims = issuer.claims();
        claims["roles"] = json!(["operator"]);
        format!("{header}.{}.{signature}", encode(claims.to_string()))
    };
    let wrong = [
        ("unsigned", format!("{signed}.")),
        ("without a signature", signed.to_owned()),
        ("of another key", other.token(&issuer.claims())),
        ("tampered with", tampered),
        ("expired", changed("exp", json!(now - 61))),
        ("without an end", changed("exp", Value::Null)),
        ("not yet valid", changed("nbf", json!(now + 120))),
        ("for another audience", changed("aud", json!("bank"))),
        ("of another issuer", changed("iss", json!("https://evil.example"))),
        ("none", none),
        ("HS256 with the public key", hs256(&public)),
        ("HS256 with the public key as text", hs256(encode(&public).as_bytes())),
        ("of an unknown key", headers(json!({"alg": "RS256", "kid": "x"}))),
        ("without a key", headers(json!({"alg": "RS256"}))),
        (
            "with the algorithm of another key",
            headers(json!({"alg": "RS256", "kid": "e"})),
        ),
        (
            "with a critical extension",
            headers(json!({"alg": "RS256", "kid": "r", "crit": ["x"]})),
        ),
        (
            "with its own key",
            headers(json!({"alg": "RS256", "kid": "mine", "jwk": other.jwk()})),
        ),
        ("nothing", String::new()),
        ("nonsense", "a.b.c".to_owned()),
    ];
    let expected = site.get("/v1/counts").await;
    expected.is_problem(ProblemType::Unauthenticated);
    for (what, token) in &wrong {
        let reply = site.send(bearing(token)).await;
        assert_eq!(
            (reply.status, reply.text()),
            (expected.status, expected.text()),
            "{what}"
        );
        assert_eq!(reply.headers, expected.headers, "{what}");
    }
    let basic = with(
        request("GET", "/v1/counts", None),
        "authorization",
        &format!("Basic {whole}"),
    );
    site.send(basic).await.is_problem(ProblemType::Unauthenticated);
    let mut twice = bearing(&whole);
    twice
        .headers_mut()
        .append("authorization", "Bearer x".parse().expect("a header"));
    site.send(twice).await.is_problem(ProblemType::Unauthenticated);
    assert_eq!(site.listener.counts().requests, 0, "nothing was read");
    assert!(
        issuer.fetches() <= 2,
        "unknown keys are not fetched for each token: {}",
        issuer.fetches()
    );
    site.send(bearing(&whole)).await.is(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_rotated_without_a_restart_but_not_fetched_for_every_unknown_one() {
    let issuer = Issuer::start();
    let (old, new) = (Signer::rsa("old"), Signer::p256("new"));
    issuer.add(old.jwk());
    let clock = Arc::new(ManualClock::default());
    let site = Site::with(Options {
        auth: issuer.auth(),
        clock: Arc::clone(&clock) as Arc<_>,
        ..Options::default()
    })
    .await;
    site.send(bearing(&old.token(&issuer.claims()))).await.is(200);
    issuer.keys.lock().expect("no panic").clear();
    issuer.add(new.jwk());
    for _ in 0..3 {
        site.send(bearing(&new.token(&issuer.claims())))
            .await
            .is_problem(ProblemType::Unauthenticated);
    }
    assert_eq!(issuer.fetches(), 1);
    clock.advance(Duration::from_secs(31));
    site.send(bearing(&new.token(&issuer.claims()))).await.is(200);
    assert_eq!(issuer.fetches(), 2);
    site.send(bearing(&old.token(&issuer.claims())))
        .await
        .is_problem(ProblemType::Unauthenticated);
    clock.advance(Duration::from_secs(600));
    site.send(bearing(&new.token(&issuer.claims()))).await.is(200);
    clock.advance(Duration::from_secs(100));
    site.send(bearing(&new.token(&issuer.claims())))
        .await
        .is_problem(ProblemType::Unauthenticated);
    assert_eq!(issuer.fetches(), 2, "an expired token fetches nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_issuer_that_does_not_answer_is_503() {
    let issuer = Issuer::start();
    let key = Signer::rsa("r");
    let (address, _socket) = tests::refused_address();
    let mut auth = issuer.auth();
    if let ApiAuth::Jwt(settings) = &mut auth {
        settings.jwks_url = Some(format!("http://{address}/keys"));
    }
    let site = Site::with(Options {
        auth,
        ..Options::default()
    })
    .await;
    let reply = site.send(bearing(&key.token(&issuer.claims()))).await;
    reply.is_problem(ProblemType::IssuerUnavailable);
    assert_eq!(reply.header("retry-after"), "1");
}
