//! Dead letters for an operator, by direct invocation: listed, read, redriven, discarded.
//!
//! Redriving and discarding go on dead letter by dead letter until the budget is nearly spent; the answer says what became of them
//! and where to go on. A dead letter that fails stops no other. What was redriven is notified for at once; a run that dies before
//! that leaves it to the outbox and the sweep, like everything else.

mod request;

pub use request::{DeadLetterSelection, DeadLettersRequest};

use super::wakeups::RunWakeups;
use super::{LAST, Maintenance, RESERVE};
use crate::budget::Budget;
use duroxide::providers::ProviderError;
use duroxide_cosmos::{DeadLetter, DeadLetterCursor, DeadLetterId, DeadLetterPage, Redriven, Tried};
use futures::StreamExt as _;
use serde::Serialize;
use std::collections::BTreeSet;
use tokio::time::{Instant, timeout_at};

/// Letters that are looked for at once.
const PAGE: u32 = 100;
/// Letters that are discarded at once.
const AT_ONCE: usize = 16;
/// Failures and instances that an answer names; the rest is a number.
const NAMED: usize = 1_000;

/// What an operator is answered.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadLettersAnswer {
    /// What was asked for.
    pub dead_letters: DeadLettersReport,
    /// Wakeups that the notifier took.
    pub wakeups_sent: u64,
    /// Wakeups that it did not take; the sweep makes up for them.
    pub wakeups_failed: u64,
}

/// What became of a request, under its verb.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum DeadLettersReport {
    /// A part of the list, newest first.
    List(DeadLetterPage),
    /// The dead letter, if there is one.
    Read(Option<Box<DeadLetter>>),
    /// What was redriven.
    Redrive(Settled),
    /// What was discarded.
    Discard(Settled),
}

/// What became of some dead letters.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Settled {
    /// Letters that are redriven or discarded now.
    pub done: u64,
    /// Of these, those whose message could not be delivered yet: the outbox does it.
    pub owed: u64,
    /// Letters that were not there any more.
    pub gone: u64,
    /// Letters that are still there, because something failed.
    pub failed: u64,
    /// What failed, at most a thousand.
    pub failures: Vec<DeadLetterFailure>,
    /// The instances that run again, at most a thousand.
    pub instances: BTreeSet<String>,
    /// Whether there was no time, or no room, for all of them: send the same again, with `after` if there is a `next`.
    pub left_over: bool,
    /// Where to go on.
    pub next: Option<DeadLetterCursor>,
    /// Why the search ended early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A dead letter that is still there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeadLetterFailure {
    /// Which.
    #[serde(flatten)]
    pub dead_letter: DeadLetterId,
    /// Why, and what to do.
    pub error: String,
}

impl Maintenance {
    /// Does what an operator asks for, within the budget.
    ///
    /// # Errors
    /// When dead letters cannot be listed or read. What fails of a redrive is told in the answer.
    pub async fn dead_letters(
        &self,
        request: DeadLettersRequest,
        budget: Budget,
    ) -> Result<DeadLettersAnswer, ProviderError> {
        let mut calls = RunWakeups::new(self, budget.end_less(LAST));
        let until = budget.end_less(RESERVE);
        let dead_letters = match request {
            DeadLettersRequest::List { filter, most, after } => {
                let page = self.provider.dead_letters_like(&filter, most, after.as_ref());
                DeadLettersReport::List(in_time("dead_letters", until, page).await?)
            }
            DeadLettersRequest::Read(id) => {
                let dead_letter = in_time("dead_letter", until, self.provider.dead_letter(&id)).await?;
                DeadLettersReport::Read(dead_letter.map(Box::new))
            }
            DeadLettersRequest::Redrive { which, most, after } => {
                DeadLettersReport::Redrive(self.redrive(which, most, after, until, &mut calls).await)
            }
            DeadLettersRequest::Discard(ids) => DeadLettersReport::Discard(self.discard(&ids, until).await),
        };
        Ok(DeadLettersAnswer {
            dead_letters,
            wakeups_sent: calls.sent,
            wakeups_failed: calls.failed,
        })
    }

