//! Retention: deleting what ended long ago, and forgetting earlier executions.
//!
//! First whole trees whose root ended before the age, then the executions that instances have beyond those to keep. Both are
//! the verbs that an administrator has (`admin::delete`, `admin::prune`), so a run that is killed leaves what
//! `maintain::unfinished` ends. A tree in which something still runs, or which has dead letters, is
//! passed by.

use super::settle::{Fate, Time, settle};
use super::{Cursor, PageRequest, PassOutcome};
use crate::error::Failure;
use crate::provider::CosmosProvider;
use crate::store::{Store, millis};
use cosmos::{PartitionKey, Query};
use duroxide::providers::{ProviderError, PruneOptions};
use serde::Deserialize;
use std::time::Duration;
use tokio::time::Instant;

/// What to keep. The default keeps everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Delete instances that ended longer ago than this, with all their children.
    pub delete_after: Option<Duration>,
    /// Keep so many executions of an instance that continues as new, the current one included (at least 1).
    pub keep_executions: Option<u64>,
}

/// What to look for. A cursor knows the searches by their number.
#[derive(Clone, Copy, Debug)]
enum Search {
    /// Roots that ended before then.
    Trees { before: u64 },
    /// Instances with more executions than these.
    Executions { keep: u64 },
}

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
    /// Does a page of what the policy asks for: deletes trees that ended, oldest first, then prunes executions. `done`
    /// counts trees and instances.
    ///
    /// # Errors
    /// When the search itself fails; what fails to be removed is counted instead.
    pub async fn maintain_retention(
        &self,
        policy: &Retention,
        request: PageRequest,
    ) -> Result<PassOutcome, ProviderError> {
        let pass = self.store.retention_pass(policy, request).await;
        pass.map_err(|failure| failure.of("maintain_retention"))
    }
}

impl Search {
    fn query(self) -> Query {
        match self {
            Search::Trees { before } => Query::new(
                "SELECT c.pk, c.completedAt FROM c WHERE c.type = 'instance' AND c.status IN ('Completed', 'Failed') \
                 AND IS_DEFINED(c.name) AND NOT IS_DEFINED(c.parent) AND c.completedAt < @before \
                 ORDER BY c.completedAt",
            )
            .param("@before", before),
            // The number of the current execution is indexed; how many are left is not, and is never more.
            Search::Executions { keep } => Query::new(
                "SELECT c.pk, c.execution FROM c WHERE c.type = 'instance' AND c.execution > @keep \
                 AND c.executions > @keep AND IS_DEFINED(c.name) ORDER BY c.execution",
            )
            .param("@keep", keep),
        }
    }
}

impl Store {
    async fn retention_pass(&self, policy: &Retention, request: PageRequest) -> Result<PassOutcome, Failure> {
        let place = request.cursor.unwrap_or_else(|| Cursor::begin(self.now()));
        let keep = policy.keep_executions.map(|keep| keep.max(1));
        if let (TREES, Some(age)) = (place.search, policy.delete_after) {
            let before = place.now_ms.saturating_sub(millis(age));
            let (most, deadline) = (request.most, request.deadline);
            let mut pass = self
                .retain(Search::Trees { before }, place.clone(), most, deadline)
                .await?;
            if pass.cursor.is_none() && keep.is_some() {
                pass.cursor = Some(place.next_search(EXECUTIONS));
            }
            return Ok(pass);
        }
        let Some(keep) = keep else {
            return Ok(PassOutcome::default());
        };
        let place = if place.search == TREES {
            place.next_search(EXECUTIONS)
        } else {
            place
        };
        self.retain(Search::Executions { keep }, place, request.most, request.deadline)
            .await
    }

    /// Finds a page and settles its instances: each may have thousands of documents.
    async fn retain(
        &self,
        search: Search,
        place: Cursor,
        most: u32,
        deadline: Instant,
    ) -> Result<PassOutcome, Failure> {
        if Instant::now() >= deadline {
            return Ok(PassOutcome::untouched(place));
        }
        let time = Time::until(deadline);
        let page = self
            .container
            .within(deadline)
            .sweep::<Old, _, _>(&search.query(), most, place.sweep.clone(), |old| {
                (old.completed_at, old.execution)
            })
            .await?;
        let items = page.items.iter().filter(|old| !place.passes_by(&old.pk));
        let fates = settle(
            items.collect(),
            time,
            |old| &old.pk,
            |old, limit| Box::pin(self.remove_old(search, &old.pk, limit)),
        )
        .await;
        let (mut pass, mut failed, mut is_cut) = (PassOutcome::default(), Vec::new(), false);
        for (old, fate) in fates {
            match fate {
                Fate::Settled(Ok(done)) => pass.done += u64::from(done),
                // Deleted since it was found.
                Fate::Settled(Err(Failure::NoInstance(_))) => {}
                Fate::Settled(Err(failure)) => {
                    tracing::warn!(instance = old.pk, %failure, "retention leaves an instance for the next time");
                    failed.push(old.pk.clone());
                }
                Fate::Slow => {
                    tracing::warn!(
                        instance = old.pk,
                        "retention took too long with an instance; it goes on the next time"
                    );
                    failed.push(old.pk.clone());
                }
                Fate::Cut => {
                    is_cut = true;
                    continue;
                }
            }
            pass.found += 1;
        }
        pass.failed = failed.len() as u64;
        pass.cursor = if is_cut {
            Some(place.without(failed))
        } else {
            place.after(page.cursor)
        };
        Ok(pass)
    }

    /// Removes what was found of one instance until then. Answers whether there was anything to remove.
    async fn remove_old(&self, search: Search, instance: &str, limit: Instant) -> Result<bool, Failure> {
        match search {
            Search::Trees { before } => {
                let tree = self.tree_of(instance).await?;
                // What has no children is over: that is how it was found.
                if tree.len() > 1 && self.any_runs(&tree).await? {
                    return Ok(false);
                }
                // They have a time of their own, and a redrive needs the history.
                if self.any_dead_letters(&tree).await? {
                    return Ok(false);
                }
                self.delete_expired(&tree, before, limit).await?;
                Ok(true)
            }
            Search::Executions { keep } => {
                let options = PruneOptions {
                    keep_last: Some(u32::try_from(keep).unwrap_or(u32::MAX)),
                    completed_before: None,
                };
                let pk = PartitionKey::new(instance)?;
                // Pruning would wait for the end of the turn; the pass has others to see to.
                let lock = self.lock(&pk).await?;
                if lock.is_some_and(|lock| lock.doc.held_at(self.now()).is_some()) {
                    return Err(Failure::Busy(instance.to_owned()));
                }
                let pruned = self.prune(&pk, &options).await?;
                Ok(pruned.executions_deleted > 0)
            }
        }
    }
}
