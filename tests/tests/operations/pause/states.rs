//! Each state of an instance: paused, resumed, cancelled while it is paused, sent an event while it is paused.

use super::support::*;
use cosmos::Clock as _;
use cosmos_emulator::CrashPoint;
use duroxide::providers::{Provider as _, ProviderAdmin as _, WorkItem};
use duroxide_cosmos::{Block, BlockCause, Build, Fetched, InstanceStatus, PauseOutcome};
use std::time::Duration;
use tests::turns::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Missing,
    /// A message has come, and no start.
    OnlyMessage,
    Pending,
    /// It waits for an event.
    Idle,
    TimerDue,
    TimerFar,
    ActivityQueued,
    ActivityRuns,
    /// Its child runs.
    Child,
    Blocked,
    /// A turn is under way, with a claim.
    Claimed,
    Unfinished,
    BetweenExecutions,
    Ended,
    /// Marked by a deletion that is not decided.
    Deleting,
    /// The same, and its maker has died long ago.
    DeletionGivenUp,
}

use State::*;

/// What pausing answers, and resuming without a pause.
const TABLE: [(State, PauseOutcome, PauseOutcome); 16] = [
    (Missing, PauseOutcome::NotFound, PauseOutcome::NotFound),
    (OnlyMessage, PauseOutcome::NotFound, PauseOutcome::NotFound),
    (Pending, PauseOutcome::Changed, PauseOutcome::Unchanged),
    (Idle, PauseOutcome::Changed, PauseOutcome::Unchanged),
    (TimerDue, PauseOutcome::Changed, PauseOutcome::Unchanged),
    (TimerFar, PauseOutcome::Changed, PauseOutcome::Unchanged),
    (ActivityQueued, PauseOutcome::Changed, PauseOutcome::Unchanged),
    (ActivityRuns, PauseOutcome::Changed, PauseOutcome::Unchanged),
    (Child, PauseOutcome::Changed, PauseOutcome::Unchanged),
    (Blocked, PauseOutcome::Changed, PauseOutcome::Unchanged),
    (Claimed, PauseOutcome::Changed, PauseOutcome::Unchanged),
    (Unfinished, PauseOutcome::Changed, PauseOutcome::Unchanged),
    (BetweenExecutions, PauseOutcome::Changed, PauseOutcome::Unchanged),
    (Ended, PauseOutcome::Ended, PauseOutcome::Ended),
    (Deleting, PauseOutcome::Deleting, PauseOutcome::Deleting),
    (DeletionGivenUp, PauseOutcome::Changed, PauseOutcome::Unchanged),
];

