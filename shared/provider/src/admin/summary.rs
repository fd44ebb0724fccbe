//! Instances as we show them: from the moment a start was accepted, with what keeps them from going on, and with a status of
//! their own when they were cancelled. duroxide's answers (`info`, `list`) know none of these.
//!
//! A document that only fences its partition, without a start, is no instance: it has no summary and is in no list.

use crate::error::Failure;
use crate::model::sql::TURN;
use crate::model::{Blocked, ForkedFrom, InstanceDoc, Listed, MessageDoc, Paused, Rewind, Status, Usage};
use crate::read;
use crate::store::{Fence, Store};
use cosmos::{Changed, Etag, PartitionKey, Query};
use duroxide::providers::WorkItem;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;

/// What an instance is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum InstanceStatus {
    /// Its start was accepted, and no turn was committed.
    Pending,
    /// Its current execution has not ended.
    Running,
    /// Its last turn could not be committed (see [`Blocked`]); it goes on when another build serves it.
    Blocked,
    /// An operator has paused it (see [`Paused`]); it goes on when it is resumed.
    Paused,
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

/// What an instance document says beside the status that duroxide knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(super) cancelled: bool,
    pub(super) blocked: bool,
    pub(super) paused: bool,
}

impl Marks {
    pub(crate) fn of(doc: &InstanceDoc) -> Marks {
        Marks {
            cancelled: doc.current.cancelled,
            blocked: doc.blocked.is_some(),
            paused: doc.paused().is_some(),
        }
    }
}

impl InstanceStatus {
    pub(crate) fn of(status: &Status, marks: Marks) -> InstanceStatus {
        match status {
            Status::Completed => InstanceStatus::Completed,
            Status::Failed if marks.cancelled => InstanceStatus::Cancelled,
            Status::Failed => InstanceStatus::Failed,
            // What an operator has done comes before what a build has found.
            _ if marks.paused => InstanceStatus::Paused,
            _ if marks.blocked => InstanceStatus::Blocked,
            Status::Pending => InstanceStatus::Pending,
            Status::Running => InstanceStatus::Running,
            Status::ContinuedAsNew => InstanceStatus::ContinuedAsNew,
            Status::Other(text) => InstanceStatus::Other(text.clone()),
        }
    }

    /// The status that is shown by this name.
    pub(crate) fn named(name: &str) -> InstanceStatus {
        let known = [
            InstanceStatus::Pending,
            InstanceStatus::Running,
            InstanceStatus::Blocked,
            InstanceStatus::Paused,
            InstanceStatus::Completed,
            InstanceStatus::Failed,
            InstanceStatus::Cancelled,
            InstanceStatus::ContinuedAsNew,
        ];
        let found = known.into_iter().find(|status| status.name() == name);
        found.unwrap_or_else(|| InstanceStatus::Other(name.to_owned()))
    }

    /// Whether something keeps it from going on.
    pub(super) fn is_held(&self) -> bool {
        matches!(self, InstanceStatus::Blocked | InstanceStatus::Paused)
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
            InstanceStatus::Paused => "Paused",
            InstanceStatus::Completed => "Completed",
            InstanceStatus::Failed => "Failed",
            InstanceStatus::Cancelled => "Cancelled",
            InstanceStatus::ContinuedAsNew => "ContinuedAsNew",
            InstanceStatus::Other(text) => text,
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
    /// What it says of itself. Lists leave out what is longer than 8 KB.
    pub custom_status: Option<String>,
    /// How often it has set that.
    pub custom_status_version: u64,
    /// What it was started with, as long as it is pending; later that is in its history. `None` in lists.
    pub input: Option<String>,
    /// What it has completed with. `None` in lists.
    pub output: Option<String>,
    /// What it has failed with, or why it was cancelled. `None` in lists.
    pub error: Option<String>,
    /// Why it is blocked; also while it is paused.
    pub blocked: Option<Blocked>,
    /// Since when it is paused, and why.
    pub paused: Option<Paused>,
    /// The instance whose input it repeats, if it was restarted as a new instance.
    pub restarted_from: Option<String>,
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
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// Its newest rewinds, the oldest first. Empty in lists.
    pub rewinds: Vec<Rewind>,
    /// Where it was forked from. `None` in lists.
    pub forked_from: Option<ForkedFrom>,
    /// What it has used in all its executions, as far as it is counted. `None` in lists, and before the first turn.
    pub usage: Option<Usage>,
    /// The version of what is stored, for [`CosmosProvider::instance_summary_if_changed`](crate::CosmosProvider::instance_summary_if_changed).
    pub etag: String,
}

impl InstanceSummary {
    /// The instance of a document; `None` when the document only fences.
    fn of(Fence { doc, etag }: &Fence) -> Option<InstanceSummary> {
        let orchestration = doc.name.as_ref().or(doc.start_name.as_ref())?.clone();
        let current = &doc.current;
        let is_begun = current.status != Status::Pending;
        let status = InstanceStatus::of(&current.status, Marks::of(doc));
        Some(InstanceSummary {
            instance: doc.pk.clone(),
            orchestration,
            version: doc.version.clone(),
            custom_status: None,
            custom_status_version: doc.custom_status_version,
            input: None,
            output: None,
            error: None,
            blocked: doc.blocked.clone().filter(|_| status.is_held()),
            paused: doc.paused().cloned().filter(|_| status == InstanceStatus::Paused),
            status,
            restarted_from: doc.restarted_from.clone(),
            execution: current.execution,
            accepted_at: doc.created_at,
            started_at: is_begun.then_some(current.started_at),
            updated_at: doc.updated_at,
            completed_at: current.completed_at,
            events: current.events,
            parent: doc.parent.clone(),
            tags: doc.tags.as_map().clone(),
            rewinds: doc.rewinds.all().to_vec(),
            forked_from: doc.forked_from.clone(),
            usage: doc.usage.as_ref().map(|usage| usage.total),
            etag: etag.as_str().to_owned(),
        })
    }

