//! Runs one case of the table, and compares what is seen.

use super::code::{Build, Runs, TRIES, VICTIM, WENT_ON, activities, orchestrations};
use super::{ActivityFault, ActivityRow, BlockedRow, Case, FailedRow, Fault, Place, Rescue, TurnFault, UNKNOWN};
use crate::support::*;
use cosmos::PartitionKey;
use duroxide::providers::{Provider as _, TagFilter, WorkItem};
use duroxide_cosmos::{Fetched, InstanceStatus, InstanceSummary};
use duroxide_lambda::{ActivityLimits, Limits, Target, Wakeup};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const WEEK: Duration = Duration::from_secs(7 * 86_400);
const LOCK: Duration = Duration::from_secs(60);
/// The metrics that tell of failures. All others count what happens anyway.
const FAILURES: [&str; 13] = [
    "Blocked",
    "BlockedUnknownName",
    "BlockedNondeterminism",
    "BlockedPanic",
    "BlockedCrash",
    "BlockedHistory",
    "Abandoned",
    "TimedOut",
    "Failed",
    "OrchestrationsFailed",
    "OrchestrationsCancelled",
    "GivenUp",
    "ActivitiesGivenUp",
];

/// One case on a cloud of its own: its orchestrator has the good build, its worker the bad one.
struct Scene {
    case: Case,
    cloud: Cloud,
    clock: Arc<ShiftedClock>,
    runs: Runs,
    /// An orchestrator of the bad build, once it is deployed.
    bad: Option<Function>,
    /// A document that was made unreadable, as it was.
    spoiled: Option<Value>,
}

impl Scene {
    async fn start(case: Case) -> Scene {
        let takes_too_long = ActivityLimits::default()
            .attempts(VICTIM, 1)
            .time(VICTIM, Duration::from_secs(1));
        let is_late = matches!(
            case.fault,
            Fault::Activity(ActivityFault::TimeOut | ActivityFault::Hang)
        );
        let limits = Limits {
            activities: if is_late {
                takes_too_long
            } else {
                ActivityLimits::default()
            },
            cancel_grace: Duration::from_millis(100),
            work_lock: LOCK,
            ..limits("good")
        };
        let runs = Runs::default();
        let worker = match case.fault {
            Fault::Activity(_) => Build::Bad,
            Fault::Turn(_) => Build::Good,
        };
        let activities = activities(case, worker, &runs);
        let (cloud, clock) = cloud_with(limits, orchestrations(case, Build::Good), activities).await;
        let started = cloud.client.start_orchestration("root", "Root", "\"x\"").await;
        started.expect("it starts");
        Scene {
            case,
            cloud,
            clock,
            runs,
            bad: None,
            spoiled: None,
        }
    }

    /// Serves all wakeups, each at its time, until there are none.
    async fn drain(&self) {
        if let Some(wakeup) = self.drain_to(&self.cloud.worker, |_| false).await {
            panic!("{:?}: {wakeup:?}", self.case);
        }
    }

    /// The same, with this worker, up to a delayed wakeup that `stops`.
    async fn drain_to(&self, worker: &Function, stops: impl Fn(&Wakeup) -> bool) -> Option<Wakeup> {
        for _ in 0..100 {
            let sent = self.cloud.queue.take();
            if sent.is_empty() {
                return None;
            }
            for sent in sent {
                let is_victim = sent.wakeup.target.activity_name() == Some(VICTIM);
                if !sent.delay.is_zero() && stops(&sent.wakeup) {
                    return Some(sent.wakeup);
                }
                match self.case.fault {
                    Fault::Activity(ActivityFault::UnknownForDays) if is_victim && !sent.delay.is_zero() => {
                        self.clock.advance(WEEK);
                    }
                    Fault::Activity(ActivityFault::ProcessDies) if is_victim => {
                        self.lose_work(&sent.wakeup).await;
                        let again = Wakeup::to(sent.wakeup.target.without_version());
                        serve(worker, &again).await;
                        continue;
                    }
                    _ => self.clock.advance(sent.delay),
                }
                match sent.wakeup.target {
                    Target::Turn { .. } | Target::Batch { .. } => serve(&self.cloud.orchestrator, &sent.wakeup).await,
                    Target::Work(_) => serve(worker, &sent.wakeup).await,
                }
            }
        }
        panic!("{:?}: wakeups go on for ever", self.case);
    }

