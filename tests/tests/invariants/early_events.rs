//! Events for an instance that does not exist yet, racing with its start.

use cosmos_emulator::{Faults, ServerOptions};
use duroxide::providers::{Provider, ProviderAdmin, WorkItem};
use duroxide_cosmos::{CosmosProvider, Fetched, TurnItem};
use std::sync::Arc;
use std::time::Duration;
use tests::turns::*;
use tests::{ManualClock, World};

/// So many that setting them aside takes as long as starting the instance.
const EVENTS: usize = 6;

/// What duroxide's runtime does with a turn: its lock is renewed meanwhile, and if it cannot be committed, a failure
/// is, with the same token. Answers how many messages the turn has consumed.
async fn run_turn(provider: &CosmosProvider, instance: &str, turn: TurnItem) -> usize {
    let is_first = turn.item.history.is_empty();
    let begins = || Decision::of(Vec::from_iter(is_first.then(|| started(instance, 1))));
    let token = turn.lock_token.as_str();
    let renewing = provider.renew_orchestration_item_lock(token, LOCK);
    let (outcome, _renewed) = futures::join!(commit(provider, token, begins()), renewing);
    if let Err(error) = outcome {
        let fails = Decision {
            metadata: ended("Failed", &error.to_string()),
            ..begins()
        };
        let outcome = commit(provider, token, fails).await;
        assert!(outcome.is_err(), "{instance} has failed for good: {error}");
        return 0;
    }
    turn.item.messages.len()
}

/// Runs the turn that is due, if one is. Answers how many messages it has consumed.
async fn fetch(provider: &CosmosProvider, instance: &str) -> usize {
    let fetched = provider.fetch_turn(instance, LOCK, None).await;
    match fetched.expect("the fetch succeeds") {
        Fetched::Ready(turn) => run_turn(provider, instance, turn).await,
        _ => 0,
    }
}

/// A process whose requests take a random moment longer, so that events come in many orders.
async fn jittery(world: &World, clock: &Arc<ManualClock>, seed: u64) -> Arc<CosmosProvider> {
    let (listener, provider) = world.process_at(clock).await;
    listener.set_faults(Faults {
        seed,
        jitter: Duration::from_millis(10),
        ..Faults::default()
    });
    provider
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_races_with_events_is_processed() {
    race(5).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: 40 races"]
async fn a_start_that_races_with_events_is_always_processed() {
    race(40).await;
}

/// The races of `interleavings`, by chance instead of by design.
async fn race(rounds: u64) {
    let world = World::local(ServerOptions::default()).await;
    let clock = Arc::new(ManualClock::default());
    let client = world.provider_at(&clock).await;
    let (one, other) = (jittery(&world, &clock, 1).await, jittery(&world, &clock, 2).await);
    for round in 0..rounds {
        let instance = &format!("raced-{round}");
        for data in 0..EVENTS {
            let early = WorkItem::QueueMessage {
                instance: instance.clone(),
                name: "inbox".to_owned(),
                data: data.to_string(),
            };
            enqueue(&client, early).await;
        }
        let looking = async {
            let mut consumed = 0;
            for _ in 0..3 {
                consumed += fetch(&one, instance).await;
            }
            consumed
        };
        let starting = async {
            tokio::time::sleep(Duration::from_micros(round % 10 * 1_000)).await;
            enqueue(&client, start_of(instance)).await;
            fetch(&other, instance).await
        };
        let (first, second) = futures::join!(looking, starting);
        let mut consumed = first + second;
        for _ in 0..5 {
            consumed += fetch(&other, instance).await;
            // A lock that was renewed while it was released stays until it expires.
            clock.advance(LATER);
        }
        let info = other.get_instance_info(instance).await.expect("the start is processed");
        assert_eq!(info.status, "Running", "{instance}");
        assert_eq!(consumed, 1 + EVENTS, "{instance}: the start and each event, once");
    }
}
