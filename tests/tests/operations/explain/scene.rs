//! Functions whose time can be moved, with orchestrations that wait for each thing that one can wait for.

use cosmos::{Clock, PartitionKey, Retry};
use cosmos_emulator::{Refusing, RequestKind};
use duroxide::providers::TagFilter;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, BackoffStrategy, OrchestrationContext, OrchestrationRegistry, RetryPolicy};
use duroxide_cosmos::{ClaimedWork, ExplainSettings, Explanation, Fetched, TurnItem};
use duroxide_lambda::{Limits, Target, Wakeup};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tests::ShiftedClock;
use tests::cloud::{Cloud, CloudOptions, Function};

pub const SECOND: Duration = Duration::from_secs(1);
/// Longer than it takes until maintenance wakes something again.
pub const LATE: Duration = Duration::from_secs(40);
/// Longer than several such wakeups.
pub const STUCK: Duration = Duration::from_secs(400);
/// The locks of tests.
pub const LOCK: Duration = Duration::from_secs(30);

/// See the module.
pub struct Scene {
    pub cloud: Cloud,
    pub clock: Arc<ShiftedClock>,
    pub settings: ExplainSettings,
}

impl Scene {
    pub async fn new() -> Scene {
        Scene::with(limits("one"), &["Fine", "Fails"]).await
    }

    /// A scene with these limits, whose worker registers these activities.
    pub async fn with(limits: Limits, registered: &[&str]) -> Scene {
        let clock = Arc::new(ShiftedClock::default());
        let options = CloudOptions {
            limits,
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            ..CloudOptions::default()
        };
        Scene {
            cloud: Cloud::with(options, orchestrations(), activities(registered)).await,
            clock,
            settings: ExplainSettings::default(),
        }
    }

    /// Starts an instance; its wakeup stays in the queue.
    pub async fn start(&self, instance: &str, orchestration: &str, input: &str) {
        let started = self
            .cloud
            .client
            .start_orchestration(instance, orchestration, input)
            .await;
        started.expect("it starts");
    }

    /// Starts an instance and serves the turns that follow, but no activity and nothing that comes later.
    pub async fn begun(&self, instance: &str, orchestration: &str, input: &str) {
        self.start(instance, orchestration, input).await;
        self.turns(&self.cloud.orchestrator).await;
    }

    /// Serves turns, and lets the other wakeups go: a test sends its own.
    pub async fn turns(&self, function: &Function) {
        loop {
            let sent = self.cloud.queue.take().into_iter();
            let is_now = |wakeup: &Wakeup| matches!(wakeup.target, Target::Turn { .. });
            let turns: Vec<Wakeup> = sent
                .filter(|sent| sent.delay.is_zero() && is_now(&sent.wakeup))
                .map(|sent| sent.wakeup)
                .collect();
            if turns.is_empty() {
                return;
            }
            let response = function.invoke(&turns).await;
            assert!(response.batch_item_failures.is_empty(), "{response:?}");
        }
    }

    /// Serves one turn of an instance, by this function.
    pub async fn turn_by(&self, function: &Function, instance: &str) {
        let response = function.invoke(&[Wakeup::turn(instance)]).await;
        assert!(response.batch_item_failures.is_empty(), "{response:?}");
    }

    /// Serves the activities that are queued, and the turns that follow.
    pub async fn works(&self) {
        let wakeups = self.cloud.world.work_wakeups().await;
        self.cloud.worker.invoke(&wakeups).await;
        self.turns(&self.cloud.orchestrator).await;
    }

    pub async fn raise(&self, instance: &str, event: &str) {
        let raised = self.cloud.client.raise_event(instance, event, "").await;
        raised.expect("it is raised");
    }

    pub async fn enqueue(&self, instance: &str, queue: &str) {
        let queued = self.cloud.client.enqueue_event(instance, queue, "").await;
        queued.expect("it is queued");
    }

