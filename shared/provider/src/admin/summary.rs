//! Instances as we show them: from the moment a start was accepted, with what keeps them from going on, and with a status of
//! their own when they were cancelled. duroxide's answers (`info`, `list`) know none of these.
//!
//! A document that only fences its partition, without a start, is no instance: it has no summary and is in no list.

use crate::error::Failure;
use crate::model::sql::{ENDED, INSTANCE, PENDING, TURN};
use crate::model::{Blocked, InstanceDoc, MessageDoc, Status};
use crate::read;
use crate::store::Store;
use cosmos::{PartitionKey, Query};
use duroxide::providers::WorkItem;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::fmt;

/// How many instances of a list are read side by side.
const SIDE_BY_SIDE: usize = 8;

/// What an instance is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum InstanceStatus {
    /// Its start was accepted, and no turn was committed.
    Pending,
    /// Its current execution has not ended.
    Running,
    /// Its last turn could not be committed (see [`Blocked`]); it goes on when another build serves it.
    Blocked,
    /// It has completed with an output.
    Completed,
    /// It has failed with an error.
    Failed,
    /// It has ended because it was cancelled: for duroxide it has failed.
    Cancelled,
    /// Its execution has ended, and the next one is about to begin.
    ContinuedAsNew,
    /// Of a newer duroxide.
    Other(String),
}

impl InstanceStatus {
    fn of(status: &Status, is_cancelled: bool, is_blocked: bool) -> InstanceStatus {
        match status {
            Status::Completed => InstanceStatus::Completed,
            Status::Failed if is_cancelled => InstanceStatus::Cancelled,
            Status::Failed => InstanceStatus::Failed,
            _ if is_blocked => InstanceStatus::Blocked,
            Status::Pending => InstanceStatus::Pending,
            Status::Running => InstanceStatus::Running,
            Status::ContinuedAsNew => InstanceStatus::ContinuedAsNew,
            Status::Other(text) => InstanceStatus::Other(text.clone()),
        }
    }

    /// Whether nothing more will happen to it.
    pub fn is_finished(&self) -> bool {
        matches!(
            self,
            InstanceStatus::Completed | InstanceStatus::Failed | InstanceStatus::Cancelled
        )
    }

    /// As it is shown.
    pub fn name(&self) -> &str {
        match self {
            InstanceStatus::Pending => "Pending",
            InstanceStatus::Running => "Running",
            InstanceStatus::Blocked => "Blocked",
            InstanceStatus::Completed => "Completed",
            InstanceStatus::Failed => "Failed",
            InstanceStatus::Cancelled => "Cancelled",
            InstanceStatus::ContinuedAsNew => "ContinuedAsNew",
            InstanceStatus::Other(text) => text,
        }
    }

    /// The condition by which an index finds at least these instances. The rest is decided by [`Row::status`]: no index
    /// knows which of the failed ones were cancelled.
    fn condition(&self) -> String {
        match self {
            InstanceStatus::Blocked => " AND IS_DEFINED(c.blocked.since)".to_owned(),
            InstanceStatus::Cancelled => format!(" AND c.status = '{}'", Status::Failed),
            InstanceStatus::Other(_) => format!(" AND NOT (c.status IN ({ENDED},{PENDING}))"),
            known => format!(" AND c.status = '{}'", known.name()),
        }
    }
}

impl fmt::Display for InstanceStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One instance. Times are Unix ms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceSummary {
    /// Its id.
    pub instance: String,
    /// The name of its orchestration.
    pub orchestration: String,
    /// The version of its orchestration; `None` before the first turn.
    pub version: Option<String>,
    /// What it is.
    pub status: InstanceStatus,
    /// What it says of itself.
    pub custom_status: Option<String>,
    /// How often it has set that.
    pub custom_status_version: u64,
    /// What it was started with, as long as it is pending; later that is in its history. `None` in lists.
    pub input: Option<String>,
    /// What it has completed with. `None` in lists.
    pub output: Option<String>,
    /// What it has failed with, or why it was cancelled. `None` in lists.
    pub error: Option<String>,
    /// Why it is blocked.
    pub blocked: Option<Blocked>,
    /// The current execution.
    pub execution: u64,
    /// When its start was accepted. Releases that did not record this have the time of its first turn here.
    pub accepted_at: u64,
    /// When the current execution began; `None` before the first turn.
    pub started_at: Option<u64>,
    /// When it last changed.
    pub updated_at: u64,
    /// When the current execution ended.
    pub completed_at: Option<u64>,
    /// How many events the current execution has.
    pub events: u64,
    /// The instance that started it, if one did. Lists know it from the first turn on.
    pub parent: Option<String>,
}

