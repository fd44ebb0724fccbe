//! The usage of an instance, and what listeners have counted.

use cosmos_emulator::{Counts, Listener};
use duroxide_cosmos::{CosmosProvider, Usage};
use serde_json::Value;
use tests::World;

pub async fn usage_of(provider: &CosmosProvider, instance: &str) -> Usage {
    let summary = provider.instance_summary(instance).await.expect("the store answers");
    summary.expect("an instance").usage.expect("it is counted")
}

/// What listeners have counted, as usage counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store {
    pub requests: u64,
    pub milli_request_units: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
}

impl Store {
    pub fn counted<'a>(listeners: impl IntoIterator<Item = &'a Listener>) -> Store {
        let all: Vec<Counts> = listeners.into_iter().map(Listener::counts).collect();
        let sum = |of: fn(&Counts) -> u64| all.iter().map(of).sum::<u64>();
        Store {
            requests: sum(|counts| counts.requests),
            milli_request_units: sum(|counts| counts.charge_hundredths) * 10,
            bytes_read: sum(|counts| counts.response_bytes),
            bytes_written: sum(|counts| counts.request_bytes),
        }
    }

    /// The same with the request of a commit, which is counted in advance.
    pub fn and_commit(self) -> Store {
        Store {
            requests: self.requests + 1,
            ..self
        }
    }

    pub fn of(usage: Usage) -> Store {
        Store {
            requests: usage.requests,
            milli_request_units: usage.milli_request_units,
            bytes_read: usage.bytes_read,
            bytes_written: usage.bytes_written,
        }
    }

    /// Fails if more was counted than the listeners have.
    #[track_caller]
    pub fn is_within(self, all: Store) {
        let is_within = self.requests <= all.requests
            && self.milli_request_units <= all.milli_request_units
            && self.bytes_read <= all.bytes_read
            && self.bytes_written <= all.bytes_written;
        assert!(is_within, "counted twice: {self:?} of {all:?}");
    }
}

/// Rewrites the instance document, as another release or an operator would.
pub async fn rewrite(world: &World, instance: &str, change: impl FnOnce(&mut Value)) {
    let pk = cosmos::PartitionKey::new(instance).expect("a partition key");
    let raw = world.raw();
    let found = raw.read::<Value>(&pk, "instance").await.expect("it can be read");
    let mut doc = found.expect("an instance").doc;
    change(&mut doc);
    let written = raw
        .replace(&pk, "instance", &doc, None, cosmos::Retry::Idempotent)
        .await;
    written.expect("it is written");
}
