//! Bad weather: a mixed workload on two runtimes, while the store throttles, loses answers, is unavailable, or shows
//! the past.
//!
//! ```text
//!   runtime A ── provider A ── listener A ─┐   each listener: its own faults, by a fixed seed
//!                                      ├── one account, Session consistency, a lagging replica
//!   runtime B ── provider B ── listener B ─┘
//!   checks ───── calm provider ─ first listener: no faults
//! ```
//!
//! The two providers share no consistency token: what one wrote the other may read late. Every wait has a generous limit,
//! and ends as soon as what it waits for is true.

use cosmos_emulator::{Faults, Lag, Listener, ServerOptions};
use duroxide::providers::{
    ExecutionMetadata, Provider, ProviderAdmin, ScheduledActivityIdentifier, TagFilter, WorkItem,
};
use duroxide::runtime::Runtime;
use duroxide::{Client, Event, EventKind, OrchestrationStatus, RuntimeOptions};
use duroxide_cosmos::{CosmosConfigBuilder, CosmosProvider, Fetched};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tests::workload::{Job, Nudge, activities, assert_sound, jobs, orchestrations};
use tests::{World, connect};

/// No wait of a sound provider comes near this.
const LIMIT: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_millis(250);

/// What a test runs, and in which weather.
struct Weather {
    orchestrations: usize,
    /// Of both listeners; each gets a seed of its own.
    faults: Faults,
    /// Reads of the listeners lag behind by up to this.
    lag: Option<Duration>,
    /// Physical partitions split while the workload runs.
    split: bool,
}

/// Two runtimes at work.
struct Stage {
    world: World,
    listeners: [Listener; 2],
    providers: [Arc<CosmosProvider>; 2],
    runtimes: [Arc<Runtime>; 2],
    calm: Arc<CosmosProvider>,
}

fn options() -> RuntimeOptions {
    RuntimeOptions {
        orchestration_concurrency: 4,
        worker_concurrency: 6,
        orchestrator_lock_timeout: Duration::from_secs(10),
        worker_lock_timeout: Duration::from_secs(4),
        dispatcher_long_poll_timeout: Duration::from_secs(2),
        ..RuntimeOptions::default()
    }
}

fn refined(config: CosmosConfigBuilder) -> CosmosConfigBuilder {
    config
        .operation_timeout(Duration::from_secs(30))
        .request_timeout(Duration::from_secs(5))
        .sweep_interval(Duration::from_millis(250))
        // So early that repairs race with the commits that they repair.
        .repair_after(Duration::from_millis(200))
}

impl Stage {
    async fn set(weather: &Weather) -> Stage {
        let lag = weather.lag.map(|max| Lag {
            min: max / 8,
            max,
            seed: weather.faults.seed,
        });
        let world = World::local(ServerOptions {
            lag,
            ..ServerOptions::default()
        })
        .await;
        let server = world.server();
        let listeners = [
            server.open_listener().await.expect("a second listener opens"),
            server.open_listener().await.expect("a third listener opens"),
        ];
        let providers = [
            connect(refined(world.builder_through(&listeners[0]))).await,
            connect(refined(world.builder_through(&listeners[1]))).await,
        ];
        for (listener, seed) in listeners.iter().zip(0..) {
            listener.set_faults(Faults {
                seed: weather.faults.seed + seed,
                ..weather.faults.clone()
            });
        }
        let run = |provider: &Arc<CosmosProvider>| {
            let store = Arc::clone(provider) as Arc<dyn Provider>;
            Runtime::start_with_options(store, activities(), orchestrations(), options())
        };
        let runtimes = [run(&providers[0]).await, run(&providers[1]).await];
        let calm = connect(refined(world.builder())).await;
        Stage {
            world,
            listeners,
            providers,
            runtimes,
            calm,
        }
    }

    fn client(&self, n: usize) -> Client {
        Client::new(Arc::clone(&self.providers[n % 2]) as Arc<dyn Provider>)
    }