impl InstanceSummary {
    /// The instance of a document; `None` when the document only fences.
    fn of(doc: &InstanceDoc) -> Option<InstanceSummary> {
        let orchestration = doc.name.as_ref().or(doc.start_name.as_ref())?.clone();
        let current = &doc.current;
        let is_begun = current.status != Status::Pending;
        let status = InstanceStatus::of(&current.status, current.cancelled, doc.blocked.is_some());
        Some(InstanceSummary {
            instance: doc.pk.clone(),
            orchestration,
            version: doc.version.clone(),
            custom_status: None,
            custom_status_version: doc.custom_status_version,
            input: None,
            output: None,
            error: None,
            blocked: doc.blocked.clone().filter(|_| status == InstanceStatus::Blocked),
            status,
            execution: current.execution,
            accepted_at: doc.created_at,
            started_at: is_begun.then_some(current.started_at),
            updated_at: doc.updated_at,
            completed_at: current.completed_at,
            events: current.events,
            parent: doc.parent.clone(),
        })
    }

    /// How long it took from its acceptance to its end.
    pub fn took_ms(&self) -> Option<u64> {
        let end = self.completed_at.filter(|_| self.status.is_finished());
        end.map(|end| end.saturating_sub(self.accepted_at))
    }
}

/// The newest instances.
#[derive(Clone, Debug)]
pub struct InstanceList {
    /// How many instances match in all.
    pub total: usize,
    /// The newest of them, by acceptance.
    pub newest: Vec<InstanceSummary>,
}

/// How many instances there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each counts the instances of the status of that name")]
pub struct InstanceCounts {
    pub total: usize,
    pub pending: usize,
    pub running: usize,
    pub blocked: usize,
    pub completed: usize,
    pub failed: usize,
    pub cancelled: usize,
    /// Executions that are kept.
    pub executions: u64,
    /// Their events.
    pub events: u64,
}

/// One instance: one request, one more for its input while it is pending, and one for each of its texts that is long.
pub(crate) async fn instance_summary(store: &Store, pk: &PartitionKey) -> Result<Option<InstanceSummary>, Failure> {
    let Some((doc, mut summary)) = found(store, pk).await? else {
        return Ok(None);
    };
    summary.custom_status = read::custom_status_of(store, pk, &doc).await?;
    let output = read::output(store, pk, &doc.current).await?;
    match summary.status {
        InstanceStatus::Completed => summary.output = output,
        InstanceStatus::Failed | InstanceStatus::Cancelled => summary.error = output,
        _ if summary.started_at.is_none() => {
            if let Some((input, parent)) = start(store, pk).await? {
                (summary.input, summary.parent) = (Some(input), parent);
            }
        }
        _ => {}
    }
    Ok(Some(summary))
}

async fn found(store: &Store, pk: &PartitionKey) -> Result<Option<(InstanceDoc, InstanceSummary)>, Failure> {
    let doc = store.fence(pk).await?.map(|fence| fence.doc);
    Ok(doc.and_then(|doc| {
        let summary = InstanceSummary::of(&doc)?;
        Some((doc, summary))
    }))
}

/// The input and the parent of a start that no turn has taken.
async fn start(store: &Store, pk: &PartitionKey) -> Result<Option<(String, Option<String>)>, Failure> {
    let query = Query::new(format!(
        "SELECT VALUE c.item FROM c WHERE c.queue = {TURN} AND c.sortKey < @others ORDER BY c.sortKey"
    ))
    .param("@others", MessageDoc::AFTER_STARTS);
    let items = store.container.query::<Box<RawValue>>(pk, &query).await?;
    Ok(items.iter().find_map(|item| match serde_json::from_str(item.get()) {
        Ok(WorkItem::StartOrchestration {
            input, parent_instance, ..
        }) => Some((input, parent_instance)),
        // A newer duroxide may have queued what this one cannot read.
        _ => None,
    }))
}

/// An instance as lists and counts need it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    pk: String,
    status: Status,
    name: Option<String>,
    start_name: Option<String>,
    #[serde(default)]
    cancelled: bool,
    blocked_since: Option<u64>,
    created_at: u64,
    executions: u64,
    events: u64,
    #[serde(default)]
    earlier_events: u64,
}

impl Row {
    fn status(&self) -> InstanceStatus {
        InstanceStatus::of(&self.status, self.cancelled, self.blocked_since.is_some())
    }
}

/// All instances (of one status), in any order.
async fn rows(store: &Store, status: Option<&InstanceStatus>) -> Result<Vec<Row>, Failure> {
    let condition = status.map(InstanceStatus::condition).unwrap_or_default();
    let query = Query::new(format!(
        "SELECT c.pk, c.status, c.name, c.startName, c.cancelled, c.blocked.since AS blockedSince, c.createdAt, \
         c.executions, c.events, c.earlierEvents FROM c WHERE c.type = {INSTANCE}{condition}"
    ));
    let mut rows = store.container.scan::<Row>(&query).await?;
    rows.retain(|row| row.name.is_some() || row.start_name.is_some());
    if let Some(status) = status {
        rows.retain(|row| row.status() == *status);
    }
    Ok(rows)
}

