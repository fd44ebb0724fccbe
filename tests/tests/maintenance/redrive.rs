//! What was given up runs again, as new, when the fault is gone.

use crate::support::*;
use cosmos_emulator::{Faults, Listener, Refusing, ServerOptions};
use duroxide::providers::{Provider, WorkItem};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions, UnregisteredBackoffConfig};
use duroxide::{ActivityContext, Client, EventKind, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};
use duroxide_cosmos::{CosmosProvider, DeadLetterKind, DeadLetterSummary, Fetched, Outbox, Redriven};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tests::turns::*;
use tests::{PATIENCE, World, connect};

async fn dead_letter(provider: &CosmosProvider, kind: DeadLetterKind) -> DeadLetterSummary {
    for _ in 0..600 {
        let page = provider.dead_letters(10, None).await.expect("dead letters are listed");
        if let Some(dead_letter) = page
            .dead_letters
            .into_iter()
            .find(|dead_letter| dead_letter.kind == kind)
        {
            return dead_letter;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("no dead letter of {kind:?}");
}

async fn output(client: &Client, instance: &str) -> String {
    match client.wait_for_orchestration(instance, PATIENCE).await {
        Ok(OrchestrationStatus::Completed { output, .. }) => output,
        other => panic!("{instance}: {other:?}"),
    }
}

/// A runtime that gives up soon.
async fn impatient(
    provider: &Arc<CosmosProvider>,
    activities: ActivityRegistry,
    orchestrations: OrchestrationRegistry,
) -> Arc<Runtime> {
    let options = RuntimeOptions {
        max_attempts: 2,
        dispatcher_long_poll_timeout: Duration::from_millis(200),
        unregistered_backoff: UnregisteredBackoffConfig {
            base_delay: Duration::from_millis(20),
            max_delay: Duration::from_millis(50),
        },
        ..RuntimeOptions::default()
    };
    let store: Arc<dyn Provider> = Arc::clone(provider) as Arc<dyn Provider>;
    Runtime::start_with_options(store, activities, orchestrations, options).await
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Parent", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_sub_orchestration_with_id("Child", "child", input).await
        })
        .register("Child", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_activity("Greet", input).await
        })
        .build()
}

fn activities() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Greet", |_: ActivityContext, name: String| async move {
            Ok(format!("Hello {name}!"))
        })
        .build()
}

