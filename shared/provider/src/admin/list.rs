//! Lists over all instances: one query per physical range, merged here.

use crate::error::Failure;
use crate::model::sql::{DEAD, ENDED, EXECUTION, INSTANCE, PENDING, TURN, WORK_ITEM};
use crate::model::{PARKED_MS, Status};
use crate::store::Store;
use cosmos::{PartitionKey, Query};
use duroxide::providers::{InstanceFilter, QueueDepths, SystemMetrics};
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashSet;

/// Instances that one query names.
const PARENTS_AT_ONCE: usize = 200;
/// The limit of a bulk operation whose filter has none.
const BULK_LIMIT: usize = 1000;

/// An instance as lists need it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Listed {
    pk: String,
    status: Status,
    parent: Option<String>,
    created_at: u64,
    completed_at: Option<u64>,
    executions: u64,
    events: u64,
    earlier_events: u64,
}

/// Every existing instance that matches `clause`.
async fn listed(store: &Store, clause: &str, params: &[(&str, &Value)]) -> Result<Vec<Listed>, Failure> {
    let query = Query::new(format!(
        "SELECT c.pk, c.status, c.parent, c.createdAt, c.completedAt, c.executions, c.events, \
         c.earlierEvents FROM c WHERE c.type = {INSTANCE} AND IS_DEFINED(c.name){clause}"
    ));
    let query = params
        .iter()
        .fold(query, |query, (name, value)| query.param(name, value));
    Ok(store.container.scan::<Listed>(&query).await?)
}

/// The ids of all instances (of one status), newest first.
pub(crate) async fn list_instances(store: &Store, status: Option<&str>) -> Result<Vec<String>, Failure> {
    let mut listed = match status {
        Some(status) => listed(store, " AND c.status = @status", &[("@status", &status.into())]).await?,
        None => listed(store, "", &[]).await?,
    };
    listed.sort_by(|a, b| b.created_at.cmp(&a.created_at).then_with(|| a.pk.cmp(&b.pk)));
    Ok(listed.into_iter().map(|instance| instance.pk).collect())
}

/// The instances of a bulk operation, oldest first, at most its limit.
pub(crate) async fn matching(
    store: &Store,
    filter: &InstanceFilter,
    eligible: impl Fn(&Listed) -> bool,
) -> Result<Vec<String>, Failure> {
    let before = filter.completed_before.map(Value::from);
    // More of them are selected below.
    let ids = filter.instance_ids.as_ref().filter(|ids| ids.len() <= PARENTS_AT_ONCE);
    let ids = ids.map(|ids| Value::from(ids.as_slice()));
    let (mut clauses, mut params) = (String::new(), Vec::new());
    if let Some(before) = &before {
        clauses.push_str(" AND c.completedAt < @before");
        params.push(("@before", before));
    }
    if let Some(ids) = &ids {
        clauses.push_str(" AND ARRAY_CONTAINS(@ids, c.pk)");
        params.push(("@ids", ids));
    }
    let mut listed = listed(store, &clauses, &params).await?;
    if let Some(ids) = &filter.instance_ids {
        let ids: HashSet<&str> = ids.iter().map(String::as_str).collect();
        listed.retain(|instance| ids.contains(instance.pk.as_str()));
    }
    listed.retain(eligible);
    listed.sort_by(|a, b| a.completed_at.cmp(&b.completed_at).then_with(|| a.pk.cmp(&b.pk)));
    listed.truncate(filter.limit.map_or(BULK_LIMIT, |limit| limit as usize));
    Ok(listed.into_iter().map(|instance| instance.pk).collect())
}

/// The executions that are kept, oldest first.
pub(crate) async fn list_executions(store: &Store, pk: &PartitionKey) -> Result<Vec<u64>, Failure> {
    let query = Query::new(format!(
        "SELECT VALUE c.execution FROM c WHERE c.type IN ({INSTANCE}, {EXECUTION}) AND c.status != {PENDING}"
    ));
    let mut executions = store.container.query::<u64>(pk, &query).await?;
    executions.sort_unstable();
    Ok(executions)
}

/// The direct children of these instances.
pub(crate) async fn children_of(store: &Store, parents: &[String]) -> Result<Vec<String>, Failure> {
    let mut children = Vec::new();
    for group in parents.chunks(PARENTS_AT_ONCE) {
        let query = Query::new(format!(
            "SELECT VALUE c.pk FROM c WHERE c.type = {INSTANCE} AND ARRAY_CONTAINS(@parents, c.parent)"
        ))
        .param("@parents", group);
        children.extend(store.container.scan::<String>(&query).await?);
    }
    children.sort();
    Ok(children)
}

