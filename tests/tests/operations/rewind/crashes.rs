//! The process of an operator is killed at every write of a rewind, before it is applied and after: whoever comes next completes it,
//! and each effect happens once.

use super::support::*;
use cosmos::Clock;
use cosmos_emulator::{CrashPoint, Faults, Listener};
use duroxide_cosmos::{CosmosProvider, RewindOutcome, RewindRequest};
use duroxide_lambda::Wakeup;
use std::sync::Arc;
use std::time::Duration;
use tests::cloud::{Cloud, CloudOptions};
use tests::turns::REPAIRABLE;
use tests::{ShiftedClock, connect, recover, until_crash};

const BOTH: [CrashPoint; 2] = [CrashPoint::BeforeApplied, CrashPoint::AfterApplied];
const CALL: &str = "job-1";

/// Who goes on after the crash.
#[derive(Clone, Copy, Debug)]
enum Then {
    Operator,
    Maintenance,
    Fetch,
}

impl Then {
    /// Whoever finds the store as it is left cannot tell a write that was not applied from the one before it that was.
    fn points(self) -> &'static [CrashPoint] {
        match self {
            Then::Operator => &BOTH,
            Then::Maintenance | Then::Fetch => &[CrashPoint::AfterApplied],
        }
    }
}

struct Scene {
    shop: Shop,
    cloud: Cloud,
    clock: Arc<ShiftedClock>,
}

impl Scene {
    /// An order that has failed, and a shop that is repaired.
    async fn failed(orchestration: &str, input: &str) -> Scene {
        let shop = Shop::default();
        shop.break_down("ship");
        let clock = Arc::new(ShiftedClock::default());
        let options = CloudOptions {
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            ..CloudOptions::default()
        };
        let cloud = Cloud::with(options, orchestrations(), shop.activities()).await;
        run(&cloud, "order", orchestration, input).await;
        assert_failed(&summary(&cloud, "order").await);
        shop.repair("ship");
        Scene { shop, cloud, clock }
    }

    /// The process of an operator.
    async fn operator(&self, time: Duration) -> (Listener, Arc<CosmosProvider>) {
        let listener = self.cloud.world.open_listener().await;
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let config = self.cloud.world.builder_through(&listener).clock(clock);
        let provider = connect(config.request_timeout(time).operation_timeout(time)).await;
        (listener, provider)
    }

    /// Wakes everything, as maintenance would in the end.
    async fn wake(&self) {
        for _ in 0..12 {
            let before = self.cloud.world.documents().await;
            let works = self.cloud.world.work_wakeups().await;
            self.cloud.worker.invoke(&works).await;
            let instances = self.cloud.world.documents_of("instance").await;
            for doc in instances {
                let instance = doc["pk"].as_str().expect("an id");
                self.cloud.orchestrator.invoke(&[Wakeup::turn(instance)]).await;
            }
            self.cloud.drain().await;
            // Each write gives a document another `_etag`.
            if self.cloud.world.documents().await == before {
                return;
            }
        }
    }
}

fn request(call: &str) -> RewindRequest<'_> {
    RewindRequest {
        instance: "order",
        call: Some(call),
        ..RewindRequest::default()
    }
}

/// Returns whether the process was killed.
async fn killed_at(
    (orchestration, input): (&str, &str),
    expected: &[(&str, u32)],
    (n, when): (u64, CrashPoint),
    then: Then,
) -> bool {
    let context = format!("{orchestration} {input}, killed at write {n}, {when:?}, then {then:?}");
    let scene = Scene::failed(orchestration, input).await;
    let (listener, operator) = scene.operator(Duration::from_secs(5)).await;
    listener.crash_at_write(n, when);
    let done = until_crash(&listener, operator.rewind(&request(CALL))).await;
    let provider = &scene.cloud.silent;
    match then {
        Then::Operator => {
            let again = provider.rewind(&request(CALL)).await.expect("the store answers");
            let is_done = matches!(again.outcome, RewindOutcome::Rewound | RewindOutcome::Repeated);
            assert!(is_done, "{context}: {again:?}");
        }
        Then::Maintenance => {
            scene.clock.advance(REPAIRABLE);
            let recovered = recover(provider).await;
            assert_eq!(recovered.failed, 0, "{context}: {recovered:?}");
        }
        Then::Fetch => scene.wake().await,
    }
    // If it was not decided, the operator asks again, as a new call.
    let again = provider.rewind(&request("job-2")).await.expect("the store answers");
    let is_known = matches!(again.outcome, RewindOutcome::Rewound | RewindOutcome::NotFailed);
    assert!(is_known, "{context}: {again:?}");
    scene.wake().await;
    let status = summary(&scene.cloud, "order").await;
    assert_eq!(status.status.name(), "Completed", "{context}: {status:?}");
    let done_once: Vec<(String, u32)> = scene.shop.done().into_iter().collect();
    let expected: Vec<(String, u32)> = expected
        .iter()
        .map(|(name, count)| ((*name).to_owned(), *count))
        .collect();
    assert_eq!(done_once, expected, "{context}");
    // What a process has staged that died before its decision is removed later.
    scene.clock.advance(REPAIRABLE);
    recover(provider).await;
    for kind in ["staged", "staged-head", "kept-result", "work", "intent"] {
        assert!(
            scene.cloud.world.documents_of(kind).await.is_empty(),
            "{context}: {kind}"
        );
    }
    for doc in scene.cloud.world.documents_of("instance").await {
        assert!(
            doc["rewinding"].is_null() && doc["dueAt"].is_null() && doc["v"] == 1,
            "{context}: {doc}"
        );
    }
    done.is_none()
}

