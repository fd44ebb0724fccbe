//! The passes of the scheduled function, and what operators do with dead letters.
//!
//! Every call fails when the store cannot be reached. A pass fails only when its search does; it counts the items that
//! fail.

use super::{CosmosProvider, Operation as _};
use crate::due::Target;
use crate::maintain::{
    self, Backlog, BacklogQuery, DeadLetter, DeadLetterCursor, DeadLetterFilter, DeadLetterId, DeadLetterPage,
    DueKinds, DuePage, DueWindow, Look, LookRequest, MaintenanceState, PassedProbe, Redriven, Redrives, Retention,
    Tried,
};
use crate::page::{PageRequest, PassOutcome};
use crate::recovery;
use duroxide::providers::ProviderError;
use std::collections::HashSet;
use tokio::time::Instant;

impl CosmosProvider {
    /// Delivers one page of due intents. One that fails is deferred, longer each time, and becomes a dead letter when it
    /// has failed too often or can never succeed (see [`crate::Outbox`]).
    pub async fn maintain_outbox(&self, request: PageRequest) -> Result<PassOutcome, ProviderError> {
        let pass = recovery::outbox_page(&self.store, request)
            .await
            .of("maintain_outbox")?;
        self.add_due(&pass);
        Ok(pass)
    }

    /// Finishes one page of commits and deletions that were begun and not finished: rolled forward if they were decided,
    /// removed if they were not.
    pub async fn maintain_unfinished(&self, request: PageRequest) -> Result<PassOutcome, ProviderError> {
        let pass = recovery::unfinished_page(&self.store, request).await;
        let pass = pass.of("maintain_unfinished")?;
        self.add_due(&pass);
        Ok(pass)
    }

    /// Removes one page of expired affinity sessions; those that a queued activity names are kept.
    pub async fn maintain_sessions(&self, request: PageRequest) -> Result<PassOutcome, ProviderError> {
        maintain::sessions_page(&self.store, request)
            .await
            .of("maintain_sessions")
    }

    /// Does one page of what the policy asks for: deletes trees that have ended, oldest first, then prunes executions.
    /// `done` counts trees and instances.
    pub async fn maintain_retention(
        &self,
        policy: &Retention,
        request: PageRequest,
    ) -> Result<PassOutcome, ProviderError> {
        let pass = maintain::retention_page(&self.store, policy, request).await;
        pass.of("maintain_retention")
    }

    /// Messages and work items whose due time lies in one of the windows, oldest first: one page of every physical range.
    /// With a cursor the windows must be the same as before.
    pub async fn due(&self, windows: &[DueWindow], request: PageRequest) -> Result<DuePage, ProviderError> {
        self.due_of(DueKinds::All, windows, request).await
    }

    /// The same of some kinds of items. With a cursor the kinds must be the same as before.
    pub async fn due_of(
        &self,
        kinds: DueKinds,
        windows: &[DueWindow],
        request: PageRequest,
    ) -> Result<DuePage, ProviderError> {
        maintain::due(&self.store, kinds, windows, request).await.of("due")
    }

    /// Parks what the paused ones among the instances of these overdue targets hold: what has come since they were paused. Returns
    /// the instances of which nothing must be woken. One request per physical range, and three for each instance that it parks.
    pub async fn park_overdue(&self, targets: &[Target], deadline: Instant) -> Result<HashSet<String>, ProviderError> {
        let parked = maintain::park_overdue(&self.store, targets, deadline).await;
        parked.of("park_overdue")
    }

    /// What other builds than this process's have blocked (see [`Self::serve_as`]), at most so many of each physical range.
    ///
    /// # Errors
    /// When the store cannot be reached, or this process has no build.
    pub async fn blocked_by_others(&self, most: u32) -> Result<Vec<Target>, ProviderError> {
        let blocked = maintain::blocked_by_others(&self.store, most).await;
        blocked.of("blocked_by_others")
    }

    /// Notes that a probe came through a queue of wakeups, for the next run of maintenance. Idempotent.
    pub async fn note_probe(&self, queue: &str, sent_ms: u64) -> Result<(), ProviderError> {
        let noted = maintain::note_probe(&self.store, queue, sent_ms).await;
        noted.of("note_probe")
    }

    /// The probes sent after `after_ms` (Unix ms) that came through, in any order.
    pub async fn passed_probes(&self, after_ms: u64) -> Result<Vec<PassedProbe>, ProviderError> {
        let passed = maintain::passed_probes(&self.store, after_ms).await;
        passed.of("passed_probes")
    }

    /// Everything that waits up to a due time, if it fits one page: what a run of maintenance begins with.
    pub async fn look(&self, request: &LookRequest) -> Result<Look, ProviderError> {
        maintain::look(&self.store, request).await.of("look")
    }

