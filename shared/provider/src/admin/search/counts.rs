//! How many instances there are, by status and name: the service groups them, in one query per physical range, and one more for what is
//! blocked. It reads the indexed fields of every instance, so its price grows with their number; the number of requests does not.

use crate::admin::InstanceStatus;
use crate::admin::summary::Marks;
use crate::error::Failure;
use crate::model::Status;
use crate::model::sql::INSTANCE;
use crate::store::Store;
use cosmos::Query;
use serde::Deserialize;
use std::collections::BTreeMap;

/// How many instances of one orchestration have one status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    /// The name of the orchestration.
    pub name: String,
    /// As it is shown.
    pub status: InstanceStatus,
    /// How many.
    pub count: u64,
}

/// How many instances there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each counts the instances of the status of that name")]
pub struct InstanceCounts {
    pub total: usize,
    pub pending: usize,
    pub running: usize,
    pub blocked: usize,
    pub paused: usize,
    pub completed: usize,
    pub failed: usize,
    pub cancelled: usize,
    /// Executions that are kept.
    pub executions: u64,
    /// Their events.
    pub events: u64,
}

/// A group of one range. A range, and a page of it, may return a part of a group.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    name: Option<String>,
    start_name: Option<String>,
    status: Status,
    #[serde(default)]
    cancelled: bool,
    #[serde(default)]
    paused: bool,
    count: u64,
    #[serde(default)]
    executions: Option<f64>,
    #[serde(default)]
    events: Option<f64>,
    #[serde(default)]
    earlier_events: Option<f64>,
}

impl Group {
    fn status(&self, blocked: bool) -> InstanceStatus {
        let marks = Marks {
            cancelled: self.cancelled,
            blocked,
            paused: self.paused,
        };
        InstanceStatus::of(&self.status, marks)
    }
}

/// The groups of all instances, and those of the blocked ones among them.
async fn groups(store: &Store) -> Result<(Vec<Group>, Vec<Group>), Failure> {
    let group = |condition: &str| {
        Query::new(format!(
            "SELECT c.name, c.startName, c.status, c.cancelled, c.paused.listed AS paused, COUNT(1) AS count, SUM(c.executions) AS executions, \
             SUM(c.events) AS events, SUM(c.earlierEvents) AS earlierEvents FROM c WHERE c.type = {INSTANCE}{condition} \
             GROUP BY c.name, c.startName, c.status, c.cancelled, c.paused.listed"
        ))
    };
    let (all, blocked) = (group(""), group(" AND IS_DEFINED(c.blocked.since)"));
    let container = &store.container;
    Ok(futures::try_join!(
        container.scan::<Group>(&all),
        container.scan::<Group>(&blocked)
    )?)
}

/// How many instances there are, by name and status; none that is zero.
pub(crate) async fn counts(store: &Store) -> Result<Vec<Count>, Failure> {
    let (all, blocked) = groups(store).await?;
    Ok(summed(&all, &blocked))
}

/// The same without names, and what they keep.
pub(crate) async fn instance_counts(store: &Store) -> Result<InstanceCounts, Failure> {
    let (all, blocked) = groups(store).await?;
    let mut counts = InstanceCounts::default();
    for Count { status, count, .. } in summed(&all, &blocked) {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        counts.total += count;
        match status {
            InstanceStatus::Pending => counts.pending += count,
            InstanceStatus::Running => counts.running += count,
            InstanceStatus::Blocked => counts.blocked += count,
            InstanceStatus::Paused => counts.paused += count,
            InstanceStatus::Completed => counts.completed += count,
            InstanceStatus::Failed => counts.failed += count,
            InstanceStatus::Cancelled => counts.cancelled += count,
            InstanceStatus::ContinuedAsNew | InstanceStatus::Other(_) => {}
        }
    }
    let begun = || all.iter().filter(|group| group.name.is_some());
    let sum = |of: fn(&Group) -> Option<f64>| begun().filter_map(of).sum::<f64>() as u64;
    counts.executions = sum(|group| group.executions);
    counts.events = sum(|group| group.events) + sum(|group| group.earlier_events);
    Ok(counts)
}

/// Adds the groups up. Those that are blocked are a part of all.
fn summed(all: &[Group], blocked: &[Group]) -> Vec<Count> {
    let mut sums: BTreeMap<(String, String), (InstanceStatus, i64)> = BTreeMap::new();
    let mut add = |group: &Group, status: InstanceStatus, count: i64| {
        if let Some(name) = group.name.as_ref().or(group.start_name.as_ref()) {
            let key = (name.clone(), status.name().to_owned());
            sums.entry(key).or_insert((status, 0)).1 += count;
        }
    };
    let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    for group in all {
        add(group, group.status(false), signed(group.count));
    }
    for group in blocked {
        add(group, group.status(false), -signed(group.count));
        add(group, group.status(true), signed(group.count));
    }
    let counts = sums.into_iter().map(|((name, _), (status, count))| Count {
        name,
        status,
        count: u64::try_from(count).unwrap_or(0),
    });
    counts.filter(|count| count.count > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn groups(of: Value) -> Vec<Group> {
        serde_json::from_value(of).unwrap()
    }

    #[test]
    fn parts_of_groups_add_up_and_blocked_ones_are_taken_from_the_others() {
        let all = groups(json!([
            { "name": "A", "status": "Running", "count": 5 },
            { "name": "A", "status": "Running", "count": 2 },
            { "startName": "A", "status": "Pending", "count": 3 },
            { "name": "A", "status": "Failed", "count": 4 },
            { "name": "A", "status": "Failed", "cancelled": true, "count": 6 },
            { "name": "A", "status": "Running", "paused": true, "count": 8 },
            { "name": "B", "status": "Completed", "count": 1 },
            { "status": "Pending", "count": 9 },
        ]));
        let blocked = groups(json!([
            { "name": "A", "status": "Running", "count": 1 },
            { "startName": "A", "status": "Pending", "count": 3 },
            { "name": "A", "status": "Running", "paused": true, "count": 2 },
            { "name": "B", "status": "Completed", "count": 1 },
        ]));
        let found = summed(&all, &blocked);
        let found: Vec<(&str, &str, u64)> = found
            .iter()
            .map(|count| (count.name.as_str(), count.status.name(), count.count))
            .collect();
        assert_eq!(
            found,
            [
                ("A", "Blocked", 4),
                ("A", "Cancelled", 6),
                ("A", "Failed", 4),
                ("A", "Paused", 8),
                ("A", "Running", 6),
                ("B", "Completed", 1)
            ]
        );
    }
}
