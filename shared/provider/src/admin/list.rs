//! Lists over all instances: one query per physical range, merged here.

use crate::error::Failure;
use crate::store::Store;
use cosmos::{PartitionKey, Query};
use duroxide::providers::{InstanceFilter, QueueDepths, SystemMetrics};
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashSet;

/// Children of how many instances are asked for at once.
const PARENTS_AT_ONCE: usize = 200;
/// What a bulk operation takes when the filter names no limit.
pub(super) const BULK_LIMIT: usize = 1000;

/// An instance as lists need it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Listed {
    pub pk: String,
    pub status: String,
    pub parent: Option<String>,
    pub created_at: u64,
    pub completed_at: Option<u64>,
    executions: u64,
    events: u64,
    earlier_events: u64,
}

impl Store {
    /// Every instance that a turn has named, and that fits `clause`.
    async fn listed(&self, clause: &str, params: &[(&str, &Value)]) -> Result<Vec<Listed>, Failure> {
        let query = Query::new(format!(
            "SELECT c.pk, c.status, c.parent, c.createdAt, c.completedAt, c.executions, c.events, \
             c.earlierEvents FROM c WHERE c.type = 'instance' AND IS_DEFINED(c.name){clause}"
        ));
        let query = params
            .iter()
            .fold(query, |query, (name, value)| query.param(name, value));
        Ok(self.container.scan::<Listed>(&query).await?)
    }

    /// The ids of all instances (of one status), newest first.
    pub(crate) async fn list_instances(&self, status: Option<&str>) -> Result<Vec<String>, Failure> {
        let mut listed = match status {
            Some(status) => {
                self.listed(" AND c.status = @status", &[("@status", &status.into())])
                    .await?
            }
            None => self.listed("", &[]).await?,
        };
        listed.sort_by(|a, b| b.created_at.cmp(&a.created_at).then_with(|| a.pk.cmp(&b.pk)));
        Ok(listed.into_iter().map(|instance| instance.pk).collect())
    }

    /// The instances that a bulk operation is about, oldest first, cut at its limit.
    pub(crate) async fn matching(
        &self,
        filter: &InstanceFilter,
        eligible: impl Fn(&Listed) -> bool,
    ) -> Result<Vec<String>, Failure> {
        let mut listed = match filter.completed_before {
            Some(before) => {
                self.listed(" AND c.completedAt < @before", &[("@before", &before.into())])
                    .await?
            }
            None => self.listed("", &[]).await?,
        };
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
    pub(crate) async fn list_executions(&self, pk: &PartitionKey) -> Result<Vec<u64>, Failure> {
        let query = Query::new("SELECT VALUE c.execution FROM c WHERE c.type IN ('instance', 'execution')");
        let mut executions = self.container.query::<u64>(pk, &query).await?;
        executions.sort_unstable();
        Ok(executions)
    }

    /// The direct children of these instances.
    pub(crate) async fn children_of(&self, parents: &[String]) -> Result<Vec<String>, Failure> {
        let mut children = Vec::new();
        for group in parents.chunks(PARENTS_AT_ONCE) {
            let query =
                Query::new("SELECT VALUE c.pk FROM c WHERE c.type = 'instance' AND ARRAY_CONTAINS(@parents, c.parent)")
                    .param("@parents", group);
            children.extend(self.container.scan::<String>(&query).await?);
        }
        children.sort();
        Ok(children)
    }

    /// The instance and all that descend from it, level by level.
    pub(crate) async fn tree_of(&self, root: &str) -> Result<Vec<String>, Failure> {
        let mut all = vec![root.to_owned()];
        let mut level = all.clone();
        while !level.is_empty() {
            level = self.children_of(&level).await?;
            level.retain(|child| !all.contains(child));
            all.extend(level.iter().cloned());
        }
        Ok(all)
    }

    /// Whether any of these instances is not over.
    pub(crate) async fn any_runs(&self, ids: &[String]) -> Result<bool, Failure> {
        for group in ids.chunks(PARENTS_AT_ONCE) {
            let query = Query::new(
                "SELECT VALUE COUNT(1) FROM c WHERE c.type = 'instance' AND ARRAY_CONTAINS(@ids, c.pk) \
                 AND NOT (c.status IN ('Completed', 'Failed'))",
            );
            if self.sum(query.param("@ids", group)).await? > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether any of these instances has a dead letter. Of a single one only its partition is asked.
    pub(crate) async fn any_dead_letters(&self, ids: &[String]) -> Result<bool, Failure> {
        if let [only] = ids {
            let query = Query::new("SELECT VALUE c.id FROM c WHERE c.queue = 'dead'");
            let dead_letters = self
                .container
                .query::<String>(&PartitionKey::new(only)?, &query)
                .await?;
            return Ok(!dead_letters.is_empty());
        }
        for group in ids.chunks(PARENTS_AT_ONCE) {
            let query =
                Query::new("SELECT VALUE COUNT(1) FROM c WHERE c.queue = 'dead' AND ARRAY_CONTAINS(@ids, c.pk)");
            if self.sum(query.param("@ids", group)).await? > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Counts over everything.
    pub(crate) async fn system_metrics(&self) -> Result<SystemMetrics, Failure> {
        let mut metrics = SystemMetrics::default();
        for instance in self.listed("", &[]).await? {
            metrics.total_instances += 1;
            metrics.total_executions += instance.executions;
            metrics.total_events += instance.events + instance.earlier_events;
            match instance.status.as_str() {
                "Completed" => metrics.completed_instances += 1,
                "Failed" => metrics.failed_instances += 1,
                "Running" => metrics.running_instances += 1,
                _ => {}
            }
        }
        Ok(metrics)
    }

    /// How many messages and activities nobody holds. Timers that are not due yet are counted apart.
    pub(crate) async fn queue_depths(&self) -> Result<QueueDepths, Failure> {
        let now = self.now();
        let due = Query::new("SELECT VALUE COUNT(1) FROM c WHERE c.queue = 'turn' AND c.dueAt <= @now");
        let later = Query::new("SELECT VALUE COUNT(1) FROM c WHERE c.queue = 'turn' AND c.dueAt > @now");
        let held = Query::new("SELECT VALUE SUM(c.held) FROM c WHERE c.type = 'lock' AND c.until > @now");
        let work = Query::new("SELECT VALUE COUNT(1) FROM c WHERE c.queue = 'work' AND c.until <= @now");
        let (due, later, held, work) = futures::try_join!(
            self.sum(due.param("@now", now)),
            self.sum(later.param("@now", now)),
            self.sum(held.param("@now", now)),
            self.sum(work.param("@now", now)),
        )?;
        Ok(QueueDepths {
            orchestrator_queue: due.saturating_sub(held),
            worker_queue: work,
            timer_queue: later,
        })
    }

    /// The sum of an aggregate over all ranges.
    pub(crate) async fn sum(&self, query: Query) -> Result<usize, Failure> {
        let parts = self.container.scan::<Option<f64>>(&query).await?;
        Ok(parts.into_iter().flatten().sum::<f64>() as usize)
    }
}

impl Listed {
    /// Whether it is over: an execution that continued as new is not, its successor is about to begin.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.status.as_str(), "Completed" | "Failed")
    }
}
