//! The look: one query per physical range for everything that waits, whatever its kind. A run of maintenance begins with it.
//!
//! Everything that may need attention has `dueAt`: messages, work items, documents in the queue `repair`, affinity sessions. So
//! one index has all of it, and a store in which nothing waits answers every pass with one query:
//!
//! ```text
//!   look(until) ──> whole ──> has_due(kind): does a pass have anything to do?
//!                     │       due(windows): what the sweep would read          backlog_of_look: the numbers of the report
//!                     └ not whole (more than a page) ──> each pass searches by itself, in pages
//! ```
//!
//! What can go wrong: a look is a moment old, may come from a lagging replica, and does not see affinity sessions that an older
//! release wrote without `dueAt`. So nothing is decided by it except which searches to leave out. A pass that has something to do
//! searches by itself and acts on what *it* finds; what the look missed is due at the next run as well.

use super::due::{DueItem, DuePage, DueWindow, Listing, item_of};
use crate::error::Failure;
use crate::model::Kind;
use crate::store::Store;
use cosmos::Query;
use serde::Deserialize;
use tokio::time::Instant;

/// How far and how much to look.
#[derive(Clone, Copy, Debug)]
pub struct LookRequest {
    /// The time that "due" refers to (Unix ms).
    pub now_ms: u64,
    /// Up to which due time to look (Unix ms).
    pub until_ms: u64,
    /// At most so many documents of each physical range.
    pub most: u32,
    /// When to stop, at the latest.
    pub deadline: Instant,
}

/// What waits in the store, up to a due time.
#[derive(Clone, Debug, Default)]
pub struct Look {
    pub(super) now_ms: u64,
    pub(super) until_ms: u64,
    /// Oldest first.
    pub(super) waiting: Vec<Waiting>,
    pub(super) is_whole: bool,
}

/// What a pass of maintenance searches for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Searched {
    /// Intents: the outbox.
    Intents,
    /// Commits and deletions that were begun, and messages of instances that do not exist.
    Unfinished,
    /// Expired affinity sessions.
    Sessions,
}

/// One document that waits.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Waiting {
    pub(super) id: String,
    pub(super) pk: String,
    #[serde(rename = "type")]
    pub(super) kind: Kind,
    /// Affinity sessions are in none.
    #[serde(default)]
    pub(super) queue: Option<Listing>,
    pub(super) due_at: u64,
    pub(super) queued_at: Option<u64>,
    pub(super) tag: Option<String>,
    pub(super) is_timer: bool,
}

impl Waiting {
    /// Which pass searches for it; `None` for messages and work items.
    fn searched(&self) -> Option<Searched> {
        match (self.queue, self.kind) {
            (Some(Listing::Repair), Kind::Intent) => Some(Searched::Intents),
            (Some(Listing::Repair), _) => Some(Searched::Unfinished),
            (None, Kind::Session) => Some(Searched::Sessions),
            _ => None,
        }
    }
}

/// Looks for what waits. One request per physical range, unless the service answers with an empty page first.
pub(crate) async fn look(store: &Store, request: &LookRequest) -> Result<Look, Failure> {
    let query = Query::new(
        "SELECT c.id, c.pk, c.type, c.queue, c.dueAt, c.queuedAt, c.tag, IS_DEFINED(c.timer) AS isTimer FROM c \
         WHERE c.dueAt <= @until ORDER BY c.dueAt",
    )
    .param("@until", request.until_ms);
    let page = store
        .container
        .within(request.deadline)
        .sweep::<Waiting, _, _>(&query, request.most, None, |waiting| waiting.due_at)
        .await?;
    Ok(Look {
        now_ms: request.now_ms,
        until_ms: request.until_ms,
        waiting: page.items,
        is_whole: page.cursor.is_none(),
    })
}

impl Look {
    /// Whether it has everything that waits up to its due time. Otherwise it says nothing about what it does not have.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// The time that "due" refers to (Unix ms).
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// How many documents it found.
    pub fn found(&self) -> usize {
        self.waiting.len()
    }

    /// Whether it found something due that this search is for.
    pub fn has_due(&self, searched: Searched) -> bool {
        let mut due = self.waiting.iter().filter(|waiting| waiting.due_at <= self.now_ms);
        due.any(|waiting| waiting.searched() == Some(searched))
    }