async fn prepared(state: State) -> Scene {
    let scene = Scene::new().await;
    let provider = &scene.provider;
    let now = scene.clock.now_ms();
    let first = |messages: Vec<WorkItem>| Decision {
        messages,
        ..Decision::first(INSTANCE, 0)
    };
    let begun = async |decision: Decision| {
        enqueue(provider, start_of(INSTANCE)).await;
        let turn = turn(provider, INSTANCE).await;
        commit(provider, &turn.lock_token, decision).await.expect("it commits");
    };
    match state {
        Missing => {}
        OnlyMessage => {
            enqueue(provider, raised(INSTANCE, "early")).await;
            let fetched = fetch_turn(provider, INSTANCE).await;
            assert!(matches!(fetched, Fetched::Nothing), "it is set aside: {fetched:?}");
        }
        Pending => enqueue(provider, start_of(INSTANCE)).await,
        Idle => begin(provider, INSTANCE).await,
        TimerDue => begun(first(vec![timer(2, now)])).await,
        TimerFar => begun(first(vec![timer(2, now + 3_600_000)])).await,
        ActivityQueued => begin_with(provider, INSTANCE, 1, named()).await,
        ActivityRuns => {
            begin_with(provider, INSTANCE, 1, named()).await;
            work(provider, INSTANCE, 2).await;
        }
        Child => {
            let WorkItem::StartOrchestration {
                orchestration,
                input,
                version,
                execution_id,
                ..
            } = start_of("child")
            else {
                unreachable!("it is a start");
            };
            begun(first(vec![WorkItem::StartOrchestration {
                instance: "child".to_owned(),
                orchestration,
                input,
                version,
                parent_instance: Some(INSTANCE.to_owned()),
                parent_id: Some(2),
                parent_execution_id: Some(1),
                execution_id,
            }]))
            .await;
        }
        Blocked => {
            provider.serve_as(Build::new(|| "one".to_owned()));
            begin(provider, INSTANCE).await;
            enqueue(provider, raised(INSTANCE, "0")).await;
            let turn = turn(provider, INSTANCE).await;
            let block = Block {
                cause: BlockCause::Panic,
                reason: "it panicked".to_owned(),
            };
            let blocked = provider.block_turn(&turn.lock_token, &block).await;
            blocked.expect("the store answers").expect("it is blocked");
        }
        Claimed => {
            begin(provider, INSTANCE).await;
            enqueue(provider, raised(INSTANCE, "0")).await;
            turn(provider, INSTANCE).await;
        }
        Unfinished => leave_unfinished(&scene, 300).await,
        BetweenExecutions => {
            let again = WorkItem::ContinueAsNew {
                instance: INSTANCE.to_owned(),
                orchestration: "Sample".to_owned(),
                input: "{}".to_owned(),
                version: Some("1.0.0".to_owned()),
                parent_instance: None,
                parent_id: None,
                parent_execution_id: None,
                carry_forward_events: Vec::new(),
                initial_custom_status: None,
            };
            let mut metadata = named();
            metadata.status = Some("ContinuedAsNew".to_owned());
            begun(Decision {
                metadata,
                ..first(vec![again])
            })
            .await;
        }
        Ended => {
            let mut metadata = named();
            (metadata.status, metadata.output) = (Some("Completed".to_owned()), Some("done".to_owned()));
            begin_with(provider, INSTANCE, 0, metadata).await;
        }
        Deleting | DeletionGivenUp => {
            begin(provider, INSTANCE).await;
            begin(provider, "other").await;
            let (listener, deleter) = scene.process(Duration::from_secs(1)).await;
            listener.crash_at_write(2, CrashPoint::AfterApplied);
            let both = [INSTANCE.to_owned(), "other".to_owned()];
            let deleted = deleter.delete_instances_atomic(&both, true).await;
            assert!(
                deleted.is_err() && listener.crashed(),
                "it is marked and not decided: {deleted:?}"
            );
            if state == DeletionGivenUp {
                scene.clock.advance(REPAIRABLE);
            }
        }
    }
    scene
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_state_can_be_paused_and_resumed_or_says_why_not() {
    for (state, paused, not_paused) in TABLE {
        let scene = prepared(state).await;
        let before = scene.status(INSTANCE).await;
        assert_eq!(scene.resume().await, not_paused, "{state:?}: resumed without a pause");
        let scene = prepared(state).await;
        assert_eq!(scene.pause().await, paused, "{state:?}");
        if paused != PauseOutcome::Changed {
            assert_eq!(scene.status(INSTANCE).await, before, "{state:?}: nothing changed");
            continue;
        }
        let context = format!("{state:?}");
        assert_eq!(scene.status(INSTANCE).await, Some(InstanceStatus::Paused), "{context}");
        scene.assert_consistent(true, &context).await;
        scene.assert_held(&context).await;
        assert_eq!(scene.pause().await, PauseOutcome::Unchanged, "{context}: again");
        scene.clock.advance(LATER);
        scene.assert_held(&format!("{context}, later")).await;
        assert_eq!(scene.resume().await, PauseOutcome::Changed, "{context}");
        scene.assert_consistent(false, &format!("{context}, resumed")).await;
        assert_eq!(scene.status(INSTANCE).await, before, "{context}: as before");
        assert_eq!(scene.resume().await, PauseOutcome::Unchanged, "{context}: again");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_arrives_while_it_is_paused_is_taken_in_order_after_it_is_resumed() {
    for (state, _, _) in TABLE
        .into_iter()
        .filter(|(_, paused, _)| *paused == PauseOutcome::Changed)
    {
        let context = format!("{state:?}");
        let scene = prepared(state).await;
        enqueue(&scene.provider, raised(INSTANCE, "1")).await;
        scene.clock.advance(Duration::from_millis(5));
        assert_eq!(scene.pause().await, PauseOutcome::Changed, "{context}");
        for data in ["2", "3"] {
            scene.clock.advance(Duration::from_millis(5));
            enqueue(&scene.provider, raised(INSTANCE, data)).await;
        }
        scene.assert_held(&context).await;
        scene.clock.advance(Duration::from_secs(86_400));
        scene.assert_held(&format!("{context}, a day later")).await;
        assert_eq!(scene.resume().await, PauseOutcome::Changed, "{context}");
        // A function whose clock is half a minute behind takes the same, and in the same order.
        let behind = std::sync::Arc::new(Behind(std::sync::Arc::clone(&scene.clock)));
        let other = scene.world.provider_at(&behind).await;
        // The build that has blocked it waits; another one goes on.
        let turn = turn(&other, INSTANCE).await;
        let events = events_of(&turn.item.messages);
        let expected: &[&str] = match state {
            Blocked | Claimed => &["0", "1", "2", "3"],
            _ => &["1", "2", "3"],
        };
        assert_eq!(events, expected, "{context}: {:?}", turn.item.messages);
        let timers = turn
            .item
            .messages
            .iter()
            .filter(|item| matches!(item, WorkItem::TimerFired { .. }));
        let fired = matches!(state, TimerDue | TimerFar);
        assert_eq!(
            timers.count(),
            usize::from(fired),
            "{context}: {:?}",
            turn.item.messages
        );
    }
}

/// A clock that is behind another.
#[derive(Debug)]
struct Behind(std::sync::Arc<tests::ManualClock>);

impl cosmos::Clock for Behind {
    fn now_ms(&self) -> u64 {
        self.0.now_ms() - 30_000
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancellation_of_a_paused_instance_takes_effect_at_once_and_ends_the_pause() {
    for (state, _, _) in TABLE
        .into_iter()
        .filter(|(_, paused, _)| *paused == PauseOutcome::Changed)
    {
        for is_before in [false, true] {
            let context = format!("{state:?}, cancelled before: {is_before}");
            let scene = prepared(state).await;
            enqueue(&scene.provider, raised(INSTANCE, "1")).await;
            if is_before {
                enqueue(&scene.provider, cancel(INSTANCE)).await;
            }
            assert_eq!(scene.pause().await, PauseOutcome::Changed, "{context}");
            if !is_before {
                enqueue(&scene.provider, cancel(INSTANCE)).await;
            }
            let turn = turn(&scene.provider, INSTANCE).await;
            assert!(turn.is_paused, "{context}: the functions run none of its code");
            let items = &turn.item.messages;
            assert!(
                items.iter().any(|item| matches!(item, WorkItem::CancelInstance { .. })),
                "{context}"
            );
            assert!(
                events_of(items).contains(&"1"),
                "{context}: what came before it is taken with it"
            );
            let mut metadata = named();
            (metadata.status, metadata.output) = (Some("Failed".to_owned()), Some("cancelled".to_owned()));
            let execution = match state {
                BetweenExecutions => 2,
                _ => 1,
            };
            let ended = Decision {
                execution,
                metadata,
                ..Decision::of(vec![event(
                    INSTANCE,
                    execution,
                    900,
                    duroxide::EventKind::OrchestrationFailed {
                        details: duroxide::ErrorDetails::Application {
                            kind: duroxide::AppErrorKind::Cancelled {
                                reason: "enough".to_owned(),
                            },
                            message: String::new(),
                            retryable: false,
                        },
                    },
                )])
            };
            commit(&scene.provider, &turn.lock_token, ended).await.expect("it ends");
            assert_eq!(
                scene.status(INSTANCE).await,
                Some(InstanceStatus::Cancelled),
                "{context}"
            );
            let (instance, _) = scene.queued(INSTANCE).await;
            let instance = instance.expect("it is there");
            assert!(
                instance["paused"].is_null() && instance["v"] == 1,
                "{context}: {instance}"
            );
            assert_eq!(scene.resume().await, PauseOutcome::Ended, "{context}");
            assert_eq!(scene.pause().await, PauseOutcome::Ended, "{context}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancellation_behind_a_thousand_parked_messages_ends_the_instance_and_leaves_nothing_parked() {
    let scene = Scene::new().await;
    begin(&scene.provider, INSTANCE).await;
    let events = (0..1_050).map(|n| enqueue_one(&scene, n));
    futures::future::join_all(events).await;
    assert_eq!(scene.pause().await, PauseOutcome::Changed);
    scene.assert_consistent(true, "1,050 messages").await;
    enqueue(&scene.provider, cancel(INSTANCE)).await;
    let first = turn(&scene.provider, INSTANCE).await;
    assert!(first.is_paused && first.more);
    let mut metadata = named();
    metadata.status = Some("Failed".to_owned());
    let ended = Decision {
        metadata,
        ..Decision::default()
    };
    commit(&scene.provider, &first.lock_token, ended)
        .await
        .expect("it ends");
    assert!(matches!(scene.status(INSTANCE).await, Some(InstanceStatus::Failed)));
    let rest = turn(&scene.provider, INSTANCE).await;
    assert!(!rest.is_paused && rest.is_over, "the rest is only consumed");
    commit(&scene.provider, &rest.lock_token, Decision::default())
        .await
        .expect("it is consumed");
    let (instance, queued) = scene.queued(INSTANCE).await;
    assert!(queued.is_empty(), "{}", queued.len());
    assert!(instance.is_some_and(|instance| instance["paused"].is_null() && instance["dueAt"].is_null()));
}

async fn enqueue_one(scene: &Scene, n: u32) {
    enqueue(&scene.provider, raised(INSTANCE, &n.to_string())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn activities_that_run_complete_and_those_that_end_otherwise_wait_for_the_resumption() {
    for how in ["completed", "abandoned", "expired"] {
        let scene = Scene::new().await;
        begin_with(&scene.provider, INSTANCE, 2, named()).await;
        let running = work(&scene.provider, INSTANCE, 2).await;
        assert_eq!(scene.pause().await, PauseOutcome::Changed);
        scene.assert_consistent(true, how).await;
        let renewed = scene.provider.renew_work_item_lock(&running.lock_token, LOCK).await;
        renewed.expect("it goes on");
        match how {
            "completed" => {
                let completed = scene
                    .provider
                    .ack_work_item(&running.lock_token, Some(done(INSTANCE, 2)))
                    .await;
                completed.expect("its result is kept");
            }
            "abandoned" => {
                let released = scene.provider.abandon_work_item(&running.lock_token, None, false).await;
                released.expect("it is released");
                scene.assert_consistent(true, "it is parked when it is released").await;
            }
            _ => scene.clock.advance(LATER),
        }
        scene.assert_held(how).await;
        assert_eq!(scene.resume().await, PauseOutcome::Changed);
        scene.assert_consistent(false, how).await;
        work(&scene.provider, INSTANCE, 3).await;
        match how {
            "completed" => {
                let turn = turn(&scene.provider, INSTANCE).await;
                assert!(matches!(
                    turn.item.messages.as_slice(),
                    [WorkItem::ActivityCompleted { id: 2, .. }]
                ));
            }
            _ => assert_eq!(work(&scene.provider, INSTANCE, 2).await.attempt, 2, "{how}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_instance_can_be_deleted_with_force_and_only_so() {
    let scene = Scene::new().await;
    begin_with(&scene.provider, INSTANCE, 2, named()).await;
    assert_eq!(scene.pause().await, PauseOutcome::Changed);
    assert!(scene.provider.delete_instance(INSTANCE, false).await.is_err());
    scene.assert_consistent(true, "after a refused deletion").await;
    scene
        .provider
        .delete_instance(INSTANCE, true)
        .await
        .expect("it is deleted");
    assert_eq!(scene.status(INSTANCE).await, None);
    let (instance, queued) = scene.queued(INSTANCE).await;
    assert!(instance.is_none() && queued.is_empty());
    assert_eq!(scene.resume().await, PauseOutcome::NotFound);
}
