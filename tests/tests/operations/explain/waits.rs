//! Events, queues and timers.

use super::scene::*;
use duroxide::providers::WorkItem;
use duroxide_cosmos::{WaitKind, WokenBy};
use serde_json::json;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_is_waited_for_by_its_name() {
    let scene = Scene::new().await;
    scene.begun("a", "Wait", "approval").await;
    let found = scene.is("a", "event", false, &["Waits for event `approval` for"]).await;
    let command = found.next[0].command.as_deref().expect("a command");
    assert_eq!(command, ["raise", "a", "approval", "DATA"]);
    scene.begun("q", "Take", "approval").await;
    let found = scene
        .is("q", "queue", false, &["Waits for a message in queue `approval` for"])
        .await;
    assert_eq!(found.next[0].command.as_deref().expect("a command")[0], "enqueue");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_arrived_otherwise_is_named() {
    let scene = Scene::new().await;
    scene.begun("case", "Wait", "approval").await;
    scene.raise("case", "Approval").await;
    scene.turns(&scene.cloud.orchestrator).await;
    let found = scene
        .is("case", "event-missed", true, &["but an event `Approval` arrived"])
        .await;
    let similar = &found.waits[0].similar[0];
    assert_eq!((similar.name.as_str(), similar.kind), ("Approval", WaitKind::Event));

    scene.begun("typo", "Take", "approval").await;
    scene.enqueue("typo", "aproval").await;
    scene.turns(&scene.cloud.orchestrator).await;
    scene
        .is(
            "typo",
            "queue-missed",
            true,
            &["but a message in queue `aproval` arrived"],
        )
        .await;

    scene.begun("queued", "Wait", "approval").await;
    scene.enqueue("queued", "approval").await;
    scene.turns(&scene.cloud.orchestrator).await;
    scene
        .is("queued", "event-missed", true, &["it was enqueued instead of raised"])
        .await;

    scene.begun("raised", "Take", "approval").await;
    scene.raise("raised", "approval").await;
    scene.turns(&scene.cloud.orchestrator).await;
    scene
        .is(
            "raised",
            "queue-missed",
            true,
            &["it was raised as an event instead of enqueued"],
        )
        .await;

    scene.begun("other", "Wait", "approval").await;
    scene.raise("other", "parcel").await;
    scene.turns(&scene.cloud.orchestrator).await;
    let found = scene.is("other", "event", false, &["event `approval`"]).await;
    assert!(
        found.evidence.iter().any(|fact| fact.value == "event `parcel`"),
        "{found:#?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_came_too_early_is_lost() {
    let scene = Scene::new().await;
    scene.begun("a", "Late", "approval").await;
    scene.raise("a", "approval").await;
    scene.turns(&scene.cloud.orchestrator).await;
    scene.works().await;
    let words = [
        "an event `approval` arrived",
        "before the orchestration waited for it, and was lost",
    ];
    scene.is("a", "event-missed", true, &words).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_in_a_dead_letter_is_found() {
    let scene = Scene::new().await;
    let provider = &scene.cloud.silent;
    let early = WorkItem::ExternalRaised {
        instance: "a".to_owned(),
        name: "approval".to_owned(),
        data: String::new(),
    };
    tests::turns::enqueue(provider, early).await;
    scene.turn_by(&scene.cloud.orchestrator, "a").await;
    scene.clock.advance(Duration::from_secs(2 * 86_400));
    tests::recover(provider).await;
    assert_eq!(scene.cloud.world.documents_of("dead-letter").await.len(), 1);
    assert!(scene.explain("a").await.is_none(), "nobody has started it");
    scene.begun("a", "Wait", "approval").await;
    let found = scene
        .is("a", "event-missed", true, &["an event `approval` became a dead letter"])
        .await;
    assert!(
        found.evidence.iter().any(|fact| fact.what == "dead letters"),
        "{found:#?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timer_says_who_wakes_it_and_when_it_is_overdue() {
    let scene = Scene::new().await;
    scene.begun("near", "Sleep", "60").await;
    let found = scene
        .is(
            "near",
            "timer",
            false,
            &["a timer that fires in", "its wakeup was sent"],
        )
        .await;
    assert_eq!(
        (found.waits[0].woken_by, found.until),
        (Some(WokenBy::Wakeup), found.waits[0].due)
    );
    scene.begun("far", "Sleep", "7200").await;
    let found = scene
        .is("far", "timer", false, &["maintenance wakes it when it is near"])
        .await;
    assert_eq!(found.waits[0].woken_by, Some(WokenBy::Maintenance));
    scene.clock.advance(Duration::from_secs(61));
    scene.is("near", "turn-due", false, &["1 message due"]).await;
    scene.clock.advance(LATE);
    scene
        .is(
            "near",
            "timer-overdue",
            false,
            &["timer that should have fired", "its wakeup is lost"],
        )
        .await;
    scene.clock.advance(STUCK);
    scene
        .is("near", "timer-overdue", true, &["several wakeups did not help"])
        .await;
    scene.remove("far", "message").await;
    scene
        .is(
            "far",
            "timer-missing",
            true,
            &["a timer that is neither queued nor has fired"],
        )
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_race_has_both_and_its_loser_is_not_taken_for_a_wait() {
    let scene = Scene::new().await;
    scene.begun("a", "Race", "").await;
    let words = [
        "2 things at once",
        "event `approval`",
        "a timer that fires in",
        "only its code says",
    ];
    let found = scene.is("a", "several", false, &words).await;
    assert_eq!(found.until, found.waits[1].due);
    scene.raise("a", "approval").await;
    scene.turns(&scene.cloud.orchestrator).await;
    let words = [
        "Waits for event `parcel`",
        "1 older timer is open, maybe left over from a race",
    ];
    let found = scene.is("a", "event", false, &words).await;
    assert!(found.waits[1].may_be_left_over, "{found:#?}");
    scene.raise("a", "Parcel").await;
    scene.turns(&scene.cloud.orchestrator).await;
    scene
        .is("a", "event-missed", true, &["but an event `Parcel` arrived"])
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_texts_do_not_break_the_sentence() {
    let scene = Scene::new().await;
    let odd = "日本 `x`\n\u{1b}[2J".to_owned() + &"y".repeat(2_000);
    scene.begun("odd", "Wait", &odd).await;
    let found = scene.is("odd", "event", false, &["日本"]).await;
    assert!(found.sentence.chars().count() < 500, "{}", found.sentence);
    scene.begun("refuses", "Refuses", &odd).await;
    scene.is("refuses", "failed", true, &["日本"]).await;
    scene
        .edit("odd", "instance", |doc| doc["status"] = json!("Dreaming"))
        .await;
    scene.is("odd", "event", false, &["日本"]).await;
}
