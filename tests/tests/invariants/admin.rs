//! Administration: earlier executions, counts, queue depths and pruning are exact.

use duroxide::EventKind;
use duroxide::providers::{Provider, ProviderAdmin, PruneOptions, QueueDepths, TagFilter, WorkItem};
use duroxide_cosmos::{Clock, CosmosProvider};
use std::sync::Arc;
use std::time::Duration;
use tests::turns::*;
use tests::{ManualClock, World};

const MINUTE: Duration = Duration::from_secs(60);

fn continue_as_new(instance: &str) -> WorkItem {
    WorkItem::ContinueAsNew {
        instance: instance.to_owned(),
        orchestration: "Sample".to_owned(),
        input: "{}".to_owned(),
        version: Some("1.0.0".to_owned()),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        carry_forward_events: Vec::new(),
        initial_custom_status: None,
    }
}

/// Commits one turn of an execution that ends a minute later; execution `n` has `n + 2` events.
async fn execute(provider: &CosmosProvider, clock: &ManualClock, instance: &str, execution: u64, last: bool) {
    let first = turn(provider, instance).await;
    let mut events = vec![started(instance, execution)];
    events.extend((2..2 + execution).map(|id| heard(instance, execution, id)));
    let decision = Decision {
        execution,
        events,
        ..Decision::default()
    };
    commit(provider, &first.lock_token, decision)
        .await
        .expect("the execution begins");
    clock.advance(MINUTE);
    enqueue(provider, raised(instance, "end")).await;
    let second = turn(provider, instance).await;
    let output = format!("output {execution}");
    let (kind, messages, metadata) = if last {
        (
            EventKind::OrchestrationCompleted { output: output.clone() },
            Vec::new(),
            ended("Completed", &output),
        )
    } else {
        let kind = EventKind::OrchestrationContinuedAsNew { input: output.clone() };
        (kind, vec![continue_as_new(instance)], ended("ContinuedAsNew", &output))
    };
    let events = vec![event(instance, execution, 2 + execution, kind)];
    let decision = Decision {
        execution,
        events,
        messages,
        metadata,
        ..Decision::default()
    };
    commit(provider, &second.lock_token, decision)
        .await
        .expect("the execution ends");
    clock.advance(MINUTE);
}

