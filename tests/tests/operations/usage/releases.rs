//! Documents without usage, and releases that do not know it.

use super::support::*;
use cosmos_emulator::ServerOptions;
use serde_json::{Value, json};
use std::sync::Arc;
use tests::turns::*;
use tests::{ManualClock, World};

const I: &str = "order";

async fn heard_by(provider: &duroxide_cosmos::CosmosProvider, event: u64) {
    enqueue(provider, raised(I, "a")).await;
    let turn = turn(provider, I).await;
    commit(provider, &turn.lock_token, Decision::of(vec![heard(I, 1, event)]))
        .await
        .expect("it commits");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_of_an_earlier_release_is_counted_from_now_on() {
    let world = World::local(ServerOptions::default()).await;
    let provider = world.provider_at(&Arc::new(ManualClock::default())).await;
    begin(&provider, I).await;
    rewrite(&world, I, |doc| {
        doc.as_object_mut().expect("an object").remove("usage");
    })
    .await;
    let summary = provider.instance_summary(I).await.expect("the store answers");
    assert_eq!(summary.expect("an instance").usage, None);
    heard_by(&provider, 2).await;
    assert_eq!(usage_of(&provider, I).await.turns, 1);
}

/// An older release keeps the field as it is, whatever it commits, and so do we with what a newer one adds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_of_another_release_is_not_counted_and_nothing_is_counted_twice() {
    let world = World::local(ServerOptions::default()).await;
    let listener = world.open_listener().await;
    let clock: Arc<dyn cosmos::Clock> = Arc::new(ManualClock::default());
    let provider = tests::connect(world.builder_through(&listener).clock(clock)).await;
    begin(&provider, I).await;
    let mut kept = world.document(I, "instance").await.expect("an instance")["usage"].clone();
    kept["joules"] = json!(7);
    heard_by(&provider, 2).await;
    // As if the second turn had been the other release's.
    rewrite(&world, I, |doc| doc["usage"] = kept).await;
    heard_by(&provider, 3).await;
    let usage = usage_of(&provider, I).await;
    assert_eq!(usage.turns, 2);
    Store::of(usage).is_within(Store::counted([&listener]));
    let stored = world.document(I, "instance").await.expect("an instance");
    assert_eq!(stored["usage"]["joules"], 7);
    assert_eq!(stored["v"], 1, "it needs no guard");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_usage_stays_small_however_many_turns_there_are() {
    let world = World::local(ServerOptions::default()).await;
    let clock = Arc::new(ManualClock::default());
    let provider = world.provider_at(&clock).await;
    begin(&provider, I).await;
    for event in 2..42 {
        // Each turn has a process of its own: nobody knows what the commits before have cost.
        let process = world.provider_at(&clock).await;
        heard_by(&process, event).await;
    }
    let stored = world.document(I, "instance").await.expect("an instance");
    let usage: &Value = &stored["usage"];
    assert!(
        usage["awaited"].as_array().is_some_and(|awaited| awaited.len() == 16),
        "{usage}"
    );
    assert!(usage.to_string().len() < 400, "{usage}");
    assert_eq!(usage["turns"], 41);
}