    /// How long it took from its acceptance to its end.
    pub fn took_ms(&self) -> Option<u64> {
        let end = self.completed_at.filter(|_| self.status.is_finished());
        end.map(|end| end.saturating_sub(self.accepted_at))
    }
}

/// What has become of an instance since its summary was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SummaryChange {
    /// Nothing.
    Unchanged,
    /// It has changed.
    Changed(Box<InstanceSummary>),
    /// There is no such instance.
    Missing,
}

/// One instance: one request, one more for its input while it is pending, and one for each of its texts that is long.
pub(crate) async fn instance_summary(store: &Store, pk: &PartitionKey) -> Result<Option<InstanceSummary>, Failure> {
    let Some(fence) = store.fence(pk).await? else {
        return Ok(None);
    };
    let Some(mut summary) = with_texts(store, pk, &fence).await? else {
        return Ok(None);
    };
    if summary.started_at.is_none()
        && let Some((input, parent)) = start(store, pk).await?
    {
        (summary.input, summary.parent) = (Some(input), parent);
    }
    Ok(Some(summary))
}

/// One instance, unless it is as it was: one request, and one for each of its texts that is long. It has no input.
pub(crate) async fn instance_summary_if_changed(
    store: &Store,
    pk: &PartitionKey,
    seen: &str,
) -> Result<SummaryChange, Failure> {
    let seen = version_of(seen);
    let read = store
        .container
        .read_if_changed::<Listed<InstanceDoc>>(pk, InstanceDoc::ID, &seen);
    let (doc, etag) = match read.await? {
        Changed::Unchanged => return Ok(SummaryChange::Unchanged),
        Changed::Missing => return Ok(SummaryChange::Missing),
        Changed::Newer(found) => (found.doc, found.etag),
    };
    let fence = match doc {
        Listed::Known(doc) => Fence { doc, etag },
        Listed::Foreign(foreign) => return Err(foreign.in_partition(pk)),
    };
    let summary = with_texts(store, pk, &fence).await?;
    Ok(summary.map_or(SummaryChange::Missing, |summary| {
        SummaryChange::Changed(Box::new(summary))
    }))
}

/// A version as the service writes them. Anything else, such as `*`, is none that a document ever has.
fn version_of(seen: &str) -> Etag {
    let quoted = seen.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
    let is_version = quoted.is_some_and(|tag| tag.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"'));
    Etag::new(if is_version { seen } else { "\"none\"" })
}

/// An instance with its output or error and its custom status; `None` when the document only fences.
async fn with_texts(store: &Store, pk: &PartitionKey, fence: &Fence) -> Result<Option<InstanceSummary>, Failure> {
    let Some(mut summary) = InstanceSummary::of(fence) else {
        return Ok(None);
    };
    summary.custom_status = read::custom_status_of(store, pk, &fence.doc).await?;
    let output = read::output(store, pk, &fence.doc.current).await?;
    match summary.status {
        InstanceStatus::Completed => summary.output = output,
        InstanceStatus::Failed | InstanceStatus::Cancelled => summary.error = output,
        _ => {}
    }
    Ok(Some(summary))
}

/// The input and the parent of a start that no turn has taken.
pub(super) async fn start(store: &Store, pk: &PartitionKey) -> Result<Option<(String, Option<String>)>, Failure> {
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

    fn shown(doc: InstanceDoc) -> Option<InstanceSummary> {
        let etag = Etag::new("\"1\"");
        InstanceSummary::of(&Fence { doc, etag })
    }

    #[test]
    fn a_blank_document_is_no_instance_and_a_start_is_a_pending_one() {
        assert_eq!(shown(InstanceDoc::absent("i", 1)), None);
        let pending = shown(InstanceDoc::pending("i", "Hello", 7)).unwrap();
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
        let statuses = |cancelled: bool, is_blocked: bool, is_paused: bool| {
            let each = stored.iter().map(|status| {
                let mut doc = InstanceDoc::pending("i", "Hello", 7);
                doc.current.status = status.clone();
                doc.current.cancelled = cancelled;
                doc.blocked = is_blocked.then(blocked);
                doc.set_paused(is_paused.then(|| Paused::begun("c", Some("why"), 3)), 0);
                let summary = shown(doc).unwrap();
                assert_eq!(summary.blocked.is_some(), is_blocked && summary.status.is_held());
                assert_eq!(summary.paused.is_some(), summary.status == InstanceStatus::Paused);
                summary.status.to_string()
            });
            each.collect::<Vec<_>>()
        };
        assert_eq!(
            statuses(false, false, false),
            ["Pending", "Running", "ContinuedAsNew", "Completed", "Failed"]
        );
        assert_eq!(
            statuses(true, true, false),
            ["Blocked", "Blocked", "Blocked", "Completed", "Cancelled"]
        );
        for is_blocked in [false, true] {
            assert_eq!(
                statuses(true, is_blocked, true),
                ["Paused", "Paused", "Paused", "Completed", "Cancelled"]
            );
        }
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
            assert_eq!(shown(doc.clone()).unwrap().took_ms(), took);
        }
    }
}
