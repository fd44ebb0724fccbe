//! One step of a batch. `bulk` has what can go wrong.

use super::MOST_TRIES;
use super::action::{Effect, RequestDoc};
use super::apply::{Applied, Applier, new_prefix};
use super::jobs::{partition, read};
use super::pace::{DRY_PAGE, MOST_SLOWED, Seen, page_size};
use crate::admin::{InstancePage, SearchFailure, search};
use crate::due::Due;
use crate::error::Failure;
use crate::model::{BatchFailure, BatchFailuresDoc, BatchJobDoc, BatchSample, BatchState, Planned};
use crate::store::Store;
use cosmos::{Batch, Etag, Found, Retry};
use futures::StreamExt as _;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How many instances are handled at once.
const AT_ONCE: usize = 8;
/// A step begins with no more instances after this time: well before maintenance takes its batch for lost.
const BEGIN_WITHIN: Duration = Duration::from_secs(8);
/// And ends those that it has begun with after this time.
const END_WITHIN: Duration = Duration::from_secs(20);
/// A step that comes so much earlier than the next one should (ms) is that of another wakeup.
const EARLY_MS: u64 = 500;
/// The longest reason that is kept of a failure, in bytes.
const MOST_REASON: usize = 500;
/// How many of the first instances are shown.
const SAMPLE: usize = 20;
/// How often progress is written again after the batch was cancelled meanwhile.
const WRITES: u32 = 3;

/// What the caller of a step knows.
#[derive(Clone, Copy)]
pub struct StepContext<'a> {
    /// When to stop, at the latest.
    pub deadline: Instant,
    /// How late the wakeup was, in ms.
    pub late_ms: u64,
    /// Whether the store has throttled this process since the step began.
    pub is_throttled: &'a (dyn Fn() -> bool + Sync),
}

/// What a step did.
#[derive(Clone, Debug, Default)]
pub struct BatchStep {
    /// Whether it has made progress. Otherwise another step has, or does; or it has ended.
    pub advanced: bool,
    /// How many instances it has handled.
    pub handled: u64,
    /// Whom to wake: the instances, and the batch itself for its next step.
    pub due: Vec<Due>,
}

/// Takes the next step of a batch.
pub(crate) async fn step(store: &Store, id: &str, context: StepContext<'_>) -> Result<BatchStep, Failure> {
    let Some(found) = read(store, id).await? else {
        return Ok(BatchStep::default());
    };
    if found.doc.state.has_ended() {
        return Ok(BatchStep::default());
    }
    let now = store.now();
    if found.doc.state == BatchState::Running && now.saturating_add(EARLY_MS) < found.doc.next_at {
        return Ok(BatchStep::default());
    }
    let begun = Instant::now();
    let run = Run {
        store,
        id,
        request: serde_json::from_value(found.doc.request.clone())?,
        begun,
        deadline: context.deadline.min(begun + END_WITHIN),
    };
    let mut progress = Progress::of(found);
    if progress.job.state == BatchState::Running {
        run.handle(&mut progress).await;
        run.plan(&mut progress).await?;
    }
    run.write(progress, context).await
}

/// A step under way.
struct Run<'a> {
    store: &'a Store,
    id: &'a str,
    request: RequestDoc,
    begun: Instant,
    deadline: Instant,
}

/// The job as this step leaves it.
struct Progress {
    job: BatchJobDoc,
    seen: Etag,
    failures: Vec<BatchFailure>,
    handled: usize,
    is_retried: bool,
    due: Vec<Due>,
}

impl Progress {
    fn of(found: Found<BatchJobDoc>) -> Progress {
        Progress {
            job: found.doc,
            seen: found.etag,
            failures: Vec::new(),
            handled: 0,
            is_retried: false,
            due: Vec::new(),
        }
    }

    /// Counts what became of an instance, or keeps it for the next step.
    fn count(&mut self, planned: Planned, effect: Effect) {
        let counts = &mut self.job.counts;
        let failed = match effect {
            Effect::Retry(_) if planned.tries + 1 < MOST_TRIES => {
                let tries = planned.tries + 1;
                self.is_retried = true;
                self.job.page.push(Planned { tries, ..planned });
                return;
            }
            Effect::Changed => {
                counts.changed += 1;
                None
            }
            Effect::Unchanged => {
                counts.unchanged += 1;
                None
            }
            Effect::Gone => {
                counts.gone += 1;
                None
            }
            Effect::Failed(reason) | Effect::Retry(reason) => Some(reason),
        };
        counts.examined += 1;
        self.handled += 1;
        if let Some(mut reason) = failed {
            counts.failed += 1;
            reason.truncate(reason.floor_char_boundary(MOST_REASON));
            let instance = planned.instance;
            self.failures.push(BatchFailure { instance, reason });
        }
    }
}

