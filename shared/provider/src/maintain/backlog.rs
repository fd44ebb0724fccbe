//! The numbers of a report: how much waits, since when, and what makes no progress.
//!
//! The service counts: each number is one query per physical range, whatever the size of the backlog. The one that is not
//! a mere count (which instances are stuck) has a limit. When little waits, `numbers` has the same numbers for fewer requests.

use super::dead_letters::dead_letter_count;
use crate::error::Failure;
use crate::model::PARKED_MS;
use crate::model::sql::{INSTANCE, INTENT, REPAIR, TURN, WORK};
use crate::store::Store;
use cosmos::Query;
use serde::Deserialize;
use std::collections::HashSet;

/// Stuck instances are counted up to this number.
pub(super) const MOST_STUCK: u32 = 1_000;

/// What counts as late in the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BacklogQuery {
    /// A timer that was due before this (Unix ms) is overdue.
    pub overdue_ms: u64,
    /// An instance with an item that was due before this (Unix ms) is stuck, unless its turn is under way.
    pub stuck_ms: u64,
}

/// The backlog of the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Messages to other instances that are not delivered yet.
    pub outbox: u64,
    /// When the oldest of them was queued (Unix ms).
    pub oldest_intent_ms: Option<u64>,
    /// Messages that are due.
    pub turns_due: u64,
    /// Activities that are due and not claimed.
    pub works_due: u64,
    /// Since when the oldest of these messages and activities is due (Unix ms).
    pub oldest_due_ms: Option<u64>,
    /// Timers that should have fired.
    pub overdue_timers: u64,
    /// Instances with an item that is long overdue and no turn under way; at most 1,000 are counted. What paused instances hold is
    /// parked before it is overdue, as long as maintenance runs.
    pub stuck_instances: u64,
    /// Dead letters.
    pub dead_letters: u64,
    /// Timers and delayed messages that are not due yet.
    pub timers_pending: u64,
}

/// The numbers of a report.
pub(crate) async fn backlog(store: &Store, ask: &BacklogQuery) -> Result<Backlog, Failure> {
    let now = store.now();
    let count = |condition| count(store, condition, now);
    let (outbox, turns_due, works_due, timers_pending, overdue_timers) = futures::try_join!(
        count(format!("c.queue = {REPAIR} AND c.type = {INTENT}")),
        count(format!("c.queue = {TURN} AND c.dueAt <= @at")),
        count(format!("c.queue = {WORK} AND c.dueAt <= @at")),
        count_pending(store, now),
        count_overdue(store, ask.overdue_ms),
    )?;
    let (oldest_intent_ms, oldest_due_ms, stuck_instances, dead_letters) = futures::try_join!(
        oldest_intent(store),
        oldest_due(store, now),
        stuck(store, ask.stuck_ms, now),
        dead_letter_count(store),
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

async fn count(store: &Store, condition: String, at: u64) -> Result<u64, Failure> {
    let query = Query::new(format!("SELECT VALUE COUNT(1) FROM c WHERE {condition}")).param("@at", at);
    Ok(store.sum(query).await? as u64)
}

/// Timers and delayed messages that are due after then, without those of paused instances.
pub(super) async fn count_pending(store: &Store, after: u64) -> Result<u64, Failure> {
    let condition = format!("c.queue = {TURN} AND c.dueAt > @at AND c.dueAt < {PARKED_MS}");
    count(store, condition, after).await
}

/// Intents that are due after then.
pub(super) async fn count_intents(store: &Store, after: u64) -> Result<u64, Failure> {
    let condition = format!("c.queue = {REPAIR} AND c.type = {INTENT} AND c.dueAt > @at");
    count(store, condition, after).await
}

async fn count_overdue(store: &Store, before: u64) -> Result<u64, Failure> {
    let condition = format!("c.queue = {TURN} AND c.dueAt < @at AND IS_DEFINED(c.timer)");
    count(store, condition, before).await
}

/// Since when the oldest intent waits: its due time moves with each attempt, its sort key does not.
pub(super) async fn oldest_intent(store: &Store) -> Result<Option<u64>, Failure> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Waiting {
        sort_key: String,
        queued_at: u64,
    }
    let query = Query::new(format!(
        "SELECT c.sortKey, c.queuedAt FROM c WHERE c.queue = {REPAIR} AND c.type = {INTENT} AND c.sortKey > '' \
         ORDER BY c.queue, c.type, c.sortKey"
    ));
    let key = |waiting: &Waiting| waiting.sort_key.clone();
    let (oldest, _) = store.container.first::<Waiting, _, _>(&query, 1, key).await?;
    Ok(oldest.first().map(|waiting| waiting.queued_at))
}

async fn oldest_due(store: &Store, now: u64) -> Result<Option<u64>, Failure> {
    let query = Query::new(format!(
        "SELECT VALUE c.dueAt FROM c WHERE c.queue != {REPAIR} AND c.dueAt <= @now ORDER BY c.dueAt"
    ))
    .param("@now", now);
    let (oldest, _) = store.container.first::<u64, _, _>(&query, 1, |due| *due).await?;
    Ok(oldest.first().copied())
}

async fn stuck(store: &Store, before: u64, now: u64) -> Result<u64, Failure> {
    // Any of them will do, so no order: an order by instance would have to read all of them.
    let due = Query::new(format!(
        "SELECT DISTINCT VALUE c.pk FROM c WHERE c.queue IN ({TURN}, {WORK}) AND c.dueAt < @before"
    ))
    .param("@before", before.min(now));
    let due = async {
        let due = store.container.first::<String, _, _>(&due, MOST_STUCK, String::clone);
        Ok(due.await?)
    };
    let ((due, _), claimed) = futures::try_join!(due, claimed_instances(store, now))?;
    let claimed: HashSet<String> = claimed.into_iter().collect();
    // Without an order the service may return an instance once for each page.
    let due: HashSet<String> = due.into_iter().collect();
    Ok(due.iter().filter(|instance| !claimed.contains(*instance)).count() as u64)
}

/// The instances whose turn is under way.
pub(super) async fn claimed_instances(store: &Store, now: u64) -> Result<Vec<String>, Failure> {
    let query = Query::new(format!(
        "SELECT VALUE c.pk FROM c WHERE c.type = {INSTANCE} AND c.until > @now"
    ))
    .param("@now", now);
    Ok(store.container.scan::<String>(&query).await?)
}