/// A store whose outbox gives up soon, in real time.
async fn hasty() -> (World, Arc<CosmosProvider>) {
    let world = World::local(ServerOptions::default()).await;
    let outbox = Outbox {
        base: Duration::from_millis(50),
        max_attempts: 3,
        ..Outbox::default()
    };
    let config = world.builder().outbox(outbox).repair_after(Duration::from_millis(50));
    let provider = connect(config.sweep_interval(Duration::from_millis(50))).await;
    (world, provider)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_undeliverable_start_runs_to_completion_after_the_fault_is_gone() {
    let (world, provider) = hasty().await;
    refuse(world.listener(), &["child"], Refusing::with(403));
    let client = Client::new(Arc::clone(&provider) as Arc<dyn Provider>);
    let runtime = run(&provider, activities(), orchestrations()).await;
    client
        .start_orchestration("parent", "Parent", "Ada")
        .await
        .expect("it starts");
    let dead = dead_letter(&provider, DeadLetterKind::Undeliverable).await;
    assert_eq!((dead.attempts, dead.target.as_deref()), (3, Some("child")));
    // Redriven too early, it is an intent, and given up again.
    let redriven = provider.redrive(&dead.id).await.expect("it is redriven");
    assert_eq!(
        redriven,
        Redriven::Undelivered {
            instance: "child".to_owned()
        }
    );
    let dead = dead_letter(&provider, DeadLetterKind::Undeliverable).await;
    assert_eq!(dead.attempts, 3, "it began anew");
    world.listener().refuse_nothing();
    let redriven = provider.redrive(&dead.id).await.expect("it is redriven");
    assert_eq!(
        redriven,
        Redriven::Delivered {
            instance: "child".to_owned()
        }
    );
    assert_eq!(output(&client, "parent").await, "Hello Ada!");
    assert_eq!(provider.dead_letter_count().await.expect("they are counted"), 0);
    assert_eq!(provider.redrive(&dead.id).await.expect("it is gone"), Redriven::Gone);
    runtime.shutdown(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redriving_a_given_up_turn_starts_a_new_instance() {
    let (_world, provider) = hasty().await;
    let client = Client::new(Arc::clone(&provider) as Arc<dyn Provider>);
    let without = impatient(&provider, activities(), OrchestrationRegistry::builder().build()).await;
    client
        .start_orchestration("order-1", "Child", "Ada")
        .await
        .expect("it starts");
    let dead = dead_letter(&provider, DeadLetterKind::PoisonTurn).await;
    without.shutdown(None).await;
    assert_eq!((dead.attempts, dead.name.as_deref()), (3, Some("Child")), "{dead:?}");
    let runtime = run(&provider, activities(), orchestrations()).await;
    let Redriven::Delivered { instance } = provider.redrive(&dead.id).await.expect("it is redriven") else {
        panic!("its message is delivered");
    };
    assert!(instance.starts_with("order-1~"), "{instance}");
    assert_eq!(output(&client, &instance).await, "Hello Ada!");
    let old = client.get_orchestration_status("order-1").await.expect("it is known");
    assert!(
        matches!(old, OrchestrationStatus::Failed { .. }),
        "the failed one stays: {old:?}"
    );
    assert_eq!(provider.redrive(&dead.id).await.expect("it is gone"), Redriven::Gone);
    runtime.shutdown(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redriving_a_given_up_activity_runs_its_whole_orchestration_again() {
    let (_world, provider) = hasty().await;
    let client = Client::new(Arc::clone(&provider) as Arc<dyn Provider>);
    let without = impatient(&provider, ActivityRegistry::builder().build(), orchestrations()).await;
    client
        .start_orchestration("order-2", "Child", "Bea")
        .await
        .expect("it starts");
    let dead = dead_letter(&provider, DeadLetterKind::PoisonActivity).await;
    without.shutdown(None).await;
    assert_eq!(
        (dead.name.as_deref(), dead.execution),
        (Some("Greet"), Some(1)),
        "{dead:?}"
    );
    let items = provider
        .dead_letter(&dead.id)
        .await
        .expect("it is read")
        .expect("it is there")
        .items;
    let item: WorkItem = serde_json::from_str(items[0].get()).expect("a work item");
    assert!(matches!(item, WorkItem::ActivityExecute { input, .. } if input == "Bea"));
    let runtime = run(&provider, activities(), orchestrations()).await;
    let Redriven::Delivered { instance } = provider.redrive(&dead.id).await.expect("it is redriven") else {
        panic!("its message is delivered");
    };
    assert_eq!(output(&client, &instance).await, "Hello Bea!");
    runtime.shutdown(None).await;
}

#[tokio::test]
async fn a_dead_letter_whose_orchestration_was_pruned_or_deleted_cannot_be_redriven_and_says_so() {
    let fixture = Fixture::new().await;
    crate::giving_up::give_up_turn(&fixture.provider, "bad", "[]").await;
    let dead = dead_letter(&fixture.provider, DeadLetterKind::PoisonTurn).await;
    let pk = cosmos::PartitionKey::new("bad").expect("a valid partition key");
    fixture
        .world
        .raw()
        .delete(&pk, "instance", None, cosmos::Retry::Idempotent)
        .await
        .expect("it was there");
    let error = fixture
        .provider
        .redrive(&dead.id)
        .await
        .expect_err("nothing is known of it");
    assert!(
        error.to_string().contains("execution 1 of instance 'bad' not found"),
        "{error}"
    );
    assert_eq!(fixture.dead_letters().await.len(), 1, "the dead letter stays");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_was_delivered_after_all_is_not_delivered_twice_by_a_late_redrive() {
    let fixture = Fixture::new().await;
    fixture.leave_starts_undelivered("source", &["target"]).await;
    // Every delivery is applied, and none is answered.
    let (listener, deaf) = fixture.process().await;
    listener.set_faults(Faults {
        lost_after: 1.0,
        writes_only: true,
        limit: Some(1),
        ..Faults::default()
    });
    refuse_after(&listener, "target");
    fixture.clock.advance(OVERDUE);
    for _ in 0..few_attempts().max_attempts {
        deliver_all(&deaf, 10).await;
        fixture.clock.advance(MUCH_LATER);
    }
    let dead = dead_letter(&fixture.provider, DeadLetterKind::Undeliverable).await;
    fixture.consume("target").await;
    // As late as a dead letter can be redriven.
    let last_moment = Duration::from_secs(30 * 24 * 3_600 - 60);
    fixture.world.server().expire_as_if(last_moment).await;
    let redriven = fixture.provider.redrive(&dead.id).await.expect("it is redriven");
    assert!(matches!(redriven, Redriven::Delivered { .. }), "{redriven:?}");
    assert_eq!(fixture.messages_of("target").await, 0, "its receipt is still there");
}

/// Refuses every create for the target but the first.
fn refuse_after(listener: &Listener, target: &str) {
    let (target, seen) = (header(target), AtomicUsize::new(0));
    listener.refuse_when(move |request| {
        let is_delivery = is_creation(request) && request.partition_key.as_ref() == Some(&target);
        (is_delivery && seen.fetch_add(1, Ordering::Relaxed) > 0).then(|| Refusing::with(403))
    });
}

#[tokio::test]
async fn a_redrive_reads_only_the_beginning_of_a_history() {
    const LIMIT: u64 = 200_000;
    let fixture = Fixture::new().await;
    begin(&fixture.provider, "large").await;
    for n in 2..=15 {
        enqueue(&fixture.provider, raised("large", "more")).await;
        let turn = turn(&fixture.provider, "large").await;
        let more = EventKind::ExternalEvent {
            name: "go".to_owned(),
            data: "x".repeat(LIMIT as usize / 10),
        };
        let decision = Decision::of(vec![event("large", 1, n, more)]);
        commit(&fixture.provider, &turn.lock_token, decision)
            .await
            .expect("it grows");
    }
    enqueue(&fixture.provider, raised("large", "the last straw")).await;
    let limited = connect(fixture.world.builder().history_limit(LIMIT)).await;
    let fetched = limited.fetch_turn("large", LOCK, None).await.expect("it is given up");
    assert!(matches!(fetched, Fetched::GivenUp(_)), "{fetched:?}");
    let (listener, process) = fixture.process().await;
    let found = dead_letter(&process, DeadLetterKind::PoisonTurn).await;
    let redriven = process.redrive(&found.id).await.expect("it is redriven");
    let Redriven::Delivered { instance } = redriven else {
        panic!("{redriven:?}");
    };
    let bytes = listener.counts().response_bytes;
    assert!(bytes < LIMIT / 10, "{bytes} bytes were read");
    let again = turn(&fixture.provider, &instance).await;
    assert_eq!(again.item.orchestration_name, "Sample");
}
