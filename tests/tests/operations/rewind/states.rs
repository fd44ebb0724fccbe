//! Each state of an instance, and turns that were given up.

use super::support::Shop;
use duroxide::providers::{ProviderAdmin as _, WorkItem};
use duroxide::{AppErrorKind, ErrorDetails, EventKind, PoisonMessageType};
use duroxide_cosmos::{Block, BlockCause, Build, Fetched, InstanceStatus, RewindOutcome, RewindRequest};
use std::sync::Arc;
use tests::turns::*;
use tests::{ManualClock, World};

const INSTANCE: &str = "order";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Missing,
    OnlyMessage,
    Pending,
    Running,
    Claimed,
    Blocked,
    Paused,
    BetweenExecutions,
    Completed,
    Failed,
    /// It has failed, and a turn is under way that drops a message.
    FailedAndClaimed,
    Cancelled,
    Deleting,
    /// The same, and its maker has died long ago.
    DeletionGivenUp,
}

use State::*;

const TABLE: [(State, RewindOutcome); 14] = [
    (Missing, RewindOutcome::NotFound),
    (OnlyMessage, RewindOutcome::NotFound),
    (Pending, RewindOutcome::NotFailed),
    (Running, RewindOutcome::NotFailed),
    (Claimed, RewindOutcome::NotFailed),
    (Blocked, RewindOutcome::NotFailed),
    (Paused, RewindOutcome::NotFailed),
    (BetweenExecutions, RewindOutcome::NotFailed),
    (Completed, RewindOutcome::NotFailed),
    (Failed, RewindOutcome::Rewound),
    (FailedAndClaimed, RewindOutcome::Rewound),
    (Cancelled, RewindOutcome::Rewound),
    (Deleting, RewindOutcome::Deleting),
    (DeletionGivenUp, RewindOutcome::Rewound),
];

struct Scene {
    _world: World,
    clock: Arc<ManualClock>,
    provider: Arc<duroxide_cosmos::CosmosProvider>,
}

impl Scene {
    async fn new() -> Scene {
        let world = World::local(Default::default()).await;
        let clock = Arc::new(ManualClock::default());
        let provider = world.provider_at(&clock).await;
        Scene {
            _world: world,
            clock,
            provider,
        }
    }

    /// Ends the instance with this event, in a turn that an external event has made due.
    async fn end(&self, status: &str, kind: EventKind) {
        begin(&self.provider, INSTANCE).await;
        enqueue(&self.provider, raised(INSTANCE, "last")).await;
        let turn = turn(&self.provider, INSTANCE).await;
        let heard = EventKind::ExternalEvent {
            name: "go".to_owned(),
            data: "last".to_owned(),
        };
        let events = vec![event(INSTANCE, 1, 2, heard), event(INSTANCE, 1, 3, kind)];
        let decision = Decision {
            metadata: ended(status, "why"),
            ..Decision::of(events)
        };
        commit(&self.provider, &turn.lock_token, decision)
            .await
            .expect("it ends");
    }

    async fn rewind(&self, dry_run: bool) -> RewindOutcome {
        let request = RewindRequest {
            instance: INSTANCE,
            dry_run,
            ..RewindRequest::default()
        };
        self.provider.rewind(&request).await.expect("the store answers").outcome
    }
}

fn failed(kind: AppErrorKind) -> EventKind {
    EventKind::OrchestrationFailed {
        details: ErrorDetails::Application {
            kind,
            message: "why".to_owned(),
            retryable: false,
        },
    }
}

