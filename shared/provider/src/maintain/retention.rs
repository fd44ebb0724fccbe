//! Retention: deleting instances that ended long ago, and pruning earlier executions.
//!
//! First it deletes trees whose root is old enough, and those of children without a parent (`lone_children`), then it
//! prunes the executions of other instances. It uses the administrator's operations (`admin::delete`, `admin::prune`), so
//! recovery continues what a killed run leaves. It skips a tree in which an instance still runs, or which has dead
//! letters. A large tree is deleted in parts, by several runs if need be, and so are many executions.

use super::lone_children;
use crate::admin;
use crate::error::Failure;
use crate::model::sql::{ENDED, INSTANCE};
use crate::page::{self, Cursor, Item, PageRequest, PassOutcome};
use crate::store::{Store, millis};
use cosmos::{PartitionKey, Query};
use duroxide::providers::PruneOptions;
use serde::Deserialize;
use std::time::Duration;
use tokio::time::Instant;

/// What to keep. The default keeps everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Delete instances that ended longer ago than this, with all their children.
    pub delete_after: Option<Duration>,
    /// Keep this many executions of an instance that continues as new, the current one included (at least 1).
    pub keep_executions: Option<u64>,
}

/// What to search for. A cursor has the number of its search.
#[derive(Clone, Copy, Debug)]
enum Search {
    /// Roots that ended before then.
    Trees { before: u64 },
    /// Instances with more executions than these.
    Executions { keep: u64 },
}

const TREES: u8 = 0;
const EXECUTIONS: u8 = 1;

/// An instance that was found.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Old {
    pk: String,
    #[serde(default)]
    completed_at: u64,
    #[serde(default)]
    executions: u64,
}

impl Item for Old {
    type Order = (u64, u64);

    fn order(&self) -> (u64, u64) {
        (self.completed_at, self.executions)
    }

    fn pk(&self) -> &str {
        &self.pk
    }
}

impl Search {
    fn query(self) -> Query {
        match self {
            Search::Trees { before } => Query::new(format!(
                "SELECT c.pk, c.completedAt FROM c WHERE c.type = {INSTANCE} AND c.status IN ({ENDED}) \
                 AND IS_DEFINED(c.name) AND NOT IS_DEFINED(c.parent) AND c.completedAt < @before \
                 ORDER BY c.type, c.completedAt"
            ))
            .param("@before", before),
            Search::Executions { keep } => Query::new(format!(
                "SELECT c.pk, c.executions FROM c WHERE c.type = {INSTANCE} AND c.executions > @keep \
                 AND IS_DEFINED(c.name) ORDER BY c.type, c.executions"
            ))
            .param("@keep", keep),
        }
    }
}

/// Does one page of what the policy asks for.
pub(crate) async fn retention_page(
    store: &Store,
    policy: &Retention,
    request: PageRequest,
) -> Result<PassOutcome, Failure> {
    let place = request.place(store);
    let keep = policy.keep_executions.map(|keep| keep.max(1));
    if let (TREES, Some(age)) = (place.search, policy.delete_after) {
        let before = place.now_ms.saturating_sub(millis(age));
        let mut pass = retain(store, Search::Trees { before }, request.clone().at(place.clone())).await?;
        if pass.cursor.is_none() {
            let next = place.next_search(lone_children::SEARCH);
            match lone_children::page(store, before, request.at(next.clone())).await {
                Ok(children) => {
                    pass.cursor = children.cursor.clone();
                    pass.add(children);
                }
                // What was done is reported; the next page tries again.
                Err(error) if pass.found > 0 => {
                    tracing::warn!(%error, "children without a parent were not searched for");
                    pass.cursor = Some(next);
                }
                Err(error) => return Err(error),
            }
        }
        return Ok(or_executions(pass, &place, keep));
    }
    if let (true, Some(age)) = (lone_children::is_search(place.search), policy.delete_after) {
        let before = place.now_ms.saturating_sub(millis(age));
        let pass = lone_children::page(store, before, request).await?;
        return Ok(or_executions(pass, &place, keep));
    }
    let Some(keep) = keep else {
        return Ok(PassOutcome::default());
    };
    let place = if place.search == TREES {
        place.next_search(EXECUTIONS)
    } else {
        place
    };
    retain(store, Search::Executions { keep }, request.at(place)).await
}

/// Continues with the executions when nothing is left of the search before.
fn or_executions(mut pass: PassOutcome, place: &Cursor, keep: Option<u64>) -> PassOutcome {
    if pass.cursor.is_none() && keep.is_some() {
        pass.cursor = Some(place.next_search(EXECUTIONS));
    }
    pass
}

/// Removes what a page finds. Each instance may have thousands of documents.
async fn retain(store: &Store, search: Search, request: PageRequest) -> Result<PassOutcome, Failure> {
    page::run(store, &search.query(), request, |old: Old, limit| {
        Box::pin(async move {
            let deleted = match remove_old(store, search, &old.pk, limit).await {
                // Deleted since it was found.
                Err(Failure::NoInstance(_)) => Deleted::Nothing,
                deleted => deleted?,
            };
            Ok(PassOutcome {
                done: u64::from(deleted != Deleted::Nothing),
                partial: u64::from(deleted == Deleted::Part),
                ..PassOutcome::default()
            })
        })
    })
    .await
}

/// Removes what was found of one instance, until the limit. What was deleted in part is found again by the next run.
async fn remove_old(store: &Store, search: Search, instance: &str, limit: Instant) -> Result<Deleted, Failure> {
    match search {
        Search::Trees { before } => delete_tree(store, instance, before, limit).await,
        Search::Executions { keep } => {
            let options = PruneOptions {
                keep_last: Some(u32::try_from(keep).unwrap_or(u32::MAX)),
                completed_before: None,
            };
            // It stops in the last quarter of its time.
            let stop = limit - limit.saturating_duration_since(Instant::now()) / 4;
            let pruned = admin::prune_until(store, &PartitionKey::new(instance)?, &options, limit).await?;
            Ok(match pruned.executions_deleted {
                0 => Deleted::Nothing,
                _ if Instant::now() >= stop => Deleted::Part,
                _ => Deleted::Whole,
            })
        }
    }
}

/// How much of a tree, or of old executions, was deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deleted {
    /// It must stay for now.
    Nothing,
    /// As much as the time allowed.
    Part,
    Whole,
}

/// Deletes the tree of a root that has ended before then.
pub(super) async fn delete_tree(store: &Store, root: &str, before: u64, limit: Instant) -> Result<Deleted, Failure> {
    let tree = admin::tree_of(store, root).await?;
    // The query has found that the root has ended.
    if tree.len() > 1 && admin::any_runs(store, &tree).await? {
        return Ok(Deleted::Nothing);
    }
    // Dead letters expire by themselves, and a redrive needs the history.
    if admin::any_dead_letters(store, &tree).await? {
        return Ok(Deleted::Nothing);
    }
    let is_whole = admin::delete_expired(store, &tree, before, limit).await?;
    Ok(if is_whole { Deleted::Whole } else { Deleted::Part })
}
