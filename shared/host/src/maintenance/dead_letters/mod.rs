//! Dead letters by direct invocation: list, read, redrive, discard.
//!
//! Redriving and discarding continue until the budget is nearly spent; the answer says what became of each dead letter and
//! where to continue. A dead letter that fails does not stop the others. Redriven instances are woken at once; if the run
//! dies before that, the outbox and the sweep do it.

mod fields;
mod request;

pub(super) use request::of_payload;
pub use request::{DeadLetterSelection, DeadLettersRequest};

use super::wakeups::RunWakeups;
use super::{LAST, Maintenance, RESERVE};
use crate::budget::Budget;
use duroxide::providers::ProviderError;
use duroxide_cosmos::{
    DeadLetter, DeadLetterCursor, DeadLetterFilter, DeadLetterId, DeadLetterPage, Due, Redriven, Tried,
};
use futures::StreamExt as _;
use serde::Serialize;
use std::collections::BTreeSet;
use tokio::time::{Instant, timeout_at};
use tracing::Instrument as _;

/// Dead letters that are searched at once.
const PAGE: u32 = 100;
/// Dead letters that are discarded at once.
const AT_ONCE: usize = 16;
/// Failures and instances that an answer names; the rest is counted.
const NAMED: usize = 1_000;

/// The answer to a request.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadLettersAnswer {
    /// What became of the request.
    pub dead_letters: DeadLettersReport,
    /// Wakeups that the notifier accepted.
    pub wakeups_sent: u64,
    /// Wakeups that it did not accept; the sweep makes up for them.
    pub wakeups_failed: u64,
}

/// What became of a request, under its verb.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum DeadLettersReport {
    /// A page of the list, newest first.
    List(DeadLetterPage),
    /// The dead letter, if it exists.
    Read(Option<Box<DeadLetter>>),
    /// What was redriven.
    Redrive(DeadLettersOutcome),
    /// What was discarded.
    Discard(DeadLettersOutcome),
}

/// What became of some dead letters.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadLettersOutcome {
    /// Dead letters that are redriven or discarded now.
    pub done: u64,
    /// Of these, those whose message is not delivered yet: the outbox does it.
    pub undelivered: u64,
    /// Dead letters that did not exist any more.
    pub gone: u64,
    /// Dead letters that still exist, because something failed.
    pub failed: u64,
    /// What failed, at most a thousand.
    pub failures: Vec<DeadLetterFailure>,
    /// The instances that run again, at most a thousand.
    pub instances: BTreeSet<String>,
    /// Whether the time or the limit ended before the dead letters: repeat the request, with `after` if there is a `next`.
    pub left_over: bool,
    /// Where to continue.
    pub next: Option<DeadLetterCursor>,
    /// Why the search ended early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A dead letter that still exists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeadLetterFailure {
    /// Which.
    #[serde(flatten)]
    pub dead_letter: DeadLetterId,
    /// What failed, and what to do.
    pub error: String,
}

impl Maintenance {
    /// Carries out a request, within the budget.
    ///
    /// # Errors
    /// When dead letters cannot be listed or read. Failures of a redrive are in the answer.
    pub async fn dead_letters(
        &self,
        request: DeadLettersRequest,
        budget: Budget,
    ) -> Result<DeadLettersAnswer, ProviderError> {
        let verb = match &request {
            DeadLettersRequest::List { .. } => "list",
            DeadLettersRequest::Read(_) => "read",
            DeadLettersRequest::Redrive { .. } => "redrive",
            DeadLettersRequest::Discard(_) => "discard",
        };
        let span = tracing::info_span!("dead_letters", verb);
        let answer = async {
            let mut wakeups = RunWakeups::new(self, budget.end_less(LAST));
            let dead_letters = self.carry_out(request, budget.end_less(RESERVE), &mut wakeups).await?;
            let answer = DeadLettersAnswer {
                dead_letters,
                wakeups_sent: wakeups.sent,
                wakeups_failed: wakeups.failed,
            };
            answer.log();
            Ok(answer)
        };
        answer.instrument(span).await
    }

    async fn carry_out(
        &self,
        request: DeadLettersRequest,
        until: Instant,
        wakeups: &mut RunWakeups,
    ) -> Result<DeadLettersReport, ProviderError> {
        Ok(match request {
            DeadLettersRequest::List { filter, limit, after } => {
                let page = self.provider.dead_letters_like(&filter, limit, after.as_ref());
                DeadLettersReport::List(in_time("dead_letters", until, page).await?)
            }
            DeadLettersRequest::Read(id) => {
                let dead_letter = in_time("dead_letter", until, self.provider.dead_letter(&id)).await?;
                DeadLettersReport::Read(dead_letter.map(Box::new))
            }
            DeadLettersRequest::Redrive { which, limit, after } => DeadLettersReport::Redrive(match which {
                DeadLetterSelection::Ids(ids) => self.redrive_ids(&ids, until, wakeups).await,
                DeadLetterSelection::Filter(filter) => {
                    let begin = DeadLettersOutcome {
                        next: after,
                        ..DeadLettersOutcome::default()
                    };
                    self.redrive_all(&filter, limit, begin, until, wakeups).await
                }
            }),
            DeadLettersRequest::Discard(ids) => DeadLettersReport::Discard(self.discard(&ids, until).await),
        })
    }

