//! A store with instance documents as turns would have left them, for tests of what is found and counted.

use cosmos_emulator::ServerOptions;
use duroxide_cosmos::{Clock, CosmosProvider};
use serde_json::{Value, json};
use std::sync::Arc;
use tests::{ManualClock, PATIENCE, World, connect};

pub(crate) const RANGES: u32 = 3;

pub(crate) async fn world() -> (World, Arc<ManualClock>, Arc<CosmosProvider>) {
    let world = World::local(ServerOptions {
        partitions: RANGES,
        count_examined: true,
        keep_log: false,
        ..ServerOptions::default()
    })
    .await;
    let clock = Arc::new(ManualClock::default());
    // The emulator copies a range for each batch: with 100,000 documents that takes a part of a second.
    let patient = world
        .builder()
        .request_timeout(PATIENCE)
        .operation_timeout(2 * PATIENCE);
    let provider = connect(patient.clock(Arc::clone(&clock) as Arc<dyn Clock>)).await;
    (world, clock, provider)
}

/// An instance document, as a turn would have left it.
pub(crate) fn document(pk: &str, created_at: u64, fields: Value) -> Value {
    let mut document = json!({
        "id": "instance", "pk": pk, "type": "instance", "sortKey": "2", "name": "Sample", "version": "1.0.0", "createdAt": created_at,
        "updatedAt": created_at, "execution": 1, "status": "Running", "startedAt": created_at, "events": 1, "eventBytes": 10,
        "lastEventId": 1, "head": "c", "carried": 0, "executions": 1, "earlierEvents": 0, "customStatusVersion": 0, "kvRev": 0,
        "commits": ["c"], "v": 1,
    });
    for (name, value) in fields.as_object().expect("an object") {
        match value {
            Value::Null => document.as_object_mut().expect("an object").remove(name),
            value => document
                .as_object_mut()
                .expect("an object")
                .insert(name.clone(), value.clone()),
        };
    }
    document
}

pub(crate) async fn load(world: &World, documents: impl IntoIterator<Item = Value>) {
    let (db, container) = world.names();
    let loaded = world.server().load(db, container, documents).await;
    loaded.expect("the documents are written");
}

pub(crate) fn blocked(since: u64) -> Value {
    json!({ "cause": "panic", "reason": "it panicked", "build": "b", "since": since, "tries": 1, "until": since + 1, "listed": true })
}
