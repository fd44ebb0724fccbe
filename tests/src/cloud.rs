//! A cloud in one process: the two functions on one store, joined by a notifier in memory.
//!
//! Each function and the client reach the store through a listener of their own, so that their requests are counted
//! apart. Nothing runs by itself: a test feeds wakeups to the functions, one event at a time or all with [`Cloud::drain`].

use crate::PATIENCE;
use crate::world::{World, connect};
use cosmos::{Clock, SystemClock};
use cosmos_emulator::{Listener, ServerOptions};
use duroxide::providers::{Provider, TagFilter};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{Client, OrchestrationRegistry};
use duroxide_cosmos::CosmosProvider;
use duroxide_lambda::internals::Memory;
use duroxide_lambda::internals::Metrics;
use duroxide_lambda::internals::{BatchResponse, Budget, Environment, Parts};
use duroxide_lambda::internals::{NotifyingProvider, SqsAttributes, SqsEvent, SqsRecord};
use duroxide_lambda::{Delayed, Limits, Notifier, Target, Wakeup};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often [`Cloud::drain`] looks for new wakeups.
const TICK: Duration = Duration::from_millis(10);
/// The time of one invocation, unless a test says otherwise.
pub const INVOCATION: Duration = Duration::from_secs(60);

/// What a cloud is made from.
pub struct CloudOptions {
    /// The store's server.
    pub server: ServerOptions,
    /// The functions' limits.
    pub limits: Limits,
    /// What the worker function serves.
    pub tags: TagFilter,
    /// The clock of provider and functions.
    pub clock: Arc<dyn Clock>,
    /// How long one request of the client may take, with all its retries.
    pub client_time: Duration,
}

impl Default for CloudOptions {
    fn default() -> Self {
        CloudOptions {
            server: ServerOptions::default(),
            limits: Limits::default(),
            tags: TagFilter::DefaultOnly,
            clock: Arc::new(SystemClock),
            client_time: Duration::from_secs(30),
        }
    }
}

/// Both functions, a client and their store.
pub struct Cloud {
    /// The store.
    pub world: World,
    /// Where all wakeups go.
    pub queue: Arc<Memory>,
    /// The orchestrator function.
    pub orchestrator: Function,
    /// The worker function.
    pub worker: Function,
    /// A client that wakes the functions after each request.
    pub client: Client,
    /// The client's provider.
    pub notifying: Arc<NotifyingProvider>,
    /// The listener of the client.
    pub client_listener: Listener,
    /// The client's provider, which sends no wakeups.
    pub silent: Arc<CosmosProvider>,
    clock: Arc<dyn Clock>,
    limits: Limits,
}

/// One function: its only execution environment, and what it counts.
pub struct Function {
    /// The warm runtime.
    pub environment: Environment,
    /// The listener of its requests.
    pub listener: Listener,
    /// What it counted.
    pub metrics: Arc<Metrics>,
    /// Its provider, without the gate.
    pub store: Arc<CosmosProvider>,
}

impl Cloud {
    /// A cloud with defaults.
    pub async fn start(orchestrations: OrchestrationRegistry, activities: ActivityRegistry) -> Cloud {
        Cloud::with(CloudOptions::default(), orchestrations, activities).await
    }

    /// A cloud of these options.
    pub async fn with(
        options: CloudOptions,
        orchestrations: OrchestrationRegistry,
        activities: ActivityRegistry,
    ) -> Cloud {
        let CloudOptions {
            server,
            limits,
            tags,
            clock,
            client_time,
        } = options;
        let world = World::local(server).await;
        let queue = Arc::new(Memory::new());
        let turns = Base::new(&world, &clock, &queue, &limits, "environment-of-turns").await;
        let works = Base::new(&world, &clock, &queue, &limits, "environment-of-work").await;
        let clients = Base::with_time(&world, &clock, &queue, &limits, "client", client_time).await;
        let notifying = Arc::new(clients.parts.notifying());
        let client = Client::new(Arc::clone(&notifying) as Arc<dyn Provider>);
        let orchestrator = turns
            .function(|parts| Environment::orchestrator(parts, orchestrations))
            .await;
        let worker = works
            .function(|parts| Environment::worker(parts, activities, tags))
            .await;
        Cloud {
            world,
            queue,
            orchestrator,
            worker,
            client,
            notifying,
            client_listener: clients.listener,
            silent: clients.store,
            clock,
            limits,
        }
    }