    /// Three processes claim the activity, and are never heard of again.
    async fn lose_work(&self, wakeup: &Wakeup) {
        let Target::Work(work) = &wakeup.target else {
            panic!("{wakeup:?}");
        };
        for _ in 0..3 {
            let tags = TagFilter::DefaultOnly;
            let fetched = self
                .cloud
                .silent
                .fetch_work(&work.identifier(), LOCK, None, &tags)
                .await;
            assert!(matches!(fetched, Ok(Fetched::Ready(_))), "{:?}: {fetched:?}", self.case);
            self.clock.advance(LOCK);
        }
    }

    /// Sends the victim what it waits for; answers the wakeup.
    async fn go(&self) -> Wakeup {
        let victim = self.case.place.instance();
        let sent = self.cloud.client.enqueue_event(&victim, "go", "").await;
        sent.expect("it is accepted");
        only(&self.cloud)
    }

    /// Deploys the bad build, and has it take the turn of the victim.
    async fn take_bad_turn(&mut self) -> Wakeup {
        self.drain().await;
        self.forget_metrics();
        let wakeup = self.go().await;
        let limits = match self.case.fault {
            Fault::Turn(TurnFault::HugeHistory) => Limits {
                history_bytes: 1,
                ..limits("bad")
            },
            _ => limits("bad"),
        };
        let bad = orchestrations(self.case, Build::Bad);
        let bad = self.cloud.another_build(limits, bad).await;
        self.spoil().await;
        serve(&bad, &wakeup).await;
        self.bad = Some(bad);
        wakeup
    }

    /// What goes wrong without the code's doing.
    async fn spoil(&mut self) {
        let victim = self.case.place.instance();
        match self.case.fault {
            Fault::Turn(TurnFault::ProcessDies) => {
                for _ in 0..3 {
                    let fetched = self.cloud.silent.fetch_turn(&victim, LOCK, None).await;
                    assert!(matches!(fetched, Ok(Fetched::Ready(_))), "{:?}: {fetched:?}", self.case);
                    self.clock.advance(LOCK);
                }
            }
            Fault::Turn(TurnFault::CorruptHistory) => {
                let part = self.last_history().await;
                let mut future = part.clone();
                let events = future["events"].as_array_mut().expect("events");
                *events.last_mut().expect("an event") = json!({"event_id": 2, "type": "FromTheFuture"});
                self.rewrite(&future).await;
                self.spoiled = Some(part);
            }
            Fault::Turn(TurnFault::PinnedHistory) => self.pin("99.0.0").await,
            Fault::Turn(TurnFault::StrayCompletion) => {
                let execution_id = match self.case.place {
                    Place::AfterContinueAsNew => 2,
                    _ => 1,
                };
                let stray = WorkItem::ActivityCompleted {
                    instance: victim,
                    execution_id,
                    id: 99,
                    result: String::new(),
                };
                let queued = self.cloud.silent.enqueue_for_orchestrator(stray, None).await;
                queued.expect("it is accepted");
            }
            _ => {}
        }
    }

    /// Undoes what was done to documents.
    async fn repair(&self) {
        if let Some(readable) = &self.spoiled {
            self.rewrite(readable).await;
        }
        if self.case.fault == Fault::Turn(TurnFault::PinnedHistory) {
            self.pin("0.1.32").await;
        }
    }

    /// Says of the victim that this duroxide has made its history.
    async fn pin(&self, version: &str) {
        let instance = self.cloud.world.document(&self.case.place.instance(), "instance").await;
        let mut instance = instance.expect("the instance has a document");
        instance["pinned"] = version.into();
        self.rewrite(&instance).await;
    }

    /// The newest part of the victim's history.
    async fn last_history(&self) -> Value {
        let mut history = self.cloud.world.documents_of("history").await;
        history.retain(|part| part["pk"] == self.case.place.instance().as_str());
        history.sort_by_key(|part| part["id"].as_str().map(str::to_owned));
        history.pop().expect("a history")
    }

    async fn rewrite(&self, document: &Value) {
        let pk = PartitionKey::new(document["pk"].as_str().expect("an instance")).expect("a valid partition key");
        let id = document["id"].as_str().expect("an id");
        let raw = self.cloud.world.raw();
        let replaced = raw.replace(&pk, id, document, None, cosmos::Retry::Idempotent).await;
        replaced.expect("the document is replaced");
    }

    async fn summary(&self, instance: &str) -> InstanceSummary {
        let summary = self.cloud.silent.instance_summary(instance).await;
        summary.expect("a summary").expect("it exists")
    }

    /// The instances that have a dead letter, each as often as it has one.
    async fn dead_letters(&self) -> Vec<String> {
        let page = self.cloud.silent.dead_letters(100, None).await;
        let letters = page.expect("dead letters").dead_letters.into_iter();
        letters.map(|letter| letter.id.instance).collect()
    }