    /// A process claims the turn, and is not heard of again.
    pub async fn claim_turn(&self, instance: &str) -> TurnItem {
        match self.cloud.silent.fetch_turn(instance, LOCK, None).await {
            Ok(Fetched::Ready(turn)) => turn,
            other => panic!("{other:?}"),
        }
    }

    /// A process claims the activity of an instance, and is not heard of again.
    pub async fn claim_work(&self, instance: &str) -> ClaimedWork {
        let id = tests::turns::activity_id(instance, 2);
        match self.cloud.silent.fetch_work(&id, LOCK, None, &TagFilter::Any).await {
            Ok(Fetched::Ready(work)) => work,
            other => panic!("{other:?}"),
        }
    }

    /// Has this function reach the partitions of these instances only: whatever it sends to others is not delivered.
    pub fn isolate(function: &Function, instances: &[&str], how: Refusing) {
        let own: Vec<String> = instances
            .iter()
            .map(|instance| serde_json::to_string(&[instance]).expect("JSON"))
            .collect();
        function.listener.refuse_when(move |request| {
            let is_own = request.partition_key.as_ref().is_some_and(|pk| own.contains(pk));
            let writes = matches!(request.kind, RequestKind::Create | RequestKind::Batch);
            (writes && !is_own).then_some(how)
        });
    }

    /// Changes a document by hand.
    pub async fn edit(&self, instance: &str, id: &str, change: impl FnOnce(&mut Value)) {
        let mut doc = self.cloud.world.document(instance, id).await.expect("the document");
        change(&mut doc);
        let pk = PartitionKey::new(instance).expect("a key");
        let replaced = self
            .cloud
            .world
            .raw()
            .replace(&pk, id, &doc, None, Retry::Idempotent)
            .await;
        replaced.expect("it is written");
    }

    /// Removes the documents of a type by hand.
    pub async fn remove(&self, instance: &str, kind: &str) {
        let pk = PartitionKey::new(instance).expect("a key");
        let docs = self.cloud.world.documents_of(kind).await;
        for doc in docs.iter().filter(|doc| doc["pk"] == instance) {
            let id = doc["id"].as_str().expect("an id");
            let deleted = self.cloud.world.raw().delete(&pk, id, None, Retry::Idempotent).await;
            deleted.expect("it is removed");
        }
    }

    /// What is said of an instance. It is read, and nothing is written.
    pub async fn explain(&self, instance: &str) -> Option<Explanation> {
        self.cloud.client_listener.reset();
        let explained = self.cloud.silent.explain(instance, &self.settings).await;
        let explained = explained.expect("an explanation never fails");
        for request in self.cloud.client_listener.log() {
            let reads = matches!(request.kind, RequestKind::Query | RequestKind::Read);
            assert!(reads, "it only reads, within one partition: {request:?}");
        }
        explained
    }

    /// One situation: fails unless this is said of the instance.
    #[track_caller]
    pub fn is<'a>(
        &'a self,
        instance: &'a str,
        cause: &'a str,
        needs_attention: bool,
        words: &'a [&'a str],
    ) -> impl Future<Output = Explanation> + 'a {
        let caller = std::panic::Location::caller();
        async move {
            let found = self.explain(instance).await.expect("there is such an instance");
            let shown = format!("at {caller}: {found:#?}");
            assert_eq!(
                (found.cause.name(), found.needs_attention),
                (cause, needs_attention),
                "{shown}"
            );
            for word in words {
                assert!(found.sentence.contains(word), "no {word:?}, {shown}");
            }
            assert!(is_sentence(&found.sentence), "{shown}");
            assert_eq!(found.chain[0].instance, instance, "{shown}");
            assert!(
                !needs_attention || !found.next.is_empty(),
                "it says what to do, {shown}"
            );
            found
        }
    }
}

/// Whether it is one sentence that says something.
pub fn is_sentence(text: &str) -> bool {
    let begins = text.chars().next().is_some_and(char::is_uppercase);
    begins && text.len() > 10 && text.ends_with('.') && !text.contains('\n')
}

