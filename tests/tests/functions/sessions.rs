//! Affinity sessions: the activities of one go to one environment at a time, for as long as it uses them.

use crate::activities::*;
use cosmos::Clock;
use duroxide_lambda::{Limits, Wakeup};
use serde_json::Value;
use std::slice::from_ref;
use std::time::Duration;
use tests::cloud::Cloud;

/// The environment of [`Cloud::worker`].
const OWNER: &str = "environment-of-work";
/// The runtime renews such a session when half of it is over.
const LOCK: Duration = Duration::from_secs(8);

async fn session(cloud: &Cloud, name: &str) -> Value {
    cloud.world.document(name, "session").await.expect("a session")
}

fn until_ms(session: &Value) -> u64 {
    session["until"].as_u64().expect("a time")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_activities_of_a_session_go_to_one_environment() {
    let (cloud, stage, _) = cloud(Limits::default()).await;
    let first = schedule(&cloud, "first", "Patient@cart").await;
    let second = schedule(&cloud, "second", "Patient@cart").await;
    let third = schedule(&cloud, "third", "Quick@cart").await;
    let another = cloud
        .another_worker("another", stage.activities(), Default::default())
        .await;
    let watch = async {
        until(|| stage.count("began", "first") == 1).await;
        assert_eq!(session(&cloud, "cart").await["owner"], OWNER);
        served(&another.invoke(from_ref(&second)).await);
        assert_outcomes(&another, &[("Busy", 1)]);
        assert_eq!(work_item(&cloud, "second").await.expect("a work item")["attempts"], 0);
        stage.let_go("first");
        only(cloud.queue.take())
    };
    let (response, again) = futures::join!(cloud.worker.invoke(from_ref(&first)), watch);
    served(&response);
    assert_eq!(
        (&again.wakeup.target, again.wakeup.tries),
        (&second.target.without_version(), 1)
    );
    assert!(again.delay >= Duration::from_secs(1), "{again:?}");
    assert_output(&conclude(&cloud, "first").await, "done");

    // Between its invocations the environment keeps the session; there it may have any number of activities at once.
    served(&another.invoke(from_ref(&third)).await);
    assert_outcomes(&another, &[("Busy", 1)]);
    cloud.queue.take();
    let both = async {
        until(|| stage.count("began", "second") + stage.count("began", "third") == 2).await;
        stage.let_go("second");
    };
    let wakeups = [again.wakeup, third];
    let (response, ()) = futures::join!(cloud.worker.invoke(&wakeups), both);
    served(&response);
    conclude(&cloud, "second").await;
    assert_output(&status(&cloud, "second").await, "done");
    assert_output(&status(&cloud, "third").await, "quick");
    assert_eq!(another.listener.counts().cross_partition_queries, 0);
    assert_eq!(cloud.worker.listener.counts().cross_partition_queries, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_whose_environment_is_gone_moves_on_when_its_lock_ends() {
    let (cloud, stage, clock) = cloud(Limits::default()).await;
    let first = schedule(&cloud, "first", "Quick@cart").await;
    served(&cloud.worker.invoke(&[first]).await);
    conclude(&cloud, "first").await;
    assert_eq!(session(&cloud, "cart").await["owner"], OWNER);
    // The first environment is not used any more.
    let another = cloud
        .another_worker("another", stage.activities(), Default::default())
        .await;
    let second = schedule(&cloud, "second", "Quick@cart").await;
    served(&another.invoke(&[second]).await);
    assert_outcomes(&another, &[("Busy", 1)]);
    let again = only(cloud.queue.take());
    clock.advance(Limits::default().session_lock);
    served(&another.invoke(&[again.wakeup]).await);
    assert_outcomes(&another, &[("Committed", 1)]);
    assert_eq!(session(&cloud, "cart").await["owner"], "another");
    assert_output(&conclude(&cloud, "second").await, "quick");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: waits for locks in real time"]
async fn a_long_activity_keeps_its_session_and_an_idle_environment_renews_nothing() {
    let limits = Limits {
        session_lock: LOCK,
        ..Limits::default()
    };
    let (cloud, stage, clock) = cloud(limits).await;
    let first = schedule(&cloud, "first", "Patient@cart").await;
    let second = schedule(&cloud, "second", "Quick@cart").await;
    let another = cloud
        .another_worker("another", stage.activities(), Default::default())
        .await;
    let watch = async {
        until(|| stage.count("began", "first") == 1).await;
        let claimed = until_ms(&session(&cloud, "cart").await);
        until(|| clock.now_ms() > claimed).await;
        served(&another.invoke(from_ref(&second)).await);
        assert_outcomes(&another, &[("Busy", 1)]);
        let now = session(&cloud, "cart").await;
        assert!(now["owner"] == OWNER && until_ms(&now) > claimed, "{now}");
        stage.let_go("first");
    };
    let (response, ()) = futures::join!(cloud.worker.invoke(from_ref(&first)), watch);
    served(&response);
    let counts = cloud.worker.listener.counts();
    assert_eq!((counts.cross_partition_queries, counts.pkranges), (0, 0), "{counts:?}");
    // The runtime asks for a renewal every two seconds. The lock expires, and nothing is logged about it.
    let kept = until_ms(&session(&cloud, "cart").await);
    until(|| clock.now_ms() > kept).await;
    assert_eq!(until_ms(&session(&cloud, "cart").await), kept);
    assert_eq!(cloud.worker.listener.counts(), counts);
    cloud.queue.take();
    served(&another.invoke(&[second]).await);
    assert_outcomes(&another, &[("Committed", 1)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_sessions_at_once_than_the_runtime_allows_by_default_are_all_served() {
    const SESSIONS: usize = 15;
    let limits = Limits {
        concurrency: SESSIONS,
        ..Limits::default()
    };
    let (cloud, stage, _) = cloud(limits).await;
    let names: Vec<String> = (0..SESSIONS).map(|n| format!("order-{n}")).collect();
    let mut wakeups: Vec<Wakeup> = Vec::new();
    for (n, name) in names.iter().enumerate() {
        wakeups.push(schedule(&cloud, name, &format!("Patient@cart-{n}")).await);
    }
    let all_at_once = async {
        until(|| stage.total("began") == 2 * SESSIONS).await;
        names.iter().for_each(|name| stage.let_go(name));
    };
    let (response, ()) = futures::join!(cloud.worker.invoke(&wakeups), all_at_once);
    served(&response);
    assert_outcomes(&cloud.worker, &[("Committed", SESSIONS as u64)]);
    let turns: Vec<Wakeup> = cloud.queue.take().into_iter().map(|delayed| delayed.wakeup).collect();
    served(&cloud.orchestrator.invoke(&turns).await);
    for name in &names {
        assert_output(&status(&cloud, name).await, "done");
    }
}

/// An activity that blocks its thread outlives its invocation; its session is not renewed any more, but others are.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "exhaustive: waits for locks in real time"]
async fn a_stuck_activity_does_not_keep_the_sessions_of_others_from_being_renewed() {
    let limits = Limits {
        session_lock: LOCK,
        cancel_grace: Duration::from_millis(100),
        commit_reserve: Duration::from_millis(500),
        ..Limits::default()
    };
    let (cloud, stage, clock) = cloud(limits).await;
    let stuck = schedule(&cloud, "stuck", "Blocking@a-session").await;
    failed(&cloud.worker.invoke_within(&[stuck], Duration::from_secs(6)).await, 1);
    let long = schedule(&cloud, "long", "Patient@b-session").await;
    let watch = async {
        until(|| stage.count("began", "long") == 1).await;
        let claimed = until_ms(&session(&cloud, "b-session").await);
        until(|| clock.now_ms() > claimed).await;
        let now = session(&cloud, "b-session").await;
        stage.let_go("long");
        stage.let_go("stuck");
        (until_ms(&now) > claimed, now)
    };
    let (response, (renewed, now)) = futures::join!(cloud.worker.invoke(from_ref(&long)), watch);
    served(&response);
    assert!(renewed, "{now}");
}