    fn forget_metrics(&self) {
        self.metrics();
    }

    /// What all functions counted of failures since the last call.
    fn metrics(&self) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        for function in [&self.cloud.orchestrator, &self.cloud.worker]
            .into_iter()
            .chain(&self.bad)
        {
            for (name, count) in function.counted() {
                if FAILURES.contains(&name.as_str()) {
                    *all.entry(name).or_default() += count;
                }
            }
        }
        all
    }

    /// What the root returned.
    async fn output(&self) -> String {
        let root = self.summary("root").await;
        assert_eq!(root.status, InstanceStatus::Completed, "{:?}: {root:?}", self.case);
        root.output.expect("an output")
    }

    /// Nothing is left to do, and nobody has undone what went on.
    async fn expect_went_on(&self) {
        assert_eq!(self.output().await, WENT_ON, "{:?}", self.case);
        assert_eq!(self.runs.of("Undo"), 0, "{:?}", self.case);
        assert!(self.runs.of("Fine") <= 1, "{:?}", self.case);
        assert!(self.dead_letters().await.is_empty(), "{:?}", self.case);
        self.expect_nothing_left().await;
    }

    async fn expect_nothing_left(&self) {
        for kind in ["message", "work", "intent"] {
            let left = self.cloud.world.documents_of(kind).await;
            assert!(left.is_empty(), "{:?}: {left:#?}", self.case);
        }
    }
}