    async fn redrive(
        &self,
        which: DeadLetterSelection,
        most: u32,
        after: Option<DeadLetterCursor>,
        until: Instant,
        calls: &mut RunWakeups,
    ) -> Settled {
        let mut settled = Settled::default();
        let filter = match which {
            DeadLetterSelection::Like(filter) => filter,
            DeadLetterSelection::These(ids) => {
                for page in ids.chunks(PAGE as usize) {
                    let tried = self.provider.redrive_these(page, until).await;
                    settled.left_over |= tried.len() < page.len();
                    settled.take(tried, calls).await;
                }
                return settled;
            }
        };
        let mut left = most;
        settled.next = after;
        while left > 0 {
            let next = settled.next.take();
            let page = self
                .provider
                .redrive_many(&filter, left.min(PAGE), next.as_ref(), until)
                .await;
            let page = match page {
                Ok(page) => page,
                Err(error) => {
                    settled.error = Some(error.to_string());
                    settled.left_over = true;
                    settled.next = next;
                    break;
                }
            };
            left = left.saturating_sub(u32::try_from(page.dead_letters.len()).unwrap_or(u32::MAX));
            settled.left_over = page.next.is_some();
            settled.next = page.next;
            settled.take(page.dead_letters, calls).await;
            if !settled.left_over || Instant::now() >= until {
                break;
            }
        }
        settled
    }

    async fn discard(&self, ids: &[DeadLetterId], until: Instant) -> Settled {
        let discards: Vec<_> = ids
            .iter()
            .map(|id| async move { (id, timeout_at(until, self.provider.discard(id)).await) })
            .collect();
        let mut outcomes = futures::stream::iter(discards).buffered(AT_ONCE);
        let mut settled = Settled::default();
        while let Some((id, outcome)) = outcomes.next().await {
            match outcome {
                Ok(Ok(true)) => settled.done += 1,
                Ok(Ok(false)) => settled.gone += 1,
                Ok(Err(error)) => settled.fail(id.clone(), &error),
                Err(_) => settled.left_over = true,
            }
        }
        settled
    }
}

/// An answer of the store, unless there is no time for it.
async fn in_time<T>(
    operation: &str,
    until: Instant,
    answer: impl Future<Output = Result<T, ProviderError>>,
) -> Result<T, ProviderError> {
    let late = |_| ProviderError::retryable(operation, "there was no time left: give the function a longer timeout");
    timeout_at(until, answer).await.map_err(late)?
}

impl Settled {
    /// Counts some dead letters, and wakeups for what runs again.
    async fn take(&mut self, tried: Vec<Tried>, calls: &mut RunWakeups) {
        let mut delivered = Vec::new();
        for (id, redriven) in tried {
            match redriven {
                Ok(Redriven::Delivered { instance }) => {
                    self.done += 1;
                    delivered.push(instance);
                }
                Ok(Redriven::Undelivered { instance }) => {
                    self.done += 1;
                    self.owed += 1;
                    self.name(instance);
                }
                Ok(Redriven::Gone) => self.gone += 1,
                Err(error) => self.fail(id, &error),
            }
        }
        delivered.iter().for_each(|instance| self.name(instance.clone()));
        calls.turns(delivered).await;
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
    /// One line for the log, without what is in the dead letters.
    pub fn tell(&self) {
        let (verb, done, failed) = match &self.dead_letters {
            DeadLettersReport::List(page) => ("list", page.dead_letters.len() as u64, 0),
            DeadLettersReport::Read(dead_letter) => ("read", u64::from(dead_letter.is_some()), 0),
            DeadLettersReport::Redrive(settled) => ("redrive", settled.done, settled.failed),
            DeadLettersReport::Discard(settled) => ("discard", settled.done, settled.failed),
        };
        tracing::info!(
            verb,
            done,
            failed,
            wakeups = self.wakeups_sent,
            "an operator asked for dead letters"
        );
    }
}