async fn continued(provider: &CosmosProvider, clock: &ManualClock, instance: &str, executions: u64) {
    enqueue(provider, start_of(instance)).await;
    for execution in 1..=executions {
        execute(provider, clock, instance, execution, execution == executions).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn earlier_executions_keep_their_own_output_times_and_events() {
    let world = World::start().await;
    let clock = Arc::new(ManualClock::default());
    let provider = world.provider_at(&clock).await;
    let begun = clock.now_ms();
    continued(&provider, &clock, "order", 3).await;
    begin(&provider, "other").await;
    assert_eq!(provider.list_executions("order").await.expect("a list"), [1, 2, 3]);
    for execution in 1..=3u64 {
        let info = provider
            .get_execution_info("order", execution)
            .await
            .expect("it is known");
        let at = begun + (execution - 1) * 120_000;
        assert_eq!(info.execution_id, execution);
        assert_eq!(info.status, if execution == 3 { "Completed" } else { "ContinuedAsNew" });
        assert_eq!(info.output, Some(format!("output {execution}")));
        assert_eq!(
            (info.started_at, info.completed_at),
            (at, Some(at + 60_000)),
            "execution {execution}"
        );
        assert_eq!(info.event_count as u64, execution + 2);
        let history = provider
            .read_history_with_execution_id("order", execution)
            .await
            .expect("history");
        assert_eq!(history.len() as u64, execution + 2);
        assert!(history.iter().all(|event| event.execution_id == execution));
    }
    let error = provider
        .get_execution_info("order", 4)
        .await
        .expect_err("there is no fourth");
    assert!(
        error.to_string().contains("execution 4") && error.to_string().contains("order"),
        "{error}"
    );
    let metrics = provider.get_system_metrics().await.expect("metrics");
    assert_eq!((metrics.total_instances, metrics.total_executions), (2, 4));
    assert_eq!(metrics.total_events, 3 + 4 + 5 + 1);
    assert_eq!(
        (
            metrics.running_instances,
            metrics.completed_instances,
            metrics.failed_instances
        ),
        (1, 1, 0)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queue_depths_count_what_is_not_claimed() {
    let world = World::start().await;
    let clock = Arc::new(ManualClock::default());
    let provider = world.provider_at(&clock).await;
    for n in 0..3 {
        let instance = format!("order-{n}");
        begin_with(&provider, &instance, 2, named()).await;
        enqueue(&provider, raised(&instance, "1")).await;
        enqueue(&provider, raised(&instance, "2")).await;
    }
    provider
        .enqueue_for_orchestrator(raised("order-0", "later"), Some(MINUTE))
        .await
        .expect("queued");
    let depths = async || {
        let QueueDepths {
            orchestrator_queue,
            worker_queue,
            timer_queue,
        } = provider.get_queue_depths().await.expect("depths");
        (orchestrator_queue, worker_queue, timer_queue)
    };
    assert_eq!(depths().await, (6, 6, 1));
    let held = turn(&provider, "order-1").await;
    let claimed = work(&provider, "order-2", 3).await;
    assert_eq!(depths().await, (4, 5, 1));
    // What arrives after the claim is not claimed.
    enqueue(&provider, raised("order-1", "3")).await;
    assert_eq!(depths().await, (5, 5, 1));
    clock.advance(LATER);
    assert_eq!(depths().await, (7, 6, 1), "expired locks claim nothing");
    clock.advance(LATER);
    assert_eq!(depths().await, (8, 6, 0), "the delayed message is due");
    assert!(commit(&provider, &held.lock_token, Decision::default()).await.is_err());
    assert!(provider.ack_work_item(&claimed.lock_token, None).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pruning_removes_what_both_criteria_name_and_nothing_else() {
    let world = World::start().await;
    let clock = Arc::new(ManualClock::default());
    let provider = world.provider_at(&clock).await;
    let begun = clock.now_ms();
    continued(&provider, &clock, "order", 5).await;
    // Execution n completes 120 n - 60 seconds after the beginning.
    let completed = |execution: u64| begun + execution * 120_000 - 60_000;
    let prune = async |keep_last, completed_before| {
        let options = PruneOptions {
            keep_last,
            completed_before,
        };
        let result = provider.prune_executions("order", options).await.expect("pruned");
        let left = provider.list_executions("order").await.expect("a list");
        (result.executions_deleted, result.events_deleted, left)
    };
    // Old enough are 1 and 2, but only 1 is outside the last four.
    assert_eq!(prune(Some(4), Some(completed(3))).await, (1, 3, vec![2, 3, 4, 5]));
    assert_eq!(prune(Some(4), Some(completed(3))).await, (0, 0, vec![2, 3, 4, 5]));
    // Outside the last two are 2 and 3, but only 2 is old enough.
    assert_eq!(prune(Some(2), Some(completed(3))).await, (1, 4, vec![3, 4, 5]));
    let metrics = provider.get_system_metrics().await.expect("metrics");
    assert_eq!((metrics.total_executions, metrics.total_events), (3, 5 + 6 + 7));
    assert!(provider.get_execution_info("order", 2).await.is_err());
    assert!(
        provider
            .read_history_with_execution_id("order", 2)
            .await
            .expect("empty")
            .is_empty()
    );
    assert_eq!(
        prune(None, None).await,
        (2, 11, vec![5]),
        "the current execution is never pruned"
    );
    assert_eq!(provider.read("order").await.expect("history").len(), 7);
    let nothing = provider
        .fetch_work_item(LOCK, Duration::ZERO, None, &TagFilter::Any)
        .await
        .expect("a fetch");
    assert!(nothing.is_none());
}
