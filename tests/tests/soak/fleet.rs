//! The environments of both functions, the queue that feeds them, and what happens to them.
//!
//! Each environment has threads of its own, so that it can die like a process: in the middle of an invocation, without
//! releasing anything. The queue behaves like SQS at its worst: it loses wakeups, repeats them, delivers late, and delivers
//! again what an invocation did not answer. Half of the first environments run an older build; replacements run the newer.

use crate::script;
use cosmos::{Clock, SystemClock};
use cosmos_emulator::{Faults, Listener, ServerOptions};
use duroxide::Client;
use duroxide::providers::TagFilter;
use duroxide_cosmos::CosmosProvider;
use duroxide_lambda::internals::{BatchResponse, BoundedNotifier, Budget, Maintenance, MaintenanceRequest, Metrics};
use duroxide_lambda::internals::{Depth, QueueName};
use duroxide_lambda::{Limits, MaintenanceSettings, Notifier, Target, Wakeup};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tests::cloud::{Cloud, CloudOptions, Function, INVOCATION};
use tests::{PATIENCE, World, connect, until_ok};
use tokio::task::JoinHandle;
use tokio::time::Instant;

const ENVIRONMENTS: usize = 4;
const TICK: Duration = Duration::from_millis(5);
/// The locks of a killed environment end soon.
const LOCK: Duration = Duration::from_secs(4);
/// The time between two runs of maintenance.
const PERIOD: Duration = Duration::from_secs(2);
/// After how long the queue delivers a wakeup again that was in a killed environment.
const VISIBILITY: Duration = Duration::from_secs(2);

/// Of a thousand wakeups, how many are lost, repeated and late.
const LOST: u16 = 30;
const REPEATED: u16 = 30;
const LATE: u16 = 50;
/// Of how many invocations one is killed.
const KILLED: usize = 40;

/// What was done to a fleet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Harm {
    lost: usize,
    repeated: usize,
    late: usize,
    killed: usize,
    requests: usize,
}

impl Harm {
    /// All together.
    pub fn total(&self) -> usize {
        self.lost + self.repeated + self.late + self.killed + self.requests
    }

    /// Fails unless there was some of each kind: otherwise the run shows nothing.
    #[track_caller]
    pub fn assert_each(&self) {
        let each = [self.lost, self.repeated, self.late, self.killed, self.requests];
        assert!(each.iter().all(|count| *count > 0), "too little went wrong: {self}");
    }
}

impl fmt::Display for Harm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} wakeups lost, {} repeated, {} late, {} environments killed, {} requests failed",
            self.lost, self.repeated, self.late, self.killed, self.requests
        )
    }
}

/// See the module.
pub struct Fleet {
    cloud: Arc<Cloud>,
    calm: Arc<CosmosProvider>,
    seed: u64,
    created: AtomicUsize,
    /// The invocations so far.
    begun: AtomicUsize,
    listeners: Mutex<Vec<Listener>>,
    harm: Mutex<Harm>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Orchestrator,
    Worker,
}

/// A wakeup in the queue.
struct Queued {
    at: Instant,
    wakeup: Wakeup,
}

/// One environment, and what it is doing.
struct Member {
    role: Role,
    threads: Option<tokio::runtime::Runtime>,
    function: Arc<Function>,
    invocation: Option<Invocation>,
}

struct Invocation {
    wakeups: Vec<Wakeup>,
    /// When the environment is killed.
    dies: Option<Instant>,
    response: JoinHandle<BatchResponse>,
}

impl Fleet {
    /// A store without any environment yet.
    pub async fn start(seed: u64) -> Fleet {
        let options = CloudOptions {
            server: ServerOptions {
                partitions: 3,
                ..ServerOptions::default()
            },
            limits: Limits {
                turn_lock: LOCK,
                work_lock: LOCK,
                session_lock: LOCK,
                // What is given up after too many kills is another test's subject.
                max_attempts: 1_000,
                ..Limits::default()
            },
            // What a client does not know to be accepted could not be checked.
            client_time: PATIENCE,
            ..CloudOptions::default()
        };
        let cloud = Cloud::with(options, script::orchestrations(true), script::activities(true)).await;
        let calm = cloud.world.provider().await;
        let fleet = Fleet {
            cloud: Arc::new(cloud),
            calm,
            seed,
            created: AtomicUsize::new(0),
            begun: AtomicUsize::new(0),
            listeners: Mutex::default(),
            harm: Mutex::default(),
        };
        fleet.trouble(&fleet.cloud.client_listener);
        fleet
    }

    /// A client behind faults, whose wakeups may be lost.
    pub fn client(&self) -> Client {
        self.cloud.client.clone()
    }

    /// A look at the store without faults.
    pub fn calm_provider(&self) -> &Arc<CosmosProvider> {
        &self.calm
    }

