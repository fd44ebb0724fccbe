//! Exactly once across partitions: the message of an intent is delivered, and delivered once.

use cosmos::{PartitionKey, Retry};
use cosmos_emulator::{CrashPoint, Faults, ServerOptions};
use duroxide::providers::{Provider, ProviderAdmin, WorkItem};
use duroxide_cosmos::{CosmosProvider, Fetched};
use serde_json::Value;
use std::sync::Arc;
use tests::turns::*;
use tests::{ManualClock, World, connect, is_paused, recover, until_crash};

struct Outbox {
    world: World,
    clock: Arc<ManualClock>,
    provider: Arc<CosmosProvider>,
}

impl Outbox {
    async fn new() -> Outbox {
        let world = World::local(ServerOptions::default()).await;
        let clock = Arc::new(ManualClock::default());
        let provider = world.provider_at(&clock).await;
        Outbox { world, clock, provider }
    }

    /// Commits a turn of `instance` in a process that crashes before it delivers. Answers the intent that it left.
    async fn commit_and_crash(&self, instance: &str, decision: Decision) -> Value {
        let listener = self.world.open_listener().await;
        let clock: Arc<dyn cosmos::Clock> = Arc::clone(&self.clock) as Arc<dyn cosmos::Clock>;
        let crashing = connect(self.world.builder_through(&listener).clock(clock)).await;
        let turn = turn(&crashing, instance).await;
        listener.crash_at_write(2, CrashPoint::BeforeApplied);
        let said = until_crash(&listener, commit(&crashing, &turn.lock_token, decision)).await;
        assert!(said.is_none(), "the delivery met no crash: {said:?}");
        let intents = self.world.documents_of("intent").await;
        intents
            .into_iter()
            .find(|doc| doc["pk"] == instance)
            .expect("there is an intent")
    }

    /// Writes an intent again, as if the process had crashed before deleting it.
    async fn write_again(&self, intent: &Value) {
        let mut doc = intent.clone();
        doc.as_object_mut()
            .expect("a document")
            .retain(|name, _| !name.starts_with('_'));
        let pk = PartitionKey::new(doc["pk"].as_str().expect("a partition")).expect("a valid partition key");
        self.world
            .raw()
            .create(&pk, &doc, Retry::Idempotent)
            .await
            .expect("the intent was gone");
    }

    /// Lets time pass and recovers; returns how many intents were delivered.
    async fn recover(&self) -> u64 {
        self.clock.advance(REPAIRABLE);
        let recovered = recover(&self.provider).await;
        assert_eq!(recovered.failed, 0, "{recovered:?}");
        recovered.intents
    }

    async fn messages_of(&self, instance: &str) -> usize {
        self.world
            .documents_of("message")
            .await
            .iter()
            .filter(|doc| doc["pk"] == instance)
            .count()
    }

    async fn assert_nothing_for(&self, instance: &str) {
        assert_eq!(self.messages_of(instance).await, 0, "a second message for {instance}");
        let fetched = self
            .provider
            .fetch_turn(instance, LOCK, None)
            .await
            .expect("the fetch succeeds");
        assert!(matches!(fetched, Fetched::Nothing), "{instance}: {fetched:?}");
        assert!(self.world.documents_of("intent").await.is_empty(), "the intent is paid");
    }
}

fn starts(child: &str) -> Decision {
    Decision {
        events: vec![started("parent", 1)],
        messages: vec![start_of(child)],
        ..Decision::default()
    }
}

