//! Many instances, with functions that are killed all the time.

use super::support::*;
use crate::pause::support::Scene;
use cosmos_emulator::{CrashPoint, ServerOptions};
use duroxide_cosmos::InstanceFilter;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tests::until_crash;

/// An instance document, as a turn would have left it.
fn document(n: usize, created_at: u64) -> Value {
    json!({
        "id": "instance", "pk": format!("i-{n}"), "type": "instance", "sortKey": "2", "name": "Sample", "version": "1.2.0",
        "createdAt": created_at, "updatedAt": created_at, "execution": 1, "status": "Running", "startedAt": created_at, "events": 1,
        "eventBytes": 10, "lastEventId": 1, "head": "c", "carried": 0, "executions": 1, "earlierEvents": 0,
        "customStatusVersion": 0, "kvRev": 0, "commits": ["c"], "v": 1,
    })
}

async fn load(scene: &Scene, count: usize) {
    let created_at = now(scene) - 10_000_000;
    let (db, container) = scene.world.names();
    let documents = (0..count).map(|n| document(n, created_at + n as u64));
    let loaded = scene.world.server().load(db, container, documents).await;
    loaded.expect("the documents are written");
}

/// A number that depends on the seed alone.
fn chance(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

/// Raises an event for so many instances, by functions of which each is killed after some writes.
async fn by_mortal_functions(count: usize, most_writes: u64) {
    let begun = Instant::now();
    // For each batch the emulator copies a whole physical partition, so that this one has few documents.
    let partitions = 4.max(count as u32 / 500);
    let scene = Scene::on(ServerOptions {
        partitions,
        ..ServerOptions::default()
    })
    .await;
    load(&scene, count).await;
    let filter = InstanceFilter {
        name: Some("Sample".to_owned()),
        version: Some("1.2.0".to_owned()),
        ..all()
    };
    let mut request = request(raise(), filter);
    request.rate = 500;
    start(&scene, "b", &request).await;
    let (mut seed, mut killed) = (0x9e37_79b9_7f4a_7c15, 0);
    let ended = loop {
        let (listener, function) = scene.process(Duration::from_secs(10)).await;
        let when = match chance(&mut seed) % 2 {
            0 => CrashPoint::BeforeApplied,
            _ => CrashPoint::AfterApplied,
        };
        listener.crash_at_write(1 + chance(&mut seed) % most_writes, when);
        match until_crash(&listener, finish(&scene, &function, "b")).await {
            Some(ended) => break ended,
            None => killed += 1,
        }
        scene.clock.advance(AFTER_ANY_PAUSE);
    };
    let expected = count as u64;
    assert_eq!(counts(&ended), [expected, expected, 0, 0, 0], "after {killed} deaths");
    let raised = messages(&scene, "ExternalRaised").await;
    assert_eq!(raised.len(), count);
    assert!(raised.iter().all(|(_, count)| *count == 1), "each instance once");
    assert!(killed as usize >= count / most_writes as usize, "{killed} deaths");
    println!(
        "{count} instances, {killed} functions killed, {:.1} s",
        begun.elapsed().as_secs_f64()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_that_are_killed_all_the_time_handle_each_instance_once() {
    by_mortal_functions(300, 120).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: 2,000 instances; BATCH_INSTANCES sets another number"]
async fn thousands_of_instances_are_handled_once_by_functions_that_are_killed_every_few_steps() {
    let count = std::env::var("BATCH_INSTANCES").map_or(2_000, |count| count.parse().expect("a number"));
    by_mortal_functions(count, 400).await;
}