    /// Starts a job through one provider, and nudges it through the other.
    async fn drive(&self, n: usize, job: &Job) {
        let start = self
            .client(n)
            .start_orchestration(&job.instance, job.orchestration, job.input.as_str())
            .await;
        start.unwrap_or_else(|error| panic!("{} does not start: {error:?}", job.instance));
        let nudged = match job.nudge {
            Nudge::None => Ok(()),
            Nudge::Message => self.client(n).enqueue_event(&job.instance, "inbox", &job.output).await,
            Nudge::Event => {
                self.await_subscription(&job.instance).await;
                self.client(n + 1).raise_event(&job.instance, "Go", &job.output).await
            }
        };
        nudged.unwrap_or_else(|error| panic!("{} is not nudged: {error:?}", job.instance));
    }

    async fn await_subscription(&self, instance: &str) {
        until(&format!("{instance} subscribes"), async || {
            let history = self.calm.read(instance).await.expect("the history can be read");
            let subscribed = |kind: &EventKind| matches!(kind, EventKind::ExternalSubscribed { .. });
            if history.iter().any(|event| subscribed(&event.kind)) {
                Ok(())
            } else {
                Err("not yet".to_owned())
            }
        })
        .await;
    }

    async fn await_ends(&self, jobs: &[Job]) {
        let mut open: BTreeSet<&str> = jobs.iter().map(|job| job.instance.as_str()).collect();
        until("every orchestration ends", async || {
            for status in ["Completed", "Failed"] {
                let ended = self
                    .calm
                    .list_instances_by_status(status)
                    .await
                    .expect("instances can be listed");
                for instance in ended {
                    open.remove(instance.as_str());
                }
            }
            if open.is_empty() {
                Ok(())
            } else {
                Err(format!("{} are open: {open:?}", open.len()))
            }
        })
        .await;
    }

    /// Waits until nothing is queued, locked, owed or half done.
    async fn await_rest(&self) {
        until("the store comes to rest", async || {
            self.calm.repair(100).await.expect("repairs can be looked for");
            let unrest: Vec<Value> = self.world.documents().await.into_iter().filter(is_unrest).collect();
            if unrest.is_empty() {
                Ok(())
            } else {
                Err(format!("{} documents are left: {unrest:#?}", unrest.len()))
            }
        })
        .await;
    }

    async fn check(&self, job: &Job) {
        let client = Client::new(Arc::clone(&self.calm) as Arc<dyn Provider>);
        let status = client
            .get_orchestration_status(&job.instance)
            .await
            .expect("the status can be read");
        let OrchestrationStatus::Completed {
            output,
            custom_status,
            custom_status_version,
        } = status
        else {
            panic!("{} did not complete: {status:?}", job.instance);
        };
        assert_eq!(output, job.output, "the output of {}", job.instance);
        if job.orchestration == "Keys" {
            assert_eq!(
                (custom_status.as_deref(), custom_status_version),
                (Some("greeted"), 2),
                "{}",
                job.instance
            );
            let kept = client
                .get_kv_value(&job.instance, "greeting")
                .await
                .expect("the key can be read");
            assert_eq!(kept, Some(format!("Hello {}!", job.input)), "{}", job.instance);
        }
        let executions = client
            .list_executions(&job.instance)
            .await
            .expect("executions can be listed");
        assert_eq!(
            executions,
            (1..=job.executions).collect::<Vec<u64>>(),
            "{}",
            job.instance
        );
        for execution in executions {
            self.check_history(&job.instance, execution).await;
        }
        if let Some(child) = &job.child {
            self.check_history(child, 1).await;
        }
    }

    async fn check_history(&self, instance: &str, execution: u64) {
        let history = self.calm.read_history_with_execution_id(instance, execution).await;
        let history = history.expect("the history can be read");
        assert_sound(instance, &history);
        let ends = history.iter().filter(|event| event.is_terminal()).count();
        assert_eq!(ends, 1, "execution {execution} of {instance} ends once: {history:#?}");
    }

