//! The errors of a first connection: what is wrong, where, and what to do. Never the key.

use cosmos::{
    ClientConfig, Clock, ContainerSpec, CosmosClient, IndexingPolicy, Key, StaticKey, SystemClock, Throughput,
};
use cosmos_emulator::ServerOptions;
use duroxide::providers::Provider;
use duroxide_cosmos::{CosmosConfig, CosmosConfigBuilder, CosmosProvider};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tests::turns::*;
use tests::{World, patiently};

const WRONG_KEY: &str = "d3Jvbmcta2V5LXdyb25nLWtleS13cm9uZy1rZXk=";

fn config(endpoint: &str, key: &str) -> CosmosConfigBuilder {
    let key = StaticKey::new(Key::from_base64(key).expect("the key is base64"));
    CosmosConfig::builder(endpoint, key).operation_timeout(Duration::from_secs(2))
}

/// What a user sees who connects, and then calls.
async fn first_words(config: CosmosConfigBuilder, keys: &[&str]) -> String {
    let connected = CosmosProvider::connect(config.build()).await;
    let (shown, words) = match connected {
        Err(error) => (format!("{error:?}"), error.to_string()),
        Ok(provider) => {
            let enqueued = provider.enqueue_for_orchestrator(start_of("order"), None).await;
            let error = enqueued.expect_err("the first call fails");
            // A query may answer with nothing where a write is refused.
            let fetched = provider.fetch_turn("order", LOCK, None).await;
            let fetched = fetched.map_or_else(|error| format!("{error} {error:?}"), |found| format!("{found:?}"));
            (format!("{error:?} {fetched} {provider:?}"), error.to_string())
        }
    };
    for key in keys {
        assert!(!shown.contains(key) && !words.contains(key), "a key is shown: {shown}");
    }
    words
}

fn assert_says(words: &str, parts: &[&str]) {
    for part in parts {
        assert!(
            words.to_lowercase().contains(&part.to_lowercase()),
            "'{part}' is missing in: {words}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_error_about_a_wrong_key_names_it() {
    let world = World::local(ServerOptions::default()).await;
    let (database, container) = world.names();
    let endpoint = world.listener().endpoint();
    for create in [false, true] {
        let mut config = config(&endpoint, WRONG_KEY).database(database).container(container);
        if create {
            config = config.create_with(Throughput::Serverless);
        }
        let words = first_words(config, &[WRONG_KEY, &world.listener().key()]).await;
        assert_says(&words, &["key", "check", &endpoint]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_refuses_or_never_answers_is_named_within_the_timeout() {
    // On a machine that stalls, the time limit may end before the first attempt.
    patiently(async || {
        // Bound and listening, but it never answers.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let (refused, _refusing) = tests::refused_address();
        for address in [silent.local_addr().expect("an address"), refused] {
            for create in [false, true] {
                let endpoint = format!("http://{address}");
                let mut config = config(&endpoint, WRONG_KEY);
                if create {
                    config = config.create_with(Throughput::Serverless);
                }
                let begun = Instant::now();
                let words = first_words(config, &[WRONG_KEY]).await;
                // Two calls of 2 s; without their own limit they would take 30 s each.
                let took = begun.elapsed();
                assert!(took < Duration::from_secs(25), "{took:?}");
                assert_says(&words, &[&address.to_string()]);
            }
        }
        drop(silent);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_endpoint_or_key_is_refused_without_printing_it() {
    let words = first_words(config("http://name.documents.azure.com", WRONG_KEY), &[WRONG_KEY]).await;
    assert_says(&words, &["plain http", "https", "name.documents.azure.com"]);
    let string = format!("AccountEndpoint=https://x.documents.azure.com:443/;AccountKey={WRONG_KEY};");
    let words = first_words(config(&string, WRONG_KEY), &[WRONG_KEY]).await;
    assert_says(&words, &["connection string"]);
    for bad in ["not*base64", "", "d3Jvbmcta2V5LXdyb25nLWtle"] {
        let error = Key::from_base64(bad).expect_err("no key");
        assert_says(&error.to_string(), &["key", "keys"]);
        assert!(
            bad.is_empty() || !format!("{error} {error:?}").contains(bad),
            "{error:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_container_with_another_partition_key_is_named_in_the_error() {
    let world = World::local(ServerOptions::default()).await;
    let (database, _) = world.names();
    let (endpoint, key) = (world.listener().endpoint(), world.listener().key());
    let static_key = StaticKey::new(Key::from_base64(&key).expect("the key is base64"));
    let client = CosmosClient::new(ClientConfig::new(&endpoint, static_key).expect("a config"));
    let spec = ContainerSpec {
        name: "foreign".to_owned(),
        partition_key_path: "/tenant".to_owned(),
        indexing: IndexingPolicy {
            included: vec!["/*".to_owned()],
            excluded: Vec::new(),
            composite: Vec::new(),
        },
        default_ttl: None,
        throughput: Throughput::Serverless,
    };
    client
        .ensure_container(database, &spec)
        .await
        .expect("the container is created");
    let config = config(&endpoint, &key).database(database).container("foreign");
    let words = first_words(config.clone().create_with(Throughput::Serverless), &[&key]).await;
    assert_says(&words, &["foreign", "/tenant", "/pk", "partition key"]);
    // Without `create_with` nothing is compared: the first call gets the service's refusal.
    let words = first_words(config, &[&key]).await;
    assert_says(&words, &["PartitionKey", "foreign"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_error_about_a_missing_container_or_database_says_to_create_it() {
    let world = World::local(ServerOptions::default()).await;
    let (database, container) = world.names();
    let (endpoint, key) = (world.listener().endpoint(), world.listener().key());
    for (database, container) in [(database, "nowhere"), ("nowhere", container)] {
        let words = first_words(config(&endpoint, &key).database(database).container(container), &[&key]).await;
        assert_says(&words, &["does not exist", "create it"]);
    }
}

/// A clock that is off by so many milliseconds.
#[derive(Debug)]
struct Skewed(i64);

impl Clock for Skewed {
    fn now_ms(&self) -> u64 {
        SystemClock.now_ms().saturating_add_signed(self.0)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_twenty_minutes_off_is_named_in_the_error() {
    let world = World::local(ServerOptions::default()).await;
    let (database, container) = world.names();
    let (endpoint, key) = (world.listener().endpoint(), world.listener().key());
    for minutes in [-20, 20] {
        let config = config(&endpoint, &key).database(database).container(container);
        let words = first_words(config.signing_clock(Arc::new(Skewed(minutes * 60_000))), &[&key]).await;
        assert_says(&words, &["clock", "15 minutes"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connecting_sends_nothing_and_starts_nothing() {
    let world = World::local(ServerOptions::default()).await;
    let provider = world.provider().await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(world.listener().counts().requests, 0, "{:?}", world.listener().log());
    begin(&provider, "order").await;
    let after = world.listener().counts().requests;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(
        world.listener().counts().requests,
        after,
        "something runs between calls"
    );
}
