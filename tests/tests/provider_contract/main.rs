//! duroxide's own provider validation suite, every function of it, and its stress tests, on the emulator.
//!
//! One polling style is left out: `test_short_poll_*` demands that a fetch returns at once although it may wait. This
//! provider waits (long polling), and the suite's tests of that style are here. `coverage` compares the list in `suite`
//! with the suite's source.
//!
//! The other files test what the suite does not: whole orchestrations under duroxide's polling runtime, and what its dispatchers
//! do to a provider.

mod affinity_sessions;
mod coverage;
mod dropped_fetch;
mod first_fetch;
mod rolling_deployment;
mod stress;
mod suite;

use async_trait::async_trait;
use duroxide::provider_validations::ProviderFactory;
use duroxide::providers::Provider;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tests::World;

/// Makes providers for the suite, each on a container of its own. The hooks act on the newest.
#[derive(Default)]
struct Factory {
    worlds: Mutex<Vec<Arc<World>>>,
    /// Its providers know no history. A test that corrupts a history wants it to be read again; one that a provider knows
    /// cannot break.
    reads_again: bool,
}

impl Factory {
    /// For the tests of one module of the suite.
    fn of(module: &str) -> Factory {
        Factory {
            reads_again: module == "capability_filtering",
            ..Factory::default()
        }
    }

    async fn fresh_provider(&self) -> Arc<dyn Provider> {
        let world = Arc::new(World::start().await);
        let provider = match self.reads_again {
            true => tests::connect(world.builder().history_cache(0)).await,
            false => world.provider().await,
        };
        self.worlds
            .lock()
            .expect("nobody panics while holding this")
            .push(world);
        provider
    }

    fn world(&self) -> Arc<World> {
        let worlds = self.worlds.lock().expect("nobody panics while holding this");
        Arc::clone(worlds.last().expect("a provider was made"))
    }
}

#[async_trait]
impl ProviderFactory for Factory {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        self.fresh_provider().await
    }

    /// Long enough that a busy machine does not lose a lock between two calls; the suite waits for the end of some.
    fn lock_timeout(&self) -> Duration {
        Duration::from_secs(5)
    }

    fn short_poll_threshold(&self) -> Duration {
        Duration::from_secs(2)
    }

    async fn corrupt_instance_history(&self, instance: &str) {
        let pk = cosmos::PartitionKey::new(instance).expect("a valid instance id");
        let raw = self.world().raw();
        let query = cosmos::Query::new("SELECT * FROM c WHERE c.type = 'history'");
        let docs: Vec<Value> = raw.query(&pk, &query).await.expect("history can be read");
        assert!(!docs.is_empty(), "there is a history to corrupt");
        for mut doc in docs {
            for event in doc["events"].as_array_mut().expect("events are an array") {
                *event = json!({ "from": "the future" });
            }
            let id = doc["id"].as_str().expect("an id").to_owned();
            raw.replace(&pk, &id, &doc, None, cosmos::Retry::Idempotent)
                .await
                .expect("history can be replaced");
        }
    }

    async fn get_max_attempt_count(&self, instance: &str) -> u32 {
        let lock = self
            .world()
            .document(instance, "instance")
            .await
            .expect("the instance has a lock");
        let attempts = lock["attempts"].as_object().cloned().unwrap_or_default();
        attempts.values().filter_map(Value::as_u64).max().unwrap_or(0) as u32
    }
}
