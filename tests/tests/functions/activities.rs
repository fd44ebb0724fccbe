//! Workflows that a test steers while they run: what they do is noted, and they wait until they are let go.

use duroxide::runtime::OrchestrationStatus;
use duroxide::runtime::registry::{ActivityRegistry, ActivityRegistryBuilder};
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};
use duroxide_lambda::internals::BatchResponse;
use duroxide_lambda::{Delayed, Limits, Target, Wakeup};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tests::cloud::{Cloud, CloudOptions, Function};
use tests::{ShiftedClock, workload};
use tokio::sync::watch;
use tokio::time::Instant;

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a test and its workflows share.
#[derive(Clone, Default)]
pub struct Stage(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// The instances whose activities need not wait any more.
    free: watch::Sender<BTreeSet<String>>,
    notes: Mutex<Vec<Note>>,
    hook: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

#[derive(Clone)]
struct Note {
    what: &'static str,
    instance: String,
    at: Instant,
}

impl Stage {
    /// Lets the activities of an instance end.
    pub fn let_go(&self, instance: &str) {
        self.0.free.send_modify(|free| {
            free.insert(instance.to_owned());
        });
    }

    /// Has this done once, by the next workflow code that looks for it: between a fetch and its commit.
    pub fn then(&self, hook: impl FnOnce() + Send + 'static) {
        let mut planned = self.0.hook.lock().unwrap_or_else(PoisonError::into_inner);
        *planned = Some(Box::new(hook));
    }

    /// When an instance did this.
    pub fn times(&self, what: &str, instance: &str) -> Vec<Instant> {
        let notes = self.0.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let those = notes
            .iter()
            .filter(|note| note.what == what && note.instance == instance);
        those.map(|note| note.at).collect()
    }

    /// How often an instance did this.
    pub fn count(&self, what: &str, instance: &str) -> usize {
        self.times(what, instance).len()
    }

    /// How often anybody did this.
    pub fn total(&self, what: &str) -> usize {
        let notes = self.0.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.iter().filter(|note| note.what == what).count()
    }

    fn note(&self, what: &'static str, instance: &str) {
        let note = Note {
            what,
            instance: instance.to_owned(),
            at: Instant::now(),
        };
        self.0.notes.lock().unwrap_or_else(PoisonError::into_inner).push(note);
    }

    fn begun(&self, instance: &str) {
        self.note("began", instance);
        let hook = self.0.hook.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(hook) = hook {
            hook();
        }
    }

    async fn let_gone(&self, instance: &str) {
        let mut free = self.0.free.subscribe();
        free.wait_for(|free| free.contains(instance))
            .await
            .expect("the sender lives as long as the stage");
    }

    /// Waits like code that knows nothing of async: the thread does nothing else. A forgotten one ends by itself.
    fn block(&self, instance: &str) {
        let limit = Instant::now() + PATIENCE;
        while !self.0.free.borrow().contains(instance) && Instant::now() < limit {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.note("unblocked", instance);
    }

    /// `Quick` ends at once, `Patient` when it is let go or cancelled, `Deaf` only when it is let go; `Blocking`
    /// blocks its thread and `Elsewhere` another one; `Panicking` panics.
    pub fn activities(&self) -> ActivityRegistry {
        let builder = ActivityRegistry::builder();
        let builder = self.with(builder, "Quick", |stage, ctx| async move {
            stage.begun(ctx.instance_id());
            Ok("quick".to_owned())
        });
        let builder = self.with(builder, "Patient", |stage, ctx| async move {
            stage.begun(ctx.instance_id());
            tokio::select! {
                () = stage.let_gone(ctx.instance_id()) => Ok("done".to_owned()),
                () = ctx.cancelled() => {
                    stage.note("noticed", ctx.instance_id());
                    Err("noticed to stop".to_owned())
                }
            }
        });
        let builder = self.with(builder, "Deaf", |stage, ctx| async move {
            let _watch = Ended(stage.clone(), ctx.instance_id().to_owned());
            stage.begun(ctx.instance_id());
            stage.let_gone(ctx.instance_id()).await;
            Ok("done".to_owned())
        });
        let builder = self.with(builder, "Blocking", |stage, ctx| async move {
            stage.begun(ctx.instance_id());
            stage.block(ctx.instance_id());
            Ok("done late".to_owned())
        });
        let builder = self.with(builder, "Elsewhere", |stage, ctx| async move {
            stage.begun(ctx.instance_id());
            let instance = ctx.instance_id().to_owned();
            let blocking = tokio::task::spawn_blocking(move || stage.block(&instance));
            blocking.await.map_err(|error| error.to_string())?;
            Ok("done late".to_owned())
        });
        let builder = self.with(builder, "Panicking", |stage, ctx| async move {
            stage.begun(ctx.instance_id());
            panic!("an activity that panics")
        });
        builder.build()
    }

    fn with<F>(
        &self,
        builder: ActivityRegistryBuilder,
        name: &'static str,
        activity: impl Fn(Stage, ActivityContext) -> F + Send + Sync + 'static,
    ) -> ActivityRegistryBuilder
    where
        F: Future<Output = Result<String, String>> + Send + 'static,
    {
        let stage = self.clone();
        builder.register(name, move |ctx: ActivityContext, _: String| {
            activity(stage.clone(), ctx)
        })
    }

    /// `Run` runs the activity that is its input (`name`, `name@session`, `name#tag`); `Turn` only notes its turns;
    /// `Slow` blocks its thread until it is let go; `Parent` runs the child that is its input; `Panicking` panics, and
    /// `PanickingLater` after an activity.
    pub fn orchestrations(&self) -> OrchestrationRegistry {
        let (run, turn, slow) = (self.clone(), self.clone(), self.clone());
        OrchestrationRegistry::builder()
            .register("Run", move |ctx: OrchestrationContext, input: String| {
                run_one(run.clone(), ctx, input)
            })
            .register("Turn", move |ctx: OrchestrationContext, _: String| {
                let stage = turn.clone();
                async move {
                    stage.begun(&ctx.instance_id());
                    Ok("turned".to_owned())
                }
            })
            .register("Slow", move |ctx: OrchestrationContext, _: String| {
                let stage = slow.clone();
                async move {
                    stage.begun(&ctx.instance_id());
                    // The tasks that wait for this very thread must not wait with it: a turn runs inside a dispatcher.
                    tokio::task::block_in_place(|| stage.block(&ctx.instance_id()));
                    Ok("slow".to_owned())
                }
            })
            .register("Panicking", |_: OrchestrationContext, _: String| async move {
                panic!("an orchestration that panics")
            })
            .register("Parent", |ctx: OrchestrationContext, child: String| async move {
                ctx.schedule_sub_orchestration_with_id(child, "child", "").await
            })
            .register("PanickingLater", |ctx: OrchestrationContext, _: String| async move {
                ctx.schedule_activity("Quick", "").await?;
                panic!("an orchestration that panics later")
            })
            .build()
    }
}

async fn run_one(stage: Stage, ctx: OrchestrationContext, input: String) -> Result<String, String> {
    stage.begun(&format!("turn of {}", ctx.instance_id()));
    if let Some((name, session)) = input.split_once('@') {
        ctx.schedule_activity_on_session(name, "", session).await
    } else if let Some((name, tag)) = input.split_once('#') {
        ctx.schedule_activity(name, "").with_tag(tag).await
    } else {
        ctx.schedule_activity(input, "").await
    }
}

/// Notes that a future has ended or was dropped.
struct Ended(Stage, String);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.note("dropped", &self.1);
    }
}

