//! The search for instances that need attention: which of them do, and why.
//!
//! ```text
//!   marked (maintain::attention): overdue, blocked activities, dead letters ──rows by id──┐
//!   blocked instances, by their index ────────────────────────────────────────────────────┼──> merge, match, cut ──> page, cursor
//!   failed instances, by their index ─────────────────────────────────────────────────────┘
//! ```
//!
//! All of them are merged in the order of acceptance, so the cursor is that of any search. What is marked is read again for each
//! page: it is little, or the answer says that it is not complete ([`Marked::is_truncated`]). A failed instance counts as long as it
//! ended recently; the index has failed ones in the order of acceptance, so a page may be short and still continue.

use super::InstanceFilter;
use super::merge::{Key, Step};
use super::plan::{self, Leg};
use super::row::Row;
use crate::admin::InstanceStatus;
use crate::error::Failure;
use crate::store::Store;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// So many instances are looked for in one query.
const IDS_AT_ONCE: usize = 100;

/// Why an instance needs attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Attention {
    /// It has failed recently.
    Failed,
    /// No deployed build can go on with it.
    Blocked,
    /// No deployed worker can run one of its activities.
    BlockedActivity,
    /// Something of it has been due for long, and nobody works on it.
    Overdue,
    /// Something of it was given up.
    DeadLetter,
}

impl Attention {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Attention::Failed => "failed",
            Attention::Blocked => "blocked",
            Attention::BlockedActivity => "blocked-activity",
            Attention::Overdue => "overdue",
            Attention::DeadLetter => "dead-letter",
        }
    }
}

/// What the instance documents do not say: which instances have something that needs attention.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marked {
    /// The reasons of an instance. It may have ended or been deleted since.
    pub(crate) reasons: BTreeMap<String, BTreeSet<Attention>>,
    /// A failed instance counts if it has ended at this time (Unix ms) or later.
    pub(crate) failed_since: u64,
    /// Not everything was read.
    pub(crate) is_truncated: bool,
}

impl Marked {
    pub(crate) fn add(&mut self, instance: String, why: Attention) {
        self.reasons.entry(instance).or_default().insert(why);
    }

    /// Why an instance needs attention; empty if it does not. What a paused instance holds is no surprise, but a dead letter is.
    pub(super) fn of(&self, row: &Row) -> Vec<Attention> {
        let status = row.status();
        let mut found: BTreeSet<Attention> = self.reasons.get(&row.pk).cloned().unwrap_or_default();
        if status.is_finished() || status == InstanceStatus::Paused {
            found.retain(|why| *why == Attention::DeadLetter);
        }
        let failed = status == InstanceStatus::Failed && row.completed_at >= Some(self.failed_since);
        found.extend(failed.then_some(Attention::Failed));
        found.extend((status == InstanceStatus::Blocked).then_some(Attention::Blocked));
        found.into_iter().collect()
    }
}

/// The reads in the order of acceptance that find what instance documents say by themselves.
pub(super) fn legs(filter: &InstanceFilter) -> Result<Vec<Leg>, String> {
    let mut legs: Vec<Leg> = Vec::new();
    for status in [InstanceStatus::Blocked, InstanceStatus::Failed] {
        if filter.status.as_ref().is_some_and(|wanted| *wanted != status) {
            continue;
        }
        let filter = InstanceFilter {
            status: Some(status),
            ..filter.clone()
        };
        // An index by parent, or by name and version, finds both.
        let more = plan::legs(&filter)?;
        legs.extend(more.into_iter().filter(|leg| !legs.contains(leg)).collect::<Vec<_>>());
    }
    Ok(legs)
}

/// The instances that are marked, after a position. They are all of them, so the step has no end.
pub(super) async fn marked_rows(store: &Store, marked: &Marked, after: Option<&Key>) -> Result<Vec<Row>, Failure> {
    let ids: Vec<&String> = marked.reasons.keys().collect();
    let mut rows = Vec::new();
    for group in ids.chunks(IDS_AT_ONCE) {
        let query = plan::by_ids(group);
        rows.extend(store.container.scan::<Row>(&query).await?);
    }
    rows.retain(|row| after.is_none_or(|after| row.key() < *after));
    rows.sort_by_cached_key(|row| Reverse(row.key()));
    Ok(rows)
}

/// The same step with only what needs attention.
pub(super) fn narrowed(step: Step, marked: Option<&Marked>) -> Step {
    let Step { mut rows, reached } = step;
    if let Some(marked) = marked {
        rows.retain(|row| !marked.of(row).is_empty());
    }
    Step { rows, reached }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn row(fields: Value) -> Row {
        let mut row = json!({
            "pk": "i", "status": "Running", "name": "N", "createdAt": 1, "updatedAt": 1, "startedAt": 1, "execution": 1, "events": 1,
            "_etag": "\"1\"",
        });
        let all = row.as_object_mut().unwrap();
        all.extend(fields.as_object().unwrap().clone());
        serde_json::from_value(row).unwrap()
    }

    fn blocked() -> Value {
        json!({ "cause": "panic", "reason": "r", "build": "b", "since": 1, "tries": 1, "until": 2 })
    }

    #[test]
    fn each_reason_holds_for_the_instances_that_it_can_hold_for() {
        use Attention::{Blocked, BlockedActivity, DeadLetter, Failed, Overdue};
        let mut marked = Marked {
            failed_since: 50,
            ..Marked::default()
        };
        for why in [Overdue, BlockedActivity, DeadLetter] {
            marked.add("i".to_owned(), why);
        }
        let paused = json!({ "since": 1, "reason": null, "listed": true });
        for (fields, expected) in [
            (json!({ "pk": "other" }), vec![]),
            (json!({ "pk": "other", "blocked": blocked() }), vec![Blocked]),
            (
                json!({ "pk": "other", "status": "Failed", "completedAt": 50 }),
                vec![Failed],
            ),
            (json!({ "pk": "other", "status": "Failed", "completedAt": 49 }), vec![]),
            (
                json!({ "pk": "other", "status": "Failed", "completedAt": 50, "cancelled": true }),
                vec![],
            ),
            (
                json!({ "pk": "other", "status": "Completed", "completedAt": 50 }),
                vec![],
            ),
            (json!({ "pk": "other", "blocked": blocked(), "paused": paused }), vec![]),
            (json!({}), vec![BlockedActivity, Overdue, DeadLetter]),
            (
                json!({ "status": "Failed", "completedAt": 60 }),
                vec![Failed, DeadLetter],
            ),
            (json!({ "status": "Completed", "completedAt": 60 }), vec![DeadLetter]),
            (json!({ "paused": paused }), vec![DeadLetter]),
        ] {
            assert_eq!(marked.of(&row(fields.clone())), expected, "{fields}");
        }
    }

    #[test]
    fn blocked_and_failed_ones_are_read_by_their_own_indexes() {
        let of = |filter: InstanceFilter| legs(&filter).unwrap().len();
        let parent = InstanceFilter {
            parent: Some("p".to_owned()),
            ..InstanceFilter::default()
        };
        assert_eq!((of(InstanceFilter::default()), of(parent)), (2, 1));
        for (status, expected) in [(InstanceStatus::Failed, 1), (InstanceStatus::Running, 0)] {
            let filter = InstanceFilter {
                status: Some(status),
                ..InstanceFilter::default()
            };
            assert_eq!(of(filter.clone()), expected, "{filter:?}");
        }
    }
}
