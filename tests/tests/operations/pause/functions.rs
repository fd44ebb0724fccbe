//! The functions and a paused instance: what a wakeup costs, what runs and what does not, and that each effect happens once.

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};
use duroxide_cosmos::{InstanceStatus, PauseOutcome};
use duroxide_lambda::{Target, Wakeup};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tests::cloud::Cloud;
use tests::cost::cost_of;

/// How often each activity had its effect, and how often the orchestration's code was run.
#[derive(Clone, Default)]
pub struct Effects {
    done: Arc<Mutex<BTreeMap<String, u32>>>,
    turns: Arc<AtomicU32>,
}

impl Effects {
    fn of(&self) -> BTreeMap<String, u32> {
        self.done.lock().expect("no panic").clone()
    }

    fn turns(&self) -> u32 {
        self.turns.load(Ordering::SeqCst)
    }

    /// Charge, then a timer, then an event, then Ship; twice, in two executions.
    pub async fn cloud(&self) -> Cloud {
        let turns = Arc::clone(&self.turns);
        let order = move |ctx: OrchestrationContext, input: String| {
            turns.fetch_add(1, Ordering::SeqCst);
            async move {
                let paid = ctx.schedule_activity("Act", format!("charge-{input}")).await?;
                ctx.schedule_timer(Duration::from_millis(20)).await;
                let approved = ctx.schedule_wait("approved").await;
                let sent = ctx.schedule_activity("Act", format!("ship-{input}")).await?;
                if input == "0" {
                    return ctx.continue_as_new("1").await;
                }
                Ok(format!("{paid},{approved},{sent}"))
            }
        };
        let done = Arc::clone(&self.done);
        let act = move |_: ActivityContext, input: String| {
            let done = Arc::clone(&done);
            async move {
                *done.lock().expect("no panic").entry(input.clone()).or_default() += 1;
                Ok(input)
            }
        };
        let orchestrations = OrchestrationRegistry::builder().register("Order", order).build();
        let activities = ActivityRegistry::builder().register("Act", act).build();
        Cloud::start(orchestrations, activities).await
    }
}

async fn pause(cloud: &Cloud, instance: &str) {
    let paused = cloud.notifying.pause(instance, Some("why"), false).await;
    assert_eq!(paused.expect("the store answers").outcome, PauseOutcome::Changed);
}

async fn resume(cloud: &Cloud, instance: &str) {
    let resumed = cloud.notifying.resume(instance, false).await;
    assert_eq!(resumed.expect("the store answers").outcome, PauseOutcome::Changed);
}

async fn status(cloud: &Cloud, instance: &str) -> InstanceStatus {
    let summary = cloud.silent.instance_summary(instance).await;
    summary.expect("the store answers").expect("it is there").status
}

