//! Retention: deleting what ended long ago, and forgetting earlier executions.
//!
//! First whole trees whose root ended before the age, then the executions that instances have beyond those to keep. Both are
//! the verbs that an administrator has (`admin::delete`, `admin::prune`), so a run that is killed leaves what
//! `maintain::unfinished` ends. A tree in which something still runs is passed by.

use super::{Cursor, Pass, Portion};
use crate::error::Failure;
use crate::provider::CosmosProvider;
use crate::store::{Store, millis};
use cosmos::{PartitionKey, Query};
use duroxide::providers::{ProviderError, PruneOptions};
use serde::Deserialize;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// What to keep. The default keeps everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Delete instances that ended longer ago than this, with all their children.
    pub delete_after: Option<Duration>,
    /// Keep so many executions of an instance that continues as new, the current one included (at least 1).
    pub keep_executions: Option<u64>,
}

/// The searches of the pass, in their order.
const TREES: u8 = 0;
const EXECUTIONS: u8 = 1;

/// What was found.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Old {
    pk: String,
    #[serde(default)]
    completed_at: u64,
    #[serde(default)]
    execution: u64,
}

impl CosmosProvider {
    /// Does a portion of what the policy asks for: deletes trees that ended, oldest first, then prunes executions. `done`
    /// counts trees and instances.
    ///
    /// # Errors
    /// When the search itself fails; what fails to be removed is counted instead.
    pub async fn maintain_retention(&self, policy: &Retention, portion: Portion) -> Result<Pass, ProviderError> {
        let pass = self.store.retention_pass(policy, portion).await;
        pass.map_err(|failure| failure.of("maintain_retention"))
    }
}

impl Store {
    async fn retention_pass(&self, policy: &Retention, portion: Portion) -> Result<Pass, Failure> {
        let mut place = portion.cursor.clone().unwrap_or_else(|| Cursor::begin(self.now()));
        if let (TREES, Some(age)) = (place.search, policy.delete_after) {
            let before = place.now_ms.saturating_sub(millis(age));
            let mut pass = self.trees(before, &place, &portion).await?;
            if pass.cursor.is_none() && policy.keep_executions.is_some() {
                pass.cursor = Some(place.next_search(EXECUTIONS));
            }
            return Ok(pass);
        }
        let Some(keep) = policy.keep_executions else {
            return Ok(Pass::default());
        };
        if place.search == TREES {
            place = place.next_search(EXECUTIONS);
        }
        self.executions(keep.max(1), &place, &portion).await
    }

    async fn trees(&self, before: u64, place: &Cursor, portion: &Portion) -> Result<Pass, Failure> {
        let query = Query::new(
            "SELECT c.pk, c.completedAt FROM c WHERE c.type = 'instance' AND c.status IN ('Completed', 'Failed') \
             AND IS_DEFINED(c.name) AND NOT IS_DEFINED(c.parent) AND c.completedAt < @before ORDER BY c.completedAt",
        )
        .param("@before", before);
        self.each(query, place, portion, async |root| self.delete_tree(root, before).await)
            .await
    }

    async fn executions(&self, keep: u64, place: &Cursor, portion: &Portion) -> Result<Pass, Failure> {
        // The number of the current execution is indexed; how many are kept is not, and never more.
        let query = Query::new(
            "SELECT c.pk, c.execution FROM c WHERE c.type = 'instance' AND c.execution > @keep \
             AND c.executions > @keep AND IS_DEFINED(c.name) ORDER BY c.execution",
        )
        .param("@keep", keep);
        let options = PruneOptions {
            keep_last: Some(u32::try_from(keep).unwrap_or(u32::MAX)),
            completed_before: None,
        };
        self.each(query, place, portion, async |instance| {
            let pruned = self.prune(&PartitionKey::new(instance)?, &options).await?;
            Ok(pruned.executions_deleted > 0)
        })
        .await
    }

    /// Finds a page and settles its instances one after the other: each may have thousands of documents.
    async fn each(
        &self,
        query: Query,
        place: &Cursor,
        portion: &Portion,
        settle: impl AsyncFn(&str) -> Result<bool, Failure>,
    ) -> Result<Pass, Failure> {
        if Instant::now() >= portion.deadline {
            return Ok(Pass::untouched(place.clone()));
        }
        let page = self
            .container
            .within(portion.deadline)
            .sweep::<Old, _, _>(&query, portion.most, place.sweep.clone(), |old| {
                (old.completed_at, old.execution)
            })
            .await?;
        let mut pass = Pass {
            found: page.items.len() as u64,
            ..Pass::default()
        };
        for old in &page.items {
            match timeout_at(portion.deadline, settle(&old.pk)).await {
                Ok(Ok(done)) => pass.done += u64::from(done),
                // Deleted since it was found.
                Ok(Err(Failure::NoInstance(_))) => {}
                Ok(Err(failure)) => {
                    tracing::warn!(instance = old.pk, %failure, "retention leaves an instance for the next time");
                    pass.failed += 1;
                }
                Err(_) => tracing::debug!(instance = old.pk, "retention was cut short; it goes on the next time"),
            }
            if Instant::now() >= portion.deadline {
                pass.cursor = Some(place.clone());
                return Ok(pass);
            }
        }
        pass.cursor = place.after(page.cursor);
        Ok(pass)
    }

    /// Deletes a tree whose root ended before then, unless something in it still runs. Answers whether it did.
    async fn delete_tree(&self, root: &str, before: u64) -> Result<bool, Failure> {
        let tree = self.tree_of(root).await?;
        // What has no children is over: that is how it was found.
        if tree.len() > 1 && self.any_runs(&tree).await? {
            return Ok(false);
        }
        self.delete_expired(&tree, before).await?;
        Ok(true)
    }
}
