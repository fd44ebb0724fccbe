//! A build whose code no longer fits running instances blocks them. A rollback, or a fix, goes on.

use crate::support::*;
use duroxide::runtime::OrchestrationStatus;
use duroxide::{OrchestrationContext, OrchestrationRegistry};
use duroxide_lambda::Limits;
use duroxide_lambda::config::OnDefect;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollback_lets_a_blocked_instance_go_on() {
    let (cloud, _, effects) = waiting_order().await;
    let before = cloud.world.documents_of("history").await;
    let careless = cloud.another_build(limits("two"), careless_build()).await;
    let wakeup = raise(&cloud, "order", "tuesday").await;
    serve(&careless, &wakeup).await;
    let block = block_of(&cloud, "order").await;
    assert_eq!(block["cause"], "nondeterminism");
    assert!(block["build"].as_str().expect("a build").starts_with("two "), "{block}");
    let reason = block["reason"].as_str().expect("a reason");
    assert!(reason.contains("Check") && reason.contains("roll back"), "{reason}");
    assert!(matches!(
        status(&cloud, "order").await,
        OrchestrationStatus::Running { .. }
    ));
    assert_eq!(
        cloud.world.documents_of("history").await,
        before,
        "nothing was committed"
    );
    assert!(cloud.world.documents_of("dead-letter").await.is_empty());
    let counts = careless.counted();
    assert_eq!(
        (counts.get("Blocked"), counts.get("BlockedNondeterminism")),
        (Some(&1), Some(&1))
    );
    assert_eq!((counts.get("OrchestrationsFailed"), counts.get("Failed")), (None, None));
    // The first build does not wait for the end of the pause.
    let (again, delay) = only_delayed(&cloud);
    assert!(
        !delay.is_zero() && delay <= Duration::from_secs(1),
        "the pause is a second: {delay:?}"
    );
    let early = duroxide_lambda::Wakeup::to(again.target);
    serve(&cloud.orchestrator, &early).await;
    completes(&cloud, "order", "Ship(tuesday)").await;
    assert!(block_of(&cloud, "order").await.is_null(), "a commit ends the block");
    let all: Vec<(String, u32)> = effects.all().into_iter().collect();
    assert_eq!(all, [("Charge".to_owned(), 1), ("Ship".to_owned(), 1)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fixed_third_build_goes_on() {
    let (cloud, clock, effects) = waiting_order().await;
    let careless = cloud.another_build(limits("two"), careless_build()).await;
    let wakeup = raise(&cloud, "order", "tuesday").await;
    serve(&careless, &wakeup).await;
    let (again, delay) = only_delayed(&cloud);
    clock.advance(delay);
    let fixed = cloud.another_build(limits("three"), first_build()).await;
    serve(&fixed, &again).await;
    completes(&cloud, "order", "Ship(tuesday)").await;
    assert_eq!(effects.all().get("Charge"), Some(&1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_blocks_until_a_build_does_not_panic() {
    let panics = |_: OrchestrationContext, input: String| async move {
        let number: u32 = input.parse().expect("an input that is a number");
        Ok(number.to_string())
    };
    let panicking = OrchestrationRegistry::builder().register("Order", panics).build();
    let effects = Effects::default();
    let (cloud, _) = cloud(panicking, effects.activities(&NAMES)).await;
    let wakeup = start(&cloud, "order", "Order").await;
    serve(&cloud.orchestrator, &wakeup).await;
    let block = block_of(&cloud, "order").await;
    assert_eq!(block["cause"], "panic");
    let reason = block["reason"].as_str().expect("a reason");
    assert!(reason.contains("an input that is a number"), "{reason}");
    assert_eq!(cloud.orchestrator.counted().get("BlockedPanic"), Some(&1));
    cloud.queue.take();
    let fixed = cloud.another_build(limits("two"), first_build()).await;
    serve(&fixed, &wakeup).await;
    for delivery in [None, Some("tuesday")] {
        if let Some(day) = delivery {
            serve(&fixed, &raise(&cloud, "order", day).await).await;
        }
        serve(&cloud.worker, &only(&cloud)).await;
        serve(&fixed, &only(&cloud)).await;
    }
    assert!(matches!(
        status(&cloud, "order").await,
        OrchestrationStatus::Completed { .. }
    ));
}

/// One event reaches one of many blocked orders: the build that goes on with it wakes the others. It searches once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_build_that_goes_on_with_one_wakes_what_others_have_blocked() {
    const ORDERS: usize = 5;
    let effects = Effects::default();
    let (cloud, _) = cloud(first_build(), effects.activities(&NAMES)).await;
    for order in 0..ORDERS {
        let id = format!("order-{order}");
        serve(&cloud.orchestrator, &start(&cloud, &id, "Order").await).await;
        cloud.drain().await;
    }
    let careless = cloud.another_build(limits("two"), careless_build()).await;
    let mut first = None;
    for order in 0..ORDERS {
        let wakeup = raise(&cloud, &format!("order-{order}"), "tuesday").await;
        serve(&careless, &wakeup).await;
        cloud.queue.take();
        first.get_or_insert(wakeup);
    }
    let fixed = cloud.another_build(limits("three"), first_build()).await;
    fixed.listener.reset();
    serve(&fixed, &first.expect("a wakeup")).await;
    let ranges = fixed.listener.counts().cross_partition_queries;
    assert!(ranges > 0, "it searches");
    let turns = |sent: &duroxide_lambda::Delayed| sent.wakeup.target.activity().is_none();
    let (woken, work): (Vec<_>, Vec<_>) = cloud.queue.take().into_iter().partition(turns);
    assert_eq!(
        (woken.len(), work.len()),
        (ORDERS - 1, 1),
        "the others, and what the order does next"
    );
    fixed.listener.reset();
    for other in &woken {
        assert!(other.delay.is_zero());
        serve(&fixed, &other.wakeup).await;
    }
    assert_eq!(fixed.listener.counts().cross_partition_queries, 0, "it searches once");
    for sent in work.into_iter().chain(cloud.queue.take()) {
        serve(&cloud.worker, &sent.wakeup).await;
    }
    cloud.drain().await;
    for order in 0..ORDERS {
        completes(&cloud, &format!("order-{order}"), "Ship(tuesday)").await;
    }
    assert_eq!(effects.all().get("Charge"), Some(&(ORDERS as u32)));
}

/// Who asks for it gets what duroxide decides.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_build_that_may_fail_instances_fails_them() {
    let (cloud, _, _) = waiting_order().await;
    let failing = Limits {
        on_nondeterminism: OnDefect::Fail,
        ..limits("two")
    };
    let careless = cloud.another_build(failing, careless_build()).await;
    let wakeup = raise(&cloud, "order", "tuesday").await;
    serve(&careless, &wakeup).await;
    assert!(matches!(
        status(&cloud, "order").await,
        OrchestrationStatus::Failed { .. }
    ));
    assert!(block_of(&cloud, "order").await.is_null());
}

/// What came first during a pause is taken first, whoever takes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_a_pause_keep_their_order() {
    let numbers = |ctx: OrchestrationContext, _: String| async move {
        ctx.schedule_activity("Charge", "").await?;
        let mut all = Vec::new();
        for _ in 0..3 {
            all.push(ctx.dequeue_event("numbers").await);
        }
        Ok(all.join(" "))
    };
    let changed = |ctx: OrchestrationContext, _: String| async move { ctx.schedule_activity("Check", "").await };
    let first = OrchestrationRegistry::builder().register("Numbers", numbers).build();
    let changed = OrchestrationRegistry::builder().register("Numbers", changed).build();
    let (cloud, _) = cloud(first, Effects::default().activities(&NAMES)).await;
    let first_turn = start(&cloud, "n", "Numbers").await;
    serve(&cloud.orchestrator, &first_turn).await;
    cloud.drain().await;
    let other = cloud.another_build(limits("two"), changed).await;
    for n in ["0", "1", "2"] {
        let queued = cloud.client.enqueue_event("n", "numbers", n).await;
        queued.expect("it is accepted");
        for sent in cloud.queue.take() {
            if sent.delay.is_zero() {
                serve(&other, &sent.wakeup).await;
            }
        }
    }
    assert_eq!(
        block_of(&cloud, "n").await["tries"],
        1,
        "the others waited for the pause"
    );
    cloud.queue.take();
    serve(&cloud.orchestrator, &first_turn).await;
    completes(&cloud, "n", "0 1 2").await;
}