    /// Splits physical partitions while the workload runs.
    async fn split(&self) {
        let (database, container) = self.world.names();
        for _ in 0..2 {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let partitions = self.world.server().partition_ids(database, container).await;
            let first = *partitions.first().expect("the container has partitions");
            self.world.server().split_partition(database, container, first).await;
        }
    }
}

/// Whether a document is work that is not done. A session's or an instance's lock that is free is none.
fn is_unrest(doc: &Value) -> bool {
    match doc["type"].as_str().expect("every document has a type") {
        "message" | "work" | "intent" | "staged" | "staged-head" | "deletion" => true,
        "lock" => !doc["holder"].is_null() || !doc["unfinished"].is_null() || doc["until"] != 0,
        _ => false,
    }
}

/// Asks again and again until the answer is `Ok`.
async fn until(what: &str, mut ask: impl AsyncFnMut() -> Result<(), String>) {
    let begun = Instant::now();
    while let Err(why) = ask().await {
        assert!(begun.elapsed() < LIMIT, "waited in vain until {what}: {why}");
        tokio::time::sleep(PAUSE).await;
    }
}

async fn survive(weather: Weather) {
    let begun = Instant::now();
    let stage = Stage::set(&weather).await;
    let jobs = jobs(weather.orchestrations);
    let driven = futures::future::join_all(jobs.iter().enumerate().map(|(n, job)| stage.drive(n, job)));
    if weather.split {
        futures::join!(driven, stage.split());
    } else {
        driven.await;
    }
    stage.await_ends(&jobs).await;
    let ended = begun.elapsed();
    stage.await_rest().await;
    futures::future::join_all(jobs.iter().map(|job| stage.check(job))).await;
    for runtime in stage.runtimes {
        runtime.shutdown(Some(5_000)).await;
    }
    report(&stage.listeners, &weather, ended, begun.elapsed());
}