async fn prepared(state: State) -> Scene {
    let scene = Scene::new().await;
    let provider = &scene.provider;
    match state {
        Missing => {}
        OnlyMessage => {
            enqueue(provider, raised(INSTANCE, "early")).await;
            assert!(matches!(fetch_turn(provider, INSTANCE).await, Fetched::Nothing));
        }
        Pending => enqueue(provider, start_of(INSTANCE)).await,
        Running => begin(provider, INSTANCE).await,
        Claimed => {
            begin(provider, INSTANCE).await;
            enqueue(provider, raised(INSTANCE, "0")).await;
            turn(provider, INSTANCE).await;
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
        Paused => {
            begin(provider, INSTANCE).await;
            provider.pause(INSTANCE, None, false).await.expect("the store answers");
        }
        BetweenExecutions => {
            enqueue(provider, start_of(INSTANCE)).await;
            let turn = turn(provider, INSTANCE).await;
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
            let decision = Decision {
                messages: vec![again],
                metadata: ended("ContinuedAsNew", ""),
                ..Decision::first(INSTANCE, 0)
            };
            commit(provider, &turn.lock_token, decision).await.expect("it commits");
        }
        Completed => {
            let output = "out".to_owned();
            scene
                .end("Completed", EventKind::OrchestrationCompleted { output })
                .await;
        }
        Failed | Deleting | DeletionGivenUp => scene.end("Failed", failed(AppErrorKind::OrchestrationFailed)).await,
        FailedAndClaimed => {
            scene.end("Failed", failed(AppErrorKind::OrchestrationFailed)).await;
            enqueue(provider, raised(INSTANCE, "late")).await;
            turn(provider, INSTANCE).await;
        }
        Cancelled => {
            let reason = "enough".to_owned();
            scene.end("Failed", failed(AppErrorKind::Cancelled { reason })).await;
        }
    }
    if matches!(state, Deleting | DeletionGivenUp) {
        begin(provider, "other").await;
        let listener = scene._world.open_listener().await;
        let clock = Arc::clone(&scene.clock) as Arc<dyn cosmos::Clock>;
        let time = std::time::Duration::from_secs(1);
        let config = scene._world.builder_through(&listener).clock(clock);
        let deleter = tests::connect(config.request_timeout(time).operation_timeout(time)).await;
        listener.crash_at_write(2, cosmos_emulator::CrashPoint::AfterApplied);
        let both = [INSTANCE.to_owned(), "other".to_owned()];
        let deleted = deleter.delete_instances_atomic(&both, true).await;
        assert!(
            deleted.is_err() && listener.crashed(),
            "it is marked and not decided: {deleted:?}"
        );
    }
    if state == DeletionGivenUp {
        scene.clock.advance(REPAIRABLE);
    }
    scene
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_what_has_failed_is_rewound() {
    for (state, expected) in TABLE {
        let scene = prepared(state).await;
        let before = snapshot(&scene._world).await.len();
        let planned = scene.rewind(true).await;
        let expected_plan = match &expected {
            RewindOutcome::Rewound => RewindOutcome::Planned,
            other => other.clone(),
        };
        assert_eq!(planned, expected_plan, "{state:?}");
        if state != DeletionGivenUp {
            assert_eq!(
                snapshot(&scene._world).await.len(),
                before,
                "{state:?}: a dry run writes nothing new"
            );
        }
        assert_eq!(scene.rewind(false).await, expected, "{state:?}");
        if expected == RewindOutcome::Rewound {
            let summary = scene
                .provider
                .instance_summary(INSTANCE)
                .await
                .expect("the store answers");
            assert_eq!(
                summary.map(|summary| summary.status),
                Some(InstanceStatus::Running),
                "{state:?}"
            );
            let turn = turn(&scene.provider, INSTANCE).await;
            let heard = |item: &WorkItem| matches!(item, WorkItem::ExternalRaised { data, .. } if data == "last");
            assert!(
                turn.item.messages.iter().any(heard),
                "{state:?}: {:?}",
                turn.item.messages
            );
            assert_eq!(turn.item.history.len(), 1, "{state:?}");
            assert_eq!(scene.rewind(false).await, RewindOutcome::NotFailed, "{state:?}");
        }
    }
}

/// The messages of a turn that was given up are in its dead letter alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_was_given_up_gets_its_messages_back() {
    let scene = Scene::new().await;
    let provider = &scene.provider;
    begin_with(provider, INSTANCE, 2, named()).await;
    for id in [2, 3] {
        let work = work(provider, INSTANCE, id).await;
        let completed = done(INSTANCE, id);
        let acked = duroxide::providers::Provider::ack_work_item(&**provider, &work.lock_token, Some(completed)).await;
        acked.expect("it completes");
    }
    enqueue(provider, raised(INSTANCE, "event")).await;
    let given_up = turn(provider, INSTANCE).await;
    let details = ErrorDetails::Poison {
        attempt_count: 11,
        max_attempts: 10,
        message_type: PoisonMessageType::Orchestration {
            instance: INSTANCE.to_owned(),
            execution_id: 1,
        },
        message: serde_json::to_string(&given_up.item.messages).expect("JSON"),
    };
    let decision = Decision {
        metadata: ended("Failed", "given up"),
        ..Decision::of(vec![event(INSTANCE, 1, 4, EventKind::OrchestrationFailed { details })])
    };
    commit(provider, &given_up.lock_token, decision)
        .await
        .expect("it is given up");
    assert_eq!(scene._world.documents_of("dead-letter").await.len(), 1);
    assert_eq!(scene.rewind(false).await, RewindOutcome::Rewound);
    assert!(scene._world.documents_of("dead-letter").await.is_empty());
    assert!(
        scene._world.documents_of("work").await.is_empty(),
        "both have completed"
    );
    let turn = turn(provider, INSTANCE).await;
    assert_eq!(turn.item.messages, given_up.item.messages, "in their order");
    assert_eq!(turn.item.history.len(), 3);
}

/// The whole history must be read: an instance with no other trouble than one retained by deletion is found by nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn undone_history_goes_with_its_instance() {
    let shop = Shop::default();
    shop.break_down("ship");
    let cloud = shop.cloud().await;
    super::support::run(&cloud, "order", "Steps", "pay,ship").await;
    super::support::rewound(&cloud, "order").await;
    let histories = cloud.world.documents_of("history").await.len();
    assert!(histories > 3, "{histories}");
    let deleted = cloud
        .silent
        .delete_instance("order", false)
        .await
        .expect("it is deleted");
    assert_eq!(deleted.instances_deleted, 1);
    assert!(cloud.world.documents_of("history").await.is_empty());
}
