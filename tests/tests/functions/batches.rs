//! Batches: different targets run at once, records for one target are one step, and each record has its own
//! disposition.

use crate::support::*;
use cosmos_emulator::{Faults, RequestKind};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};
use duroxide_lambda::{Limits, Wakeup};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tests::cloud::{Cloud, CloudOptions};
use tests::workload;
use tokio::sync::Barrier;
use tokio::time::timeout;

/// An orchestration of one activity, `Work`, whose turns are counted.
fn orchestrations(turns: &Arc<AtomicUsize>) -> OrchestrationRegistry {
    let turns = Arc::clone(turns);
    OrchestrationRegistry::builder()
        .register("One", move |ctx: OrchestrationContext, input: String| {
            turns.fetch_add(1, Ordering::SeqCst);
            async move { ctx.schedule_activity("Work", input).await }
        })
        .build()
}

async fn started(cloud: &Cloud, count: usize) -> Vec<Wakeup> {
    let mut wakeups = Vec::new();
    for n in 0..count {
        wakeups.push(start(cloud, &format!("i{n}"), "One", "").await);
    }
    wakeups
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_activities_of_a_batch_run_at_once() {
    let meeting = Arc::new(Barrier::new(10));
    let work = move |_: ActivityContext, _: String| {
        let meeting = Arc::clone(&meeting);
        async move {
            meeting.wait().await;
            Ok("met".to_owned())
        }
    };
    let activities = ActivityRegistry::builder().register("Work", work).build();
    let cloud = Cloud::start(orchestrations(&Arc::default()), activities).await;
    let starts = started(&cloud, 10).await;
    serve(&cloud.orchestrator, &starts).await;
    let works = plain(cloud.queue.take());
    assert_eq!(works.len(), 10);
    let met = timeout(PATIENCE, serve(&cloud.worker, &works)).await;
    met.expect("none waits for another's end");
    cloud.drain().await;
    assert_eq!(output(&cloud, "i9").await, "met");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_turns_of_a_batch_run_at_once() {
    let cloud = Cloud::start(orchestrations(&Arc::default()), workload::activities()).await;
    let starts = started(&cloud, 10).await;
    cloud.orchestrator.listener.reset();
    cloud.orchestrator.listener.set_faults(Faults {
        delay: Some(Duration::from_secs(1)),
        ..Faults::default()
    });
    serve(&cloud.orchestrator, &starts).await;
    let log = cloud.orchestrator.listener.log();
    let fetches: Vec<_> = log.iter().filter(|record| record.kind == RequestKind::Query).collect();
    assert_eq!(fetches.len(), 10, "{log:?}");
    let last_sent = fetches.iter().map(|fetch| fetch.started).max();
    let first_answered = fetches.iter().map(|fetch| fetch.finished).min();
    assert!(
        last_sent < first_answered,
        "all fetches are under way at once: {fetches:?}"
    );
    assert_eq!(cloud.queue.take().len(), 10, "each has committed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_wakeups_for_one_instance_are_one_turn() {
    let turns = Arc::new(AtomicUsize::new(0));
    let cloud = Cloud::start(orchestrations(&turns), workload::activities()).await;
    let wakeup = start(&cloud, "order", "One", "").await;
    cloud.orchestrator.listener.reset();
    serve(&cloud.orchestrator, &vec![wakeup; 10]).await;
    assert_eq!(turns.load(Ordering::SeqCst), 1);
    assert_eq!(
        cloud.orchestrator.listener.counts().requests,
        3,
        "so many are a rush: it is claimed"
    );
    assert_eq!(cloud.queue.take().len(), 1);
    assert_eq!(metrics(&cloud.orchestrator)["Turns"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wakeups_for_one_target_are_one_step_whatever_else_they_say() {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let work = move |_: ActivityContext, _: String| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move { Ok(String::new()) }
    };
    let activities = ActivityRegistry::builder().register("Work", work).build();
    let turns = Arc::new(AtomicUsize::new(0));
    let cloud = Cloud::start(orchestrations(&turns), activities).await;
    let [a, b, c] = <[Wakeup; 3]>::try_from(started(&cloud, 3).await).expect("three");
    let tired = Wakeup { tries: 3, ..b.clone() };
    let strange = Wakeup {
        consistency_token: None,
        ..a.clone()
    };
    let batch = [&a, &b, &strange, &c, &tired, &a].map(Clone::clone);
    serve(&cloud.orchestrator, &batch).await;
    assert_eq!(turns.load(Ordering::SeqCst), 3);
    let works = plain(cloud.queue.take());
    assert_eq!(works.len(), 3);
    let mut bare = works[0].clone();
    if let duroxide_lambda::Target::Work(work) = &mut bare.target {
        work.written = None;
    }
    serve(
        &cloud.worker,
        &[works.as_slice(), &works, std::slice::from_ref(&bare)].concat(),
    )
    .await;
    assert_eq!(runs.load(Ordering::SeqCst), 3);
    assert_eq!(metrics(&cloud.worker)["Activities"], 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_wakeups_than_dispatchers_are_all_served() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (current, highest) = (Arc::clone(&now), Arc::clone(&most));
    let work = move |_: ActivityContext, _: String| {
        let (current, highest) = (Arc::clone(&current), Arc::clone(&highest));
        async move {
            highest.fetch_max(current.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(20)).await;
            current.fetch_sub(1, Ordering::SeqCst);
            Ok("done".to_owned())
        }
    };
    let options = CloudOptions {
        limits: Limits {
            concurrency: 3,
            ..Limits::default()
        },
        ..CloudOptions::default()
    };
    let activities = ActivityRegistry::builder().register("Work", work).build();
    let cloud = Cloud::with(options, orchestrations(&Arc::default()), activities).await;
    let starts = started(&cloud, 25).await;
    serve(&cloud.orchestrator, &starts).await;
    let works = plain(cloud.queue.take());
    assert_eq!(works.len(), 25);
    serve(&cloud.worker, &works).await;
    serve(&cloud.orchestrator, &plain(cloud.queue.take())).await;
    for n in 0..25 {
        assert_eq!(output(&cloud, &format!("i{n}")).await, "done");
    }
    assert!(most.load(Ordering::SeqCst) <= 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_batch_is_answered_and_costs_nothing() {
    let cloud = Cloud::start(workload::orchestrations(), workload::activities()).await;
    for function in [&cloud.orchestrator, &cloud.worker] {
        serve(function, &[]).await;
        assert_eq!(function.listener.counts().requests, 0);
    }
    assert_eq!(cloud.queue.calls(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_down_fails_all_records_and_nothing_is_lost() {
    let limits = Limits {
        turn_reserve: Duration::from_millis(200),
        ..Limits::default()
    };
    let options = CloudOptions {
        limits,
        ..CloudOptions::default()
    };
    let cloud = Cloud::with(options, workload::orchestrations(), workload::activities()).await;
    let mut wakeups = Vec::new();
    for n in 0..3 {
        wakeups.push(start(&cloud, &format!("i{n}"), "HelloCities", "1").await);
    }
    let unavailable = Faults {
        unavailable: 1.0,
        ..Faults::default()
    };
    let gone = Faults {
        lost_before: 1.0,
        ..Faults::default()
    };
    let enough = Duration::from_secs(5);
    for faults in [unavailable, gone] {
        cloud.orchestrator.listener.set_faults(faults);
        let response = cloud.orchestrator.invoke_within(&wakeups, enough).await;
        assert_eq!(failed(&response), ["0", "1", "2"]);
        assert_eq!(metrics(&cloud.orchestrator)["Failed"], 3);
    }
    assert!(cloud.queue.take().is_empty());
    cloud.orchestrator.listener.clear_faults();
    serve(&cloud.orchestrator, &wakeups).await;
    cloud.drain().await;
    for n in 0..3 {
        assert!(output(&cloud, &format!("i{n}")).await.contains("Oslo"));
    }
}
