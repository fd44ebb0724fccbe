//! Maintenance: what a scheduled function does with what others left behind. One file per pass.
//!
//! | pass | file | finds |
//! |---|---|---|
//! | outbox | `outbox` | intents that their maker did not deliver |
//! | unfinished commits | `unfinished` | commits and deletions that were begun and not ended |
//! | sessions | `sessions` | expired sessions that no queued activity names |
//! | sweep | `due`, `state` | what is due, and what runs remember of the sweeps before |
//! | dead letters | `dead letters`, `redrive`, `redrives` | what was given up: listed, read, discarded, run again, one or many |
//! | retention | `retention` | what ended long ago |
//! | report | `backlog` | numbers |
//!
//! A pass works in *pages*: one page of every physical range, oldest first. The answer says where to go on, so that a
//! caller can take pages of several passes in turn and stop whenever its budget ends; what fails or takes too long
//! (`settle`) is counted and passed by, and does not hide what is behind it; only in the outbox, targets that hang for the
//! whole of a page come first again in the next one. Everything is idempotent: a pass that was killed at any write is
//! done by the next one, and two that run at once do no harm.

mod backlog;
mod dead_letters;
mod due;
mod outbox;
mod redrive;
mod redrives;
mod retention;
mod sessions;
mod settle;
mod state;
mod unfinished;

pub use backlog::{Backlog, BacklogQuery};
pub use dead_letters::{
    DeadLetter, DeadLetterCursor, DeadLetterFilter, DeadLetterId, DeadLetterPage, DeadLetterSummary,
};
pub use due::{DueItem, DuePage, DueWhat, DueWindow};
pub use redrive::Redriven;
pub use redrives::{Redrives, Tried};
pub use retention::Retention;
pub use state::MaintenanceState;

use crate::provider::CosmosProvider;
use cosmos::SweepCursor;
use duroxide::providers::ProviderError;
use std::collections::BTreeSet;
use tokio::time::Instant;

/// How much of a pass to do.
#[derive(Clone, Debug)]
pub struct PageRequest {
    /// At most so many items of each physical range.
    pub most: u32,
    /// Where the page before ended; `None` begins at the oldest.
    pub cursor: Option<Cursor>,
    /// When to stop, at the latest.
    pub deadline: Instant,
}

/// Where a pass goes on. It is good for minutes, not for days: a later pass begins anew.
#[derive(Clone, Debug)]
pub struct Cursor {
    /// The time that "due" refers to: what a pass puts off does not come again in the same pass.
    now_ms: u64,
    /// Which search, for a pass that has several.
    search: u8,
    sweep: Option<SweepCursor>,
    /// What failed before on this page.
    failed: BTreeSet<String>,
}

impl Cursor {
    fn begin(now_ms: u64) -> Self {
        Cursor {
            now_ms,
            search: 0,
            sweep: None,
            failed: BTreeSet::new(),
        }
    }

    fn after(&self, sweep: Option<SweepCursor>) -> Option<Self> {
        sweep.map(|sweep| Cursor {
            now_ms: self.now_ms,
            search: self.search,
            sweep: Some(sweep),
            failed: BTreeSet::new(),
        })
    }

    /// The beginning of another search of the same pass.
    fn next_search(&self, search: u8) -> Self {
        Cursor {
            search,
            ..Cursor::begin(self.now_ms)
        }
    }
}

impl PassOutcome {
    /// Nothing was done, because there was no time.
    fn untouched(place: Cursor) -> Self {
        PassOutcome {
            cursor: Some(place),
            ..PassOutcome::default()
        }
    }
}

/// What a page of a pass did.
#[derive(Clone, Debug, Default)]
pub struct PassOutcome {
    /// Items that were looked at. One that was cut short is looked at again by the next page.
    pub found: u64,
    /// Items that are settled now.
    pub done: u64,
    /// Items that could not be settled this time.
    pub failed: u64,
    /// Items that were given up, and became dead letters.
    pub dead: u64,
    /// Instances that have something to do now: wakeup them.
    pub targets: Vec<String>,
    /// Where to go on; `None` when nothing is left this time.
    pub cursor: Option<Cursor>,
}

