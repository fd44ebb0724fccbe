//! Who lost a lock commits nothing, and who has it commits once.

use cosmos_emulator::{Faults, ServerOptions};
use duroxide::providers::{Provider, ProviderAdmin, WorkItem};
use duroxide_cosmos::{CosmosProvider, Fetched};
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tests::turns::*;
use tests::{ManualClock, World};

const INSTANCE: &str = "order";

/// What happens while the worker sleeps.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Meanwhile {
    Expired,
    /// Another has claimed both, and has not committed yet: all that the sleeper fetched is still there.
    Claimed,
    TakenOver,
    Deleted,
    Recreated,
}

struct Late {
    world: World,
    /// The sleeper, and the clock that it believes in.
    sleeper: Arc<CosmosProvider>,
    sleepers_clock: Arc<ManualClock>,
    other: Arc<CosmosProvider>,
    clock: Arc<ManualClock>,
    turn: String,
    work: String,
}

impl Late {
    /// A worker that claimed a turn and an activity, and sleeps.
    async fn new() -> Late {
        let world = World::start().await;
        let (clock, sleepers_clock) = (Arc::new(ManualClock::default()), Arc::new(ManualClock::default()));
        let (sleeper, other) = (
            world.provider_at(&sleepers_clock).await,
            world.provider_at(&clock).await,
        );
        begin_with(&sleeper, INSTANCE, 1, named()).await;
        enqueue(&sleeper, raised(INSTANCE, "1")).await;
        let turn = turn(&sleeper, INSTANCE).await.lock_token;
        let work = work(&sleeper, INSTANCE, 2).await.lock_token;
        Late {
            world,
            sleeper,
            sleepers_clock,
            other,
            clock,
            turn,
            work,
        }
    }

    async fn pass(&self, what: Meanwhile) {
        self.clock.advance(LATER);
        let other = &self.other;
        match what {
            Meanwhile::Expired => {}
            Meanwhile::Claimed => {
                turn(other, INSTANCE).await;
                work(other, INSTANCE, 2).await;
            }
            Meanwhile::TakenOver => {
                let turn = turn(other, INSTANCE).await;
                let events = vec![heard(INSTANCE, 1, 3)];
                commit(other, &turn.lock_token, Decision::of(events))
                    .await
                    .expect("commits");
                let claimed = work(other, INSTANCE, 2).await;
                other
                    .ack_work_item(&claimed.lock_token, Some(done(INSTANCE, 2)))
                    .await
                    .expect("completes");
            }
            Meanwhile::Deleted => {
                other.delete_instance(INSTANCE, true).await.expect("deleted");
            }
            Meanwhile::Recreated => {
                other.delete_instance(INSTANCE, true).await.expect("deleted");
                begin_with(other, INSTANCE, 1, named()).await;
                enqueue(other, raised(INSTANCE, "2")).await;
            }
        }
    }

    /// Everything that the sleeper may try when it wakes.
    async fn wake(&self, context: &str) {
        let before = snapshot(&self.world).await;
        let decision = || Decision {
            events: vec![heard(INSTANCE, 1, 3), scheduled(INSTANCE, 4)],
            work: vec![activity(INSTANCE, 4)],
            messages: vec![raised(INSTANCE, "own"), start_of("child")],
            ..Decision::default()
        };
        let large = || Decision {
            events: (3..303).map(|id| scheduled(INSTANCE, id)).collect(),
            work: (3..303).map(|id| activity(INSTANCE, id)).collect(),
            ..Decision::default()
        };
        let sleeper = &self.sleeper;
        // Also from a process that does not remember the claim, only its token.
        let forgetful = self.world.provider_at(&self.sleepers_clock).await;
        let refused = [
            ("commit", commit(&forgetful, &self.turn, decision()).await),
            ("renew", sleeper.renew_orchestration_item_lock(&self.turn, LOCK).await),
            ("commit", commit(sleeper, &self.turn, decision()).await),
            ("second commit", commit(sleeper, &self.turn, decision()).await),
            (
                "complete",
                forgetful.ack_work_item(&self.work, Some(done(INSTANCE, 2))).await,
            ),
            ("renew activity", sleeper.renew_work_item_lock(&self.work, LOCK).await),
            (
                "complete",
                sleeper.ack_work_item(&self.work, Some(done(INSTANCE, 2))).await,
            ),
            ("forget activity", sleeper.ack_work_item(&self.work, None).await),
        ];
        for (what, outcome) in refused {
            let error = outcome.expect_err(&format!("{context}: {what} must fail"));
            assert!(
                !error.is_retryable(),
                "{context}: {what} must not be tried again: {error}"
            );
        }
        assert_eq!(
            before,
            snapshot(&self.world).await,
            "{context}: a late worker changed something"
        );
        let outcome = commit(sleeper, &self.turn, large()).await;
        assert!(outcome.is_err(), "{context}: a large commit must fail too");
    }