/// Those of these instances that exist.
pub(crate) async fn existing(store: &Store, ids: &[String]) -> Result<HashSet<String>, Failure> {
    let mut existing = HashSet::new();
    for group in ids.chunks(PARENTS_AT_ONCE) {
        let query = Query::new(format!(
            "SELECT VALUE c.pk FROM c WHERE c.type = {INSTANCE} AND ARRAY_CONTAINS(@ids, c.pk)"
        ));
        existing.extend(store.container.scan::<String>(&query.param("@ids", group)).await?);
    }
    Ok(existing)
}

/// The instance and all its descendants, level by level.
pub(crate) async fn tree_of(store: &Store, root: &str) -> Result<Vec<String>, Failure> {
    let mut all = vec![root.to_owned()];
    let mut seen: HashSet<String> = all.iter().cloned().collect();
    let mut level = all.clone();
    while !level.is_empty() {
        level = children_of(store, &level).await?;
        level.retain(|child| seen.insert(child.clone()));
        all.extend(level.iter().cloned());
    }
    Ok(all)
}

/// Whether any of these instances has not ended.
pub(crate) async fn any_runs(store: &Store, ids: &[String]) -> Result<bool, Failure> {
    for group in ids.chunks(PARENTS_AT_ONCE) {
        let query = Query::new(format!(
            "SELECT VALUE COUNT(1) FROM c WHERE c.type = {INSTANCE} AND ARRAY_CONTAINS(@ids, c.pk) AND NOT (c.status IN ({ENDED}))"
        ));
        if store.sum(query.param("@ids", group)).await? > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether any of these instances has a dead letter. For a single one only its partition is queried.
pub(crate) async fn any_dead_letters(store: &Store, ids: &[String]) -> Result<bool, Failure> {
    if let [only] = ids {
        let query = Query::new(format!("SELECT VALUE c.id FROM c WHERE c.queue = {DEAD}"));
        let dead_letters = store
            .container
            .query::<String>(&PartitionKey::new(only)?, &query)
            .await?;
        return Ok(!dead_letters.is_empty());
    }
    for group in ids.chunks(PARENTS_AT_ONCE) {
        let query = Query::new(format!(
            "SELECT VALUE COUNT(1) FROM c WHERE c.queue = {DEAD} AND ARRAY_CONTAINS(@ids, c.pk)"
        ));
        if store.sum(query.param("@ids", group)).await? > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Counts over everything.
pub(crate) async fn system_metrics(store: &Store) -> Result<SystemMetrics, Failure> {
    let mut metrics = SystemMetrics::default();
    for instance in listed(store, "", &[]).await? {
        metrics.total_instances += 1;
        metrics.total_executions += instance.executions;
        metrics.total_events += instance.events + instance.earlier_events;
        match instance.status {
            Status::Completed => metrics.completed_instances += 1,
            Status::Failed => metrics.failed_instances += 1,
            Status::Running => metrics.running_instances += 1,
            Status::Pending | Status::ContinuedAsNew | Status::Other(_) => {}
        }
    }
    Ok(metrics)
}

/// How many messages and activities are unclaimed. Timers that are not due yet are counted apart, and messages of paused instances
/// not at all.
pub(crate) async fn queue_depths(store: &Store) -> Result<QueueDepths, Failure> {
    let now = store.now();
    let sum = |what: &str, condition: String| {
        let query = Query::new(format!("SELECT VALUE {what} FROM c WHERE {condition}"));
        store.sum(query.param("@now", now))
    };
    let (due, later, claimed, work) = futures::try_join!(
        sum("COUNT(1)", format!("c.queue = {TURN} AND c.dueAt <= @now")),
        sum(
            "COUNT(1)",
            format!("c.queue = {TURN} AND c.dueAt > @now AND c.dueAt < {PARKED_MS}")
        ),
        sum("SUM(c.held)", format!("c.type = {INSTANCE} AND c.until > @now")),
        sum("COUNT(1)", format!("c.type = {WORK_ITEM} AND c.until <= @now")),
    )?;
    Ok(QueueDepths {
        orchestrator_queue: due.saturating_sub(claimed),
        worker_queue: work,
        timer_queue: later,
    })
}

impl Listed {
    /// Whether this is the root of a tree, and has ended.
    pub(crate) fn is_ended_root(&self) -> bool {
        self.parent.is_none() && self.status.is_over()
    }
}
