//! A property: whatever a random workload leaves at any moment, also in the middle of a step, an explanation never fails, never says
//! nothing, and calls no healthy instance lost.

use super::scene::{LOCK, is_sentence};
use cosmos::Clock;
use duroxide::providers::TagFilter;
use duroxide_cosmos::{ExplainSettings, Explanation};
use duroxide_lambda::{Target, Wakeup};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tests::ShiftedClock;
use tests::cloud::{Cloud, CloudOptions};
use tests::workload::{self, Job, Nudge};

const STEPS: usize = 90;
const JOBS: usize = 12;
/// What no step of a healthy instance leads to.
const LOST: [&str; 7] = [
    "nothing-open",
    "activity-missing",
    "timer-missing",
    "child-missing",
    "child-taken",
    "child-result-missing",
    "newer-release",
];

/// A workload, and what is known of it.
struct Run {
    cloud: Cloud,
    clock: Arc<ShiftedClock>,
    chance: fastrand::Rng,
    waiting: Vec<Wakeup>,
    left: Vec<Job>,
    started: Vec<Job>,
    causes: BTreeMap<&'static str, u32>,
}

impl Run {
    async fn new(seed: u64) -> Run {
        let clock = Arc::new(ShiftedClock::default());
        let options = CloudOptions {
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            ..CloudOptions::default()
        };
        Run {
            cloud: Cloud::with(options, workload::orchestrations(), workload::activities()).await,
            clock,
            chance: fastrand::Rng::with_seed(seed),
            waiting: Vec::new(),
            left: workload::jobs(JOBS),
            started: Vec::new(),
            causes: BTreeMap::new(),
        }
    }

    /// One thing that happens, while the instances are explained.
    async fn step(&mut self) {
        self.waiting
            .extend(self.cloud.queue.take().into_iter().map(|sent| sent.wakeup));
        match self.chance.u8(..10) {
            0 | 1 => self.start().await,
            2 => self.nudge().await,
            3 => self.clock.advance(Duration::from_millis(self.chance.u64(..60_000))),
            4 => self.lose(),
            5 => self.claim_and_die().await,
            6 => self.cancel().await,
            _ => self.serve().await,
        }
        self.explain_all().await;
    }

    async fn start(&mut self) {
        let Some(job) = self.left.pop() else { return };
        let started = self
            .cloud
            .client
            .start_orchestration(&job.instance, job.orchestration, job.input.as_str());
        started.await.expect("it starts");
        self.started.push(job);
    }

    async fn nudge(&mut self) {
        let Some(job) = self.chance.choice(&self.started) else {
            return;
        };
        let client = &self.cloud.client;
        match job.nudge {
            Nudge::Event => client.raise_event(&job.instance, "Go", "x").await.expect("raised"),
            Nudge::Message => client.enqueue_event(&job.instance, "inbox", "x").await.expect("queued"),
            Nudge::None => client.raise_event(&job.instance, "Gone", "x").await.expect("raised"),
        }
    }

    /// A wakeup is lost; another comes some time later.
    fn lose(&mut self) {
        if !self.waiting.is_empty() {
            let place = self.chance.usize(..self.waiting.len());
            let lost = self.waiting.swap_remove(place);
            self.waiting.insert(0, Wakeup::to(lost.target.without_version()));
        }
    }

    /// A process claims something, and is not heard of again.
    async fn claim_and_die(&mut self) {
        let Some(wakeup) = self.chance.choice(&self.waiting).cloned() else {
            return;
        };
        let silent = &self.cloud.silent;
        match &wakeup.target {
            Target::Batch { .. } => {}
            Target::Turn { instance } => drop(silent.fetch_turn(instance, LOCK, None).await.expect("no error")),
            Target::Work(work) => {
                let fetched = silent.fetch_work(&work.identifier(), LOCK, None, &TagFilter::Any).await;
                drop(fetched.expect("no error"));
            }
        }
    }

    async fn cancel(&mut self) {
        // Seldom: most must get on.
        if self.chance.u8(..4) == 0
            && let Some(job) = self.chance.choice(&self.started)
        {
            let cancelled = self.cloud.client.cancel_instance(&job.instance, "enough").await;
            cancelled.expect("accepted");
        }
    }

    /// One invocation, while its instances are explained again and again.
    async fn serve(&mut self) {
        self.chance.shuffle(&mut self.waiting);
        let Some(first) = self.waiting.pop() else { return };
        let is_turn = |wakeup: &Wakeup| matches!(wakeup.target, Target::Turn { .. });
        let same: Vec<Wakeup> = self
            .waiting
            .extract_if(.., |wakeup| is_turn(wakeup) == is_turn(&first))
            .take(4)
            .collect();
        let batch: Vec<Wakeup> = std::iter::once(first).chain(same).collect();
        let function = match is_turn(&batch[0]) {
            true => &self.cloud.orchestrator,
            false => &self.cloud.worker,
        };
        let ids: BTreeSet<String> = batch.iter().map(|wakeup| wakeup.target.instance().to_owned()).collect();
        let mut invoked = Box::pin(function.failed_of(batch, Duration::from_secs(4)));
        let mut seen = Vec::new();
        let failed = loop {
            let look = async {
                let mut found = Vec::new();
                for id in &ids {
                    found.push((id.clone(), explained(&self.cloud, id).await));
                }
                found
            };
            tokio::select! {
                failed = &mut invoked => break failed,
                found = look => seen.extend(found),
            }
        };
        drop(invoked);
        self.waiting.extend(failed);
        for (id, found) in seen {
            self.check(&id, found);
        }
    }

    async fn explain_all(&mut self) {
        let ids = self
            .started
            .iter()
            .flat_map(|job| std::iter::once(job.instance.clone()).chain(job.child.clone()));
        for id in ids.collect::<Vec<_>>() {
            let found = explained(&self.cloud, &id).await;
            if found.is_none() {
                assert!(self.started.iter().all(|job| job.instance != id), "{id} was started");
                continue;
            }
            self.check(&id, found);
        }
    }

    fn check(&mut self, id: &str, found: Option<Explanation>) {
        let Some(found) = found else { return };
        let cause = found.cause.name();
        assert!(is_sentence(&found.sentence), "{found:#?}");
        assert!(!LOST.contains(&cause), "{id} is healthy: {found:#?}");
        assert!(found.waits.iter().all(|wait| !wait.text.is_empty()), "{found:#?}");
        assert!(!found.needs_attention || !found.next.is_empty(), "{found:#?}");
        *self.causes.entry(cause).or_default() += 1;
    }
}

async fn explained(cloud: &Cloud, id: &str) -> Option<Explanation> {
    let explained = cloud.silent.explain(id, &ExplainSettings::default()).await;
    explained.expect("an explanation never fails")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_instance_of_a_random_workload_is_explained_at_every_moment() {
    let mut causes = BTreeSet::new();
    for seed in [11, 12] {
        let mut run = Run::new(seed).await;
        for _ in 0..STEPS {
            run.step().await;
        }
        println!("seed {seed}: {:?}", run.causes);
        causes.extend(run.causes.keys().copied());
    }
    assert!(causes.len() >= 8, "the workload is not random enough: {causes:?}");
}
