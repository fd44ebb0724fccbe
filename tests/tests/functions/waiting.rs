//! What waits for a due time, and what must not wait for it: a wakeup comes up to a second early, and the function serves what is
//! due, then waits for the rest.
//!
//! The time of the functions stands still until a test moves it. duroxide's timers live in real time, so messages with a delay
//! stand for them: for the functions they are the same.

use crate::support::*;
use cosmos::Clock;
use cosmos_emulator::RequestKind::Query;
use duroxide::providers::{Provider, WorkItem};
use duroxide::{OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};
use duroxide_lambda::internals::{BatchResponse, Budget, SqsAttributes, SqsEvent};
use duroxide_lambda::{Limits, Wakeup};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tests::cloud::{Cloud, CloudOptions, INVOCATION, event};
use tests::{ManualClock, workload};

const MS: fn(u64) -> Duration = Duration::from_millis;

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Inbox", |ctx: OrchestrationContext, messages: String| async move {
            let mut taken = Vec::new();
            for _ in 0..messages.parse().unwrap_or(1) {
                taken.push(ctx.dequeue_event("inbox").await);
            }
            Ok(taken.join(" "))
        })
        .build()
}

/// A cloud whose time stands still until a test moves it.
async fn still(limits: Limits) -> (Arc<Cloud>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let options = CloudOptions {
        clock: Arc::clone(&clock) as Arc<dyn Clock>,
        limits,
        ..CloudOptions::default()
    };
    let cloud = Cloud::with(options, orchestrations(), workload::activities()).await;
    (Arc::new(cloud), clock)
}

/// Starts an instance that waits for so many messages.
async fn inbox(cloud: &Cloud, instance: &str, messages: usize) {
    let first = start(cloud, instance, "Inbox", &messages.to_string()).await;
    serve(&cloud.orchestrator, &[first]).await;
    assert!(cloud.queue.take().is_empty());
}

/// Sends a message that is due after a while, and answers its wakeup.
async fn post(cloud: &Cloud, instance: &str, data: &str, after: u64) -> Wakeup {
    let message = WorkItem::QueueMessage {
        instance: instance.to_owned(),
        name: "inbox".to_owned(),
        data: data.to_owned(),
    };
    let queued = cloud.notifying.enqueue_for_orchestrator(message, Some(MS(after))).await;
    queued.expect("it is queued");
    let delayed = only(cloud.queue.take());
    assert!(delayed.delay.is_zero(), "{delayed:?}");
    delayed.wakeup
}

/// The answer of an invocation that waits for nothing.
async fn at_once(invocation: impl Future<Output = BatchResponse>) -> BatchResponse {
    let mut invocation = std::pin::pin!(invocation);
    match futures::poll!(invocation.as_mut()) {
        Poll::Ready(response) => response,
        Poll::Pending => panic!("it waits"),
    }
}

/// How many turns the orchestrator has committed since the last call.
fn committed(cloud: &Cloud) -> u64 {
    metrics(&cloud.orchestrator)["Committed"].as_u64().unwrap_or(0)
}

/// The time stands still, so the timer is never due: whoever waited for it would never be served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_is_served_before_a_timer_of_its_group_and_of_its_batch() {
    let (cloud, clock) = still(Limits::default()).await;
    inbox(&cloud, "both", 2).await;
    inbox(&cloud, "other", 1).await;
    committed(&cloud);
    let timer = post(&cloud, "both", "timer", 300).await;
    let events = [
        post(&cloud, "both", "event", 0).await,
        post(&cloud, "other", "mate", 0).await,
    ];
    let begun = Instant::now();
    let invocation = tokio::spawn({
        let (cloud, batch) = (Arc::clone(&cloud), [vec![timer.clone()], events.to_vec()].concat());
        async move { serve(&cloud.orchestrator, &batch).await }
    });
    // Both are committed by themselves, however long the timer takes.
    until("the mate is served", async || {
        let status = status(&cloud, "other").await;
        matches!(status, OrchestrationStatus::Completed { .. })
    })
    .await;
    invocation.await.expect("it ends");
    assert!(begun.elapsed() >= MS(300), "it has waited");
    assert_eq!(committed(&cloud), 2);
    // Its clock did not get there: the wakeup comes again after its time.
    let again = only(cloud.queue.take());
    assert_eq!((again.delay, again.wakeup.due_ms), (MS(1_000), timer.due_ms));
    clock.advance(MS(300));
    serve(&cloud.orchestrator, &[again.wakeup]).await;
    assert_eq!(output(&cloud, "both").await, "event timer");
}

