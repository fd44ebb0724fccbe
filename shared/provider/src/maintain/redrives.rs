//! Redriving many dead letters: a page of those that match, newest first, or those that are named.
//!
//! Each dead letter is redriven by itself (see `redrive`): one that fails keeps its dead letter and stops no other, and a process that
//! dies in the middle leaves the rest where they were. What is given up again later is newer than where the page
//! before ended, so going on after it never meets a dead letter twice.

use super::dead_letters::{DeadLetterCursor, DeadLetterFilter, DeadLetterId};
use super::redrive::Redriven;
use crate::deliver::AT_ONCE;
use crate::provider::CosmosProvider;
use duroxide::providers::ProviderError;
use futures::future::join_all;
use tokio::time::{Instant, timeout_at};

/// A dead letter, and what its redrive did.
pub type Tried = (DeadLetterId, Result<Redriven, ProviderError>);

/// What became of some dead letters.
#[derive(Debug, Default)]
pub struct Redrives {
    /// What became of each dead letter that was tried. One whose redrive failed is still there.
    pub dead_letters: Vec<Tried>,
    /// Where to go on; `None` when no dead letter is left that matches.
    pub next: Option<DeadLetterCursor>,
}

impl CosmosProvider {
    /// Redrives at most `most` of the dead letters that match, newest first, until the deadline. `after` goes on where
    /// the page before ended.
    ///
    /// # Errors
    /// When the dead letters cannot be listed; what fails to be redriven is told of each dead letter instead.
    pub async fn redrive_many(
        &self,
        filter: &DeadLetterFilter,
        most: u32,
        after: Option<&DeadLetterCursor>,
        deadline: Instant,
    ) -> Result<Redrives, ProviderError> {
        let untouched = || Redrives {
            dead_letters: Vec::new(),
            next: Some(after.cloned().unwrap_or_else(DeadLetterCursor::beginning)),
        };
        if Instant::now() >= deadline {
            return Ok(untouched());
        }
        let listing = timeout_at(deadline, self.store.list_dead_letters(filter, most, after)).await;
        let Ok(listed) = listing else {
            return Ok(untouched());
        };
        let (dead_letters, more) = listed.map_err(|failure| failure.of("redrive_many"))?;
        let ids: Vec<DeadLetterId> = dead_letters.iter().map(|(id, _)| id.clone()).collect();
        let (tried, done) = self.redrive_until(&ids, deadline).await;
        let next = match done {
            all if all == dead_letters.len() && !more => None,
            0 => untouched().next,
            some => dead_letters.get(some - 1).map(|(_, place)| place.clone()),
        };
        Ok(Redrives {
            dead_letters: tried,
            next,
        })
    }

    /// Redrives these dead letters, in this order, until the deadline; answers what became of those that were tried. To
    /// go on, name the others, or all of them again: a dead letter that was redriven is gone.
    pub async fn redrive_these(&self, ids: &[DeadLetterId], deadline: Instant) -> Vec<Tried> {
        self.redrive_until(ids, deadline).await.0
    }

    /// The same; also answers how many of the first ones are done with.
    async fn redrive_until(&self, ids: &[DeadLetterId], deadline: Instant) -> (Vec<Tried>, usize) {
        let (mut tried, mut done) = (Vec::new(), 0);
        for group in ids.chunks(AT_ONCE) {
            if Instant::now() >= deadline {
                break;
            }
            let redrives = group.iter().map(|id| timeout_at(deadline, self.store.redrive(id)));
            let outcomes = join_all(redrives).await;
            done += outcomes.iter().take_while(|outcome| outcome.is_ok()).count();
            for (id, outcome) in group.iter().zip(outcomes) {
                // One that is cut short is in the state of a crash, which a later redrive or the outbox ends.
                let Ok(redriven) = outcome else { continue };
                if let Ok(Redriven::Delivered { instance }) = &redriven {
                    self.turn_hints.push(instance.clone());
                }
                if let Err(failure) = &redriven {
                    tracing::warn!(instance = id.instance, id = id.id, %failure, "a dead letter is not redriven");
                }
                tried.push((id.clone(), redriven.map_err(|failure| failure.of("redrive"))));
            }
        }
        (tried, done)
    }
}
