//! A store that does not answer: the invocation ends all the same, nothing is sent after its end, and whatever the
//! store made of the request that hung, there is one turn and one result in the end.

use crate::activities::*;
use cosmos_emulator::{Faults, Listener, Pause, Refusing};
use duroxide::runtime::OrchestrationStatus;
use duroxide_lambda::{Limits, Wakeup};
use std::slice::from_ref;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tests::cloud::{Cloud, Function};
use tokio::time::Instant;

/// The time of an invocation that hangs.
const SHORT: Duration = Duration::from_millis(2_500);
/// How much a slow machine may add to what ends by a timer.
const SLACK: Duration = Duration::from_secs(20);

fn limits() -> Limits {
    Limits {
        concurrency: 1,
        turn_reserve: Duration::from_millis(500),
        cancel_grace: Duration::from_millis(100),
        commit_reserve: Duration::from_millis(400),
        ..Limits::default()
    }
}

/// Whether the request that hangs is done by the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    Yes,
    No,
}

/// Lets the next write hang: before it is applied, or after it, and then the next request hangs too.
fn hang(listener: &Listener, done: Done) -> Pause {
    let before = listener.log().len();
    match done {
        Done::No => listener.pause_when(move |log| log.len() >= before),
        Done::Yes => {
            listener.set_faults(Faults {
                lost_after: 1.0,
                writes_only: true,
                limit: Some(1),
                ..Faults::default()
            });
            listener.pause_when(move |log| log.len() > before)
        }
    }
}

/// Has the commit of the workflow code that runs next hang.
fn hang_commit(stage: &Stage, function: &Function, done: Done) -> Arc<Mutex<Option<Pause>>> {
    let held = Arc::new(Mutex::new(None));
    let (listener, slot) = (function.listener.clone(), Arc::clone(&held));
    stage.then(move || *slot.lock().expect("no panic") = Some(hang(&listener, done)));
    held
}

/// An invocation that hangs: it ends in time, and the record comes again.
async fn hangs(function: &Function, wakeup: &Wakeup) {
    let began = Instant::now();
    failed(&function.invoke_within(from_ref(wakeup), SHORT).await, 1);
    let took = began.elapsed();
    assert!(took >= SHORT && took < SHORT + SLACK, "{took:?}");
    assert_outcomes(function, &[("Failed", 1)]);
}

/// Serves another instance. With one dispatcher, it also shows that the runtime has ended the last step.
async fn serves_on(cloud: &Cloud) {
    let wakeup = schedule(cloud, "next", "Quick").await;
    served(&cloud.worker.invoke(&[wakeup]).await);
    assert_output(&conclude(cloud, "next").await, "quick");
    counted(&cloud.orchestrator);
    counted(&cloud.worker);
}

/// No instance or work item is claimed for longer than its lock lasts from now.
async fn assert_nothing_is_stuck(cloud: &Cloud, now_ms: u64) {
    let longest = now_ms + 30_000;
    for document in cloud.world.documents().await {
        let until = document["until"].as_u64().unwrap_or(0);
        assert!(until <= longest, "{document}");
    }
}