/// A step takes what is due, and nothing that another due time of the same wakeup is for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_consumed_before_its_time() {
    let (cloud, clock) = still(Limits::default()).await;
    inbox(&cloud, "two", 2).await;
    committed(&cloud);
    let mut shared = post(&cloud, "two", "first", 400).await;
    let second = post(&cloud, "two", "second", 800).await;
    shared.also_due_ms.extend(second.dues());
    clock.advance(MS(399));
    cloud.orchestrator.listener.reset();
    serve(&cloud.orchestrator, std::slice::from_ref(&shared)).await;
    assert_eq!(cloud.orchestrator.listener.counts().requests, 0, "nothing is due");
    let again = only(cloud.queue.take());
    assert_eq!(
        again.wakeup.dues().collect::<Vec<_>>(),
        shared.dues().collect::<Vec<_>>()
    );
    clock.advance(MS(1));
    serve(&cloud.orchestrator, &[again.wakeup]).await;
    assert_eq!(committed(&cloud), 1, "the first");
    let again = only(cloud.queue.take());
    assert_eq!(
        (again.wakeup.due_ms, again.wakeup.also_due_ms.len()),
        (second.due_ms, 0)
    );
    clock.advance(MS(400));
    serve(&cloud.orchestrator, &[again.wakeup]).await;
    assert_eq!(output(&cloud, "two").await, "first second");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_too_little_time_for_the_wait_and_a_turn_the_wakeup_comes_after_its_time() {
    let limits = Limits::default();
    let (cloud, clock) = still(limits.clone()).await;
    inbox(&cloud, "order", 1).await;
    let timer = post(&cloud, "order", "timer", 900).await;
    cloud.orchestrator.listener.reset();
    let time = limits.turn_reserve + MS(800);
    let invocation = cloud.orchestrator.invoke_within(std::slice::from_ref(&timer), time);
    assert_eq!(failed(&at_once(invocation).await), [""; 0]);
    assert_eq!(cloud.orchestrator.listener.counts().requests, 0);
    let again = only(cloud.queue.take());
    assert_eq!((again.delay, again.wakeup.due_ms), (MS(1_000), timer.due_ms));
    clock.advance(MS(1_000));
    serve(&cloud.orchestrator, &[again.wakeup]).await;
    assert_eq!(output(&cloud, "order").await, "timer");
}

/// Four dispatchers: two invocations may wait, whatever their groups, and the third sends its wakeup again at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_most_half_as_many_invocations_wait_as_there_are_dispatchers() {
    let limits = Limits {
        concurrency: 4,
        ..Limits::default()
    };
    let (cloud, clock) = still(limits).await;
    let mut timers = Vec::new();
    for n in 0..7 {
        inbox(&cloud, &format!("i{n}"), 1).await;
        timers.push(post(&cloud, &format!("i{n}"), "timer", 1_000).await);
    }
    // The first has more groups than may wait by themselves.
    let mut waiting = Vec::new();
    for batch in [&timers[..5], &timers[5..6]] {
        let mut served = Box::pin(serve(&cloud.orchestrator, batch));
        // Polled once, it waits: nothing of it is due. It goes on when it is polled again.
        assert!(futures::poll!(served.as_mut()).is_pending());
        waiting.push(served);
    }
    cloud.orchestrator.listener.reset();
    let response = at_once(cloud.orchestrator.invoke(&timers[6..])).await;
    assert_eq!(failed(&response), [""; 0]);
    let again = only(cloud.queue.take());
    assert_eq!((again.delay, again.wakeup.due_ms), (MS(1_000), timers[6].due_ms));
    assert_eq!(cloud.orchestrator.listener.counts().requests, 0);
    // What is due is served beside them.
    let event = post(&cloud, "i6", "event", 0).await;
    serve(&cloud.orchestrator, &[event]).await;
    assert_eq!(output(&cloud, "i6").await, "event");
    clock.advance(MS(1_000));
    futures::future::join_all(waiting).await;
    for n in 0..6 {
        assert_eq!(output(&cloud, &format!("i{n}")).await, "timer");
    }
    assert!(cloud.queue.take().is_empty(), "all of them have waited");
}

/// Lambda kills the function while it waits; SQS delivers the record again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_that_dies_while_it_waits_loses_nothing() {
    let (cloud, clock) = still(Limits::default()).await;
    inbox(&cloud, "order", 1).await;
    let timer = post(&cloud, "order", "timer", 1_000).await;
    cloud.orchestrator.listener.reset();
    let mut killed = Box::pin(cloud.orchestrator.invoke(std::slice::from_ref(&timer)));
    assert!(futures::poll!(killed.as_mut()).is_pending());
    drop(killed);
    assert_eq!(
        cloud.orchestrator.listener.counts().requests,
        0,
        "there is no claim to expire"
    );
    assert!(cloud.queue.take().is_empty());
    clock.advance(MS(60_000));
    let another = cloud.another_orchestrator("another", orchestrations()).await;
    let SqsEvent { mut records } = event(std::slice::from_ref(&timer));
    records[0].attributes = SqsAttributes {
        receive_count: "2".to_owned(),
    };
    let budget = Budget::of(INVOCATION);
    let response = another.environment.serve(SqsEvent { records }, budget).await;
    assert_eq!(failed(&response), [""; 0]);
    assert_eq!(
        another.listener.counts().requests,
        3,
        "delivered before, it claims: the turn may have ended the process"
    );
    assert_eq!(output(&cloud, "order").await, "timer");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_duplicate_of_a_timers_wakeup_finds_nothing_and_costs_one_request() {
    let (cloud, clock) = still(Limits::default()).await;
    inbox(&cloud, "order", 2).await;
    let timer = post(&cloud, "order", "timer", 300).await;
    clock.advance(MS(300));
    committed(&cloud);
    serve(&cloud.orchestrator, std::slice::from_ref(&timer)).await;
    assert_eq!(committed(&cloud), 1);
    let (_, cost) = cost_of(&cloud.orchestrator.listener, serve(&cloud.orchestrator, &[timer])).await;
    cost.is_exactly(&[Query], 1);
    assert!(cloud.queue.take().is_empty());
}

/// The wakeups of both due times are lost on the way back into the queue: the record fails, and comes again as it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_whose_rest_cannot_be_sent_again_fails() {
    let (cloud, _) = still(Limits::default()).await;
    inbox(&cloud, "order", 1).await;
    let mut timer = post(&cloud, "order", "timer", 200).await;
    for later in [700, 90_000] {
        timer.also_due_ms = vec![timer.due_ms.expect("a time") + later];
        cloud.queue.fail_all(true);
        let response = cloud.orchestrator.invoke(std::slice::from_ref(&timer)).await;
        assert_eq!(failed(&response), ["0"]);
        cloud.queue.fail_all(false);
    }
}
