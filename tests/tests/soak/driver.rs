//! What clients do to the instances, and when.

use crate::script::{self, Job, Plot, QUEUE};
use cosmos::{Clock, SystemClock};
use duroxide::Client;
use duroxide::providers::ProviderAdmin as _;
use duroxide_cosmos::CosmosProvider;
use futures::StreamExt as _;
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tests::PATIENCE;

/// How many instances are open at once.
const OPEN: usize = 60;

/// What clients were promised: per instance, when its last message was accepted (Unix ms).
pub type Accepted = BTreeMap<String, u64>;

/// How often the driver looks which instances have ended.
const LOOK: Duration = Duration::from_millis(500);

/// See the module.
pub struct Driver {
    client: Client,
    /// A look at the store without faults.
    calm: Arc<CosmosProvider>,
    ended: Mutex<HashSet<String>>,
    seed: u64,
}

impl Driver {
    /// A driver that works through this client.
    pub fn new(client: Client, calm: Arc<CosmosProvider>, seed: u64) -> Driver {
        Driver {
            client,
            calm,
            ended: Mutex::default(),
            seed,
        }
    }

    /// Drives every job to its end.
    pub async fn drive(&self, jobs: &[Job]) -> Accepted {
        let driven = jobs.iter().enumerate().map(|(n, job)| async move {
            let mut chance = fastrand::Rng::with_seed(self.seed * 1_000_000 + n as u64);
            let accepted = self.drive_one(job, &mut chance).await;
            self.until_ended(job).await;
            accepted.map(|at| (job.instance.clone(), at))
        });
        let all = futures::stream::iter(driven).buffer_unordered(OPEN).collect::<Vec<_>>();
        tokio::select! {
            all = all => all.into_iter().flatten().collect(),
            () = self.watch() => unreachable!("it watches for ever"),
        }
    }

    /// Learns which instances have ended: one look for all, so that the driver is not the load.
    async fn watch(&self) {
        loop {
            tokio::time::sleep(LOOK).await;
            for status in ["Completed", "Failed"] {
                let instances = self.calm.list_instances_by_status(status).await;
                let instances = instances.expect("instances can be listed");
                self.ended.lock().expect("the lock").extend(instances);
            }
        }
    }

    async fn until_ended(&self, job: &Job) {
        let begun = Instant::now();
        while !self.ended.lock().expect("the lock").contains(&job.instance) {
            assert!(begun.elapsed() < PATIENCE, "not within {PATIENCE:?}: {job:?} ends");
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn drive_one(&self, job: &Job, chance: &mut fastrand::Rng) -> Option<u64> {
        match &job.plot {
            Plot::Script { newer, steps, messages } => {
                // Some messages come before the start.
                let early = if chance.u8(..4) == 0 { 1.min(*messages) } else { 0 };
                self.send(job, 0..early).await;
                pause(chance, 300).await;
                self.start(job, script::interpreter(*newer), &script::input(steps))
                    .await;
                for n in early..*messages {
                    pause(chance, 500).await;
                    self.send(job, n..n + 1).await;
                }
                None
            }
            Plot::Cancelled(steps) => {
                self.start(job, script::interpreter(false), &script::input(steps)).await;
                pause(chance, 2_000).await;
                let cancelled = self.client.cancel_instance(&job.instance, "enough").await;
                cancelled.expect("the cancellation is accepted");
                None
            }
            Plot::Race(ms) => {
                self.start(job, "Race", &ms.to_string()).await;
                pause(chance, 2 * ms).await;
                self.send(job, 0..1).await;
                Some(SystemClock.now_ms())
            }
        }
    }

    async fn start(&self, job: &Job, orchestration: &str, input: &str) {
        let started = self.client.start_orchestration(&job.instance, orchestration, input);
        started.await.expect("the start is accepted");
    }

    /// Sends the messages of these numbers.
    async fn send(&self, job: &Job, numbers: std::ops::Range<u64>) {
        for n in numbers {
            let queued = self.client.enqueue_event(&job.instance, QUEUE, message(n)).await;
            queued.expect("the message is accepted");
        }
    }
}

/// The message of this number.
pub fn message(n: u64) -> String {
    format!("message {n}")
}

async fn pause(chance: &mut fastrand::Rng, most_ms: u64) {
    tokio::time::sleep(Duration::from_millis(chance.u64(..most_ms))).await;
}