    /// The state that the run before has saved; the default when there was none.
    pub async fn maintenance_state(&self) -> Result<MaintenanceState, ProviderError> {
        maintain::maintenance_state(&self.store).await.of("maintenance_state")
    }

    /// Saves the state of this run, if no other run has saved one since `state` was read. Returns `false`, without
    /// writing, when another run was faster.
    pub async fn keep_maintenance_state(&self, state: MaintenanceState) -> Result<bool, ProviderError> {
        let kept = maintain::keep_maintenance_state(&self.store, state).await;
        kept.of("keep_maintenance_state")
    }

    /// The numbers of a report, in a number of requests that does not grow with the backlog.
    pub async fn backlog(&self, ask: &BacklogQuery) -> Result<Backlog, ProviderError> {
        maintain::backlog(&self.store, ask).await.of("backlog")
    }

    /// The same numbers, as of a look: two more requests per physical range, unless more waits than fits a page.
    pub async fn backlog_of_look(&self, look: &Look, ask: &BacklogQuery) -> Result<Backlog, ProviderError> {
        let backlog = maintain::backlog_of_look(&self.store, look, ask).await;
        backlog.of("backlog_of_look")
    }

    /// A page of at most `most` dead letters, the newest first, across all instances. Dead letters that are added or
    /// discarded between two pages make the later one neither repeat nor skip any other.
    pub async fn dead_letters(
        &self,
        most: u32,
        after: Option<&DeadLetterCursor>,
    ) -> Result<DeadLetterPage, ProviderError> {
        self.dead_letters_like(&DeadLetterFilter::default(), most, after).await
    }

    /// The same of those that match.
    pub async fn dead_letters_like(
        &self,
        filter: &DeadLetterFilter,
        most: u32,
        after: Option<&DeadLetterCursor>,
    ) -> Result<DeadLetterPage, ProviderError> {
        let page = maintain::dead_letters(&self.store, filter, most, after).await;
        page.of("dead_letters")
    }

    /// How many dead letters there are.
    pub async fn dead_letter_count(&self) -> Result<u64, ProviderError> {
        maintain::dead_letter_count(&self.store).await.of("dead_letter_count")
    }

    /// One dead letter with its items; `None` when there is none with this id.
    pub async fn dead_letter(&self, id: &DeadLetterId) -> Result<Option<DeadLetter>, ProviderError> {
        maintain::dead_letter(&self.store, id).await.of("dead_letter")
    }

    /// Removes a dead letter for good. Returns whether there was one.
    pub async fn discard(&self, id: &DeadLetterId) -> Result<bool, ProviderError> {
        maintain::discard_dead_letter(&self.store, id).await.of("discard")
    }

    /// Runs again what was given up, once, and removes the dead letter (see [`Redriven`]). Fails, and keeps
    /// the dead letter, when the orchestration is not known any more.
    pub async fn redrive(&self, id: &DeadLetterId) -> Result<Redriven, ProviderError> {
        let redriven = maintain::redrive(&self.store, id).await.of("redrive")?;
        self.add_redriven(&redriven);
        Ok(redriven)
    }

    /// Redrives at most `most` of the dead letters that match, newest first, until the deadline. `after` continues where
    /// the page before ended. A failed redrive is reported with its dead letter.
    pub async fn redrive_many(
        &self,
        filter: &DeadLetterFilter,
        most: u32,
        after: Option<&DeadLetterCursor>,
        deadline: Instant,
    ) -> Result<Redrives, ProviderError> {
        let redrives = maintain::redrive_many(&self.store, filter, most, after, deadline).await;
        let redrives = redrives.of("redrive_many")?;
        self.add_tried(&redrives.dead_letters);
        Ok(redrives)
    }

    /// Redrives these dead letters, in this order, until the deadline; returns the results of those that were tried. To
    /// continue, name the others, or all of them again: a dead letter that was redriven is gone.
    pub async fn redrive_these(&self, ids: &[DeadLetterId], deadline: Instant) -> Vec<Tried> {
        let (tried, _) = maintain::redrive_until(&self.store, ids, deadline).await;
        self.add_tried(&tried);
        tried
    }

    // A runtime that polls in this process need not wait for a sweep.
    fn add_due(&self, pass: &PassOutcome) {
        self.add_turn_candidates(pass.due.clone());
    }

    fn add_tried(&self, tried: &[Tried]) {
        let redriven = tried.iter().filter_map(|(_, redriven)| redriven.as_ref().ok());
        redriven.for_each(|redriven| self.add_redriven(redriven));
    }

    fn add_redriven(&self, redriven: &Redriven) {
        if let Redriven::Delivered { instance } = redriven {
            self.turn_candidates.push(instance.clone());
        }
    }
}