impl CosmosProvider {
    /// Delivers a page of the messages that are owed and overdue. One that fails is put off, farther each time, and
    /// becomes a dead letter when it has failed too often or can never succeed (see [`crate::Outbox`]).
    ///
    /// # Errors
    /// When the search itself fails; what fails to be delivered is counted instead.
    pub async fn maintain_outbox(&self, request: PageRequest) -> Result<PassOutcome, ProviderError> {
        let pass = self.store.outbox_pass(request).await;
        self.hint(pass.map_err(|failure| failure.of("maintain_outbox"))?)
    }

    /// Ends a page of the commits and deletions that were begun and not ended: rolled forward if they were decided,
    /// swept if they were not.
    ///
    /// # Errors
    /// When the search itself fails; what fails to be repaired is counted instead.
    pub async fn maintain_unfinished(&self, request: PageRequest) -> Result<PassOutcome, ProviderError> {
        let pass = self.store.unfinished_pass(request).await;
        self.hint(pass.map_err(|failure| failure.of("maintain_unfinished"))?)
    }

    /// Removes a page of the expired sessions; those that a queued activity names are kept.
    ///
    /// # Errors
    /// When the search itself fails; what fails to be removed is counted instead.
    pub async fn maintain_sessions(&self, request: PageRequest) -> Result<PassOutcome, ProviderError> {
        let pass = self.store.sessions_pass(request).await;
        pass.map_err(|failure| failure.of("maintain_sessions"))
    }

    /// A page of at most `most` dead letters, the newest first, across all instances. Letters that are added or discarded
    /// between two pages make the later one neither repeat nor skip any other.
    ///
    /// # Errors
    /// When the store cannot be asked.
    pub async fn dead_letters(
        &self,
        most: u32,
        after: Option<&DeadLetterCursor>,
    ) -> Result<DeadLetterPage, ProviderError> {
        self.dead_letters_like(&DeadLetterFilter::default(), most, after).await
    }

    /// The same of those that match.
    ///
    /// # Errors
    /// When the store cannot be asked.
    pub async fn dead_letters_like(
        &self,
        filter: &DeadLetterFilter,
        most: u32,
        after: Option<&DeadLetterCursor>,
    ) -> Result<DeadLetterPage, ProviderError> {
        let page = self.store.dead_letters(filter, most, after).await;
        page.map_err(|failure| failure.of("dead_letters"))
    }

    /// How many dead letters there are.
    ///
    /// # Errors
    /// When the store cannot be asked.
    pub async fn dead_letter_count(&self) -> Result<u64, ProviderError> {
        let count = self.store.dead_letter_count().await;
        count.map_err(|failure| failure.of("dead_letter_count"))
    }

    /// One dead letter with its items; `None` when there is none of this id.
    ///
    /// # Errors
    /// When the store cannot be asked, or the dead letter cannot be read.
    pub async fn dead_letter(&self, id: &DeadLetterId) -> Result<Option<DeadLetter>, ProviderError> {
        let dead_letter = self.store.dead_letter(id).await;
        dead_letter.map_err(|failure| failure.of("dead_letter"))
    }

    /// Removes a dead letter for good. Answers whether there was one.
    ///
    /// # Errors
    /// When the store cannot be reached.
    pub async fn discard(&self, id: &DeadLetterId) -> Result<bool, ProviderError> {
        let gone = self.store.discard_dead_letter(id).await;
        gone.map_err(|failure| failure.of("discard"))
    }

    /// Lets what was given up run again as new, once, and removes the dead letter (see [`Redriven`] for what that means).
    ///
    /// # Errors
    /// When the store cannot be reached, or the dead letter's orchestration is not known any more. The dead letter then stays.
    pub async fn redrive(&self, id: &DeadLetterId) -> Result<Redriven, ProviderError> {
        let redriven = self.store.redrive(id).await.map_err(|failure| failure.of("redrive"))?;
        if let Redriven::Delivered { instance } = &redriven {
            self.turn_hints.push(instance.clone());
        }
        Ok(redriven)
    }

    /// Whoever fetches in this process need not wait for a wakeup.
    fn hint(&self, pass: PassOutcome) -> Result<PassOutcome, ProviderError> {
        for target in &pass.targets {
            self.turn_hints.push(target.clone());
        }
        Ok(pass)
    }
}
