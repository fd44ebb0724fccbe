//! Tokens of Entra ID: the exchange with a scripted Entra ID, its errors, and the requests of a client that has no key.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod support;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use aws_lc_rs::encoding::AsDer as _;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use cosmos::{
    Certificate, ClientConfig, ClientProof, Clock, CosmosClient, Credential, CredentialSource, EntraSettings,
    EntraTokens, Error, ProofSource, Retry, StaticToken, SystemClock, Throughput, Token, TokenError,
};
use futures::future::join_all;
use serde_json::{Value, json};
use support::account::{account, spec};
use support::{Act, Scripted, Seen, answer, create, pk};

/// Proofs by number, and how many were given.
#[derive(Debug, Default)]
struct Proofs {
    given: AtomicUsize,
    /// Whether it has another one after a refusal.
    rotates: bool,
}

impl Proofs {
    fn count(&self) -> usize {
        self.given.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl ProofSource for Proofs {
    async fn proof(&self) -> Result<ClientProof, TokenError> {
        self.given.fetch_add(1, Ordering::SeqCst);
        Ok(ClientProof::Secret("hush-0&=".to_owned()))
    }

    async fn refresh(&self, refused: &ClientProof) -> Result<ClientProof, TokenError> {
        self.given.fetch_add(1, Ordering::SeqCst);
        match self.rotates {
            true => Ok(ClientProof::Assertion("hush-1".to_owned())),
            false => Ok(refused.clone()),
        }
    }
}

/// The machine's clock plus some milliseconds.
#[derive(Debug, Default)]
struct Moved(AtomicU64);

impl Moved {
    fn advance(&self, by: Duration) {
        self.0
            .fetch_add(u64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for Moved {
    fn now_ms(&self) -> u64 {
        SystemClock.now_ms() + self.0.load(Ordering::SeqCst)
    }
}

fn token(number: usize) -> String {
    format!("aGVhZA.Ym9keQ.{number}")
}

fn is_token(credential: &Credential, number: usize) -> bool {
    *credential == Credential::Token(Token::new(&token(number)).unwrap())
}

fn granted(text: &str, seconds: u64) -> Act {
    answer(200).saying(json!({"token_type": "Bearer", "expires_in": seconds, "access_token": text}))
}

fn refused(code: u64, status: u16) -> Act {
    let said = format!("AADSTS{code}: something is wrong.\r\nTrace ID: 1\r\nTimestamp: 2");
    answer(status).saying(json!({"error": "invalid_client", "error_description": said, "error_codes": [code]}))
}

struct Entra {
    server: Scripted,
    proofs: Arc<Proofs>,
    clock: Arc<Moved>,
    tokens: Arc<EntraTokens>,
}

async fn entra(script: impl Fn(usize, &Seen) -> Act + Send + Sync + 'static) -> Entra {
    with(Proofs::default(), script).await
}

async fn with(proofs: Proofs, script: impl Fn(usize, &Seen) -> Act + Send + Sync + 'static) -> Entra {
    let server = Scripted::start(script).await;
    let settings = EntraSettings {
        authority: server.endpoint.clone(),
        ..EntraSettings::new("my-tenant", "my-client")
    };
    let (proofs, clock) = (Arc::new(proofs), Arc::new(Moved::default()));
    let source = Arc::clone(&proofs) as Arc<dyn ProofSource>;
    let tokens = EntraTokens::new(&settings, source).unwrap();
    let tokens = Arc::new(tokens.clock(Arc::clone(&clock) as Arc<dyn Clock>));
    Entra {
        server,
        proofs,
        clock,
        tokens,
    }
}

/// Lets a client share the tokens with the test.
#[derive(Debug)]
struct Shared(Arc<EntraTokens>);

#[async_trait]
impl CredentialSource for Shared {
    async fn credential(&self) -> Result<Credential, Error> {
        self.0.credential().await
    }

    async fn refresh(&self, refused: &Credential) -> Result<Credential, Error> {
        self.0.refresh(refused).await
    }
}

#[tokio::test]
async fn ten_requests_share_one_exchange_and_its_token_until_near_its_end() {
    let entra = entra(|number, _| granted(&token(number), 3600)).await;
    for credential in join_all((0..10).map(|_| entra.tokens.credential())).await {
        assert!(is_token(&credential.unwrap(), 0));
    }
    entra.clock.advance(Duration::from_secs(3200));
    assert!(is_token(&entra.tokens.credential().await.unwrap(), 0));
    let seen = entra.server.seen();
    assert_eq!((seen.len(), entra.proofs.count()), (1, 1));
    assert_eq!(seen[0].line, "POST /my-tenant/oauth2/v2.0/token HTTP/1.1");
    assert_eq!(
        seen[0].header("content-type"),
        Some("application/x-www-form-urlencoded")
    );
    assert_eq!(
        seen[0].body,
        "grant_type=client_credentials&client_id=my-client&scope=https%3A%2F%2Fcosmos.azure.com%2F.default&\
         client_secret=hush-0%26%3D"
    );
    entra.clock.advance(Duration::from_secs(150));
    assert!(
        is_token(&entra.tokens.credential().await.unwrap(), 1),
        "renewed before its end"
    );
    assert_eq!(entra.server.seen().len(), 2);
}

#[tokio::test]
async fn a_token_that_cannot_be_renewed_is_used_until_its_end() {
    let entra = entra(|number, _| match number {
        0 => granted(&token(0), 3600),
        _ => refused(700_213, 401),
    })
    .await;
    entra.tokens.credential().await.unwrap();
    entra.clock.advance(Duration::from_secs(3400));
    for _ in 0..5 {
        assert!(is_token(&entra.tokens.credential().await.unwrap(), 0));
    }
    assert_eq!(
        entra.server.seen().len(),
        2,
        "one renewal failed, and the next is not due"
    );
    entra.clock.advance(Duration::from_secs(60));
    assert!(is_token(&entra.tokens.credential().await.unwrap(), 0));
    assert_eq!(entra.server.seen().len(), 3);
    entra.clock.advance(Duration::from_secs(130));
    let error = entra.tokens.credential().await.unwrap_err();
    assert!(
        error.is_access() && error.to_string().contains("ARN of the role"),
        "{error}"
    );
}

#[tokio::test]
async fn a_clock_that_was_set_back_does_not_keep_a_token_for_ever() {
    let entra = entra(|number, _| granted(&token(number), 3600)).await;
    entra.clock.advance(Duration::from_secs(9000));
    entra.tokens.credential().await.unwrap();
    entra.clock.0.store(0, Ordering::SeqCst);
    assert!(is_token(&entra.tokens.credential().await.unwrap(), 1));
}

#[tokio::test]
async fn ten_refusals_of_a_token_cause_one_exchange_and_a_new_token_is_not_replaced() {
    let entra = entra(|number, _| granted(&token(number), 3600)).await;
    let first = entra.tokens.credential().await.unwrap();
    let same = entra.tokens.refresh(&first).await.unwrap();
    assert!(same == first, "another would be refused as well");
    entra.clock.advance(Duration::from_secs(60));
    for credential in join_all((0..10).map(|_| entra.tokens.refresh(&first))).await {
        assert!(is_token(&credential.unwrap(), 1));
    }
    assert!(is_token(&entra.tokens.refresh(&first).await.unwrap(), 1), "a straggler");
    assert_eq!(entra.server.seen().len(), 2);
}

#[tokio::test]
async fn each_refusal_says_what_to_do_and_shows_no_secret() {
    let cases = [
        (90_002, 400, "check the tenant id"),
        (700_016, 400, "check the client id"),
        (700_211, 401, "issuer of the AWS account"),
        (700_212, 401, "set it to api://AzureADTokenExchange"),
        (700_213, 401, "ARN of the role"),
        (700_024, 401, "clock"),
        (7_000_222, 401, "has expired; create a new one"),
        (123, 400, "check the tenant id, the client id"),
    ];
    for (code, status, advice) in cases {
        let entra = entra(move |_, _| refused(code, status)).await;
        let error = entra.tokens.credential().await.unwrap_err();
        assert!(error.is_access() && !error.is_transient(), "{error}");
        let shown = format!("{error} {error:?} {:?}", entra.tokens);
        for part in [advice, "my-tenant", "my-client", &format!("AADSTS{code}")] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(!shown.contains("hush") && !shown.contains("Trace ID"), "{shown}");
        assert_eq!(entra.server.seen().len(), 1, "{code} is not repeated");
    }
}

#[tokio::test]
async fn what_entra_says_is_not_shown_when_it_repeats_the_secret_or_is_no_token() {
    let echo = json!({"error": "invalid_client", "error_description": "hush-0&= is wrong", "error_codes": [7_000_215]});
    for (act, why) in [
        (answer(401).saying(echo), "the client secret is wrong"),
        (
            answer(200).saying(json!({"access_token": "hush", "expires_in": 9})),
            "not a JSON web token",
        ),
        (answer(200).saying("hush"), "no text `access_token`"),
        (answer(404).saying("hush"), "without an OAuth error"),
    ] {
        let entra = entra(move |_, _| act.clone()).await;
        let error = entra.tokens.credential().await.unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(shown.contains(why) && !shown.contains("hush"), "{why}: {shown}");
    }
}

#[tokio::test]
async fn a_passing_failure_is_repeated_and_a_lasting_one_is_transient_for_all_who_wait() {
    let entra = entra(|number, _| match number {
        0 => answer(503),
        1 => Act::Drop,
        _ => granted(&token(number), 3600),
    })
    .await;
    assert!(is_token(&entra.tokens.credential().await.unwrap(), 2));

    let entra = self::entra(|_, _| answer(429).with("retry-after", 20)).await;
    for credential in join_all((0..10).map(|_| entra.tokens.credential())).await {
        let error = credential.unwrap_err();
        assert!(error.is_transient(), "{error}");
        assert!(
            error.to_string().contains("429") && error.to_string().contains("try later"),
            "{error}"
        );
    }
    assert_eq!(entra.server.seen().len(), 1, "a long wait is not waited for");
    entra.clock.advance(Duration::from_secs(19));
    entra.tokens.credential().await.unwrap_err();
    assert_eq!(
        entra.server.seen().len(),
        1,
        "it is asked again after the time that it said"
    );
    entra.clock.advance(Duration::from_secs(2));
    entra.tokens.credential().await.unwrap_err();
    assert_eq!(entra.server.seen().len(), 2);
}

#[tokio::test]
async fn a_rotated_proof_is_read_again_once() {
    let proofs = Proofs {
        rotates: true,
        ..Proofs::default()
    };
    let entra = with(proofs, |_, seen| match seen.body.contains("client_assertion=hush-1") {
        true => granted(&token(7), 3600),
        false => refused(7_000_222, 401),
    })
    .await;
    assert!(is_token(&entra.tokens.credential().await.unwrap(), 7));
    let seen = entra.server.seen();
    assert_eq!((seen.len(), entra.proofs.count()), (2, 2));
    let kind = "client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer";
    assert!(
        seen[1].body.contains(kind) && !seen[1].body.contains("client_secret"),
        "{}",
        seen[1].body
    );
}

#[tokio::test]
async fn a_cancelled_exchange_does_not_block_the_next() {
    let entra = entra(|number, _| match number {
        0 => Act::Hang,
        _ => granted(&token(number), 3600),
    })
    .await;
    let given_up = tokio::time::timeout(Duration::from_millis(200), entra.tokens.credential()).await;
    assert!(given_up.is_err());
    assert!(is_token(&entra.tokens.credential().await.unwrap(), 1));
}

#[test]
fn settings_that_would_leak_a_secret_are_refused_without_repeating_it() {
    let good = EntraSettings::new("contoso.onmicrosoft.com", "0f3b7f3e-0000-0000-0000-000000000000");
    good.check().unwrap();
    for (settings, why) in [
        (
            EntraSettings {
                authority: "http://hush.example".into(),
                ..good.clone()
            },
            "plain http",
        ),
        (
            EntraSettings {
                authority: "https://a.example/hush".into(),
                ..good.clone()
            },
            "path",
        ),
        (
            EntraSettings {
                tenant: "hush/../x".into(),
                ..good.clone()
            },
            "tenant",
        ),
        (
            EntraSettings {
                tenant: String::new(),
                ..good.clone()
            },
            "tenant",
        ),
        (
            EntraSettings {
                client: "~hush~".into(),
                ..good.clone()
            },
            "client",
        ),
    ] {
        let error = settings.check().unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(shown.contains(why), "{shown}");
        assert!(!shown.contains("hush") || why == "plain http", "{shown}");
    }
}

/// An account that accepts tokens only, and an Entra ID that issues them.
#[tokio::test]
async fn a_client_without_a_key_works_and_replaces_a_revoked_token_once() {
    let account = account().await;
    let issuer = account.server.tokens().clone();
    let issued = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&issued);
    let entra = entra(move |_, _| {
        let token = issuer.issue(Duration::from_secs(3600));
        log.lock().unwrap().push(token.clone());
        granted(&token, 3600)
    })
    .await;
    account.server.disable_key();
    let endpoint = account.server.listener().endpoint();
    let client = CosmosClient::new(ClientConfig::new(&endpoint, Shared(Arc::clone(&entra.tokens))).unwrap());
    let container = client.container("db", "things");
    create(&container, Retry::Once).await.unwrap();
    assert!(container.read::<Value>(&pk("p"), "a").await.unwrap().is_some());
    assert_eq!(entra.server.seen().len(), 1);

    account.server.tokens().revoke_all();
    entra.clock.advance(Duration::from_secs(60));
    account.server.listener().reset();
    let read = async || container.read::<Value>(&pk("p"), "a").await;
    let reads = join_all((0..10).map(|_| read())).await;
    assert!(reads.into_iter().all(|read| read.unwrap().is_some()));
    assert_eq!(entra.server.seen().len(), 2, "ten refusals, one exchange");

    let error = client.ensure_database("new", None).await.unwrap_err();
    assert!(
        matches!(error, Error::NotByToken { .. }) && !error.is_transient(),
        "{error}"
    );
    let mut other = spec("/pk");
    (other.name, other.throughput) = ("other".into(), Throughput::Serverless);
    let error = client.ensure_container("db", &other).await.unwrap_err();
    assert!(error.to_string().contains("create them by a template"), "{error}");
    let found = client.read_container("db", "things").await.unwrap();
    assert!(found.is_some(), "a token may read the definition");
    for token in issued.lock().unwrap().iter() {
        assert!(!format!("{client:?} {:?} {error:?}", entra.tokens).contains(token));
    }
}

#[tokio::test]
async fn a_refused_token_of_a_person_is_final_with_advice_and_without_the_token() {
    let account = account().await;
    let expired = account.server.tokens().issue(Duration::ZERO);
    let source = StaticToken::new(Token::new(&expired).unwrap());
    let client = CosmosClient::new(ClientConfig::new(&account.server.listener().endpoint(), source).unwrap());
    account.server.listener().reset();
    let error = client
        .container("db", "things")
        .read::<Value>(&pk("p"), "a")
        .await
        .unwrap_err();
    assert!(
        matches!(error, Error::TokenRefused { .. }) && error.is_access(),
        "{error}"
    );
    assert_eq!(
        account.server.listener().counts().requests,
        1,
        "the same token is not tried twice"
    );
    let shown = format!("{error} {error:?} {client:?}");
    assert!(
        shown.contains("check that it has not expired") && !shown.contains(&expired),
        "{shown}"
    );
}

/// A certificate whose key signs for each exchange.
#[derive(Debug)]
struct OwnCertificate(Certificate);

#[async_trait]
impl ProofSource for OwnCertificate {
    async fn proof(&self) -> Result<ClientProof, TokenError> {
        Ok(ClientProof::Certificate(self.0.clone()))
    }
}

#[tokio::test]
async fn a_certificate_signs_a_new_assertion_for_the_token_endpoint_each_time() {
    let key = KeyPair::generate(KeySize::Rsa2048).unwrap();
    let pem = |label: &str, bytes: &[u8]| {
        let text = STANDARD.encode(bytes);
        format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
    };
    let text = pem("CERTIFICATE", b"a certificate") + &pem("PRIVATE KEY", key.as_der().unwrap().as_ref());
    let server = Scripted::start(|number, _| match number {
        0 => refused(700_027, 401),
        _ => granted(&token(number), 3600),
    })
    .await;
    let settings = EntraSettings {
        authority: server.endpoint.clone(),
        ..EntraSettings::new("my-tenant", "my-client")
    };
    let proof = Arc::new(OwnCertificate(Certificate::from_pem(&text).unwrap()));
    let tokens = EntraTokens::new(&settings, proof).unwrap();
    let error = tokens.credential().await.unwrap_err();
    assert!(error.to_string().contains("certificate is registered"), "{error}");
    tokio::time::sleep(Duration::from_millis(1100)).await;
    tokens.credential().await.unwrap();
    let claims: Vec<Value> = server.seen().iter().map(|seen| claims(&seen.body)).collect();
    assert_eq!(claims.len(), 2, "the same certificate is not tried twice");
    let endpoint = format!("{}my-tenant/oauth2/v2.0/token", server.endpoint);
    for claims in &claims {
        assert_eq!(
            (&claims["aud"], &claims["sub"]),
            (&json!(endpoint), &json!("my-client"))
        );
    }
    assert_ne!(claims[0]["jti"], claims[1]["jti"]);
}

/// The claims of the assertion in a form.
fn claims(form: &str) -> Value {
    let assertion = form
        .split('&')
        .find_map(|pair| pair.strip_prefix("client_assertion="))
        .unwrap();
    let body = assertion.split('.').nth(1).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(body).unwrap()).unwrap()
}