    async fn wake_and_give_back(&self, context: &str) {
        let before = snapshot(&self.world).await;
        for delay in [None, Some(Duration::from_secs(5))] {
            let released = self.sleeper.abandon_orchestration_item(&self.turn, delay, false).await;
            assert!(released.is_err(), "{context}: a lost turn cannot be abandoned");
            let released = self.sleeper.abandon_work_item(&self.work, delay, false).await;
            assert!(released.is_err(), "{context}: a lost activity cannot be abandoned");
        }
        assert_eq!(
            before,
            snapshot(&self.world).await,
            "{context}: abandoning changed something"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_whose_lock_expired_commits_nothing() {
    let late = Late::new().await;
    late.pass(Meanwhile::Expired).await;
    late.sleepers_clock.advance(LATER);
    late.wake("expired").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_worker_commits_nothing_after_a_takeover_a_deletion_or_a_recreation() {
    for what in [
        Meanwhile::Claimed,
        Meanwhile::TakenOver,
        Meanwhile::Deleted,
        Meanwhile::Recreated,
    ] {
        for knows_the_time in [true, false] {
            let late = Late::new().await;
            late.pass(what).await;
            if knows_the_time {
                late.sleepers_clock.advance(LATER);
            }
            let context = format!("{what:?}, knows the time: {knows_the_time}");
            late.wake_and_give_back(&context).await;
            late.wake(&context).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewed_lock_still_commits() {
    let late = Late::new().await;
    for _ in 0..3 {
        late.clock.advance(Duration::from_secs(20));
        late.sleepers_clock.advance(Duration::from_secs(20));
        late.sleeper
            .renew_orchestration_item_lock(&late.turn, LOCK)
            .await
            .expect("the turn is renewed");
        late.sleeper
            .renew_work_item_lock(&late.work, LOCK)
            .await
            .expect("the activity is renewed");
        let taken = late
            .other
            .fetch_turn(INSTANCE, LOCK, None)
            .await
            .expect("the fetch succeeds");
        assert!(matches!(taken, Fetched::Busy { .. }), "{taken:?}");
    }
    late.sleeper
        .ack_work_item(&late.work, Some(done(INSTANCE, 2)))
        .await
        .expect("the activity completes");
    let decision = Decision::of(vec![heard(INSTANCE, 1, 3)]);
    commit(&late.sleeper, &late.turn, decision)
        .await
        .expect("the turn commits");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_races_with_a_renewal_succeeds() {
    let late = Late::new().await;
    for n in 0..25 {
        let instance = format!("race-{n}");
        begin_with(&late.other, &instance, 1, named()).await;
        enqueue(&late.other, raised(&instance, "1")).await;
        let (turn, claimed) = (
            turn(&late.other, &instance).await,
            work(&late.other, &instance, 2).await,
        );
        let decision = Decision::of(vec![heard(&instance, 1, 3)]);
        // A renewal that loses fails; only the commits matter.
        let (committed, _, _, completed, _) = tokio::join!(
            commit(&late.other, &turn.lock_token, decision),
            late.other.renew_orchestration_item_lock(&turn.lock_token, LOCK),
            late.other.renew_orchestration_item_lock(&turn.lock_token, LOCK),
            late.other.ack_work_item(&claimed.lock_token, Some(done(&instance, 2))),
            late.other.renew_work_item_lock(&claimed.lock_token, LOCK),
        );
        committed.expect("the commit wins over the renewal");
        completed.expect("the completion wins over the renewal");
        assert_eq!(late.other.read(&instance).await.expect("history").len(), 3);
    }
}

/// A turn of many batches takes longer than the lock that it began with, and the runtime renews that lock meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_outlives_its_first_lock_while_it_is_renewed() {
    let world = World::local(ServerOptions::default()).await;
    let provider = world.provider().await;
    enqueue(&provider, start_of(INSTANCE)).await;
    let Fetched::Ready(turn) = provider
        .fetch_turn(INSTANCE, Duration::from_secs(8), None)
        .await
        .expect("the fetch succeeds")
    else {
        panic!("no turn");
    };
    world.listener().set_faults(Faults {
        delay: Some(Duration::from_millis(2_500)),
        ..Faults::default()
    });
    let (committed, renewed) = tokio::join!(
        commit(&provider, &turn.lock_token, Decision::first(INSTANCE, 200)),
        provider.renew_orchestration_item_lock(&turn.lock_token, LOCK),
    );
    renewed.expect("the lock is renewed");
    committed.expect("the renewed lock carries the commit");
    world.listener().clear_faults();
    assert_eq!(world.documents_of("work").await.len(), 200);
}

const MESSAGES: usize = 5;

/// Which message a work item is.
fn payload(item: &WorkItem) -> String {
    match item {
        WorkItem::StartOrchestration { .. } => "start".to_owned(),
        WorkItem::ExternalRaised { data, .. } => data.clone(),
        other => panic!("nobody sent {other:?}"),
    }
}

#[derive(Default)]
struct Seen {
    by_instance: Mutex<BTreeMap<String, Vec<String>>>,
    total: AtomicUsize,
}

async fn dispatch(provider: Arc<CosmosProvider>, number: usize, instances: usize, seen: Arc<Seen>) {
    let mut next = number;
    while seen.total.load(Ordering::SeqCst) < instances * (MESSAGES + 1) {
        next += 1;
        let turn = if number.is_multiple_of(10) {
            let poll = Duration::from_millis(100);
            let found = provider
                .fetch_orchestration_item(LOCK, poll, None)
                .await
                .expect("the fetch succeeds");
            found.map(|(item, token, _)| (item, token))
        } else {
            let instance = format!("shared-{}", next % instances);
            match provider
                .fetch_turn(&instance, LOCK, None)
                .await
                .expect("the fetch succeeds")
            {
                Fetched::Ready(turn) => Some((turn.item, turn.lock_token)),
                _ => None,
            }
        };
        let Some((item, token)) = turn else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (instance, first) = (item.instance.clone(), item.history.len() as u64 + 1);
        let events = match first {
            1 => vec![started(&instance, 1)],
            id => vec![heard(&instance, 1, id)],
        };
        let payloads: Vec<String> = item.messages.iter().map(payload).collect();
        let committed = commit(&provider, &token, Decision::of(events)).await;
        committed.expect("nobody else can have this turn");
        seen.total.fetch_add(payloads.len(), Ordering::SeqCst);
        seen.by_instance
            .lock()
            .expect("no panic")
            .entry(instance)
            .or_default()
            .extend(payloads);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thirty_dispatchers_process_every_message_once() {
    race(30, 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: 200 dispatchers"]
async fn two_hundred_dispatchers_process_every_message_once() {
    race(200, 20).await;
}

/// Dispatchers of ten processes race for the turns of these instances.
async fn race(dispatchers: usize, instances: usize) {
    let world = World::start().await;
    let mut providers = Vec::new();
    for _ in 0..10 {
        providers.push(world.provider().await);
    }
    let sender = world.provider().await;
    for n in 0..instances {
        enqueue(&sender, start_of(&format!("shared-{n}"))).await;
    }
    let seen = Arc::new(Seen::default());
    let tasks: Vec<_> = (0..dispatchers)
        .map(|n| {
            tokio::spawn(dispatch(
                Arc::clone(&providers[n % 10]),
                n,
                instances,
                Arc::clone(&seen),
            ))
        })
        .collect();
    for message in 0..MESSAGES {
        for n in 0..instances {
            enqueue(&sender, raised(&format!("shared-{n}"), &format!("message {message}"))).await;
        }
    }
    let all = futures::future::join_all(tasks);
    let ended = tokio::time::timeout(Duration::from_secs(240), all)
        .await
        .expect("all messages are processed in time");
    for task in ended {
        task.expect("no dispatcher panics");
    }
    let by_instance = seen.by_instance.lock().expect("no panic").clone();
    assert_eq!(by_instance.len(), instances);
    for (instance, payloads) in by_instance {
        let distinct: HashSet<&String> = payloads.iter().collect();
        assert_eq!(payloads.len(), MESSAGES + 1, "{instance}: {payloads:?}");
        assert_eq!(distinct.len(), MESSAGES + 1, "{instance}: {payloads:?}");
    }
    assert!(world.documents_of("message").await.is_empty());
}