async fn a_hanging_turn_happens_once(done: Done) {
    let (cloud, stage, clock) = cloud(limits()).await;
    let wakeup = start(&cloud, "order", "Run", "Quick").await;
    let held = hang_commit(&stage, &cloud.orchestrator, done);
    hangs(&cloud.orchestrator, &wakeup).await;
    // The outcome is unknown, so wakeups are sent for what the commit would have made due.
    let work = only(cloud.queue.take()).wakeup;
    let before = requests_for(&cloud.orchestrator, "order");
    serves_on(&cloud).await;
    assert_eq!(
        requests_for(&cloud.orchestrator, "order"),
        before,
        "the runtime's failure must not be committed"
    );
    assert_nothing_is_stuck(&cloud, cosmos::Clock::now_ms(&*clock)).await;

    if done == Done::No {
        assert!(matches!(status(&cloud, "order").await, OrchestrationStatus::NotFound));
        served(&cloud.worker.invoke(from_ref(&work)).await);
        assert_outcomes(&cloud.worker, &[("Nothing", 1)]);
    }
    served(&cloud.orchestrator.invoke(from_ref(&wakeup)).await);
    let once = if done == Done::Yes { "Nothing" } else { "Committed" };
    assert_outcomes(&cloud.orchestrator, &[(once, 1)]);
    // The paused request is applied at last, or dropped by the server: it changes nothing.
    drop(held.lock().expect("no panic").take());
    cloud.queue.take();
    served(&cloud.worker.invoke(from_ref(&work)).await);
    assert_outcomes(&cloud.worker, &[("Committed", 1)]);
    assert_output(&conclude(&cloud, "order").await, "quick");
    assert_eq!(stage.count("began", "order"), 1);
    let history = cloud
        .client
        .read_execution_history("order", 1)
        .await
        .expect("a history");
    assert_eq!(history.len(), 4, "{history:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_hangs_before_it_was_applied_leaves_the_turn_to_a_later_wakeup() {
    a_hanging_turn_happens_once(Done::No).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_hangs_after_it_was_applied_is_not_repeated() {
    a_hanging_turn_happens_once(Done::Yes).await;
}

async fn a_hanging_completion_is_one_result(done: Done) {
    let (cloud, stage, clock) = cloud(limits()).await;
    let wakeup = schedule(&cloud, "order", "Quick").await;
    let held = hang_commit(&stage, &cloud.worker, done);
    hangs(&cloud.worker, &wakeup).await;
    let turn = only(cloud.queue.take()).wakeup;
    let before = requests_for(&cloud.worker, "order");
    serves_on(&cloud).await;
    assert_eq!(requests_for(&cloud.worker, "order"), before);
    assert_nothing_is_stuck(&cloud, cosmos::Clock::now_ms(&*clock)).await;

    let mut again = wakeup;
    if done == Done::No {
        served(&cloud.worker.invoke(&[again]).await);
        assert_outcomes(&cloud.worker, &[("Busy", 1)]);
        again = only(cloud.queue.take()).wakeup;
        clock.advance(limits().work_lock);
    }
    served(&cloud.worker.invoke(&[again]).await);
    let (once, runs) = if done == Done::Yes {
        ("Nothing", 1)
    } else {
        ("Committed", 2)
    };
    assert_outcomes(&cloud.worker, &[(once, 1)]);
    assert_eq!(stage.count("began", "order"), runs);
    drop(held.lock().expect("no panic").take());
    cloud.queue.take();
    served(&cloud.orchestrator.invoke(&[turn]).await);
    assert_outcomes(&cloud.orchestrator, &[("Committed", 1)]);
    assert_output(&conclude(&cloud, "order").await, "quick");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_completion_that_hangs_before_it_was_applied_is_repeated_when_the_lock_expires() {
    a_hanging_completion_is_one_result(Done::No).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_completion_that_hangs_after_it_was_applied_is_not_repeated() {
    a_hanging_completion_is_one_result(Done::Yes).await;
}

/// Lets a fetch hang at its first request, or at its claim.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: waits for invocations in real time"]
async fn a_fetch_of_a_turn_that_hangs_ends_with_the_invocation_and_the_turn_happens_later() {
    for (requests, done) in [(0, Done::No), (1, Done::No), (1, Done::Yes)] {
        let (cloud, stage, clock) = cloud(limits()).await;
        let mut wakeup = start(&cloud, "order", "Turn", "").await;
        // It was sent again, so the second request claims.
        wakeup.tries = 1;
        let hold = hang_fetch(&cloud.orchestrator.listener, requests, done);
        hangs(&cloud.orchestrator, &wakeup).await;
        let before = requests_for(&cloud.orchestrator, "order");
        serves_on(&cloud).await;
        assert_eq!(
            requests_for(&cloud.orchestrator, "order"),
            before,
            "{requests} {done:?}"
        );
        assert_nothing_is_stuck(&cloud, cosmos::Clock::now_ms(&*clock)).await;
        clock.advance(limits().turn_lock);
        served(&cloud.orchestrator.invoke(&[wakeup]).await);
        drop(hold);
        assert_eq!(stage.count("began", "order"), 1);
        assert_output(&status(&cloud, "order").await, "turned");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: waits for invocations in real time"]
async fn a_fetch_of_an_activity_that_hangs_ends_with_the_invocation_and_it_runs_later() {
    // With a version the first request is the claim; without one it is a read.
    for (has_version, requests, done) in [
        (true, 0, Done::No),
        (true, 0, Done::Yes),
        (false, 0, Done::No),
        (false, 1, Done::No),
        (false, 1, Done::Yes),
    ] {
        let (cloud, stage, clock) = cloud(limits()).await;
        let mut wakeup = schedule(&cloud, "order", "Quick").await;
        if !has_version {
            wakeup.target = wakeup.target.without_version();
        }
        let hold = hang_fetch(&cloud.worker.listener, requests, done);
        hangs(&cloud.worker, &wakeup).await;
        let before = requests_for(&cloud.worker, "order");
        serves_on(&cloud).await;
        assert_eq!(requests_for(&cloud.worker, "order"), before, "{requests} {done:?}");
        assert_nothing_is_stuck(&cloud, cosmos::Clock::now_ms(&*clock)).await;
        clock.advance(limits().work_lock);
        served(&cloud.worker.invoke(&[wakeup]).await);
        if stage.count("began", "order") == 0 {
            // The claim was applied, so the version of the record is an old one.
            served(&cloud.worker.invoke(&[only(cloud.queue.take()).wakeup]).await);
        }
        drop(hold);
        assert_eq!(stage.count("began", "order"), 1, "{has_version} {requests} {done:?}");
        assert_output(&conclude(&cloud, "order").await, "quick");
    }
}

/// As [`hang`], but for the request that comes after so many.
fn hang_fetch(listener: &Listener, requests: usize, done: Done) -> Pause {
    let before = listener.log().len() + requests;
    match done {
        Done::No => listener.pause_when(move |log| log.len() >= before),
        Done::Yes => {
            drop(hang(listener, Done::Yes));
            listener.pause_when(move |log| log.len() > before)
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_whose_child_cannot_be_reached_before_the_invocation_ends_is_committed() {
    let (cloud, _stage, clock) = cloud(limits()).await;
    let wakeup = start(&cloud, "parent", "Parent", "child").await;
    let child = cosmos::PartitionKey::new("child")
        .expect("a valid partition key")
        .header();
    cloud
        .orchestrator
        .listener
        .refuse_when(move |request| (request.partition_key.as_ref() == Some(&child)).then(|| Refusing::with(503)));
    let began = Instant::now();
    served(&cloud.orchestrator.invoke_within(from_ref(&wakeup), SHORT).await);
    assert!(began.elapsed() < SHORT + SLACK, "{:?}", began.elapsed());
    assert_outcomes(&cloud.orchestrator, &[("Committed", 1)]);
    assert_eq!(cloud.world.documents_of("intent").await.len(), 1);
    // Maintenance delivers it.
    cloud.orchestrator.listener.refuse_nothing();
    clock.advance(Duration::from_secs(60));
    assert_eq!(tests::recover(&cloud.silent).await.intents, 1);
    assert!(cloud.world.documents_of("intent").await.is_empty());
}