    /// Messages and work items whose due time lies in one of the windows, oldest first: all of them, as one page. `None` when
    /// the look is not whole, or a window reaches beyond it.
    pub fn due(&self, windows: &[DueWindow]) -> Option<DuePage> {
        let is_within = windows.iter().all(|window| window.until_ms <= self.until_ms);
        if !self.is_whole || !is_within {
            return None;
        }
        let in_window = |due: u64| {
            windows
                .iter()
                .any(|window| window.after_ms < due && due <= window.until_ms)
        };
        let wanted = self.waiting.iter().filter(|waiting| in_window(waiting.due_at));
        Some(DuePage {
            items: wanted.filter_map(Waiting::item).collect(),
            ..DuePage::default()
        })
    }
}

impl Waiting {
    fn item(&self) -> Option<DueItem> {
        item_of(super::due::Listed {
            id: self.id.clone(),
            pk: self.pk.clone(),
            queue: self.queue?,
            due_at: self.due_at,
            queued_at: self.queued_at,
            tag: self.tag.clone(),
            is_timer: self.is_timer,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const NOW: u64 = 1_000_000;

    fn look_at(documents: &[Value], is_whole: bool) -> Look {
        let waiting = documents.iter().map(|document| {
            let mut document = document.clone();
            document["pk"] = json!("i");
            document["isTimer"] = json!(false);
            serde_json::from_value(document).unwrap()
        });
        Look {
            now_ms: NOW,
            until_ms: NOW + 1_000,
            waiting: waiting.collect(),
            is_whole,
        }
    }

    #[test]
    fn each_search_is_for_the_documents_that_its_pass_finds_when_they_are_due() {
        let of = |queue: Option<&str>, kind: &str, due_at: u64| {
            let mut document = json!({ "id": "x", "type": kind, "dueAt": due_at });
            if let Some(queue) = queue {
                document["queue"] = json!(queue);
            }
            look_at(&[document], true)
        };
        let all = [Searched::Intents, Searched::Unfinished, Searched::Sessions];
        for (queue, kind, expected) in [
            (Some("repair"), "intent", Some(Searched::Intents)),
            (Some("repair"), "instance", Some(Searched::Unfinished)),
            (Some("repair"), "staged-head", Some(Searched::Unfinished)),
            (Some("repair"), "staged", Some(Searched::Unfinished)),
            (Some("repair"), "deletion", Some(Searched::Unfinished)),
            (Some("repair"), "message", Some(Searched::Unfinished)),
            (Some("repair"), "unheard-of", Some(Searched::Unfinished)),
            (None, "session", Some(Searched::Sessions)),
            (Some("turn"), "message", None),
            (Some("work"), "work", None),
            (Some("unheard-of"), "message", None),
            (None, "unheard-of", None),
        ] {
            let due = of(queue, kind, NOW);
            let later = of(queue, kind, NOW + 1);
            for searched in all {
                assert_eq!(due.has_due(searched), expected == Some(searched), "{queue:?} {kind}");
                assert!(!later.has_due(searched), "{queue:?} {kind} is not due");
            }
        }
    }

    #[test]
    fn the_windows_of_the_sweep_are_served_as_the_store_would() {
        let message = |due: u64| json!({ "id": format!("m:{due}"), "type": "message", "queue": "turn", "dueAt": due });
        let documents = [
            message(10),
            message(11),
            message(20),
            json!({ "id": "w:1:2", "type": "work", "queue": "work", "dueAt": 15, "tag": "gpu" }),
            json!({ "id": "o:1", "type": "intent", "queue": "repair", "dueAt": 15 }),
            json!({ "id": "session", "type": "session", "dueAt": 15 }),
            json!({ "id": "n", "type": "message", "queue": "unheard-of", "dueAt": 15 }),
            message(NOW + 1_000),
        ];
        let window = |after_ms, until_ms| DueWindow { after_ms, until_ms };
        let times = |look: &Look, windows: &[DueWindow]| -> Option<Vec<u64>> {
            let page = look.due(windows)?;
            assert!(page.cursor.is_none() && page.reached_ms.is_none());
            Some(page.items.iter().map(|item| item.due_ms).collect())
        };
        let whole = look_at(&documents, true);
        assert_eq!(times(&whole, &[window(10, 20)]), Some(vec![11, 20, 15]));
        assert_eq!(times(&whole, &[window(0, 10), window(19, 20)]), Some(vec![10, 20]));
        assert_eq!(times(&whole, &[]), Some(Vec::new()));
        let end = NOW + 1_000;
        assert_eq!(times(&whole, &[window(NOW, end)]), Some(vec![end]));
        assert_eq!(times(&whole, &[window(NOW, end + 1)]), None, "beyond the look");
        assert_eq!(times(&look_at(&documents, false), &[window(10, 20)]), None);
    }
}