/// A cloud whose time can be moved, and the stage of its workflows.
pub async fn cloud(limits: Limits) -> (Cloud, Stage, Arc<ShiftedClock>) {
    let (stage, clock) = (Stage::default(), Arc::new(ShiftedClock::default()));
    let options = CloudOptions {
        limits,
        clock: Arc::clone(&clock) as Arc<dyn cosmos::Clock>,
        ..CloudOptions::default()
    };
    let cloud = Cloud::with(options, stage.orchestrations(), stage.activities()).await;
    (cloud, stage, clock)
}

/// Starts an instance and answers its first wakeup.
pub async fn start(cloud: &Cloud, instance: &str, orchestration: &str, input: &str) -> Wakeup {
    let started = cloud.client.start_orchestration(instance, orchestration, input).await;
    started.expect("the instance is started");
    only(cloud.queue.take()).wakeup
}

/// Has an instance of `Run` schedule its activity, and answers the activity's wakeup.
pub async fn schedule(cloud: &Cloud, instance: &str, activity: &str) -> Wakeup {
    let turn = start(cloud, instance, "Run", activity).await;
    served(&cloud.orchestrator.invoke(&[turn]).await);
    only(cloud.queue.take()).wakeup
}

/// Runs the turns that have wakeups, and answers the instance's status.
pub async fn conclude(cloud: &Cloud, instance: &str) -> OrchestrationStatus {
    let wakeups: Vec<Wakeup> = cloud.queue.take().into_iter().map(|delayed| delayed.wakeup).collect();
    assert!(
        wakeups
            .iter()
            .all(|wakeup| matches!(wakeup.target, Target::Turn { .. })),
        "{wakeups:?}"
    );
    served(&cloud.orchestrator.invoke(&wakeups).await);
    let history = cloud.client.read_execution_history(instance, 1).await;
    workload::assert_sound(instance, &history.expect("a history"));
    status(cloud, instance).await
}

