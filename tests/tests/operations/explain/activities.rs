//! Activities: queued, running, between two attempts, lost, blocked, without a queue, behind a session, gone.

use super::scene::*;
use duroxide::providers::SessionFetchConfig;
use duroxide_cosmos::{AttemptEnd, Fetched, WokenBy};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_activity_that_nobody_has_begun_says_since_when() {
    let scene = Scene::new().await;
    scene.begun("a", "Act", "Fine").await;
    let found = scene
        .is("a", "activity-queued", false, &["activity `Fine`", "not begun"])
        .await;
    let wait = &found.waits[0];
    assert_eq!(
        (wait.kind.name(), wait.name.as_deref(), wait.id, wait.attempt),
        ("activity", Some("Fine"), 2, None)
    );
    scene.clock.advance(LATE);
    scene.is("a", "activity-queued", false, &["its wakeup is lost"]).await;
    scene.clock.advance(STUCK);
    let found = scene
        .is("a", "activity-queued", true, &["several wakeups did not help"])
        .await;
    assert!(found.next[0].text.contains("worker function is deployed"), "{found:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempts_are_counted_with_their_ends() {
    let scene = Scene::new().await;
    scene.begun("a", "Act", "Fine").await;
    let first = scene.claim_work("a").await;
    let found = scene
        .is(
            "a",
            "activity-running",
            false,
            &["attempt 1 of 10 has been running", "claimed for"],
        )
        .await;
    assert!(
        found.waits[0].claimed_until.is_some() && found.until.is_some(),
        "{found:#?}"
    );

    let minute = Duration::from_secs(60);
    let released = scene
        .cloud
        .silent
        .release_timed_out_work(&first.lock_token, minute)
        .await;
    released.expect("it is released");
    let found = scene
        .is(
            "a",
            "activity-retrying",
            false,
            &["attempt 1 of 10 timed out", "the next one comes in"],
        )
        .await;
    assert_eq!(found.waits[0].last_end, Some(AttemptEnd::TimedOut));
    scene.clock.advance(minute + SECOND);
    scene
        .is(
            "a",
            "activity-retrying",
            false,
            &["timed out, and the next one has been due"],
        )
        .await;

    scene.claim_work("a").await;
    scene
        .is(
            "a",
            "activity-running",
            false,
            &["attempt 2 of 10 has been running", "the attempt before timed out"],
        )
        .await;
    scene.clock.advance(LOCK);
    let found = scene
        .is("a", "activity-lost", false, &["the process of attempt 2 of 10 died"])
        .await;
    assert!(found.next[0].text.contains("out of memory"), "{found:#?}");
    scene.clock.advance(LATE);
    scene
        .is(
            "a",
            "activity-lost",
            false,
            &["its wakeup is lost, or waits in a long queue"],
        )
        .await;

    for _ in 0..2 {
        scene.claim_work("a").await;
        scene.clock.advance(LOCK);
    }
    scene
        .is("a", "activity-lost", true, &["the process of attempt 4 of 10 died"])
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limit_of_an_activity_is_that_of_the_configuration() {
    let mut scene = Scene::new().await;
    scene.settings.activity_attempts.insert("Fine".to_owned(), 3);
    scene.begun("a", "Act", "Fine").await;
    scene.claim_work("a").await;
    scene.is("a", "activity-running", false, &["attempt 1 of 3"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_activity_that_no_worker_registers_is_blocked_and_leads_the_sentence() {
    let scene = Scene::new().await;
    scene.begun("a", "Act", "Unknown").await;
    scene.works().await;
    let words = [
        "activity `Unknown`, which no deployed worker has been able to run",
        "build `one ",
        "registers activity `Unknown`",
    ];
    let found = scene.is("a", "activity-blocked", true, &words).await;
    assert!(
        found.waits[0].blocked.is_some() && found.status.name() == "Running",
        "{found:#?}"
    );

    scene.begun("both", "Both", "").await;
    let found = scene
        .is(
            "both",
            "several",
            false,
            &["Waits for 2 things at once", "`Fine`", "`Unknown`"],
        )
        .await;
    assert_eq!(found.waits.len(), 2);
    let unknown = scene.cloud.world.work_wakeups().await;
    let unknown = unknown
        .iter()
        .find(|wakeup| wakeup.target.activity() == Some(3))
        .expect("a wakeup");
    scene.cloud.worker.invoke(std::slice::from_ref(unknown)).await;
    scene
        .is(
            "both",
            "activity-blocked",
            true,
            &["2 things at once", "activity `Unknown`, which no deployed"],
        )
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tag_without_a_queue_is_said_once_it_is_late() {
    let mut scene = Scene::new().await;
    scene.settings.tag_queues = Some(BTreeSet::new());
    scene.begun("a", "Act", "Fine#gpu").await;
    let found = scene.is("a", "activity-queued", false, &["activity `Fine`"]).await;
    assert_eq!(found.waits[0].tag.as_deref(), Some("gpu"));
    scene.clock.advance(LATE);
    let found = scene
        .is(
            "a",
            "activity-without-queue",
            true,
            &["tag `gpu`", "no queue of its own"],
        )
        .await;
    assert!(found.next[0].text.contains("WORKER_TAGS"), "{found:#?}");
    scene.settings.tag_queues = Some(BTreeSet::from(["gpu".to_owned()]));
    scene.is("a", "activity-queued", false, &["its wakeup is lost"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_activity_of_a_session_waits_for_its_owner() {
    let scene = Scene::new().await;
    let owner = SessionFetchConfig {
        owner_id: "environment-7".to_owned(),
        lock_timeout: LOCK,
    };
    let claimed = scene.cloud.silent.claim_session("cart", &owner).await;
    assert!(matches!(claimed, Ok(Fetched::Ready(()))), "{claimed:?}");
    scene.begun("a", "Act", "Fine@cart").await;
    let words = ["affinity session `cart`", "environment `environment-7` owns"];
    let found = scene.is("a", "activity-session", false, &words).await;
    assert_eq!(found.waits[0].session.as_deref(), Some("cart"));
    scene.clock.advance(LOCK);
    scene.is("a", "activity-queued", false, &["activity `Fine`"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_activity_that_is_gone_or_newer_is_not_taken_for_queued() {
    let scene = Scene::new().await;
    scene.begun("newer", "Act", "Fine").await;
    scene.edit("newer", "w:1:2", |doc| doc["v"] = json!(9)).await;
    scene
        .is(
            "newer",
            "newer-release",
            false,
            &["activity `Fine`, which a newer release has claimed"],
        )
        .await;
    scene.begun("gone", "Act", "Fine").await;
    scene.remove("gone", "work").await;
    scene
        .is(
            "gone",
            "activity-missing",
            true,
            &["`Fine`, which is neither queued nor completed"],
        )
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_of_the_orchestration_has_the_error_and_the_next_time() {
    let scene = Scene::new().await;
    scene.begun("a", "Retry", "").await;
    scene.works().await;
    let words = [
        "a timer that fires in",
        "activity `Fails` failed 1 time",
        "the card is refused",
    ];
    let found = scene.is("a", "timer", false, &words).await;
    let wait = &found.waits[0];
    assert_eq!(wait.last_error.as_deref(), Some("the card is refused"));
    assert_eq!((wait.woken_by, found.until), (Some(WokenBy::Wakeup), wait.due));
    scene.clock.advance(Duration::from_secs(121));
    scene.turn_by(&scene.cloud.orchestrator, "a").await;
    scene
        .is(
            "a",
            "activity-queued",
            false,
            &["1 earlier call failed", "the card is refused"],
        )
        .await;
}
