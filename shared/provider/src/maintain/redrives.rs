//! Redriving many dead letters: a page of those that match, newest first, or those that the caller names.
//!
//! Each one is redriven by itself (see `redrive`): a failed redrive keeps its dead letter and stops no other, and a process
//! that dies in between leaves the rest. What is given up again is newer than the end of the page before, so a later page
//! never meets a dead letter twice.

use super::dead_letters::{DeadLetterCursor, DeadLetterFilter, DeadLetterId, list_dead_letters};
use super::redrive::{Redriven, redrive};
use crate::error::Failure;
use crate::store::Store;
use duroxide::providers::ProviderError;
use futures::future::join_all;
use tokio::time::{Instant, timeout_at};

/// How many dead letters are redriven at once.
const AT_ONCE: usize = 16;

/// A dead letter, and the result of its redrive.
pub type Tried = (DeadLetterId, Result<Redriven, ProviderError>);

/// The results of redriving many dead letters.
#[derive(Debug, Default)]
pub struct Redrives {
    /// The result of each dead letter that was tried. One whose redrive failed still exists.
    pub dead_letters: Vec<Tried>,
    /// Where to continue; `None` when no matching dead letter is left.
    pub next: Option<DeadLetterCursor>,
}

/// Redrives at most `most` of the dead letters that match, newest first, until the deadline.
pub(crate) async fn redrive_many(
    store: &Store,
    filter: &DeadLetterFilter,
    most: u32,
    after: Option<&DeadLetterCursor>,
    deadline: Instant,
) -> Result<Redrives, Failure> {
    let untouched = || Redrives {
        dead_letters: Vec::new(),
        next: Some(after.cloned().unwrap_or_else(DeadLetterCursor::beginning)),
    };
    if Instant::now() >= deadline {
        return Ok(untouched());
    }
    let Ok(listed) = timeout_at(deadline, list_dead_letters(store, filter, most, after)).await else {
        return Ok(untouched());
    };
    let (dead_letters, more) = listed?;
    let ids: Vec<DeadLetterId> = dead_letters.iter().map(|(id, _)| id.clone()).collect();
    let (tried, done) = redrive_until(store, &ids, deadline).await;
    let next = match done {
        all if all == dead_letters.len() && !more => None,
        0 => untouched().next,
        some => dead_letters.get(some - 1).map(|(_, cursor)| cursor.clone()),
    };
    Ok(Redrives {
        dead_letters: tried,
        next,
    })
}

/// Redrives these dead letters, in this order, until the deadline. Also returns how many of the first ones are done.
pub(crate) async fn redrive_until(store: &Store, ids: &[DeadLetterId], deadline: Instant) -> (Vec<Tried>, usize) {
    let (mut tried, mut done) = (Vec::new(), 0);
    for group in ids.chunks(AT_ONCE) {
        if Instant::now() >= deadline {
            break;
        }
        let outcomes = join_all(group.iter().map(|id| timeout_at(deadline, redrive(store, id)))).await;
        done += outcomes.iter().take_while(|outcome| outcome.is_ok()).count();
        for (id, outcome) in group.iter().zip(outcomes) {
            // The deadline interrupted it, like a crash: a later redrive or the outbox continues.
            let Ok(redriven) = outcome else { continue };
            if let Err(failure) = &redriven {
                tracing::warn!(instance = id.instance, id = id.id, %failure, "a dead letter was not redriven");
            }
            tried.push((id.clone(), redriven.map_err(|failure| failure.of("redrive"))));
        }
    }
    (tried, done)
}
