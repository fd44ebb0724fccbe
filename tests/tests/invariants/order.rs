//! The order of a turn's messages: by the time at which each was due originally, then by arrival.
//!
//! Wakeups are lost here: nobody fetches until everything is due, and one turn takes it all.

use cosmos::Clock;
use cosmos_emulator::{Refusing, RequestKind, RequestRecord, ServerOptions};
use duroxide::providers::{Provider, WorkItem};
use duroxide_cosmos::{CosmosProvider, Fetched};
use std::sync::Arc;
use std::time::Duration;
use tests::turns::*;
use tests::{ManualClock, World, recover};

const SECOND: Duration = Duration::from_secs(1);

struct Site {
    world: World,
    clock: Arc<ManualClock>,
    provider: Arc<CosmosProvider>,
}

impl Site {
    async fn new() -> Site {
        let world = World::local(ServerOptions::default()).await;
        let clock = Arc::new(ManualClock::default());
        let provider = world.provider_at(&clock).await;
        Site { world, clock, provider }
    }

    /// Starts an instance whose first turn makes a timer of so many seconds.
    async fn with_timer(&self, instance: &str, seconds: u64) {
        enqueue(&self.provider, start_of(instance)).await;
        let held = turn(&self.provider, instance).await;
        let decision = Decision {
            events: vec![started(instance, 1)],
            messages: vec![timer(instance, self.clock.now_ms() + seconds * 1_000)],
            ..Decision::default()
        };
        commit(&self.provider, &held.lock_token, decision)
            .await
            .expect("it commits");
    }

    async fn raise(&self, instance: &str, data: &str, delay: Option<Duration>) {
        let queued = self
            .provider
            .enqueue_for_orchestrator(raised(instance, data), delay)
            .await;
        queued.expect("it is accepted");
    }

    /// What the next turn takes, in its order.
    async fn taken(&self, instance: &str) -> Vec<String> {
        let turn = turn(&self.provider, instance).await;
        turn.item.messages.iter().map(name_of).collect()
    }
}

fn timer(instance: &str, fire_at_ms: u64) -> WorkItem {
    WorkItem::TimerFired {
        instance: instance.to_owned(),
        execution_id: 1,
        id: 2,
        fire_at_ms,
    }
}