impl Run<'_> {
    /// Applies the action to the planned page. What there is no time for stays planned.
    async fn handle(&self, progress: &mut Progress) {
        let applier = Applier {
            store: self.store,
            batch: self.id,
            action: &self.request.action,
        };
        let begin_until = self.deadline.min(self.begun + BEGIN_WITHIN);
        let each = std::mem::take(&mut progress.job.page)
            .into_iter()
            .map(|planned| async move {
                if Instant::now() >= begin_until {
                    return (planned, None);
                }
                let applied = timeout_at(self.deadline, applier.apply(&planned)).await;
                let applied = applied.unwrap_or_else(|_| Applied {
                    effect: Effect::Retry("it took too long".to_owned()),
                    due: Vec::new(),
                });
                (planned, Some(applied))
            });
        let mut each = futures::stream::iter(each).buffered(AT_ONCE);
        while let Some((planned, applied)) = each.next().await {
            match applied {
                Some(Applied { effect, due }) => {
                    progress.due.extend(due);
                    progress.count(planned, effect);
                }
                None => progress.job.page.push(planned),
            }
        }
    }

    /// Searches the next page, if this one is done. A dry run counts it at once.
    async fn plan(&self, progress: &mut Progress) -> Result<(), Failure> {
        let job = &mut progress.job;
        if !job.page.is_empty() || job.is_searched {
            return Ok(());
        }
        let filter = self.request.until(job.created_at);
        let size = match self.request.dry_run {
            true => DRY_PAGE,
            false => page_size(self.request.rate),
        };
        let found = match search(self.store, &filter, None, job.cursor.as_deref(), size).await {
            Ok(found) => found,
            Err(SearchFailure::Store(failure)) => return Err(failure),
            Err(SearchFailure::BadCursor(why)) => {
                job.error = Some(format!("its search cannot be continued: {why}"));
                return Ok(());
            }
            Err(SearchFailure::Unsupported(why)) => {
                job.error = Some(format!("its filter cannot be searched: {why}"));
                return Ok(());
            }
        };
        self.take(found, progress);
        Ok(())
    }

    fn take(&self, found: InstancePage, progress: &mut Progress) {
        progress.job.is_searched = found.next.is_none();
        progress.job.cursor = found.next;
        // Clocks differ: what this batch itself has started is not a part of it.
        let own = new_prefix(self.id);
        for summary in found.instances {
            if summary.instance.starts_with(&own) {
                continue;
            }
            let job = &mut progress.job;
            let status = summary.status.name().to_owned();
            *job.by_status.entry(status.clone()).or_default() += 1;
            if job.sample.len() < SAMPLE {
                let (instance, status) = (summary.instance.clone(), status.clone());
                job.sample.push(BatchSample { instance, status });
            }
            let planned = Planned {
                instance: summary.instance,
                status,
                tries: 0,
            };
            match self.request.dry_run {
                true => {
                    let effect = self.request.action.foreseen(&summary.status, summary.parent.as_deref());
                    progress.count(planned, effect);
                }
                false => job.page.push(planned),
            }
        }
    }

    /// Writes the progress, fenced, with its failures. Whoever lost the race has done nothing that the winner has not.
    async fn write(&self, mut progress: Progress, context: StepContext<'_>) -> Result<BatchStep, Failure> {
        let (pk, now) = (partition()?, self.store.now());
        let next_at = self.pace(&mut progress, context, now);
        let job = &mut progress.job;
        job.step += 1;
        job.updated_at = now;
        job.nonce = self.store.ids.unique();
        if job.error.is_some() {
            job.end(BatchState::Failed, now);
        } else if job.state == BatchState::Cancelling {
            job.end(BatchState::Cancelled, now);
        } else if job.is_searched && job.page.is_empty() {
            job.end(BatchState::Completed, now);
        } else {
            job.go_on_at(next_at);
        }
        let failures = (!progress.failures.is_empty()).then(|| {
            let number = job.failure_pages;
            job.failure_pages += 1;
            BatchFailuresDoc::new(self.id, number, std::mem::take(&mut progress.failures))
        });
        for _ in 0..WRITES {
            let mut batch = Batch::new();
            batch.replace(&progress.job.id, &progress.job, Some(progress.seen.clone()))?;
            if let Some(failures) = &failures {
                batch.create(&failures.id, failures)?;
            }
            let error = match self.store.container.batch(&pk, &batch, Retry::Idempotent).await {
                Ok(_) => return Ok(self.done(progress)),
                Err(error) => error,
            };
            if !error.is_precondition_failed() && !error.is_conflict() && !error.is_not_found() {
                return Err(error.into());
            }
            let Some(now) = read(self.store, self.id).await? else {
                return Ok(BatchStep::default());
            };
            if now.doc.nonce == progress.job.nonce {
                return Ok(self.done(progress));
            }
            let is_cancelled_meanwhile =
                now.doc.state == BatchState::Cancelling && now.doc.step + 1 == progress.job.step;
            if !is_cancelled_meanwhile {
                return Ok(BatchStep::default());
            }
            // Everything was handled: it has completed all the same.
            if !progress.job.state.has_ended() {
                let at = self.store.now();
                progress.job.end(BatchState::Cancelled, at);
            }
            progress.seen = now.etag;
        }
        Err(Failure::busy(&pk))
    }

    /// When the next step runs.
    fn pace(&self, progress: &mut Progress, context: StepContext<'_>, now: u64) -> u64 {
        let took = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let seen = Seen {
            rate: self.request.rate,
            handled: if self.request.dry_run { 0 } else { progress.handled },
            took_ms: took,
            late_ms: context.late_ms,
            is_throttled: (context.is_throttled)() || progress.is_retried,
            slowed: progress.job.slowed.min(MOST_SLOWED),
        };
        let (pause, slowed) = seen.pause();
        progress.job.slowed = slowed;
        now.saturating_add(pause)
    }

    fn done(&self, progress: Progress) -> BatchStep {
        let Progress {
            job, mut due, handled, ..
        } = progress;
        if !job.state.has_ended() {
            due.push(Due::batch(self.id, Some(job.next_at)));
        }
        BatchStep {
            advanced: true,
            handled: handled as u64,
            due,
        }
    }
}