    /// The store.
    pub fn world(&self) -> &World {
        &self.cloud.world
    }

    /// What was done so far.
    pub fn faults(&self) -> Harm {
        let is_hit = |status: Option<u16>| matches!(status, None | Some(429 | 503));
        let hits = |listener: &Listener| {
            let log = listener.log();
            log.iter().filter(|request| is_hit(request.status)).count()
        };
        let mut harm = *self.harm.lock().expect("the lock");
        harm.requests = self.listeners.lock().expect("the lock").iter().map(hits).sum();
        harm
    }

    /// Runs functions and maintenance until `work` has ended.
    pub async fn run_while<T>(&self, work: impl Future<Output = T>) -> T {
        let done = AtomicBool::new(false);
        let work = async {
            let result = work.await;
            done.store(true, Ordering::SeqCst);
            result
        };
        let (result, (), ()) = futures::join!(work, self.serve(&done), self.maintain(&done));
        result
    }

    /// The faults end, and what they left is repaired until nothing is left to do.
    pub async fn calm(&self) {
        for listener in self.listeners.lock().expect("the lock").drain(..) {
            listener.clear_faults();
        }
        let rest = until_ok("the store comes to rest", async || {
            let documents = self.cloud.world.documents().await;
            let left: Vec<_> = documents.iter().filter(|doc| crate::check::is_unrest(doc)).collect();
            match left.first() {
                None => Ok(()),
                Some(first) => Err(format!("{} documents are left, such as {first:#}", left.len())),
            }
        });
        self.run_while(rest).await;
    }

    fn trouble(&self, listener: &Listener) {
        let mut listeners = self.listeners.lock().expect("the lock");
        listener.set_faults(Faults {
            seed: self.seed * 1_000 + listeners.len() as u64,
            lost_before: 0.01,
            lost_after: 0.02,
            throttled: 0.03,
            retry_after: Duration::from_millis(5),
            unavailable: 0.02,
            ..Faults::default()
        });
        listeners.push(listener.clone());
    }

    /// Maintenance, at its period, by one process.
    async fn maintain(&self, done: &AtomicBool) {
        let listener = self.cloud.world.open_listener().await;
        self.trouble(&listener);
        let provider = connect(self.cloud.world.builder_through(&listener)).await;
        let notifier = Arc::clone(&self.cloud.queue) as Arc<dyn Notifier>;
        let notifier = BoundedNotifier::new(notifier, Duration::from_secs(2), Arc::new(Metrics::new(None)));
        let settings = MaintenanceSettings {
            overdue: PERIOD,
            period: PERIOD,
            ..MaintenanceSettings::default()
        };
        let clock = Arc::new(SystemClock) as Arc<dyn Clock>;
        let maintenance = Maintenance::new(provider, notifier, clock, settings);
        while !done.load(Ordering::SeqCst) {
            maintenance
                .run(MaintenanceRequest::default(), Budget::of(INVOCATION))
                .await;
            tokio::time::sleep(PERIOD).await;
        }
    }

    /// The queue and the environments.
    async fn serve(&self, done: &AtomicBool) {
        let mut chance = fastrand::Rng::with_seed(self.seed);
        let mut queue: Vec<Queued> = Vec::new();
        let mut members = Vec::new();
        for n in 0..ENVIRONMENTS {
            members.push(self.member(Role::Orchestrator, n % 2 == 0).await);
            members.push(self.member(Role::Worker, n % 2 == 0).await);
        }
        while !done.load(Ordering::SeqCst) {
            self.post(&mut queue, &mut chance);
            for member in &mut members {
                self.advance(member, &mut queue, &mut chance).await;
            }
            self.show_depth(&queue, &members);
            tokio::time::sleep(TICK).await;
        }
        for mut member in members {
            member.kill();
        }
    }

    /// Lets maintenance see how long the queues are.
    fn show_depth(&self, queue: &[Queued], members: &[Member]) {
        let now = Instant::now();
        for (role, name) in [
            (Role::Orchestrator, QueueName::turns()),
            (Role::Worker, QueueName::works()),
        ] {
            let own = queue.iter().filter(|queued| role_of(&queued.wakeup) == role);
            let (waiting, delayed): (Vec<_>, Vec<_>) = own.partition(|queued| queued.at <= now);
            let serving = members.iter().filter(|member| member.role == role);
            let in_flight = serving.filter_map(|member| member.invocation.as_ref());
            let depth = Depth {
                waiting: waiting.len() as u64,
                in_flight: in_flight.map(|invocation| invocation.wakeups.len() as u64).sum(),
                delayed: delayed.len() as u64,
            };
            self.cloud.queue.set_depth(name, Some(depth));
        }
    }