fn name_of(item: &WorkItem) -> String {
    match item {
        WorkItem::TimerFired { .. } => "timer".to_owned(),
        WorkItem::ExternalRaised { data, .. } => data.clone(),
        WorkItem::StartOrchestration { .. } | WorkItem::ContinueAsNew { .. } => "start".to_owned(),
        WorkItem::CancelInstance { reason, .. } => reason.clone(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_event_accepted_before_a_timer_was_due_comes_before_it() {
    let site = Site::new().await;
    site.with_timer("order", 20).await;
    site.clock.advance(2 * SECOND);
    site.raise("order", "in time", None).await;
    site.clock.advance(20 * SECOND);
    site.raise("order", "too late", None).await;
    assert_eq!(site.taken("order").await, ["in time", "timer", "too late"]);
}

#[tokio::test]
async fn of_messages_due_at_the_same_moment_the_first_to_arrive_comes_first() {
    let site = Site::new().await;
    site.raise("order", "delayed before", Some(20 * SECOND)).await;
    site.with_timer("order", 20).await;
    site.raise("order", "delayed after", Some(20 * SECOND)).await;
    site.clock.advance(20 * SECOND);
    site.raise("order", "at that moment", None).await;
    assert_eq!(
        site.taken("order").await,
        ["delayed before", "timer", "delayed after", "at that moment"]
    );
}

#[tokio::test]
async fn a_turn_that_is_given_back_with_a_delay_keeps_the_place_of_its_messages() {
    let site = Site::new().await;
    site.with_timer("order", 20).await;
    site.clock.advance(2 * SECOND);
    site.raise("order", "given back", None).await;
    let held = turn(&site.provider, "order").await;
    let given_back = site
        .provider
        .abandon_orchestration_item(&held.lock_token, Some(60 * SECOND), true);
    given_back.await.expect("it is given back");
    site.clock.advance(30 * SECOND);
    site.raise("order", "later", None).await;
    site.clock.advance(60 * SECOND);
    assert_eq!(site.taken("order").await, ["given back", "timer", "later"]);
}

/// A build that does not know the next execution puts its start off: what comes meanwhile must not overtake what was put
/// off with it.
#[tokio::test]
async fn between_two_executions_everything_waits_for_the_start_of_the_next() {
    let site = Site::new().await;
    enqueue(&site.provider, start_of("order")).await;
    let first = turn(&site.provider, "order").await;
    let decision = Decision {
        events: vec![started("order", 1)],
        messages: vec![WorkItem::ContinueAsNew {
            instance: "order".to_owned(),
            orchestration: "Sample".to_owned(),
            input: "{}".to_owned(),
            version: Some("2.0.0".to_owned()),
            parent_instance: None,
            parent_id: None,
            parent_execution_id: None,
            carry_forward_events: Vec::new(),
            initial_custom_status: None,
        }],
        metadata: ended("ContinuedAsNew", "{}"),
        ..Decision::default()
    };
    commit(&site.provider, &first.lock_token, decision)
        .await
        .expect("it continues as new");
    site.raise("order", "0", None).await;
    let held = turn(&site.provider, "order").await;
    let put_off = site
        .provider
        .abandon_orchestration_item(&held.lock_token, Some(60 * SECOND), true);
    put_off.await.expect("it is put off");
    site.clock.advance(SECOND);
    site.raise("order", "1", None).await;
    let fetched = site.provider.fetch_turn("order", LOCK, None).await.expect("a fetch");
    assert!(matches!(fetched, Fetched::Busy { .. }), "{fetched:?}");
    site.clock.advance(60 * SECOND);
    assert_eq!(site.taken("order").await, ["start", "0", "1"]);
}

#[tokio::test]
async fn a_message_of_another_instance_that_is_delivered_late_keeps_its_place() {
    let site = Site::new().await;
    site.with_timer("order", 20).await;
    site.clock.advance(2 * SECOND);
    enqueue(&site.provider, start_of("sender")).await;
    let (listener, sender) = site.world.process_at(&site.clock).await;
    listener.refuse_when(|request: &RequestRecord| {
        let is_delivery =
            request.kind == RequestKind::Create && request.partition_key.as_deref() == Some("[\"order\"]");
        is_delivery.then(|| Refusing::with(403))
    });
    let held = turn(&sender, "sender").await;
    let decision = Decision {
        events: vec![started("sender", 1)],
        messages: vec![WorkItem::CancelInstance {
            instance: "order".to_owned(),
            reason: "sent in time".to_owned(),
        }],
        ..Decision::default()
    };
    commit(&sender, &held.lock_token, decision).await.expect("it commits");
    site.clock.advance(30 * SECOND);
    assert_eq!(recover(&site.provider).await.intents, 1);
    assert_eq!(site.taken("order").await, ["sent in time", "timer"]);
}

#[tokio::test]
async fn a_start_behind_more_messages_than_a_turn_takes_comes_first() {
    let site = Site::new().await;
    for n in 0..8 {
        let events = (0..150).map(|m| raise(&site, "order", format!("{n}-{m}")));
        futures::future::join_all(events).await;
    }
    site.clock.advance(SECOND);
    enqueue(&site.provider, start_of("order")).await;
    let turn = turn(&site.provider, "order").await;
    assert_eq!(name_of(&turn.item.messages[0]), "start");
    assert!(turn.more && turn.item.messages.len() < 1_200, "one page of many");
}

async fn raise(site: &Site, instance: &str, data: String) {
    site.raise(instance, &data, None).await;
}

#[tokio::test]
async fn a_timer_that_is_enqueued_without_a_delay_is_visible_at_once() {
    let site = Site::new().await;
    begin(&site.provider, "order").await;
    let fires_at = site.clock.now_ms() + 3_600_000;
    enqueue(&site.provider, timer("order", fires_at)).await;
    assert_eq!(site.taken("order").await, ["timer"]);

    // With a delay, it is visible after the delay; the timer of a turn, when it fires.
    begin(&site.provider, "delayed").await;
    let delayed = site
        .provider
        .enqueue_for_orchestrator(timer("delayed", fires_at), Some(10 * SECOND));
    delayed.await.expect("it is accepted");
    site.with_timer("own", 10).await;
    for instance in ["delayed", "own"] {
        let fetched = site.provider.fetch_turn(instance, LOCK, None).await.expect("a fetch");
        assert!(matches!(fetched, Fetched::Nothing), "{instance}: {fetched:?}");
    }
    site.clock.advance(10 * SECOND);
    assert_eq!(site.taken("delayed").await, ["timer"]);
    assert_eq!(site.taken("own").await, ["timer"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_waited_for_its_start_is_not_overtaken_in_a_turn_that_has_read_its_clock_before() {
    let site = Site::new().await;
    site.raise("early", "first", None).await;
    let fetched = site.provider.begin_turn("early", None, LOCK, None).await;
    assert!(matches!(fetched, Ok(Fetched::Nothing)), "{fetched:?}");
    site.clock.advance(SECOND);
    enqueue(&site.provider, start_of("early")).await;
    site.raise("early", "second", None).await;
    // The other process has read its clock now, and its query arrives after the first message was put back.
    let slow_clock = Arc::new(ManualClock::default());
    slow_clock.advance(SECOND);
    let slow = site.world.provider_at(&slow_clock).await;
    site.clock.advance(2 * SECOND);
    assert!(slow_clock.now_ms() < site.clock.now_ms());
    for provider in [&site.provider, &slow] {
        let turn = ready(provider.begin_turn("early", None, LOCK, None).await.expect("a fetch"));
        let taken: Vec<String> = turn.item.messages.iter().map(name_of).collect();
        assert_eq!(taken, ["start", "first", "second"]);
    }
}