    /// One more environment of the worker function.
    pub async fn another_worker(&self, id: &str, activities: ActivityRegistry, tags: TagFilter) -> Function {
        let base = Base::new(&self.world, &self.clock, &self.queue, &self.limits, id).await;
        base.function(|parts| Environment::worker(parts, activities, tags))
            .await
    }

    /// One more environment of the orchestrator function.
    pub async fn another_orchestrator(&self, id: &str, orchestrations: OrchestrationRegistry) -> Function {
        let base = Base::new(&self.world, &self.clock, &self.queue, &self.limits, id).await;
        base.function(|parts| Environment::orchestrator(parts, orchestrations))
            .await
    }

    /// An environment of the orchestrator function with limits of its own, which name its build.
    pub async fn another_build(&self, limits: Limits, orchestrations: OrchestrationRegistry) -> Function {
        let base = Base::new(&self.world, &self.clock, &self.queue, &limits, "another-build").await;
        base.function(|parts| Environment::orchestrator(parts, orchestrations))
            .await
    }

    /// One more environment of the orchestrator function, with a clock of its own.
    pub async fn another_orchestrator_at(
        &self,
        clock: Arc<dyn Clock>,
        id: &str,
        orchestrations: OrchestrationRegistry,
    ) -> Function {
        let base = Base::new(&self.world, &clock, &self.queue, &self.limits, id).await;
        base.function(|parts| Environment::orchestrator(parts, orchestrations))
            .await
    }

    /// Feeds every wakeup to its function, as SQS would, in batches of ten, until none is left; delays are waited for.
    /// Records that are reported as failed are delivered again. Turns run in one invocation at a time, activities in as
    /// many as it takes, so that a long one does not delay the others.
    pub async fn drain(&self) {
        self.drain_through(|wakeup| vec![wakeup]).await;
    }

    /// The same, by a queue that loses or repeats wakeups: `post` answers what becomes of one.
    pub async fn drain_through(&self, mut post: impl FnMut(Wakeup) -> Vec<Wakeup>) {
        let limit = Instant::now() + PATIENCE;
        let mut waiting: Vec<(Instant, Wakeup)> = Vec::new();
        let mut running = FuturesUnordered::new();
        let mut turning = false;
        loop {
            let now = Instant::now();
            for delayed in self.queue.take() {
                let (at, wakeup) = arrival(delayed, now);
                waiting.extend(post(wakeup).into_iter().map(|wakeup| (at, wakeup)));
            }
            assert!(now < limit, "wakeups go on for ever: {waiting:?}");
            let is_turn = |wakeup: &Wakeup| !matches!(wakeup.target, Target::Work(_));
            let works: Vec<Wakeup> = take(&mut waiting, usize::MAX, |at, wakeup| at <= now && !is_turn(wakeup));
            for batch in works.chunks(10) {
                running.push(self.worker.feed(batch.to_vec(), false));
            }
            if !turning {
                let turns: Vec<Wakeup> = take(&mut waiting, 10, |at, wakeup| at <= now && is_turn(wakeup));
                turning = !turns.is_empty();
                if turning {
                    running.push(self.orchestrator.feed(turns, true));
                }
            }
            if running.is_empty() && waiting.is_empty() {
                return;
            }
            // An activity may send wakeups before it ends, so the queue is looked at now and then.
            let ended = tokio::time::timeout(TICK, running.next()).await;
            if let Ok(Some((was_turning, failed))) = ended {
                turning &= !was_turning;
                let again = Instant::now() + Duration::from_millis(100);
                waiting.extend(failed.into_iter().map(|wakeup| (again, wakeup)));
            } else if running.is_empty() {
                tokio::time::sleep(TICK).await;
            }
        }
    }
}

/// Takes out up to `most` wakeups that are wanted, in order.
fn take(waiting: &mut Vec<(Instant, Wakeup)>, most: usize, wanted: impl Fn(Instant, &Wakeup) -> bool) -> Vec<Wakeup> {
    let mut left = most;
    let taken = waiting.extract_if(.., |(at, wakeup)| {
        let takes = left > 0 && wanted(*at, wakeup);
        left -= usize::from(takes);
        takes
    });
    taken.map(|(_, wakeup)| wakeup).collect()
}