/// The wakeups that were sent since the last look.
fn sent(cloud: &Cloud) -> Vec<Wakeup> {
    cloud.queue.take().into_iter().map(|delayed| delayed.wakeup).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wakeup_for_a_paused_instance_costs_one_request_and_is_not_sent_again() {
    let effects = Effects::default();
    let cloud = effects.cloud().await;
    cloud
        .client
        .start_orchestration("order", "Order", "1")
        .await
        .expect("it starts");
    let start = sent(&cloud);
    assert!(cloud.orchestrator.invoke(&start).await.batch_item_failures.is_empty());
    let activity = sent(&cloud);
    let turns = effects.turns();
    pause(&cloud, "order").await;
    assert!(sent(&cloud).is_empty(), "a pause wakes nobody");

    let (response, cost) = cost_of(&cloud.orchestrator.listener, cloud.orchestrator.invoke(&start)).await;
    assert!(response.batch_item_failures.is_empty(), "the record is deleted");
    cost.is(1, 1);
    assert!(sent(&cloud).is_empty(), "no other wakeup");

    let (response, cost) = cost_of(&cloud.worker.listener, cloud.worker.invoke(&activity)).await;
    assert!(response.batch_item_failures.is_empty(), "the record is deleted");
    cost.is(1, 1);
    let again = sent(&cloud);
    let [
        Wakeup {
            target: Target::Work(work),
            ..
        },
    ] = again.as_slice()
    else {
        panic!("one more look, without the version: {again:?}");
    };
    assert!(work.written.is_none());
    let (response, cost) = cost_of(&cloud.worker.listener, cloud.worker.invoke(&again)).await;
    assert!(response.batch_item_failures.is_empty(), "the record is deleted");
    cost.is(1, 1);
    assert!(sent(&cloud).is_empty(), "and no other");

    cloud
        .client
        .raise_event("order", "approved", "yes")
        .await
        .expect("it is accepted");
    let event = sent(&cloud);
    let (response, cost) = cost_of(&cloud.orchestrator.listener, cloud.orchestrator.invoke(&event)).await;
    assert!(response.batch_item_failures.is_empty(), "the record is deleted");
    cost.is(1, 1);
    assert!(sent(&cloud).is_empty());
    assert_eq!(
        (effects.turns(), effects.of()),
        (turns, BTreeMap::new()),
        "nothing of it ran"
    );
    assert_eq!(cloud.orchestrator.counted().get("Paused"), Some(&2));

    let seen = cloud
        .client
        .get_orchestration_status("order")
        .await
        .expect("the store answers");
    assert!(
        matches!(seen, OrchestrationStatus::Running { .. }),
        "duroxide knows no other: {seen:?}"
    );
    resume(&cloud, "order").await;
    let woken = sent(&cloud);
    assert_eq!(woken.len(), 2, "the turn and the activity: {woken:?}");
    // The activity costs what it always costs.
    let works: Vec<Wakeup> = woken
        .into_iter()
        .filter(|wakeup| wakeup.target.activity().is_some())
        .collect();
    let (_, cost) = cost_of(&cloud.worker.listener, cloud.worker.invoke(&works)).await;
    cost.is(2, 2);
    assert_eq!(effects.of(), BTreeMap::from([("charge-1".to_owned(), 1)]));
}

/// Pauses after each step of the workflow, and resumes when all that was sent meanwhile has come through.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workflow_that_is_paused_after_each_of_its_steps_has_each_effect_once() {
    let effects = Effects::default();
    let cloud = effects.cloud().await;
    cloud
        .client
        .start_orchestration("order", "Order", "0")
        .await
        .expect("it starts");
    let mut rounds = 0;
    let mut approvals = 0;
    loop {
        rounds += 1;
        assert!(rounds < 100, "it makes no progress: {:?}", effects.of());
        pause(&cloud, "order").await;
        let (turns, before) = (effects.turns(), effects.of());
        cloud.drain().await;
        assert_eq!(
            (effects.turns(), effects.of()),
            (turns, before),
            "round {rounds}: nothing of it ran"
        );
        assert_eq!(status(&cloud, "order").await, InstanceStatus::Paused);
        resume(&cloud, "order").await;
        // One batch of turns and one of activities.
        let mut wakeups = cloud.queue.take();
        // A timer is 20 ms long.
        if wakeups
            .iter()
            .any(|delayed| !delayed.delay.is_zero() || delayed.wakeup.due_ms.is_some())
        {
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        let works: Vec<Wakeup> = wakeups
            .extract_if(.., |delayed| delayed.wakeup.target.activity().is_some())
            .map(|delayed| delayed.wakeup)
            .collect();
        let turns: Vec<Wakeup> = wakeups.into_iter().map(|delayed| delayed.wakeup).collect();
        if !works.is_empty() {
            assert!(cloud.worker.invoke(&works).await.batch_item_failures.is_empty());
        }
        if !turns.is_empty() {
            assert!(cloud.orchestrator.invoke(&turns).await.batch_item_failures.is_empty());
        }
        let seen = status(&cloud, "order").await;
        if seen.is_finished() {
            break;
        }
        let shipped = effects.of().keys().filter(|key| key.starts_with("ship")).count();
        let charged = effects.of().keys().filter(|key| key.starts_with("charge")).count();
        let has_timer = !cloud.world.documents_of("message").await.is_empty();
        if charged > shipped && approvals < charged && !has_timer && cloud.world.documents_of("work").await.is_empty() {
            // It waits for its event: raised while it is paused, it is taken after.
            pause(&cloud, "order").await;
            cloud
                .client
                .raise_event("order", "approved", "yes")
                .await
                .expect("it is accepted");
            approvals += 1;
            resume(&cloud, "order").await;
        }
    }
    assert_eq!(status(&cloud, "order").await, InstanceStatus::Completed);
    let once = ["charge-0", "charge-1", "ship-0", "ship-1"].map(|effect| (effect.to_owned(), 1));
    assert_eq!(effects.of(), BTreeMap::from(once));
    let executions = cloud.client.list_executions("order").await.expect("the store answers");
    assert_eq!(executions, [1, 2], "it was paused through continue-as-new");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_instance_is_cancelled_at_once_without_running_its_code() {
    let effects = Effects::default();
    let cloud = effects.cloud().await;
    cloud
        .client
        .start_orchestration("order", "Order", "1")
        .await
        .expect("it starts");
    cloud.orchestrator.invoke(&sent(&cloud)).await;
    pause(&cloud, "order").await;
    let turns = effects.turns();
    cloud
        .client
        .raise_event("order", "approved", "yes")
        .await
        .expect("it is accepted");
    cloud
        .client
        .cancel_instance("order", "enough")
        .await
        .expect("it is accepted");
    cloud.drain().await;
    assert_eq!(status(&cloud, "order").await, InstanceStatus::Cancelled);
    assert_eq!(
        (effects.turns(), effects.of()),
        (turns, BTreeMap::new()),
        "none of its code was run"
    );
    assert!(
        cloud.world.documents_of("work").await.is_empty(),
        "its activity is cancelled"
    );
    assert!(cloud.world.documents_of("message").await.is_empty(), "nothing waits");
    assert_eq!(cloud.orchestrator.counted().get("OrchestrationsCancelled"), Some(&1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timers_that_fall_due_while_it_is_paused_fire_once_when_it_is_resumed() {
    let fired = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&fired);
    let waits = |ctx: OrchestrationContext, _: String| async move {
        ctx.schedule_timer(Duration::from_millis(100)).await;
        ctx.schedule_activity("Fired", "").await
    };
    let orchestrations = OrchestrationRegistry::builder().register("Waits", waits).build();
    let activities = ActivityRegistry::builder()
        .register("Fired", move |_: ActivityContext, _: String| {
            count.fetch_add(1, Ordering::SeqCst);
            async move { Ok("fired".to_owned()) }
        })
        .build();
    let cloud = Cloud::start(orchestrations, activities).await;
    cloud
        .client
        .start_orchestration("w", "Waits", "")
        .await
        .expect("it starts");
    cloud.orchestrator.invoke(&sent(&cloud)).await;
    pause(&cloud, "w").await;
    cloud.drain().await;
    assert_eq!(fired.load(Ordering::SeqCst), 0, "its wakeup has come and gone");
    resume(&cloud, "w").await;
    cloud.drain().await;
    assert_eq!(status(&cloud, "w").await, InstanceStatus::Completed);
    assert_eq!(fired.load(Ordering::SeqCst), 1);
}

/// duroxide's own runtime, which polls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_polling_runtime_holds_a_paused_instance_and_goes_on_after_it_is_resumed() {
    let world = tests::World::start().await;
    let provider = world.provider().await;
    let ran = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&ran);
    let activities = ActivityRegistry::builder()
        .register("Act", move |_: ActivityContext, input: String| {
            count.fetch_add(1, Ordering::SeqCst);
            async move { Ok(input) }
        })
        .build();
    let asks = |ctx: OrchestrationContext, _: String| async move {
        let said = ctx.schedule_wait("go").await;
        ctx.schedule_activity("Act", said).await
    };
    let orchestrations = OrchestrationRegistry::builder().register("Asks", asks).build();
    let client = duroxide::Client::new(Arc::clone(&provider) as Arc<dyn duroxide::providers::Provider>);
    client.start_orchestration("held", "Asks", "").await.expect("it starts");
    client.start_orchestration("free", "Asks", "").await.expect("it starts");
    let runtime = tests::turns::run(&provider, activities, orchestrations).await;
    let waits = async |instance: &str| {
        let summary = provider.instance_summary(instance).await.expect("the store answers");
        summary.is_some_and(|summary| summary.status == InstanceStatus::Running && summary.events > 1)
    };
    tests::until("both wait", async || waits("held").await && waits("free").await).await;
    provider.pause("held", None, false).await.expect("it is paused");
    for instance in ["held", "free"] {
        client.raise_event(instance, "go", "now").await.expect("it is accepted");
    }
    let over = client.wait_for_orchestration("free", tests::PATIENCE).await;
    assert!(matches!(over, Ok(OrchestrationStatus::Completed { .. })), "{over:?}");
    tests::until("the event is parked", async || {
        let messages = world.documents_of("message").await;
        messages.iter().all(|doc| doc["dueAt"] == super::support::PARKED) && messages.len() == 1
    })
    .await;
    assert_eq!(ran.load(Ordering::SeqCst), 1, "only that of the other");
    provider.resume("held", false).await.expect("it is resumed");
    let over = client.wait_for_orchestration("held", tests::PATIENCE).await;
    assert!(matches!(over, Ok(OrchestrationStatus::Completed { .. })), "{over:?}");
    assert_eq!(ran.load(Ordering::SeqCst), 2);
    runtime.shutdown(None).await;
}
