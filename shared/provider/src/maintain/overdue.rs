//! What has been due the longest, for operators: the items behind the numbers `stuck` and `overdue_timers` of the overview.
//!
//! One query per physical range, in the order of the due time. Only if something in it would make an instance stuck, one more query
//! finds the instances whose turn is under way: those are not stuck.

use super::backlog::claimed_instances;
use super::due::Listing;
use super::overview::OverviewQuery;
use crate::error::Failure;
use crate::model::sql::REPAIR;
use crate::store::{Store, millis};
use cosmos::Query;
use serde::Deserialize;
use std::collections::HashSet;

/// So many more are read than asked for: those of instances whose turn is under way are left out.
const MORE: u32 = 100;

/// What has been due the longest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overdue {
    /// When it was read (Unix ms).
    pub now_ms: u64,
    /// The oldest first.
    pub items: Vec<OverdueItem>,
}

/// Something that is overdue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverdueItem {
    /// Whose it is.
    pub instance: String,
    /// What it is.
    pub kind: OverdueKind,
    /// The name of an activity, of an event, of a queue, or of the orchestration that is to start.
    pub name: Option<String>,
    /// Since when it is due (Unix ms).
    pub due_ms: u64,
}

/// What is overdue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverdueKind {
    /// A message for the next turn.
    Message,
    /// An activity.
    Activity,
    /// A timer that should have fired.
    Timer,
}

/// One document.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Late {
    pk: String,
    queue: Listing,
    due_at: u64,
    is_timer: bool,
    activity: Option<String>,
    event: Option<String>,
    queued: Option<String>,
    start: Option<String>,
}

impl Late {
    fn item(self) -> Option<OverdueItem> {
        let kind = match (self.queue, self.is_timer) {
            (Listing::Turn, true) => OverdueKind::Timer,
            (Listing::Turn, false) => OverdueKind::Message,
            (Listing::Work, _) => OverdueKind::Activity,
            _ => return None,
        };
        Some(OverdueItem {
            instance: self.pk,
            kind,
            name: self.activity.or(self.event).or(self.queued).or(self.start),
            due_ms: self.due_at,
        })
    }
}

/// At most so many items that are overdue, the oldest first.
pub(crate) async fn overdue(store: &Store, query: &OverviewQuery, most: u32) -> Result<Overdue, Failure> {
    let now_ms = store.now();
    let before = |time| now_ms.saturating_sub(millis(time));
    let (overdue_ms, stuck_ms) = (before(query.overdue), before(query.stuck));
    // The order is that of one path, so the other conditions only narrow (see `schema`).
    let text = format!(
        "SELECT c.pk, c.queue, c.dueAt, IS_DEFINED(c.timer) AS isTimer, c.item.ActivityExecute.name AS activity, \
         c.item.ExternalRaised.name AS event, c.item.QueueMessage.name AS queued, c.item.StartOrchestration.orchestration AS start \
         FROM c WHERE c.dueAt < @latest AND c.queue != {REPAIR} AND NOT (c.dueAt >= @stuck AND NOT IS_DEFINED(c.timer)) \
         ORDER BY c.dueAt"
    );
    let ask = Query::new(text)
        .param("@latest", overdue_ms.max(stuck_ms))
        .param("@stuck", stuck_ms);
    let read = most.saturating_add(MORE);
    let (late, _) = store
        .container
        .first::<Late, _, _>(&ask, read, |late| late.due_at)
        .await?;
    let late: Vec<OverdueItem> = late.into_iter().filter_map(Late::item).collect();
    let is_overdue_timer = |item: &OverdueItem| item.kind == OverdueKind::Timer && item.due_ms < overdue_ms;
    let claimed: HashSet<String> = match late.iter().all(is_overdue_timer) {
        true => HashSet::new(),
        false => claimed_instances(store, now_ms).await?.into_iter().collect(),
    };
    let mut items = late;
    items.retain(|item| is_overdue_timer(item) || (item.due_ms < stuck_ms && !claimed.contains(&item.instance)));
    items.truncate(most as usize);
    Ok(Overdue { now_ms, items })
}