pub async fn status(cloud: &Cloud, instance: &str) -> OrchestrationStatus {
    let status = cloud.client.get_orchestration_status(instance).await;
    status.expect("a status")
}

#[track_caller]
pub fn assert_output(status: &OrchestrationStatus, expected: &str) {
    match status {
        OrchestrationStatus::Completed { output, .. } => assert_eq!(output, expected),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub fn served(response: &BatchResponse) {
    assert!(response.batch_item_failures.is_empty(), "{response:?}");
}

#[track_caller]
pub fn failed(response: &BatchResponse, records: usize) {
    assert_eq!(response.batch_item_failures.len(), records, "{response:?}");
}

#[track_caller]
pub fn only(mut wakeups: Vec<Delayed>) -> Delayed {
    assert_eq!(wakeups.len(), 1, "{wakeups:?}");
    wakeups.remove(0)
}

/// What a function counted since it was last asked, without zeros.
pub fn counted(function: &Function) -> BTreeMap<String, u64> {
    function.counted()
}

/// How the steps of a function ended since the last call.
pub fn outcomes(function: &Function) -> Vec<(String, u64)> {
    const OUTCOMES: [&str; 8] = [
        "Abandoned",
        "Busy",
        "Cancelled",
        "Committed",
        "Deferred",
        "Failed",
        "Nothing",
        "TimedOut",
    ];
    let counted = counted(function).into_iter();
    counted.filter(|(name, _)| OUTCOMES.contains(&name.as_str())).collect()
}

#[track_caller]
pub fn assert_outcomes(function: &Function, expected: &[(&str, u64)]) {
    let expected: Vec<(String, u64)> = expected.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
    assert_eq!(outcomes(function), expected);
}

/// The work item of an instance's only activity.
pub async fn work_item(cloud: &Cloud, instance: &str) -> Option<Value> {
    cloud.world.document(instance, "w:1:2").await
}

/// Whether a lock or work document is free.
pub fn is_free(document: &Value) -> bool {
    document["holder"].is_null() && document["until"] == 0
}

/// How many requests of a function were about an instance.
pub fn requests_for(function: &Function, instance: &str) -> usize {
    let key = serde_json::to_string(&[instance]).expect("JSON");
    let log = function.listener.log();
    log.iter()
        .filter(|request| request.partition_key.as_deref() == Some(&key))
        .count()
}

/// Waits until it holds.
#[track_caller]
pub fn until(mut holds: impl FnMut() -> bool) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    async move {
        let limit = Instant::now() + PATIENCE;
        while !holds() {
            assert!(Instant::now() < limit, "waited in vain at {caller}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