/// Says what the weather was like, and fails when it was not as bad as ordered.
fn report(listeners: &[Listener], weather: &Weather, ended: Duration, rested: Duration) {
    for listener in listeners {
        let log = listener.log();
        let share = |status: Option<u16>| {
            log.iter().filter(|record| record.status == status).count() as f64 / log.len().max(1) as f64
        };
        let (throttled, unavailable, lost) = (share(Some(429)), share(Some(503)), share(None));
        println!(
            "{} requests ({:.0} for each orchestration): {:.1} % 429, {:.1} % 503, {:.1} % lost; ended after {ended:.1?}, rest after {rested:.1?}; {:?}",
            log.len(),
            log.len() as f64 / weather.orchestrations as f64,
            throttled * 100.0,
            unavailable * 100.0,
            lost * 100.0,
            listener.counts(),
        );
        // Which draws become faults depends on the order of the requests: of what is rare only some can be demanded.
        let least = |share: f64| share * if share > 0.05 { 0.7 } else { 0.2 };
        let faults = &weather.faults;
        assert!(throttled >= least(faults.throttled), "only {throttled} throttled");
        assert!(
            unavailable >= least(faults.unavailable),
            "only {unavailable} unavailable"
        );
        assert!(
            lost >= least(faults.lost_before + faults.lost_after),
            "only {lost} lost"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_orchestrations_complete_in_a_storm() {
    let faults = Faults {
        seed: 20_250_101,
        throttled: 0.2,
        retry_after: Duration::from_millis(10),
        lost_before: 0.025,
        lost_after: 0.025,
        unavailable: 0.05,
        stale_reads: true,
        fresh: 0.3,
        ..Faults::default()
    };
    survive(Weather {
        orchestrations: 200,
        faults,
        lag: Some(Duration::from_millis(200)),
        split: false,
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workload_completes_when_two_of_five_requests_are_throttled() {
    let faults = Faults {
        seed: 2,
        throttled: 0.4,
        retry_after: Duration::from_millis(5),
        ..Faults::default()
    };
    survive(Weather {
        orchestrations: 30,
        faults,
        lag: None,
        split: false,
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workload_completes_when_one_of_five_answers_is_lost() {
    let faults = Faults {
        seed: 3,
        lost_before: 0.1,
        lost_after: 0.1,
        ..Faults::default()
    };
    survive(Weather {
        orchestrations: 30,
        faults,
        lag: None,
        split: false,
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workload_completes_when_reads_show_the_past() {
    let faults = Faults {
        seed: 4,
        stale_reads: true,
        ..Faults::default()
    };
    survive(Weather {
        orchestrations: 30,
        faults,
        lag: Some(Duration::from_millis(400)),
        split: false,
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workload_completes_when_reads_jump_between_the_present_and_the_past() {
    let faults = Faults {
        seed: 5,
        stale_reads: true,
        fresh: 0.5,
        ..Faults::default()
    };
    survive(Weather {
        orchestrations: 30,
        faults,
        lag: Some(Duration::from_millis(400)),
        split: false,
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workload_completes_while_partitions_split() {
    let faults = Faults {
        seed: 6,
        throttled: 0.05,
        retry_after: Duration::from_millis(5),
        lost_after: 0.02,
        stale_reads: true,
        fresh: 0.5,
        ..Faults::default()
    };
    survive(Weather {
        orchestrations: 30,
        faults,
        lag: Some(Duration::from_millis(200)),
        split: true,
    })
    .await;
}

/// An instance with a started turn and an activity, 2, on a store whose reads lag; and a provider that is a stranger to
/// it, behind a listener of its own.
async fn lagging() -> (World, Arc<CosmosProvider>, Listener, Arc<CosmosProvider>) {
    let lag = Lag {
        min: Duration::from_millis(300),
        max: Duration::from_millis(600),
        seed: 7,
    };
    let world = World::local(ServerOptions {
        lag: Some(lag),
        ..ServerOptions::default()
    })
    .await;
    let calm = world.provider().await;
    let client = Client::new(Arc::clone(&calm) as Arc<dyn Provider>);
    client.start_orchestration("i", "Any", "").await.expect("it starts");
    let turn = calm.fetch_turn("i", LOCK, None).await.expect("the store can be asked");
    let Fetched::Ready(turn) = turn else {
        panic!("there is a turn: {turn:?}")
    };
    let started = EventKind::OrchestrationStarted {
        name: "Any".to_owned(),
        version: "1.0.0".to_owned(),
        input: String::new(),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        carry_forward_events: None,
        initial_custom_status: None,
    };
    let (name, input) = ("Greet".to_owned(), String::new());
    let scheduled = EventKind::ActivityScheduled {
        name: name.clone(),
        input: input.clone(),
        session_id: None,
        tag: None,
    };
    let events = vec![
        Event::with_event_id(1, "i", 1, None, started),
        Event::with_event_id(2, "i", 1, None, scheduled),
    ];
    let instance = "i".to_owned();
    let work = WorkItem::ActivityExecute {
        instance,
        execution_id: 1,
        id: 2,
        name,
        input,
        session_id: None,
        tag: None,
    };
    let metadata = ExecutionMetadata {
        orchestration_name: Some("Any".to_owned()),
        orchestration_version: Some("1.0.0".to_owned()),
        ..ExecutionMetadata::default()
    };
    let token = turn.lock_token;
    let acked = calm.ack_orchestration_item(&token, 1, events, vec![work], Vec::new(), metadata, Vec::new());
    acked.await.expect("the turn commits");
    client.raise_event("i", "Go", "1").await.expect("the event is raised");
    client
        .start_orchestration("new", "Any", "")
        .await
        .expect("another instance starts");
    world.server().catch_up().await;
    let listener = world.server().open_listener().await.expect("a second listener opens");
    let stranger = connect(world.builder_through(&listener)).await;
    (world, calm, listener, stranger)
}

const LOCK: Duration = Duration::from_secs(60);

/// Reads lag, and the answer of the next write is lost.
fn next_answer_is_lost() -> Faults {
    Faults {
        seed: 8,
        lost_after: 1.0,
        writes_only: true,
        limit: Some(1),
        stale_reads: true,
        ..Faults::default()
    }
}

/// Fails unless the fault was met.
#[track_caller]
fn assert_one_lost(listener: &Listener) {
    let lost = listener.log().iter().filter(|record| record.status.is_none()).count();
    assert_eq!(lost, 1, "one answer was lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_whose_answer_is_lost_is_recognised_although_reads_lag() {
    for instance in ["i", "new"] {
        let (_world, _calm, listener, stranger) = lagging().await;
        listener.set_faults(next_answer_is_lost());
        let turn = stranger
            .fetch_turn(instance, LOCK, None)
            .await
            .expect("the store can be asked");
        assert!(
            matches!(turn, Fetched::Ready(_)),
            "the turn of '{instance}' is ours, not {turn:?}"
        );
        assert_one_lost(&listener);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claimed_activity_whose_answer_is_lost_is_recognised_although_reads_lag() {
    let (_world, _calm, listener, stranger) = lagging().await;
    listener.set_faults(next_answer_is_lost());
    let activity = ScheduledActivityIdentifier {
        instance: "i".to_owned(),
        execution_id: 1,
        activity_id: 2,
    };
    let claimed = stranger
        .fetch_work(&activity, LOCK, None, &TagFilter::Any)
        .await
        .expect("the store can be asked");
    assert!(
        matches!(claimed, Fetched::Ready(_)),
        "the activity is ours, not {claimed:?}"
    );
    assert_one_lost(&listener);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_completion_whose_answer_is_lost_is_recognised_although_reads_lag() {
    let (world, _calm, listener, stranger) = lagging().await;
    let activity = ScheduledActivityIdentifier {
        instance: "i".to_owned(),
        execution_id: 1,
        activity_id: 2,
    };
    let claimed = stranger
        .fetch_work(&activity, LOCK, None, &TagFilter::Any)
        .await
        .expect("the store can be asked");
    let Fetched::Ready(claimed) = claimed else {
        panic!("there is an activity: {claimed:?}")
    };
    listener.set_faults(next_answer_is_lost());
    let result = WorkItem::ActivityCompleted {
        instance: "i".to_owned(),
        execution_id: 1,
        id: 2,
        result: "Hello".to_owned(),
    };
    stranger
        .ack_work_item(&claimed.lock_token, Some(result))
        .await
        .expect("the result was recorded");
    assert_one_lost(&listener);
    assert!(world.documents_of("work").await.is_empty(), "the activity is done");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_is_lost_is_recognised_although_reads_lag() {
    let (world, _calm, listener, stranger) = lagging().await;
    let turn = stranger
        .fetch_turn("i", LOCK, None)
        .await
        .expect("the store can be asked");
    let Fetched::Ready(turn) = turn else {
        panic!("there is a turn: {turn:?}")
    };
    listener.set_faults(next_answer_is_lost());
    let go = EventKind::ExternalEvent {
        name: "Go".to_owned(),
        data: "1".to_owned(),
    };
    let events = vec![Event::with_event_id(3, "i", 1, None, go)];
    let metadata = ExecutionMetadata::default();
    let token = turn.lock_token;
    let acked = stranger.ack_orchestration_item(&token, 1, events, Vec::new(), Vec::new(), metadata, Vec::new());
    acked.await.expect("the turn was committed");
    assert_one_lost(&listener);
    let lock = world.document("i", "lock").await.expect("the instance has a lock");
    assert!(lock["holder"].is_null(), "the lock is free: {lock:#}");
}
