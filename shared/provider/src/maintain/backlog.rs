//! The numbers of a report: how much waits, since when, and what does not get on.
//!
//! The service counts; each number is one query, asked of every physical range, whatever the backlog. The one that cannot
//! be a mere count (which instances are stuck) is cut at a limit.

use crate::error::Failure;
use crate::model::queued_at;
use crate::provider::CosmosProvider;
use crate::store::Store;
use cosmos::Query;
use duroxide::providers::ProviderError;
use std::collections::HashSet;

/// Stuck instances are counted up to here: more of them are no other news.
const MOST_STUCK: u32 = 1_000;

/// What the report should take for late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BacklogQuery {
    /// A timer that was due before this (Unix ms) is overdue.
    pub overdue_ms: u64,
    /// An instance with something that was due before this (Unix ms) is stuck, unless its turn is under way.
    pub stuck_ms: u64,
}

/// How the store is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Messages to other instances that are not delivered yet.
    pub outbox: u64,
    /// When the oldest of them was queued (Unix ms).
    pub oldest_intent_ms: Option<u64>,
    /// Messages that are due.
    pub turns_due: u64,
    /// Activities that are due: those that nobody runs.
    pub works_due: u64,
    /// Since when the oldest of both is due (Unix ms).
    pub oldest_due_ms: Option<u64>,
    /// Timers that should have fired.
    pub overdue_timers: u64,
    /// Instances with something that is due for long, and no turn under way; at most 1,000 are counted.
    pub stuck_instances: u64,
    /// Dead letters.
    pub dead_letters: u64,
    /// Timers and delayed messages that are not due yet.
    pub timers_pending: u64,
}

impl CosmosProvider {
    /// The numbers of a report, in a number of requests that does not grow with the backlog.
    ///
    /// # Errors
    /// When the store cannot be asked.
    pub async fn backlog(&self, ask: &BacklogQuery) -> Result<Backlog, ProviderError> {
        let backlog = self.store.backlog(ask).await;
        backlog.map_err(|failure| failure.of("backlog"))
    }
}

impl Store {
    async fn backlog(&self, ask: &BacklogQuery) -> Result<Backlog, Failure> {
        let now = self.now();
        let outbox = Query::new("SELECT VALUE COUNT(1) FROM c WHERE c.queue = 'repair' AND c.type = 'intent'");
        let turns = Query::new("SELECT VALUE COUNT(1) FROM c WHERE c.queue = 'turn' AND c.dueAt <= @now");
        let works = Query::new("SELECT VALUE COUNT(1) FROM c WHERE c.queue = 'work' AND c.dueAt <= @now");
        let later = Query::new("SELECT VALUE COUNT(1) FROM c WHERE c.queue = 'turn' AND c.dueAt > @now");
        let overdue = Query::new(
            "SELECT VALUE COUNT(1) FROM c \
             WHERE c.queue = 'turn' AND c.dueAt < @before AND IS_DEFINED(c.item.TimerFired)",
        );
        let (outbox, turns_due, works_due, timers_pending, overdue_timers) = futures::try_join!(
            self.count(outbox),
            self.count(turns.param("@now", now)),
            self.count(works.param("@now", now)),
            self.count(later.param("@now", now)),
            self.count(overdue.param("@before", ask.overdue_ms)),
        )?;
        let (oldest_intent_ms, oldest_due_ms, stuck_instances, dead_letters) = futures::try_join!(
            self.oldest_intent(),
            self.oldest_due(now),
            self.stuck(ask.stuck_ms, now),
            self.dead_letter_count(),
        )?;
        Ok(Backlog {
            outbox,
            oldest_intent_ms,
            turns_due,
            works_due,
            oldest_due_ms,
            overdue_timers,
            stuck_instances,
            dead_letters,
            timers_pending,
        })
    }

    async fn count(&self, query: Query) -> Result<u64, Failure> {
        Ok(self.sum(query).await? as u64)
    }

    /// When the oldest intent was queued: its due time moves with each attempt, its key does not. (One that a former version
    /// wrote has no key of its own, and does not count.)
    async fn oldest_intent(&self) -> Result<Option<u64>, Failure> {
        let query = Query::new(
            "SELECT VALUE c.sortKey FROM c WHERE c.queue = 'repair' AND c.type = 'intent' AND c.sortKey > '' \
             ORDER BY c.sortKey",
        );
        let (oldest, _) = self.container.first::<String, _, _>(&query, 1, String::clone).await?;
        Ok(oldest.first().and_then(|key| queued_at(key)))
    }

    async fn oldest_due(&self, now: u64) -> Result<Option<u64>, Failure> {
        let query = Query::new(
            "SELECT VALUE c.dueAt FROM c WHERE c.queue IN ('turn', 'work') AND c.dueAt <= @now ORDER BY c.dueAt",
        )
        .param("@now", now);
        let (oldest, _) = self.container.first::<u64, _, _>(&query, 1, |due| *due).await?;
        Ok(oldest.first().copied())
    }

    async fn stuck(&self, before: u64, now: u64) -> Result<u64, Failure> {
        let due = Query::new(
            "SELECT DISTINCT VALUE c.pk FROM c WHERE c.queue IN ('turn', 'work') AND c.dueAt < @before ORDER BY c.pk",
        )
        .param("@before", before.min(now));
        let held = Query::new("SELECT VALUE c.pk FROM c WHERE c.type = 'lock' AND c.until > @now").param("@now", now);
        let (due, held) = futures::try_join!(
            self.container.first::<String, _, _>(&due, MOST_STUCK, String::clone),
            self.container.scan::<String>(&held),
        )?;
        let held: HashSet<String> = held.into_iter().collect();
        Ok(due.0.iter().filter(|instance| !held.contains(*instance)).count() as u64)
    }
}