    async fn redrive_ids(&self, ids: &[DeadLetterId], until: Instant, wakeups: &mut RunWakeups) -> DeadLettersOutcome {
        let mut outcome = DeadLettersOutcome::default();
        for page in ids.chunks(PAGE as usize) {
            let tried = self.provider.redrive_these(page, until).await;
            outcome.left_over |= tried.len() < page.len();
            outcome.add(tried, wakeups).await;
        }
        outcome
    }

    /// Redrives the dead letters that match, from the outcome's `next` on.
    async fn redrive_all(
        &self,
        filter: &DeadLetterFilter,
        limit: u32,
        mut outcome: DeadLettersOutcome,
        until: Instant,
        wakeups: &mut RunWakeups,
    ) -> DeadLettersOutcome {
        let mut left = limit;
        while left > 0 {
            let next = outcome.next.take();
            let page = self.provider.redrive_many(filter, left.min(PAGE), next.as_ref(), until);
            match page.await {
                Ok(page) => {
                    left = left.saturating_sub(u32::try_from(page.dead_letters.len()).unwrap_or(u32::MAX));
                    outcome.left_over = page.next.is_some();
                    outcome.next = page.next;
                    outcome.add(page.dead_letters, wakeups).await;
                }
                Err(error) => {
                    outcome.error = Some(error.to_string());
                    outcome.left_over = true;
                    outcome.next = next;
                    break;
                }
            }
            if !outcome.left_over || Instant::now() >= until {
                break;
            }
        }
        outcome
    }

    async fn discard(&self, ids: &[DeadLetterId], until: Instant) -> DeadLettersOutcome {
        let discards: Vec<_> = ids
            .iter()
            .map(|id| async move { (id, timeout_at(until, self.provider.discard(id)).await) })
            .collect();
        let mut discards = futures::stream::iter(discards).buffered(AT_ONCE);
        let mut outcome = DeadLettersOutcome::default();
        while let Some((id, discarded)) = discards.next().await {
            match discarded {
                Ok(Ok(true)) => outcome.done += 1,
                Ok(Ok(false)) => outcome.gone += 1,
                Ok(Err(error)) => outcome.fail(id.clone(), &error),
                Err(_) => outcome.left_over = true,
            }
        }
        outcome
    }
}

/// An answer of the store, or an error when the time is over.
async fn in_time<T>(
    operation: &str,
    until: Instant,
    answer: impl Future<Output = Result<T, ProviderError>>,
) -> Result<T, ProviderError> {
    let late = |_| ProviderError::retryable(operation, "no time was left: give the function a longer timeout");
    timeout_at(until, answer).await.map_err(late)?
}

impl DeadLettersOutcome {
    /// Counts some dead letters, and wakes the instances that run again.
    async fn add(&mut self, tried: Vec<Tried>, wakeups: &mut RunWakeups) {
        let mut delivered = Vec::new();
        for (id, redriven) in tried {
            match redriven {
                Ok(Redriven::Delivered { instance }) => {
                    self.done += 1;
                    self.name(instance.clone());
                    delivered.push(Due::turn(&instance));
                }
                Ok(Redriven::Undelivered { instance }) => {
                    self.done += 1;
                    self.undelivered += 1;
                    self.name(instance);
                }
                Ok(Redriven::Gone) => self.gone += 1,
                Err(error) => self.fail(id, &error),
            }
        }
        wakeups.due(delivered).await;
    }

    fn name(&mut self, instance: String) {
        if self.instances.len() < NAMED {
            self.instances.insert(instance);
        }
    }

    fn fail(&mut self, dead_letter: DeadLetterId, error: &ProviderError) {
        self.failed += 1;
        if self.failures.len() < NAMED {
            let error = error.to_string();
            self.failures.push(DeadLetterFailure { dead_letter, error });
        }
    }
}

impl DeadLettersAnswer {
    /// Logs it in one line, without the content of the dead letters.
    fn log(&self) {
        let (done, failed) = match &self.dead_letters {
            DeadLettersReport::List(page) => (page.dead_letters.len() as u64, 0),
            DeadLettersReport::Read(dead_letter) => (u64::from(dead_letter.is_some()), 0),
            DeadLettersReport::Redrive(outcome) | DeadLettersReport::Discard(outcome) => (outcome.done, outcome.failed),
        };
        tracing::info!(
            done,
            failed,
            wakeups = self.wakeups_sent,
            "a request about dead letters ended"
        );
    }
}