/// The metrics with these counts that are not zero.
fn counts(all: &[(&str, u64)]) -> BTreeMap<String, u64> {
    let all = all.iter().filter(|(_, count)| *count > 0);
    all.map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

pub(super) async fn check_activity(row: &ActivityRow, case: Case) {
    let scene = Scene::start(case).await;
    scene.drain().await;
    let (victim, depth) = (case.place.instance(), case.place.depth());
    let activities = if case.is_retried { TRIES } else { 1 };
    // The workflow.
    let output = scene.output().await;
    assert!(
        output.starts_with("undone: ") && output.contains(row.workflow),
        "{case:?}: {output}"
    );
    assert_eq!(scene.runs.of(VICTIM), row.runs * activities, "{case:?}");
    assert_eq!(scene.runs.of("Undo"), 1, "{case:?}");
    // The operator: whoever passes the error on has failed with it.
    let summary = scene.summary(&victim).await;
    if depth > 0 {
        assert_eq!(summary.status, InstanceStatus::Failed, "{case:?}");
        assert_eq!(
            summary.error.map(|error| format!("undone: {error}")),
            Some(output),
            "{case:?}"
        );
    }
    let given_up = u64::from(row.is_given_up) * u64::from(activities);
    assert_eq!(scene.dead_letters().await, vec![victim; given_up as usize], "{case:?}");
    // The metrics.
    let blocked = match row.fault {
        ActivityFault::UnknownForDays => given_up,
        _ => 0,
    };
    let expected = counts(&[
        ("ActivitiesGivenUp", given_up),
        ("Blocked", blocked),
        ("BlockedUnknownName", blocked),
        ("GivenUp", given_up),
        ("OrchestrationsFailed", depth),
    ]);
    assert_eq!(scene.metrics(), expected, "{case:?}");
    scene.expect_nothing_left().await;
}

pub(super) async fn check_unknown_activity(place: Place) {
    for is_retried in [false, true] {
        let fault = Fault::Activity(ActivityFault::UnknownName);
        let case = Case {
            fault,
            place,
            is_retried,
        };
        let scene = Scene::start(case).await;
        let again = scene.drain_to(&scene.cloud.worker, |wakeup| {
            wakeup.target.activity_name() == Some(VICTIM)
        });
        let again = again.await.expect("it is tried again after a pause");
        let expected = counts(&[("Blocked", 1), ("BlockedUnknownName", 1)]);
        assert_eq!(scene.metrics(), expected, "{case:?}");
        // The instance runs, and says what its activity waits for.
        let victim = scene.summary(&place.instance()).await;
        let attempts = scene.cloud.silent.activity_attempts(&victim.instance, victim.execution);
        let attempts = attempts.await.expect("attempts");
        let blocked = attempts[0].open.as_ref().and_then(|open| open.blocked.as_ref());
        assert_eq!(
            blocked.map(|blocked| blocked.reason.as_str()),
            Some(UNKNOWN),
            "{case:?}"
        );
        assert_eq!(
            scene.summary(&place.instance()).await.status,
            InstanceStatus::Running,
            "{case:?}"
        );
        // A worker that registers it does not wait for the end of the pause.
        let all = activities(case, Build::Good, &scene.runs);
        let newer = scene.cloud.another_worker("newer", all, TagFilter::DefaultOnly).await;
        serve(&newer, &Wakeup::to(again.target.without_version())).await;
        assert_eq!(scene.drain_to(&newer, |_| false).await, None);
        scene.expect_went_on().await;
    }
}

pub(super) async fn check_blocked_turn(row: &BlockedRow, case: Case, rescue: Rescue) {
    let mut scene = Scene::start(case).await;
    let wakeup = scene.take_bad_turn().await;
    let victim = case.place.instance();
    // The operator.
    let summary = scene.summary(&victim).await;
    assert_eq!(summary.status, InstanceStatus::Blocked, "{case:?}: {summary:?}");
    let blocked = summary.blocked.expect("a reason");
    assert_eq!(blocked.cause.name(), row.cause, "{case:?}");
    assert!(blocked.reason.contains(row.reason), "{case:?}: {}", blocked.reason);
    assert!(blocked.build.starts_with("bad "), "{case:?}: {}", blocked.build);
    assert!(scene.dead_letters().await.is_empty(), "{case:?}");
    for above in ["root", "child"].into_iter().take(case.place.depth() as usize) {
        assert_eq!(scene.summary(above).await.status, InstanceStatus::Running, "{case:?}");
    }
    // The metrics.
    assert_eq!(scene.metrics(), counts(&[("Blocked", 1), (row.metric, 1)]), "{case:?}");
    // The workflow.
    scene.cloud.queue.take();
    match rescue {
        Rescue::AnotherBuild => {
            scene.repair().await;
            serve(&scene.cloud.orchestrator, &wakeup).await;
            scene.drain().await;
            scene.expect_went_on().await;
        }
        Rescue::Cancellation => {
            let cancelled = scene.cloud.client.cancel_instance(&victim, "enough").await;
            cancelled.expect("it is accepted");
            // By the build that cannot go on.
            let bad = scene.bad.as_ref().expect("it is deployed");
            serve(bad, &only(&scene.cloud)).await;
            scene.drain().await;
            expect_cancelled(&scene).await;
        }
    }
}

async fn expect_cancelled(scene: &Scene) {
    let (case, victim) = (scene.case, scene.case.place.instance());
    let summary = scene.summary(&victim).await;
    assert_eq!(summary.status, InstanceStatus::Cancelled, "{case:?}");
    let metrics = scene.metrics();
    assert_eq!(
        metrics.get("OrchestrationsCancelled"),
        Some(&1),
        "{case:?}: {metrics:?}"
    );
    if case.place.depth() > 0 {
        assert_eq!(scene.output().await, "undone: canceled: enough", "{case:?}");
    }
    scene.expect_nothing_left().await;
}

pub(super) async fn check_failed_turn(row: &FailedRow, case: Case) {
    let mut scene = Scene::start(case).await;
    let wakeup = scene.take_bad_turn().await;
    if row.fault == TurnFault::UnknownForDays {
        scene.clock.advance(WEEK);
        scene.cloud.queue.take();
        let bad = scene.bad.as_ref().expect("it is deployed");
        serve(bad, &wakeup).await;
    }
    scene.drain().await;
    let (victim, depth) = (case.place.instance(), case.place.depth());
    // The operator.
    let summary = scene.summary(&victim).await;
    assert_eq!(summary.status, InstanceStatus::Failed, "{case:?}");
    let error = summary.error.expect("an error");
    assert!(error.contains(row.error), "{case:?}: {error}");
    let letters = vec![victim; usize::from(row.is_given_up)];
    assert_eq!(scene.dead_letters().await, letters, "{case:?}");
    // The metrics.
    let given_up = u64::from(row.is_given_up);
    let expected = counts(&[
        ("Blocked", given_up),
        ("BlockedUnknownName", given_up),
        ("GivenUp", given_up),
        ("OrchestrationsFailed", depth.max(1)),
    ]);
    assert_eq!(scene.metrics(), expected, "{case:?}");
    // The workflow.
    if depth > 0 {
        assert_eq!(scene.output().await, format!("undone: {error}"), "{case:?}");
    }
    scene.expect_nothing_left().await;
}

pub(super) async fn check_undetected_change(case: Case) {
    let mut scene = Scene::start(case).await;
    scene.take_bad_turn().await;
    assert_eq!(scene.metrics(), counts(&[]), "{case:?}");
    scene.drain().await;
    assert_eq!(scene.output().await, "cut short", "{case:?}");
}