    /// Takes new wakeups into the queue, or loses them.
    fn post(&self, queue: &mut Vec<Queued>, chance: &mut fastrand::Rng) {
        let mut harm = self.harm.lock().expect("the lock");
        for delayed in self.cloud.queue.take() {
            let seconds = delayed.delay.as_millis().div_ceil(1_000) as u64;
            let at = Instant::now() + Duration::from_secs(seconds);
            let queued = |at: Instant| Queued {
                at,
                wakeup: delayed.wakeup.clone(),
            };
            let draw = chance.u16(..1_000);
            if draw < LOST {
                harm.lost += 1;
            } else if draw < LOST + REPEATED {
                harm.repeated += 1;
                queue.extend([queued(at), queued(at)]);
            } else if draw < LOST + REPEATED + LATE {
                harm.late += 1;
                queue.push(queued(at + Duration::from_millis(chance.u64(1..1_500))));
            } else {
                queue.push(queued(at));
            }
        }
    }

    /// Ends, kills or begins the invocation of one environment.
    async fn advance(&self, member: &mut Member, queue: &mut Vec<Queued>, chance: &mut fastrand::Rng) {
        let now = Instant::now();
        if let Some(invocation) = &member.invocation {
            let is_finished = invocation.response.is_finished();
            // It dies in the middle, or before its answer is sent.
            if invocation.dies.is_some_and(|dies| dies <= now || is_finished) {
                queue.extend(member.kill());
                *member = self.member(member.role, true).await;
                self.harm.lock().expect("the lock").killed += 1;
            } else if is_finished {
                queue.extend(member.finish().await);
            }
            return;
        }
        let mut room = 10;
        let mine = queue.extract_if(.., |queued| {
            let takes = room > 0 && queued.at <= now && role_of(&queued.wakeup) == member.role;
            room -= usize::from(takes);
            takes
        });
        let wakeups: Vec<Wakeup> = mine.map(|queued| queued.wakeup).collect();
        if !wakeups.is_empty() {
            let dies = self.begun.fetch_add(1, Ordering::SeqCst) % KILLED == KILLED / 2;
            let dies = dies.then(|| now + Duration::from_millis(chance.u64(..60)));
            member.begin(wakeups, dies);
        }
    }

    /// A new environment.
    async fn member(&self, role: Role, newer: bool) -> Member {
        let threads = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("threads can be started");
        let (cloud, id) = (Arc::clone(&self.cloud), self.created.fetch_add(1, Ordering::SeqCst));
        let id = format!("environment-{id}");
        let created = threads.spawn(async move {
            match role {
                Role::Orchestrator => cloud.another_orchestrator(&id, script::orchestrations(newer)).await,
                Role::Worker => {
                    let activities = script::activities(newer);
                    cloud.another_worker(&id, activities, TagFilter::DefaultOnly).await
                }
            }
        });
        let function = created.await.expect("an environment starts");
        self.trouble(&function.listener);
        Member {
            role,
            threads: Some(threads),
            function: Arc::new(function),
            invocation: None,
        }
    }
}

impl Member {
    fn begin(&mut self, wakeups: Vec<Wakeup>, dies: Option<Instant>) {
        let (function, batch) = (Arc::clone(&self.function), wakeups.clone());
        let threads = self.threads.as_ref().expect("it is alive");
        let response = threads.spawn(async move { function.invoke(&batch).await });
        self.invocation = Some(Invocation {
            wakeups,
            dies,
            response,
        });
    }

    /// Takes the response; returns the wakeups to deliver again.
    async fn finish(&mut self) -> Vec<Queued> {
        let Some(invocation) = self.invocation.take() else {
            return Vec::new();
        };
        let response = invocation.response.await.expect("an invocation does not panic");
        let again = response.batch_item_failures.iter().map(|failure| {
            let index: usize = failure.item_identifier.parse().expect("the id of a record of ours");
            Queued {
                at: Instant::now() + VISIBILITY,
                wakeup: invocation.wakeups[index].clone(),
            }
        });
        again.collect()
    }

    /// Ends the process; returns the wakeups that it did not answer.
    fn kill(&mut self) -> Vec<Queued> {
        if let Some(threads) = self.threads.take() {
            threads.shutdown_background();
        }
        let unanswered = self
            .invocation
            .take()
            .map_or(Vec::new(), |invocation| invocation.wakeups);
        let at = Instant::now() + VISIBILITY;
        unanswered.into_iter().map(|wakeup| Queued { at, wakeup }).collect()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
    }
}

fn role_of(wakeup: &Wakeup) -> Role {
    match wakeup.target {
        Target::Turn { .. } | Target::Batch { .. } => Role::Orchestrator,
        Target::Work(_) => Role::Worker,
    }
}