fn completes(parent: &str) -> Decision {
    let result = WorkItem::SubOrchCompleted {
        parent_instance: parent.to_owned(),
        parent_execution_id: 1,
        parent_id: 2,
        result: "done".to_owned(),
    };
    Decision {
        events: vec![started("child", 1)],
        messages: vec![result],
        metadata: ended("Completed", "done"),
        ..Decision::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_childs_start_that_is_delivered_twice_starts_it_once() {
    let outbox = Outbox::new().await;
    enqueue(&outbox.provider, start_of("parent")).await;
    let intent = outbox.commit_and_crash("parent", starts("child")).await;
    assert_eq!(outbox.messages_of("child").await, 0, "nothing was delivered yet");
    assert_eq!(outbox.recover().await, 1);
    assert_eq!(outbox.messages_of("child").await, 1);

    // Before the child consumed it.
    outbox.write_again(&intent).await;
    assert_eq!(outbox.recover().await, 1);
    assert_eq!(outbox.messages_of("child").await, 1, "the message is there already");

    let first = turn(&outbox.provider, "child").await;
    let decision = Decision::of(vec![started("child", 1)]);
    commit(&outbox.provider, &first.lock_token, decision)
        .await
        .expect("the child begins");
    outbox.write_again(&intent).await;
    assert_eq!(outbox.recover().await, 1);
    outbox.assert_nothing_for("child").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_childs_completion_that_is_delivered_twice_is_seen_once() {
    let outbox = Outbox::new().await;
    begin(&outbox.provider, "parent").await;
    enqueue(&outbox.provider, start_of("child")).await;
    let intent = outbox.commit_and_crash("child", completes("parent")).await;
    assert_eq!(outbox.recover().await, 1);
    let second = turn(&outbox.provider, "parent").await;
    assert!(
        matches!(second.item.messages[..], [WorkItem::SubOrchCompleted { .. }]),
        "{:?}",
        second.item.messages
    );
    let decision = Decision::of(vec![heard("parent", 1, 2)]);
    commit(&outbox.provider, &second.lock_token, decision)
        .await
        .expect("the parent goes on");
    outbox.write_again(&intent).await;
    assert_eq!(outbox.recover().await, 1);
    outbox.assert_nothing_for("parent").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_delivery_does_not_recreate_a_deleted_child() {
    let outbox = Outbox::new().await;
    enqueue(&outbox.provider, start_of("parent")).await;
    let intent = outbox.commit_and_crash("parent", starts("child")).await;
    outbox.recover().await;
    let first = turn(&outbox.provider, "child").await;
    let decision = Decision {
        events: vec![started("child", 1)],
        metadata: ended("Completed", "done"),
        ..Decision::default()
    };
    commit(&outbox.provider, &first.lock_token, decision)
        .await
        .expect("the child ends");
    outbox
        .provider
        .delete_instance("child", false)
        .await
        .expect("the child is deleted");
    outbox.write_again(&intent).await;
    assert_eq!(outbox.recover().await, 1);
    outbox.assert_nothing_for("child").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_undelivered_intent_does_not_block_the_next_turn() {
    let outbox = Outbox::new().await;
    enqueue(&outbox.provider, start_of("parent")).await;
    outbox.commit_and_crash("parent", starts("first")).await;
    enqueue(&outbox.provider, raised("parent", "more")).await;
    let decision = Decision {
        messages: vec![start_of("second")],
        ..Decision::default()
    };
    let more = turn(&outbox.provider, "parent").await;
    commit(&outbox.provider, &more.lock_token, decision)
        .await
        .expect("the second turn commits");
    assert_eq!(
        (outbox.messages_of("first").await, outbox.messages_of("second").await),
        (0, 1)
    );
    assert_eq!(outbox.recover().await, 1);
    assert_eq!(
        (outbox.messages_of("first").await, outbox.messages_of("second").await),
        (1, 1)
    );
}

/// The create is applied and its answer lost; a turn consumes the message before the client tries again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_enqueue_that_is_retried_after_its_message_was_consumed_delivers_nothing() {
    let site = Outbox::new().await;
    begin(&site.provider, "order").await;
    let listener = site.world.open_listener().await;
    let clock: Arc<dyn cosmos::Clock> = Arc::clone(&site.clock) as Arc<dyn cosmos::Clock>;
    let config = site.world.builder_through(&listener).clock(clock);
    let client = connect(config.request_timeout(PATIENT).operation_timeout(PATIENT)).await;
    listener.set_faults(Faults {
        lost_after: 1.0,
        writes_only: true,
        limit: Some(1),
        ..Faults::default()
    });
    let pause = listener.pause_when(|log| !log.is_empty());
    let task = tokio::spawn(async move { client.enqueue_for_orchestrator(raised("order", "once"), None).await });
    assert!(is_paused(&pause, &task).await, "{:?}", listener.log());
    let held = turn(&site.provider, "order").await;
    assert_eq!(held.item.messages.len(), 1, "the first attempt was applied");
    let decision = Decision::of(vec![heard("order", 1, 2)]);
    commit(&site.provider, &held.lock_token, decision)
        .await
        .expect("it commits");
    drop(pause);
    task.await.expect("no panic").expect("the event is accepted");
    let again = site.provider.fetch_turn("order", LOCK, None).await.expect("a fetch");
    assert!(matches!(again, Fetched::Nothing), "it is delivered twice: {again:?}");
}