/// Limits of a build with that name.
pub fn limits(build: &str) -> Limits {
    Limits {
        build: Some(build.to_owned()),
        ..Limits::default()
    }
}

/// The activities of these names: `Fails` returns an error, the others their names.
pub fn activities(names: &[&str]) -> ActivityRegistry {
    names
        .iter()
        .fold(ActivityRegistry::builder(), |activities, name| {
            let name = (*name).to_owned();
            activities.register(name.clone(), move |_: ActivityContext, _: String| {
                let name = name.clone();
                async move {
                    match name.as_str() {
                        "Fails" => Err("the card is refused.".to_owned()),
                        _ => Ok(name),
                    }
                }
            })
        })
        .build()
}

/// The orchestrations: each is named after what it waits for.
pub fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Act", act)
        .register("Both", |ctx: OrchestrationContext, _: String| async move {
            let both = vec![ctx.schedule_activity("Fine", ""), ctx.schedule_activity("Unknown", "")];
            Ok(format!("{:?}", ctx.join(both).await))
        })
        .register("Wait", |ctx: OrchestrationContext, name: String| async move {
            Ok(ctx.schedule_wait(name).await)
        })
        .register("Take", |ctx: OrchestrationContext, name: String| async move {
            Ok(ctx.dequeue_event(name).await)
        })
        .register("Late", |ctx: OrchestrationContext, name: String| async move {
            ctx.schedule_activity("Fine", "").await?;
            Ok(ctx.schedule_wait(name).await)
        })
        .register("Sleep", |ctx: OrchestrationContext, seconds: String| async move {
            let seconds = seconds.parse().map_err(|_| "no number".to_owned())?;
            ctx.schedule_timer(Duration::from_secs(seconds)).await;
            Ok("slept".to_owned())
        })
        .register("Race", |ctx: OrchestrationContext, _: String| async move {
            let approval = ctx.schedule_wait("approval");
            let hour = ctx.schedule_timer(Duration::from_secs(3_600));
            ctx.select2(approval, hour).await;
            Ok(ctx.schedule_wait("parcel").await)
        })
        .register("Retry", |ctx: OrchestrationContext, _: String| async move {
            let delay = Duration::from_secs(120);
            let policy = RetryPolicy::new(5).with_backoff(BackoffStrategy::Fixed { delay });
            ctx.schedule_activity_with_retry("Fails", "", policy).await
        })
        .register("Again", |ctx: OrchestrationContext, input: String| async move {
            ctx.continue_as_new(input).await
        })
        .register("Nothing", |_: OrchestrationContext, _: String| async move {
            std::future::pending::<()>().await;
            Ok(String::new())
        })
        .register("Parent", parent)
        .register("Parents", |ctx: OrchestrationContext, _: String| async move {
            let one = ctx.schedule_sub_orchestration_with_id("Wait", "fine", "go");
            let two = ctx.schedule_sub_orchestration_with_id("Act", "worse", "Unknown");
            Ok(format!("{:?}", ctx.join2(one, two).await))
        })
        .register("Panics", |ctx: OrchestrationContext, _: String| async move {
            ctx.schedule_wait("go").await;
            panic!("an orchestration that panics")
        })
        .register("Refuses", |_: OrchestrationContext, why: String| async move {
            Err::<String, String>(why)
        })
        .build()
}

/// Runs the activity that is its input: `name`, `name@session` or `name#tag`.
async fn act(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    if let Some((name, session)) = input.split_once('@') {
        ctx.schedule_activity_on_session(name, "", session).await
    } else if let Some((name, tag)) = input.split_once('#') {
        ctx.schedule_activity(name, "").with_tag(tag).await
    } else {
        ctx.schedule_activity(input, "").await
    }
}

/// Runs the child that is its input: `orchestration|id|input`, where the input may be another child.
async fn parent(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    let mut parts = input.splitn(3, '|').map(str::to_owned);
    let mut next = || parts.next().unwrap_or_default();
    let (name, id, input) = (next(), next(), next());
    ctx.schedule_sub_orchestration_with_id(name, id, input).await
}
