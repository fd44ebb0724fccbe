//! What is due: messages and work items, whoever has them and whether or not anybody was told.
//!
//! Only the queues are asked, in the order of `dueAt`: a held work item is due when its lock ends, and a message of an
//! instance whose turn is under way is named like any other (a wakeup to a busy instance costs one request). Whether to wakeup
//! is the caller's business; its windows say what it has not notified before.

use super::{Cursor, PageRequest};
use crate::error::Failure;
use crate::model::{Queue, WorkDoc, queued_at};
use crate::provider::CosmosProvider;
use crate::store::Store;
use cosmos::Query;
use duroxide::providers::ProviderError;
use serde::Deserialize;
use tokio::time::Instant;

/// One window of time, in Unix ms: later than `after_ms`, up to and including `until_ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueWindow {
    /// Where it begins; this very moment is not in it.
    pub after_ms: u64,
    /// Where it ends; this very moment is in it.
    pub until_ms: u64,
}

/// What has something to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DueWhat {
    /// The instance: it has a message.
    Turn,
    /// One of its activities.
    Work {
        /// The execution that scheduled it.
        execution: u64,
        /// Its number there.
        activity: u64,
        /// Which workers serve it.
        tag: Option<String>,
    },
}

/// One message or work item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueItem {
    /// Whose it is.
    pub instance: String,
    /// What it is.
    pub what: DueWhat,
    /// From when on (Unix ms).
    pub due_ms: u64,
    /// When it was queued (Unix ms), if the document tells.
    pub queued_ms: Option<u64>,
    /// Whether it is a timer.
    pub is_timer: bool,
}

/// A part of what is due.
#[derive(Clone, Debug, Default)]
pub struct DuePage {
    /// The items, oldest first.
    pub items: Vec<DueItem>,
    /// All that is due before then (Unix ms) was on this page or a former one: physical ranges do not come forward alike,
    /// so a page may have items beyond this. `None` when this is all.
    pub reached_ms: Option<u64>,
    /// Where to go on; `None` when this is all.
    pub cursor: Option<Cursor>,
}

/// What the query gives.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    id: String,
    pk: String,
    queue: Queue,
    due_at: u64,
    sort_key: Option<String>,
    tag: Option<String>,
    is_timer: bool,
}

impl CosmosProvider {
    /// Messages and work items whose due time lies in one of the windows, oldest first: one page of every physical
    /// range. With a cursor the windows must be the same as before.
    ///
    /// # Errors
    /// When the store cannot be asked.
    pub async fn due(&self, windows: &[DueWindow], request: PageRequest) -> Result<DuePage, ProviderError> {
        let page = self.store.due(windows, request).await;
        page.map_err(|failure| failure.of("due"))
    }
}

impl Store {
    async fn due(&self, windows: &[DueWindow], request: PageRequest) -> Result<DuePage, Failure> {
        if windows.is_empty() {
            return Ok(DuePage::default());
        }
        let place = request.cursor.unwrap_or_else(|| Cursor::begin(self.now()));
        if Instant::now() >= request.deadline {
            return Ok(DuePage {
                cursor: Some(place),
                ..DuePage::default()
            });
        }
        let page = self
            .container
            .within(request.deadline)
            .sweep::<Listed, _, _>(&query_of(windows), request.most, place.sweep.clone(), |due| due.due_at)
            .await?;
        Ok(DuePage {
            items: page.items.into_iter().filter_map(item_of).collect(),
            reached_ms: page.reached,
            cursor: place.after(page.cursor),
        })
    }
}

fn query_of(windows: &[DueWindow]) -> Query {
    let clauses: Vec<String> = (0..windows.len())
        .map(|n| format!("(c.dueAt > @after{n} AND c.dueAt <= @until{n})"))
        .collect();
    let query = Query::new(format!(
        "SELECT c.id, c.pk, c.queue, c.dueAt, c.sortKey, c.tag, IS_DEFINED(c.item.TimerFired) AS isTimer FROM c \
         WHERE c.queue IN ('turn', 'work') AND ({}) ORDER BY c.dueAt",
        clauses.join(" OR ")
    ));
    windows.iter().enumerate().fold(query, |query, (n, window)| {
        query
            .param(&format!("@after{n}"), window.after_ms)
            .param(&format!("@until{n}"), window.until_ms)
    })
}

/// `None` for what cannot be named: of a newer version, and not ours to wakeup.
fn item_of(listed: Listed) -> Option<DueItem> {
    let what = match listed.queue {
        Queue::Turn => DueWhat::Turn,
        Queue::Work => {
            let Some((execution, activity)) = WorkDoc::numbers_of(&listed.id) else {
                tracing::warn!(instance = listed.pk, id = listed.id, "a work item cannot be named");
                return None;
            };
            let tag = listed.tag;
            DueWhat::Work {
                execution,
                activity,
                tag,
            }
        }
        Queue::Repair | Queue::Dead => return None,
    };
    Some(DueItem {
        queued_ms: listed.sort_key.as_deref().and_then(queued_at),
        instance: listed.pk,
        what,
        due_ms: listed.due_at,
        is_timer: listed.is_timer,
    })
}