/// The newest instances (of one status), at most so many.
pub(crate) async fn newest_instances(
    store: &Store,
    status: Option<&InstanceStatus>,
    most: usize,
) -> Result<InstanceList, Failure> {
    let mut rows = rows(store, status).await?;
    let total = rows.len();
    rows.sort_by(|a, b| b.created_at.cmp(&a.created_at).then_with(|| a.pk.cmp(&b.pk)));
    rows.truncate(most);
    let reads: Vec<_> = rows.iter().map(|row| listed(store, &row.pk)).collect();
    let newest: Vec<Option<InstanceSummary>> = stream::iter(reads).buffered(SIDE_BY_SIDE).try_collect().await?;
    Ok(InstanceList {
        total,
        // Those that were not deleted meanwhile.
        newest: newest.into_iter().flatten().collect(),
    })
}

/// An instance of a list.
async fn listed(store: &Store, instance: &str) -> Result<Option<InstanceSummary>, Failure> {
    let pk = PartitionKey::new(instance)?;
    let Some((doc, mut summary)) = found(store, &pk).await? else {
        return Ok(None);
    };
    summary.custom_status = read::custom_status_of(store, &pk, &doc).await?;
    Ok(Some(summary))
}

/// Counts over everything.
pub(crate) async fn instance_counts(store: &Store) -> Result<InstanceCounts, Failure> {
    let mut counts = InstanceCounts::default();
    for row in rows(store, None).await? {
        counts.total += 1;
        match row.status() {
            InstanceStatus::Pending => counts.pending += 1,
            InstanceStatus::Running => counts.running += 1,
            InstanceStatus::Blocked => counts.blocked += 1,
            InstanceStatus::Completed => counts.completed += 1,
            InstanceStatus::Failed => counts.failed += 1,
            InstanceStatus::Cancelled => counts.cancelled += 1,
            InstanceStatus::ContinuedAsNew | InstanceStatus::Other(_) => {}
        }
        if row.name.is_some() {
            counts.executions += row.executions;
            counts.events += row.events + row.earlier_events;
        }
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::BlockCause;

    fn blocked() -> Blocked {
        Blocked {
            cause: BlockCause::Panic,
            reason: "it panicked".to_owned(),
            build: "b1".to_owned(),
            since: 5,
            tries: 1,
            until: 9,
        }
    }

    #[test]
    fn a_blank_document_is_no_instance_and_a_start_is_a_pending_one() {
        assert_eq!(InstanceSummary::of(&InstanceDoc::absent("i", 1)), None);
        let pending = InstanceSummary::of(&InstanceDoc::pending("i", "Hello", 7)).unwrap();
        assert_eq!(
            (pending.status, pending.orchestration.as_str(), pending.accepted_at),
            (InstanceStatus::Pending, "Hello", 7)
        );
        assert_eq!((pending.started_at, pending.version), (None, None));
    }

    #[test]
    fn the_status_says_what_keeps_an_instance_and_how_it_ended() {
        let stored = [
            Status::Pending,
            Status::Running,
            Status::ContinuedAsNew,
            Status::Completed,
            Status::Failed,
        ];
        let shown = |cancelled: bool, is_blocked: bool| {
            let statuses = stored.iter().map(|status| {
                let mut doc = InstanceDoc::pending("i", "Hello", 7);
                doc.current.status = status.clone();
                doc.current.cancelled = cancelled;
                doc.blocked = is_blocked.then(blocked);
                let summary = InstanceSummary::of(&doc).unwrap();
                assert_eq!(summary.blocked.is_some(), summary.status == InstanceStatus::Blocked);
                summary.status.to_string()
            });
            statuses.collect::<Vec<_>>()
        };
        assert_eq!(
            shown(false, false),
            ["Pending", "Running", "ContinuedAsNew", "Completed", "Failed"]
        );
        assert_eq!(
            shown(true, true),
            ["Blocked", "Blocked", "Blocked", "Completed", "Cancelled"]
        );
    }

    #[test]
    fn the_duration_counts_from_acceptance_and_only_when_the_instance_has_ended() {
        let mut doc = InstanceDoc::pending("i", "Hello", 100);
        doc.current.started_at = 150;
        doc.current.completed_at = Some(160);
        for (status, took) in [
            (Status::Completed, Some(60)),
            (Status::Failed, Some(60)),
            (Status::ContinuedAsNew, None),
        ] {
            doc.current.status = status;
            assert_eq!(InstanceSummary::of(&doc).unwrap().took_ms(), took);
        }
    }
}