/// When SQS would deliver a wakeup: it counts in whole seconds.
fn arrival(delayed: Delayed, now: Instant) -> (Instant, Wakeup) {
    let seconds = delayed.delay.as_millis().div_ceil(1000) as u64;
    (now + Duration::from_secs(seconds), delayed.wakeup)
}

impl Function {
    /// What it counted since the last call, as far as it is not zero.
    pub fn counted(&self) -> BTreeMap<String, u64> {
        let line = self.metrics.flush("tests", Duration::ZERO, 0).expect("a namespace");
        let line: Value = serde_json::from_str(&line).expect("JSON");
        let metrics = line.as_object().expect("an object").iter();
        metrics
            .filter_map(|(name, value)| Some((name.clone(), value.as_u64().filter(|value| *value > 0)?)))
            .collect()
    }

    /// One invocation with these wakeups.
    pub async fn invoke(&self, wakeups: &[Wakeup]) -> BatchResponse {
        self.invoke_within(wakeups, INVOCATION).await
    }

    /// One invocation with so much time.
    pub async fn invoke_within(&self, wakeups: &[Wakeup], time: Duration) -> BatchResponse {
        self.environment.serve(event(wakeups), Budget::of(time)).await
    }

    /// One invocation with so much time; answers the wakeups that were reported as failed.
    pub async fn failed_of(&self, wakeups: Vec<Wakeup>, time: Duration) -> Vec<Wakeup> {
        let response = self.invoke_within(&wakeups, time).await;
        let failed = response.batch_item_failures.iter().map(|failure| {
            let index: usize = failure.item_identifier.parse().expect("the id of a record of ours");
            wakeups[index].clone()
        });
        failed.collect()
    }

    /// One invocation; answers `mark`, and the wakeups that were reported as failed.
    async fn feed(&self, wakeups: Vec<Wakeup>, mark: bool) -> (bool, Vec<Wakeup>) {
        (mark, self.failed_of(wakeups, INVOCATION).await)
    }
}

/// An SQS event; the message ids are the places in the batch.
pub fn event(wakeups: &[Wakeup]) -> SqsEvent {
    raw_event(wakeups.iter().map(Wakeup::encode))
}

/// An SQS event of any bodies; the message ids are the places in the batch.
pub fn raw_event(bodies: impl IntoIterator<Item = String>) -> SqsEvent {
    let records = bodies.into_iter().enumerate().map(|(index, body)| SqsRecord {
        attributes: SqsAttributes::default(),
        message_id: index.to_string(),
        body,
    });
    SqsEvent {
        records: records.collect(),
    }
}

/// What functions and client have in common.
struct Base {
    listener: Listener,
    store: Arc<CosmosProvider>,
    parts: Parts,
}

impl Base {
    async fn new(world: &World, clock: &Arc<dyn Clock>, queue: &Arc<Memory>, limits: &Limits, id: &str) -> Base {
        Base::with_time(world, clock, queue, limits, id, CloudOptions::default().client_time).await
    }

    /// One whose requests may take so long, with all their retries.
    async fn with_time(
        world: &World,
        clock: &Arc<dyn Clock>,
        queue: &Arc<Memory>,
        limits: &Limits,
        id: &str,
        time: Duration,
    ) -> Base {
        let listener = world.open_listener().await;
        let metrics = Arc::new(Metrics::new(Some("tests".to_owned())));
        let observer = Arc::clone(&metrics);
        let config = world
            .builder_through(&listener)
            .clock(Arc::clone(clock))
            .observer(observer)
            .operation_timeout(time)
            .history_limit(limits.history_bytes)
            .history_cache(limits.history_cache);
        let store = connect(config).await;
        let notifier = Arc::clone(queue) as Arc<dyn Notifier>;
        let mut parts = Parts::of(Arc::clone(&store), notifier, metrics, limits.clone(), id);
        parts.clock = Arc::clone(clock);
        Base { listener, store, parts }
    }

    async fn function<F: Future<Output = Environment>>(self, start: impl FnOnce(Parts) -> F) -> Function {
        let metrics = Arc::clone(&self.parts.metrics);
        Function {
            environment: start(self.parts).await,
            listener: self.listener,
            metrics,
            store: self.store,
        }
    }
}
