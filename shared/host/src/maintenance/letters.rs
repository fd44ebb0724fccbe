//! Dead letters for an operator, by direct invocation: listed, read, redriven, discarded.
//!
//! Redriving and discarding go on letter by letter until the budget is nearly spent; the answer says what became of them
//! and where to go on. A letter that fails stops no other. What was redriven is rung for at once; a run that dies before
//! that leaves it to the outbox and the sweep, like everything else.

mod request;

pub use request::{LettersRequest, WhichLetters};

use super::calls::Calls;
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
pub struct LettersAnswer {
    /// What was asked for.
    pub dead_letters: LettersReport,
    /// Rings that the doorbell took.
    pub rings_sent: u64,
    /// Rings that it did not take; the sweep makes up for them.
    pub rings_failed: u64,
}

/// What became of a request, under its verb.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum LettersReport {
    /// A part of the list, newest first.
    List(DeadLetterPage),
    /// The letter, if there is one.
    Read(Option<Box<DeadLetter>>),
    /// What was redriven.
    Redrive(Settled),
    /// What was discarded.
    Discard(Settled),
}

/// What became of some letters.
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
    pub failures: Vec<LetterFailure>,
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

/// A letter that is still there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LetterFailure {
    /// Which.
    #[serde(flatten)]
    pub letter: DeadLetterId,
    /// Why, and what to do.
    pub error: String,
}

impl Maintenance {
    /// Does what an operator asks for, within the budget.
    ///
    /// # Errors
    /// When letters cannot be listed or read. What fails of a redrive is told in the answer.
    pub async fn letters(&self, request: LettersRequest, budget: Budget) -> Result<LettersAnswer, ProviderError> {
        let mut calls = Calls::new(self, budget.end_less(LAST));
        let until = budget.end_less(RESERVE);
        let dead_letters = match request {
            LettersRequest::List { filter, most, after } => {
                let page = self.provider.dead_letters_like(&filter, most, after.as_ref());
                LettersReport::List(in_time("dead_letters", until, page).await?)
            }
            LettersRequest::Read(id) => {
                let letter = in_time("dead_letter", until, self.provider.dead_letter(&id)).await?;
                LettersReport::Read(letter.map(Box::new))
            }
            LettersRequest::Redrive { which, most, after } => {
                LettersReport::Redrive(self.redrive(which, most, after, until, &mut calls).await)
            }
            LettersRequest::Discard(ids) => LettersReport::Discard(self.discard(&ids, until).await),
        };
        Ok(LettersAnswer {
            dead_letters,
            rings_sent: calls.sent,
            rings_failed: calls.failed,
        })
    }

    async fn redrive(
        &self,
        which: WhichLetters,
        most: u32,
        after: Option<DeadLetterCursor>,
        until: Instant,
        calls: &mut Calls,
    ) -> Settled {
        let mut settled = Settled::default();
        let filter = match which {
            WhichLetters::Like(filter) => filter,
            WhichLetters::These(ids) => {
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
            left = left.saturating_sub(u32::try_from(page.letters.len()).unwrap_or(u32::MAX));
            settled.left_over = page.next.is_some();
            settled.next = page.next;
            settled.take(page.letters, calls).await;
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
    /// Counts some letters, and rings for what runs again.
    async fn take(&mut self, tried: Vec<Tried>, calls: &mut Calls) {
        let mut delivered = Vec::new();
        for (id, redriven) in tried {
            match redriven {
                Ok(Redriven::Delivered { instance }) => {
                    self.done += 1;
                    delivered.push(instance);
                }
                Ok(Redriven::Owed { instance }) => {
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

    fn fail(&mut self, letter: DeadLetterId, error: &ProviderError) {
        self.failed += 1;
        if self.failures.len() < NAMED {
            let error = error.to_string();
            self.failures.push(LetterFailure { letter, error });
        }
    }
}

impl LettersAnswer {
    /// One line for the log, without what is in the letters.
    pub fn tell(&self) {
        let (verb, done, failed) = match &self.dead_letters {
            LettersReport::List(page) => ("list", page.letters.len() as u64, 0),
            LettersReport::Read(letter) => ("read", u64::from(letter.is_some()), 0),
            LettersReport::Redrive(settled) => ("redrive", settled.done, settled.failed),
            LettersReport::Discard(settled) => ("discard", settled.done, settled.failed),
        };
        tracing::info!(
            verb,
            done,
            failed,
            rings = self.rings_sent,
            "an operator asked for dead letters"
        );
    }
}
