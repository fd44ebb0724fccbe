//! Turns are not claimed, unless an earlier attempt may have ended its process.

use crate::support::*;
use cosmos::Clock;
use cosmos_emulator::CrashPoint;
use cosmos_emulator::RequestKind::{Batch, Query, Replace};
use duroxide::{OrchestrationContext, OrchestrationRegistry};
use duroxide_lambda::Wakeup;
use duroxide_lambda::internals::{Budget, SqsEvent};
use futures::StreamExt as _;
use std::sync::Arc;
use std::time::Duration;
use tests::cloud::{Cloud, CloudOptions, INVOCATION, event};
use tests::cost::cost_of;
use tests::turns::{Decision, REPAIRABLE, commit, turn};
use tests::{ManualClock, until_crash, workload};

/// Enough for a turn with a thousand messages.
const LONG: Duration = Duration::from_secs(300);

/// The same wakeup as the queue delivers it the n-th time.
fn delivered(wakeup: &Wakeup, count: u32) -> SqsEvent {
    let mut event = event(std::slice::from_ref(wakeup));
    event.records[0].attributes.receive_count = count.to_string();
    event
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_in_an_environment_that_never_saw_its_instance_is_two_requests_too() {
    let cloud = Cloud::start(workload::orchestrations(), workload::activities()).await;
    let first = start(&cloud, "order", "HelloCities", "1").await;
    serve(&cloud.orchestrator, &[first]).await;
    serve(&cloud.worker, &plain(cloud.queue.take())).await;
    let second = only(cloud.queue.take()).wakeup;
    assert_eq!(second.execution, Some(1), "the wakeup names the history to read");
    let cold = cloud.another_orchestrator("cold", workload::orchestrations()).await;
    let (_, cost) = cost_of(&cold.listener, serve(&cold, &[second])).await;
    cost.is_exactly(&[Query, Batch], 2);
    cloud.drain().await;
    assert!(output(&cloud, "order").await.contains("Oslo"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wakeup_that_came_before_or_is_overdue_claims_first() {
    let cloud = Cloud::start(workload::orchestrations(), workload::activities()).await;
    for (n, suspicious) in ["delivered again", "sent again", "overdue"].into_iter().enumerate() {
        let mut wakeup = start(&cloud, &format!("i{n}"), "HelloCities", "1").await;
        wakeup.tries = u32::from(suspicious == "sent again");
        wakeup.overdue = suspicious == "overdue";
        let count = if suspicious == "delivered again" { 2 } else { 1 };
        let served = cloud
            .orchestrator
            .environment
            .serve(delivered(&wakeup, count), Budget::of(INVOCATION));
        let (response, cost) = cost_of(&cloud.orchestrator.listener, served).await;
        assert_eq!(failed(&response), [""; 0], "{suspicious}");
        cost.is_exactly(&[Query, Replace, Batch], 3);
        cloud.queue.take();
    }
}

/// Waits for so many events.
fn gather() -> OrchestrationRegistry {
    let gather = |ctx: OrchestrationContext, count: String| async move {
        let count: usize = count.parse().expect("a number");
        let events = (0..count).map(|n| ctx.schedule_wait(format!("done-{n}")));
        ctx.join(events.collect()).await;
        Ok("gathered".to_owned())
    };
    OrchestrationRegistry::builder().register("Gather", gather).build()
}

/// What a fan-in took.
#[derive(Debug, Default)]
struct FanIn {
    requests: u64,
    raced: u64,
    committed: u64,
    busy: u64,
}

/// So many completions for one instance, whose wakeups so many environments serve at once, some per invocation.
#[derive(Clone, Copy)]
struct Rush {
    completions: usize,
    environments: usize,
    batch: usize,
}

impl Rush {
    async fn serve(self, claims: bool) -> FanIn {
        let mut options = CloudOptions::default();
        options.limits.turn_lock = LONG;
        let cloud = Cloud::with(options, gather(), workload::activities()).await;
        let mut fleet = Vec::new();
        for n in 0..self.environments {
            fleet.push(cloud.another_orchestrator(&format!("e{n}"), gather()).await);
        }
        let first = start(&cloud, "i", "Gather", &self.completions.to_string()).await;
        serve(&cloud.orchestrator, &[first]).await;
        let raises = (0..self.completions).map(|n| cloud.client.raise_event("i", format!("done-{n}"), ""));
        let raised: Vec<_> = futures::stream::iter(raises).buffer_unordered(16).collect().await;
        assert!(raised.iter().all(Result::is_ok));
        cloud.queue.take();
        // One for each completion: how many the client would share depends on the machine's speed.
        let wakeup = Wakeup {
            execution: Some(1),
            ..Wakeup::turn("i")
        };
        let mut queue = vec![wakeup; self.completions];
        while !queue.is_empty() {
            for wakeup in &mut queue {
                wakeup.tries = u32::from(claims || wakeup.tries > 0);
            }
            let batches: Vec<Vec<Wakeup>> = queue.chunks(self.batch).map(<[Wakeup]>::to_vec).collect();
            // A store that does not answer in time fails a record: SQS delivers it again, and then it claims.
            let again: Vec<Vec<Wakeup>> = futures::stream::iter(batches.into_iter().zip(fleet.iter().cycle()))
                .map(|(batch, function)| function.failed_of(batch, LONG))
                .buffer_unordered(self.environments)
                .collect()
                .await;
            queue = plain(cloud.queue.take());
            queue.extend(again.into_iter().flatten().map(|wakeup| Wakeup { tries: 1, ..wakeup }));
        }
        assert_eq!(output(&cloud, "i").await, "gathered");
        let mut sum = FanIn::default();
        for function in &fleet {
            sum.requests += function.listener.counts().requests;
            let counted = metrics(function);
            let of = |name: &str| counted[name].as_u64().unwrap_or(0);
            sum.raced += of("Raced");
            sum.committed += of("Committed");
            sum.busy += of("Busy");
        }
        sum
    }

    /// Claims are worth their price where many race: without them it must not cost much more.
    async fn costs_about_the_same_without_claims(self) {
        let (claimed, optimistic) = (self.serve(true).await, self.serve(false).await);
        println!(
            "{} per invocation, claimed: {claimed:?}, optimistic: {optimistic:?}",
            self.batch
        );
        assert!(
            optimistic.requests <= 2 * claimed.requests,
            "claimed: {claimed:?}, optimistic: {optimistic:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fan_in_does_not_end_in_a_storm_of_lost_turns() {
    for batch in [1, 10] {
        let rush = Rush {
            completions: 100,
            environments: 10,
            batch,
        };
        rush.costs_about_the_same_without_claims().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: 200 completions; FAN_IN_COMPLETIONS sets another number"]
async fn a_larger_fan_in_does_not_end_in_a_storm_of_lost_turns() {
    let completions = std::env::var("FAN_IN_COMPLETIONS").map_or(200, |count| count.parse().expect("a number"));
    for batch in [1, 10] {
        let rush = Rush {
            completions,
            environments: completions / 20,
            batch,
        };
        rush.costs_about_the_same_without_claims().await;
    }
}

/// The commit of 150 activities does not fit one batch, and its process dies after the decision.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_that_completes_a_commit_of_another_wakes_the_activities_that_it_publishes() {
    const ACTIVITIES: u64 = 150;
    let clock = Arc::new(ManualClock::default());
    let options = CloudOptions {
        clock: Arc::clone(&clock) as Arc<dyn Clock>,
        ..CloudOptions::default()
    };
    let cloud = Cloud::with(options, workload::orchestrations(), workload::activities()).await;
    let wakeup = start(&cloud, "wide", "HelloCities", "1").await;
    let (listener, dying) = cloud.world.process_at(&clock).await;
    let token = turn(&dying, "wide").await.lock_token;
    listener.crash_at_write(2, CrashPoint::AfterApplied);
    until_crash(&listener, commit(&dying, &token, Decision::first("wide", ACTIVITIES))).await;
    let published = cloud.world.documents_of("work").await.len() as u64;
    assert!(published < ACTIVITIES, "the crash left it unfinished");

    // While its maker may still be at it, the function leaves it alone, and comes back.
    serve(&cloud.orchestrator, std::slice::from_ref(&wakeup)).await;
    let again = only(cloud.queue.take());
    assert_eq!((again.wakeup.target, again.wakeup.tries), (turn_of("wide"), 1));
    assert_eq!(cloud.world.documents_of("work").await.len() as u64, published);

    clock.advance(REPAIRABLE);
    serve(&cloud.orchestrator, &[wakeup]).await;
    let woken = plain(cloud.queue.take());
    assert_eq!(published + woken.len() as u64, ACTIVITIES, "each that it published");
    assert!(
        woken.iter().all(|wakeup| work_of(wakeup).written.is_some()),
        "{woken:?}"
    );
}
