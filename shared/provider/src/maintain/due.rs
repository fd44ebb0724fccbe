//! What is due: messages and work items, whether or not a wakeup was sent for them.
//!
//! The query reads both queues in the order of `dueAt`, from the index of that path alone: a claimed work item is due when its claim expires, and a message of
//! an instance whose turn is under way is listed like any other (a wakeup for a busy instance costs one request). The
//! caller decides which wakeups to send; its windows select what it has not notified before.

use crate::due::{Target, WorkTarget};
use crate::error::Failure;
use crate::model::WorkDoc;
use crate::model::sql::{REPAIR, TURN, WORK};
use crate::page::{Cursor, PageRequest};
use crate::store::Store;
use cosmos::Query;
use serde::Deserialize;
use tokio::time::Instant;

/// One window of time, in Unix ms: later than `after_ms`, up to and including `until_ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueWindow {
    /// Its beginning (exclusive).
    pub after_ms: u64,
    /// Its end (inclusive).
    pub until_ms: u64,
}

/// Which items are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DueKinds {
    /// Messages and work items.
    #[default]
    All,
    /// Only messages.
    Turns,
    /// Only work items.
    Works,
}

/// One message or work item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueItem {
    /// The turn or the activity that it makes due. The orchestration of an activity is not read.
    pub target: Target,
    /// Since when it is due (Unix ms).
    pub due_ms: u64,
    /// When it was queued (Unix ms), if the document has it.
    pub queued_ms: Option<u64>,
    /// Whether it is a timer.
    pub is_timer: bool,
}

/// One page of what is due.
#[derive(Clone, Debug, Default)]
pub struct DuePage {
    /// The items, oldest first.
    pub items: Vec<DueItem>,
    /// All items that are due before then (Unix ms) were on this page or a former one. Physical ranges progress at
    /// different speeds, so a page may have later items. `None` when this is the last page.
    pub reached_ms: Option<u64>,
    /// Where to continue; `None` when this is the last page.
    pub cursor: Option<Cursor>,
}

/// What the query returns.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Listed {
    pub(super) id: String,
    pub(super) pk: String,
    pub(super) queue: Listing,
    pub(super) due_at: u64,
    pub(super) queued_at: Option<u64>,
    pub(super) tag: Option<String>,
    pub(super) is_timer: bool,
}

/// The queue of a document; only messages and work items are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Listing {
    Turn,
    Work,
    Repair,
    Dead,
    /// In a queue of a newer version.
    #[serde(other)]
    Unknown,
}

/// One page of what is due in one of the windows.
pub(crate) async fn due(
    store: &Store,
    kinds: DueKinds,
    windows: &[DueWindow],
    request: PageRequest,
) -> Result<DuePage, Failure> {
    if windows.is_empty() {
        return Ok(DuePage::default());
    }
    let place = request.place(store);
    if Instant::now() >= request.deadline {
        return Ok(DuePage {
            cursor: Some(place),
            ..DuePage::default()
        });
    }
    let page = store
        .container
        .within(request.deadline)
        .sweep::<Listed, _, _>(&query_of(kinds, windows), request.most, place.sweep.clone(), |due| {
            due.due_at
        })
        .await?;
    Ok(DuePage {
        items: page.items.into_iter().filter_map(item_of).collect(),
        reached_ms: page.reached,
        cursor: place.after(page.cursor),
    })
}

fn query_of(kinds: DueKinds, windows: &[DueWindow]) -> Query {
    let clauses: Vec<String> = (0..windows.len())
        .map(|n| format!("(c.dueAt > @after{n} AND c.dueAt <= @until{n})"))
        .collect();
    // One kind is read from the composite index of both paths.
    let (kind, order) = match kinds {
        DueKinds::All => (format!("c.queue != {REPAIR}"), "c.dueAt"),
        DueKinds::Turns => (format!("c.queue = {TURN}"), "c.queue, c.dueAt"),
        DueKinds::Works => (format!("c.queue = {WORK}"), "c.queue, c.dueAt"),
    };
    let query = Query::new(format!(
        "SELECT c.id, c.pk, c.queue, c.dueAt, c.queuedAt, c.tag, IS_DEFINED(c.timer) AS isTimer FROM c \
         WHERE {kind} AND ({}) ORDER BY {order}",
        clauses.join(" OR ")
    ));
    windows.iter().enumerate().fold(query, |query, (n, window)| {
        query
            .param(&format!("@after{n}"), window.after_ms)
            .param(&format!("@until{n}"), window.until_ms)
    })
}

/// `None` for what is neither a message nor a work item, and for what this version cannot name in a wakeup.
pub(super) fn item_of(listed: Listed) -> Option<DueItem> {
    let target = match listed.queue {
        Listing::Turn => Target::Turn { instance: listed.pk },
        Listing::Work => {
            let Some((execution, activity)) = WorkDoc::numbers_of(&listed.id) else {
                tracing::warn!(
                    instance = listed.pk,
                    id = listed.id,
                    "the id of a work item cannot be decoded; no wakeup is sent for it"
                );
                return None;
            };
            Target::Work(WorkTarget {
                instance: listed.pk,
                execution,
                activity,
                tag: listed.tag,
                ..WorkTarget::default()
            })
        }
        Listing::Repair | Listing::Dead | Listing::Unknown => return None,
    };
    Some(DueItem {
        queued_ms: listed.queued_at,
        target,
        due_ms: listed.due_at,
        is_timer: listed.is_timer,
    })
}
