//! Turns that are due, run, were given back, are blocked; and instances that nobody can go on with.

use super::scene::*;
use cosmos_emulator::CrashPoint;
use duroxide::providers::Provider as _;
use duroxide::{OrchestrationContext, OrchestrationRegistry};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tests::turns::{Decision, commit, enqueue, start_of, turn};
use tests::{connect, until_crash};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pending_instance_says_since_when_and_what_a_delay_means() {
    let scene = Scene::new().await;
    scene.start("a", "Wait", "go").await;
    let found = scene
        .is("a", "first-turn-due", false, &["accepted", "first turn has not begun"])
        .await;
    assert_eq!((found.orchestration.as_str(), found.version), ("Wait", None));
    scene.clock.advance(LATE);
    scene
        .is(
            "a",
            "first-turn-due",
            false,
            &["accepted 4", "wakeup is lost, or waits in a long queue"],
        )
        .await;
    scene.clock.advance(STUCK);
    let found = scene
        .is("a", "first-turn-due", true, &["several wakeups did not help"])
        .await;
    assert!(
        found.next[0].text.contains("orchestrator function is deployed"),
        "{found:#?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_no_turn_has_taken_are_due() {
    let scene = Scene::new().await;
    scene.begun("a", "Wait", "go").await;
    scene.raise("a", "go").await;
    scene
        .is("a", "turn-due", false, &["1 message due", "no turn has taken it"])
        .await;
    scene
        .cloud
        .client
        .cancel_instance("a", "enough")
        .await
        .expect("accepted");
    scene
        .is(
            "a",
            "turn-due",
            false,
            &["2 messages due", "a cancellation is among them"],
        )
        .await;
    scene.clock.advance(STUCK);
    scene.is("a", "turn-due", true, &["several wakeups did not help"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claimed_instance_says_until_when_and_a_crash_loop_needs_attention() {
    let scene = Scene::new().await;
    scene.begun("a", "Wait", "go").await;
    scene.raise("a", "go").await;
    scene.claim_turn("a").await;
    let found = scene
        .is(
            "a",
            "turn-running",
            false,
            &["claimed it for ", " more, with 1 message"],
        )
        .await;
    assert!(found.until.is_some_and(|until| until > found.at), "{found:#?}");
    scene.clock.advance(LOCK);
    scene
        .is("a", "turn-due", false, &["attempt 1 of 10 ended without a commit"])
        .await;
    for _ in 0..2 {
        scene.claim_turn("a").await;
        scene.clock.advance(LOCK - SECOND);
        scene
            .is("a", "turn-running", scene.attempts("a").await >= 3, &["claimed it"])
            .await;
        scene.clock.advance(SECOND);
    }
    let found = scene
        .is("a", "turn-due", true, &["attempt 3 of 10 ended without a commit"])
        .await;
    assert!(found.next[0].text.contains("out of memory"), "{found:#?}");
}

impl Scene {
    /// How often the only message of an instance was fetched.
    async fn attempts(&self, instance: &str) -> u64 {
        let doc = self
            .cloud
            .world
            .document(instance, "instance")
            .await
            .expect("an instance");
        let attempts = doc["attempts"].as_object().expect("attempts").values();
        attempts.filter_map(serde_json::Value::as_u64).max().unwrap_or_default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_was_given_back_is_tried_again_later() {
    let scene = Scene::new().await;
    scene.begun("a", "Wait", "go").await;
    scene.raise("a", "go").await;
    for round in 1..=3 {
        let turn = scene.claim_turn("a").await;
        let minute = Some(Duration::from_secs(60));
        let released = scene
            .cloud
            .silent
            .abandon_orchestration_item(&turn.lock_token, minute, false)
            .await;
        released.expect("it is given back");
        let attempt = format!("attempt {round} of 10 of a turn");
        let words = ["on in ", attempt.as_str(), "gave 1 message back"];
        scene.is("a", "backing-off", round == 3, &words).await;
        scene.clock.advance(Duration::from_secs(60));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unfinished_commit_says_how_far_it_came() {
    let scene = Scene::new().await;
    let world = &scene.cloud.world;
    let clock = Arc::clone(&scene.clock) as Arc<dyn cosmos::Clock>;
    let mut unfinished = None;
    // The first writes stage; a crash after the decisive one leaves an unfinished commit.
    for write in 1..10 {
        let id = format!("big-{write}");
        enqueue(&scene.cloud.silent, start_of(&id)).await;
        let listener = world.open_listener().await;
        let dying = connect(world.builder_through(&listener).clock(Arc::clone(&clock))).await;
        let item = turn(&dying, &id).await;
        listener.crash_at_write(write, CrashPoint::AfterApplied);
        until_crash(&listener, commit(&dying, &item.lock_token, Decision::first(&id, 250))).await;
        let doc = world.document(&id, "instance").await.expect("an instance");
        if !doc["unfinished"].is_null() {
            unfinished = Some(id);
            break;
        }
    }
    let big = unfinished.expect("a commit is unfinished");
    let words = ["in the middle of a large commit", "parts are published"];
    scene.is(&big, "commit-unfinished", false, &words).await;
    scene.clock.advance(LATE);
    scene
        .is(&big, "commit-unfinished", false, &["its process did not finish"])
        .await;
    scene.clock.advance(STUCK);
    scene
        .is(
            &big,
            "commit-unfinished",
            true,
            &["its process did not finish, for 7 min"],
        )
        .await;
}

/// Another build of `Wait`, with another step first.
fn careless() -> OrchestrationRegistry {
    let wait = |ctx: OrchestrationContext, name: String| async move {
        ctx.schedule_activity("Fine", "").await?;
        Ok(ctx.schedule_wait(name).await)
    };
    OrchestrationRegistry::builder().register("Wait", wait).build()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocked_instance_has_the_cause_the_build_and_what_would_serve_it() {
    let scene = Scene::new().await;
    scene.begun("name", "Wiat", "").await;
    let words = [
        "Has been blocked for",
        "unknown-name",
        "build `one ",
        "registers orchestration `Wiat`",
        "`Wait`",
    ];
    let found = scene.is("name", "blocked-unknown-name", true, &words).await;
    assert!(
        found.next[0].text.contains("Deploy a build that registers `Wiat`"),
        "{found:#?}"
    );
    assert_eq!(found.status.name(), "Blocked");

    let versioned = scene
        .cloud
        .client
        .start_orchestration_versioned("version", "Wait", "9.0.0", "");
    versioned.await.expect("it starts");
    scene.turns(&scene.cloud.orchestrator).await;
    scene
        .is(
            "version",
            "blocked-unknown-name",
            true,
            &["version 9.0.0 of orchestration `Wait`"],
        )
        .await;

    scene.begun("changed", "Wait", "go").await;
    scene.raise("changed", "go").await;
    let other = scene.cloud.another_build(limits("two"), careless()).await;
    scene.turn_by(&other, "changed").await;
    let found = scene
        .is(
            "changed",
            "blocked-nondeterminism",
            true,
            &["build `two ", "does not do what its history says"],
        )
        .await;
    assert!(
        found.next[0].text.starts_with("Roll back to the build that began it"),
        "{found:#?}"
    );

    scene.begun("panics", "Panics", "").await;
    scene.raise("panics", "go").await;
    scene.turn_by(&scene.cloud.orchestrator, "panics").await;
    scene
        .is(
            "panics",
            "blocked-panic",
            true,
            &["panicked: an orchestration that panics"],
        )
        .await;

    scene.begun("crashes", "Wait", "go").await;
    scene.raise("crashes", "go").await;
    for _ in 0..10 {
        scene.claim_turn("crashes").await;
        scene.clock.advance(LOCK);
    }
    scene.turn_by(&scene.cloud.orchestrator, "crashes").await;
    scene
        .is(
            "crashes",
            "blocked-crash",
            true,
            &["begun 10 times and never committed"],
        )
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_history_that_cannot_be_replayed_is_explained_all_the_same() {
    let uncached = duroxide_lambda::Limits {
        history_cache: 0,
        ..limits("one")
    };
    let scene = Scene::with(uncached, &["Fine"]).await;
    scene.begun("a", "Act", "Fine").await;
    let id = scene.cloud.world.documents_of("history").await.remove(0)["id"].clone();
    let id = id.as_str().expect("an id");
    scene
        .edit("a", id, |doc| {
            let events = doc["events"].as_array_mut().expect("events");
            *events.last_mut().expect("an event") = json!({"event_id": 2, "type": "FromTheFuture"});
        })
        .await;
    let found = scene
        .is("a", "nothing-open", true, &["1 of 2 events cannot be decoded"])
        .await;
    assert!(
        found.evidence.iter().any(|fact| fact.what == "activities queued"),
        "{found:#?}"
    );
    scene.works().await;
    scene
        .is("a", "blocked-history", true, &["history cannot be read by this build"])
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_between_two_executions_waits_for_the_next() {
    let scene = Scene::new().await;
    scene.start("a", "Again", "").await;
    scene.turn_by(&scene.cloud.orchestrator, "a").await;
    scene
        .is(
            "a",
            "next-execution-due",
            false,
            &["continued as new", "next execution has not begun"],
        )
        .await;
    scene.remove("a", "message").await;
    scene
        .is("a", "nothing-open", true, &["start of the next execution is gone"])
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_newer_release_wrote_says_so() {
    let scene = Scene::new().await;
    scene.begun("instance", "Wait", "go").await;
    scene.edit("instance", "instance", |doc| doc["v"] = json!(9)).await;
    let found = scene.is("instance", "newer-release", true, &["newer release"]).await;
    assert!(found.next[0].text.contains("Deploy the newer release"), "{found:#?}");
    scene.begun("message", "Wait", "go").await;
    duroxide_cosmos::testing::newer_build(1, scene.raise("message", "go")).await;
    scene
        .is(
            "message",
            "newer-release",
            true,
            &["message that a newer release wrote"],
        )
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_is_being_deleted_says_so() {
    let scene = Scene::new().await;
    scene.begun("a", "Wait", "go").await;
    let soon = scene.explain("a").await.expect("an instance").at + 10_000;
    scene
        .edit("a", "instance", |doc| {
            doc["deleting"] = json!({"group": "g", "expires": soon})
        })
        .await;
    scene.is("a", "deleting", false, &["being deleted"]).await;
    scene.clock.advance(LATE);
    scene
        .is("a", "deleting", false, &["deletion that was not completed"])
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_due_and_nothing_open_is_never_silent() {
    let scene = Scene::new().await;
    scene.begun("code", "Nothing", "").await;
    let found = scene
        .is(
            "code",
            "nothing-open",
            true,
            &["nothing that duroxide records", "its state is lost"],
        )
        .await;
    assert_eq!(
        found.next[1].command.as_deref(),
        Some(&["history".to_owned(), "code".to_owned()][..])
    );
    scene.start("start", "Wait", "go").await;
    scene.remove("start", "message").await;
    scene.is("start", "nothing-open", true, &["its start is gone"]).await;
}
