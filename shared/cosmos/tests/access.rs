//! Keys, clocks and endpoints: what is refused, and what the error advises.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use cosmos::{
    ClientConfig, Clock, CosmosClient, Credential, CredentialSource, Error, Key, Retry, StaticKey, SystemClock,
};
use serde_json::{Value, json};
use support::account::{account, config};
use support::{Scripted, answer, create, pk};

const WRONG: &str = "d3Jvbmcta2V5LXdyb25nLWtleQ==";

#[tokio::test]
async fn a_wrong_key_is_unauthorized_with_advice_and_without_the_key() {
    let account = account().await;
    let endpoint = account.server.listener().endpoint();
    let key = StaticKey::new(Key::from_base64(WRONG).unwrap());
    let client = CosmosClient::new(ClientConfig::new(&endpoint, key).unwrap());
    let before = account.server.listener().counts().requests;
    let error = client
        .container("db", "things")
        .read::<Value>(&pk("p"), "a")
        .await
        .unwrap_err();
    assert!(
        matches!(error, Error::Unauthorized { .. }) && !error.is_transient(),
        "{error}"
    );
    assert_eq!(
        account.server.listener().counts().requests - before,
        1,
        "the same key is not tried twice"
    );
    let message = error.to_string();
    assert!(
        message.contains("check that the key belongs to the account"),
        "{message}"
    );
    assert!(message.contains(&endpoint), "{message}");
    let shown = format!("{message} {error:?} {client:?}");
    assert!(!shown.contains(WRONG) && !shown.contains("wrong-key"), "{shown}");
}

/// Returns the wrong key until it is refreshed.
#[derive(Debug)]
struct Rotating {
    right: Key,
    refreshed: Arc<AtomicU64>,
}

#[async_trait]
impl CredentialSource for Rotating {
    async fn credential(&self) -> Result<Credential, Error> {
        match self.refreshed.load(Ordering::SeqCst) {
            0 => Key::from_base64(WRONG).map(Credential::Key),
            _ => Ok(Credential::Key(self.right.clone())),
        }
    }

    async fn refresh(&self, refused: &Credential) -> Result<Credential, Error> {
        assert!(*refused == Credential::Key(Key::from_base64(WRONG)?));
        self.refreshed.fetch_add(1, Ordering::SeqCst);
        Ok(Credential::Key(self.right.clone()))
    }
}

#[tokio::test]
async fn a_rotated_key_is_fetched_once_and_the_request_succeeds() {
    let account = account().await;
    let refreshed = Arc::new(AtomicU64::new(0));
    let right = Key::from_base64(&account.server.listener().key()).unwrap();
    let source = Rotating {
        right,
        refreshed: Arc::clone(&refreshed),
    };
    let client = CosmosClient::new(ClientConfig::new(&account.server.listener().endpoint(), source).unwrap());
    let container = client.container("db", "things");
    create(&container, Retry::Once).await.unwrap();
    assert!(container.read::<Value>(&pk("p"), "a").await.unwrap().is_some());
    assert_eq!(
        refreshed.load(Ordering::SeqCst),
        1,
        "the second request had the new key from the start"
    );
}

#[tokio::test]
async fn a_key_that_is_refused_even_when_new_is_final_after_one_refresh() {
    let server = Scripted::playing(vec![answer(401)]).await;
    let refreshed = Arc::new(AtomicU64::new(0));
    let source = Rotating {
        right: Key::from_base64(support::KEY).unwrap(),
        refreshed: Arc::clone(&refreshed),
    };
    let client = CosmosClient::new(ClientConfig::new(&server.endpoint, source).unwrap());
    let error = client
        .container("db", "c")
        .read::<Value>(&pk("p"), "a")
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Unauthorized { .. }), "{error}");
    assert_eq!((refreshed.load(Ordering::SeqCst), server.seen().len()), (1, 2));
}

#[derive(Debug)]
struct Broken;

#[async_trait]
impl CredentialSource for Broken {
    async fn credential(&self) -> Result<Credential, Error> {
        Err(Error::credential_source("the vault is closed"))
    }
}

#[tokio::test]
async fn a_key_source_that_fails_is_reported_and_nothing_is_sent() {
    let server = Scripted::playing(vec![answer(200)]).await;
    let client = CosmosClient::new(ClientConfig::new(&server.endpoint, Broken).unwrap());
    let error = client
        .container("db", "c")
        .read::<Value>(&pk("p"), "a")
        .await
        .unwrap_err();
    assert!(error.to_string().contains("the vault is closed"), "{error}");
    assert!(server.seen().is_empty());
}

/// The machine's clock plus some milliseconds.
#[derive(Debug)]
struct Skewed(i64);

impl Clock for Skewed {
    fn now_ms(&self) -> u64 {
        SystemClock.now_ms().saturating_add_signed(self.0)
    }
}

#[tokio::test]
async fn a_clock_over_15_minutes_off_is_named_as_the_cause() {
    let account = account().await;
    for (minutes, fine) in [(-14, true), (14, true), (-17, false), (17, false)] {
        let clock = Arc::new(Skewed(minutes * 60_000));
        let client = CosmosClient::new(config(&account.server).clock(clock));
        let result = client.container("db", "things").read::<Value>(&pk("p"), "a").await;
        if fine {
            assert!(result.unwrap().is_none(), "{minutes}");
            continue;
        }
        let error = result.unwrap_err();
        assert!(
            matches!(error, Error::ClockSkew { .. }) && !error.is_transient(),
            "{minutes}: {error}"
        );
        let message = error.to_string();
        assert!(message.contains("15 minutes") && message.contains("GMT"), "{message}");
    }
}

#[tokio::test]
async fn a_firewall_and_a_full_partition_are_different_errors() {
    let server = Scripted::playing(vec![
        answer(403).saying(json!({"message": "blocked by your Cosmos DB account firewall settings"})),
        answer(403).with("x-ms-substatus", 1014),
    ])
    .await;
    let container = server.container();
    let error = create(&container, Retry::Once).await.unwrap_err();
    assert!(
        matches!(error, Error::Forbidden { .. }) && error.to_string().contains("firewall"),
        "{error}"
    );
    let error = create(&container, Retry::Once).await.unwrap_err();
    assert!(
        matches!(error, Error::PartitionFull { .. }) && error.to_string().contains("20 GB"),
        "{error}"
    );
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = Scripted::playing(vec![answer(200)]).await;
    let server = Scripted::playing(vec![answer(307).with("location", &elsewhere.endpoint)]).await;
    let error = server.container().read::<Value>(&pk("p"), "a").await.unwrap_err();
    assert!(matches!(error, Error::BadRequest { .. }), "{error}");
    assert!(elsewhere.seen().is_empty(), "the signature went to another host");
}

#[tokio::test]
async fn a_client_for_https_warms_up_without_a_network() {
    let config = ClientConfig::new("https://nowhere.documents.azure.com:443/", support::key()).unwrap();
    let container = CosmosClient::new(config).container("db", "things");
    assert!(container.warm().is_ok());
}