async fn sweep(of: (&str, &str), expected: &[(&str, u32)], then: Then, points: &[CrashPoint]) -> u64 {
    let mut most = 0;
    for when in points {
        let mut n = 1;
        while killed_at(of, expected, (n, *when), then).await {
            n += 1;
        }
        most = n - 1;
    }
    most
}

const SAGA: (&str, &str) = ("Saga", "recall,ship,release");
const SAGA_DONE: &[(&str, u32)] = &[("recall", 1), ("release", 1), ("ship", 1)];
const TREE: (&str, &str) = ("Parent", "Steps:pack,ship");
const TREE_DONE: &[(&str, u32)] = &[("pack", 1), ("pay", 1), ("ship", 1), ("thank", 1)];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rewind_killed_at_any_write_is_completed_or_did_not_happen() {
    let writes = sweep(SAGA, SAGA_DONE, Then::Operator, &BOTH).await;
    assert!(writes >= 3, "{writes} writes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rewind_of_a_tree_killed_at_any_write_is_completed_by_maintenance() {
    let writes = sweep(TREE, TREE_DONE, Then::Maintenance, &[CrashPoint::AfterApplied]).await;
    assert!(writes >= 6, "{writes} writes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: a run for each write, and each who goes on"]
async fn a_rewind_killed_at_any_write_is_completed_by_anybody() {
    for then in [Then::Operator, Then::Maintenance, Then::Fetch] {
        sweep(SAGA, SAGA_DONE, then, then.points()).await;
        sweep(TREE, TREE_DONE, then, then.points()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: a run for each write of a commit of several batches"]
async fn a_rewind_of_many_activities_killed_at_any_write_is_completed() {
    // More than fit one batch.
    let steps: Vec<String> = (0..110)
        .map(|n| format!("s{n:03}"))
        .chain(["ship".to_owned()])
        .collect();
    let mut expected: Vec<(&str, u32)> = steps.iter().map(|step| (step.as_str(), 1)).collect();
    expected.sort_unstable();
    let input = steps.join(",");
    for then in [Then::Operator, Then::Maintenance, Then::Fetch] {
        sweep(("Fan", &input), &expected, then, then.points()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_answers_repeat_nothing() {
    for seed in 1..=5 {
        let scene = Scene::failed(TREE.0, TREE.1).await;
        let (listener, operator) = scene.operator(Duration::from_secs(60)).await;
        listener.set_faults(Faults {
            seed,
            lost_after: 0.5,
            writes_only: true,
            limit: Some(5),
            ..Faults::default()
        });
        let result = operator.rewind(&request(CALL)).await.expect("the store answers");
        assert_eq!(result.outcome, RewindOutcome::Rewound, "seed {seed}");
        scene.wake().await;
        assert_eq!(output(&scene.cloud, "order").await, "pack,ship", "seed {seed}");
        let done: Vec<(String, u32)> = scene.shop.done().into_iter().collect();
        assert!(
            done.iter().all(|(_, count)| *count == 1) && done.len() == 4,
            "seed {seed}: {done:?}"
        );
        let rewinds = summary(&scene.cloud, "order").await.rewinds;
        assert_eq!(rewinds.len(), 1, "seed {seed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_call_rewinds_once_even_if_the_instance_has_failed_again() {
    let scene = Scene::failed(SAGA.0, SAGA.1).await;
    scene.shop.break_down("ship");
    let provider = &scene.cloud.silent;
    let first = provider.rewind(&request(CALL)).await.expect("the store answers");
    assert_eq!(first.outcome, RewindOutcome::Rewound);
    scene.wake().await;
    assert_failed(&summary(&scene.cloud, "order").await);
    let tried = scene.shop.tried("ship");
    let again = provider.rewind(&request(CALL)).await.expect("the store answers");
    assert_eq!(again.outcome, RewindOutcome::Repeated);
    scene.wake().await;
    assert_failed(&summary(&scene.cloud, "order").await);
    assert_eq!(scene.shop.tried("ship"), tried);
}
