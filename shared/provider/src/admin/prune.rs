//! Pruning earlier executions: oldest first, in fenced batches that only delete.
//!
//! ```text
//!   the newest to prune ──> a page of executions ──> their history ──> groups ──> ONE batch each: fence, counts, deletions
//!                                   ^                                                        │
//!                                   └────────────────── until nothing is left ───────────────┘
//! ```
//!
//! A batch replaces the lock and the instance document, both in the version that was read, and deletes whole executions.
//! So the counts in the instance document are right after each batch, and a call that crashes or is dropped leaves
//! nothing unfinished: the next one continues with the oldest that is left. Nothing is claimed and nothing is created, so
//! an instance can be pruned whose partition is full. Turns run between two batches; a batch that meets one fails as a
//! whole, and is planned again.
//!
//! An execution with more documents than a batch holds is *emptied* first: its document then says that it has no events,
//! so that no reader misses the history that goes in the next batches. Its document goes last.
//!
//! Memory does not depend on how much there is to prune: only ids and counts are read, one page at a time.

use super::list;
use super::prune_plan::{Earlier, GROUP, Piece, Step, plan};
use crate::batch::{extend, lock_first};
use crate::error::Failure;
use crate::model::sql::{EXECUTION, HISTORY, TERMINAL};
use crate::model::{ExecutionDoc, InstanceDoc, StagedOp};
use crate::recovery::{Progress, roll_forward};
use crate::store::{Locked, Store};
use cosmos::{Found, PageOptions, PartitionKey, Query, Retry};
use duroxide::providers::{InstanceFilter, PruneOptions, PruneResult};
use serde::de::DeserializeOwned;
use std::time::Duration;
use tokio::time::Instant;

/// Executions and history documents that are read at a time.
const EXECUTIONS_AT_ONCE: u32 = 200;
const HISTORY_AT_ONCE: u32 = 1000;
/// How often, and how long apart, to try again after a turn, or another process, wrote to the instance.
const ATTEMPTS: u32 = 60;
const WAIT: Duration = Duration::from_millis(50);

/// Removes the executions of one instance that `options` selects; never the current one.
pub(crate) async fn prune(store: &Store, pk: &PartitionKey, options: &PruneOptions) -> Result<PruneResult, Failure> {
    let mut pruning = Pruning::new(store, pk, None);
    pruning.run(options).await?;
    Ok(pruning.result)
}

/// The same, until well before the limit, and without waiting for a turn that is under way. Another call continues.
pub(crate) async fn prune_until(
    store: &Store,
    pk: &PartitionKey,
    options: &PruneOptions,
    limit: Instant,
) -> Result<PruneResult, Failure> {
    let left = limit.saturating_duration_since(Instant::now());
    let mut pruning = Pruning::new(store, pk, limit.checked_sub(left / 4));
    match pruning.run(options).await {
        Err(Failure::Busy(_)) if pruning.result.executions_deleted > 0 => Ok(pruning.result),
        done => done.map(|()| pruning.result),
    }
}

/// Prunes every instance that matches.
pub(crate) async fn prune_bulk(
    store: &Store,
    filter: &InstanceFilter,
    options: &PruneOptions,
) -> Result<PruneResult, Failure> {
    let (mut total, mut failed) = (PruneResult::default(), None);
    for instance in list::matching(store, filter, |_| true).await? {
        match prune(store, &PartitionKey::new(&instance)?, options).await {
            Ok(one) => {
                total.instances_processed += one.instances_processed;
                total.executions_deleted += one.executions_deleted;
                total.events_deleted += one.events_deleted;
            }
            // Deleted since it was listed.
            Err(Failure::NoInstance(_)) => {}
            Err(failure) => {
                tracing::warn!(instance, %failure, "an instance was not pruned; bulk pruning continues with the others");
                failed = Some(failure);
            }
        }
    }
    match failed {
        Some(failure) if total.instances_processed == 0 => Err(failure),
        _ => Ok(total),
    }
}

/// The documents that a batch replaces, in the versions that were read or written last. They are of the same commit.
struct Fence {
    lock: Locked,
    instance: Found<InstanceDoc>,
}

/// One instance that is being pruned.
struct Pruning<'a> {
    store: &'a Store,
    pk: &'a PartitionKey,
    /// When to stop; with it, a turn that is under way ends the call.
    until: Option<Instant>,
    fence: Option<Fence>,
    /// The last batch that was written.
    commit: String,
    /// Batches in a row that failed because something was written meanwhile.
    races: u32,
    result: PruneResult,
}

impl<'a> Pruning<'a> {
    fn new(store: &'a Store, pk: &'a PartitionKey, until: Option<Instant>) -> Self {
        Pruning {
            store,
            pk,
            until,
            fence: None,
            commit: String::new(),
            races: 0,
            result: PruneResult {
                instances_processed: 1,
                ..PruneResult::default()
            },
        }
    }

    async fn run(&mut self, options: &PruneOptions) -> Result<(), Failure> {
        let Some(newest) = self.newest_to_prune(options).await? else {
            return Ok(());
        };
        loop {
            let executions = self.oldest(newest, options).await?;
            let (Some(first), Some(last)) = (executions.first(), executions.last()) else {
                return Ok(());
            };
            let (history, more) = self.history(first.execution, last.execution).await?;
            for step in plan(executions, history, more) {
                if self.until.is_some_and(|until| Instant::now() >= until) {
                    return Ok(());
                }
                let written = match step {
                    Step::Delete { executions, history } => self.delete(&executions, &history).await?,
                    Step::Empty { execution, history } => self.empty(&execution, &history).await?,
                };
                if !written {
                    self.lost_race().await?;
                    break;
                }
                self.races = 0;
            }
        }
    }

    /// The newest execution outside of those to keep, if there is one. The current one counts as the first to keep. Later
    /// executions do not change it: what is outside now stays outside.
    async fn newest_to_prune(&mut self, options: &PruneOptions) -> Result<Option<u64>, Failure> {
        let keep = options.keep_last.map_or(1, |keep| u64::from(keep).max(1));
        let (current, executions) = {
            let instance = &self.fence().await?.instance.doc;
            (instance.current.execution, instance.executions)
        };
        if executions <= keep {
            return Ok(None);
        }
        if keep == 1 {
            return Ok(Some(current.saturating_sub(1)));
        }
        let query = Query::new(format!(
            "SELECT VALUE c.execution FROM c WHERE c.type = {EXECUTION} ORDER BY c.execution DESC OFFSET {} LIMIT 1",
            keep - 1
        ));
        Ok(self.store.container.query::<u64>(self.pk, &query).await?.pop())
    }

    /// The oldest executions to prune.
    async fn oldest(&self, newest: u64, options: &PruneOptions) -> Result<Vec<Earlier>, Failure> {
        let old_enough = match options.completed_before {
            Some(_) => " AND c.completedAt < @before",
            None => "",
        };
        let query = Query::new(format!(
            "SELECT c.id, c._etag, c.execution, c.events FROM c WHERE c.type = {EXECUTION} AND c.execution <= @newest \
             AND c.status IN ({TERMINAL}){old_enough} ORDER BY c.execution"
        ))
        .param("@newest", newest);
        let query = match options.completed_before {
            Some(before) => query.param("@before", before),
            None => query,
        };
        Ok(self.some(&query, EXECUTIONS_AT_ONCE).await?.0)
    }

    /// The first history documents of these executions, in order, and whether there are more.
    async fn history(&self, first: u64, last: u64) -> Result<(Vec<Piece>, bool), Failure> {
        let query = Query::new(format!(
            "SELECT c.id, c.execution FROM c WHERE c.type = {HISTORY} AND c.execution >= @first AND c.execution <= @last \
             ORDER BY c.sortKey"
        ))
        .param("@first", first)
        .param("@last", last);
        self.some(&query, HISTORY_AT_ONCE).await
    }

    /// The first results of a query, and whether there are more. A page may be empty and still continue.
    async fn some<T: DeserializeOwned>(&self, query: &Query, most: u32) -> Result<(Vec<T>, bool), Failure> {
        let mut page = PageOptions {
            max_items: Some(most),
            continuation: None,
        };
        loop {
            let answer = self.store.container.query_page::<T>(self.pk, query, &page).await?;
            if !answer.items.is_empty() || answer.continuation.is_none() {
                return Ok((answer.items, answer.continuation.is_some()));
            }
            page.continuation = answer.continuation;
        }
    }

    /// Deletes whole executions, in one batch. Returns `false` when something was written meanwhile.
    async fn delete(&mut self, executions: &[Earlier], history: &[String]) -> Result<bool, Failure> {
        let (count, events) = (executions.len() as u64, executions.iter().map(|one| one.events).sum());
        // The document of an execution must still be as it was counted; its history may be gone already.
        let counted = executions.iter().map(|one| StagedOp::delete(&one.id, &one.etag));
        let ops = counted.chain(history.iter().map(|id| StagedOp::discard(id)));
        let written = self.write(ops.collect(), |instance| {
            instance.executions = instance.executions.saturating_sub(count);
            instance.earlier_events = instance.earlier_events.saturating_sub(events);
        });
        let written = written.await?;
        if written {
            self.result.executions_deleted += count;
            self.result.events_deleted += events;
        }
        Ok(written)
    }

    /// Deletes documents of an execution that has more of them than a batch holds.
    async fn empty(&mut self, execution: &Earlier, history: &[String]) -> Result<bool, Failure> {
        if execution.events > 0 {
            let found = self
                .store
                .container
                .read::<ExecutionDoc>(self.pk, &execution.id)
                .await?;
            let Some(found) = found else { return Ok(false) };
            let events = found.doc.state.events;
            let empty = StagedOp::replace(&execution.id, found.etag.as_str(), &found.doc.emptied())?;
            let written = self.write(vec![empty], |instance| {
                instance.earlier_events = instance.earlier_events.saturating_sub(events);
            });
            if !written.await? {
                return Ok(false);
            }
            self.result.events_deleted += events;
        }
        for ids in history.chunks(GROUP) {
            let ops = ids.iter().map(|id| StagedOp::discard(id)).collect();
            if !self.write(ops, |_| {}).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes one batch: the fence, the changed counts, and `ops`. Returns `false` when a document of it is not in the
    /// version that was read any more.
    async fn write(&mut self, ops: Vec<StagedOp>, change: impl FnOnce(&mut InstanceDoc)) -> Result<bool, Failure> {
        let (store, pk) = (self.store, self.pk);
        let Fence { mut lock, mut instance } = match self.fence.take() {
            Some(fence) => fence,
            None => self.read_fence().await?,
        };
        let commit = store.ids.unique();
        if lock.doc.last_commit() == self.commit {
            // Many batches in a row must not displace the commit of a turn, whose process may still look for it.
            lock.doc.commits.pop();
        }
        let next = lock.doc.committed(&commit, &[]);
        change(&mut instance.doc);
        instance.doc.commit.clone_from(&commit);
        let mut all = vec![StagedOp::replace(
            InstanceDoc::ID,
            instance.etag.as_str(),
            &instance.doc,
        )?];
        all.extend(ops);
        let batch = extend(lock_first(&next, &lock.etag)?, &all)?;
        match store.container.batch(pk, &batch, Retry::Idempotent).await {
            Ok(results) => {
                self.commit = commit;
                if let Some(etag) = results.get(1).and_then(|result| result.etag.clone()) {
                    let lock = store.written_lock(pk, next, &results).await?;
                    instance.etag = etag;
                    self.fence = Some(Fence { lock, instance });
                }
                Ok(true)
            }
            Err(error) if error.is_not_found() || error.is_precondition_failed() => {
                // It may come from our own first attempt, whose response was lost.
                let now = store.lock(pk).await?;
                Ok(error.after_ambiguity() && now.is_some_and(|now| now.doc.remembers(&commit)))
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn fence(&mut self) -> Result<&Fence, Failure> {
        let fence = match self.fence.take() {
            Some(fence) => fence,
            None => self.read_fence().await?,
        };
        Ok(self.fence.insert(fence))
    }

    /// Lock and instance of the same commit, while no turn has the lock.
    async fn read_fence(&self) -> Result<Fence, Failure> {
        let (store, pk) = (self.store, self.pk);
        let missing = || Failure::NoInstance(pk.as_str().to_owned());
        for _ in 0..ATTEMPTS {
            let lock = store.lock(pk).await?.ok_or_else(missing)?;
            if lock.doc.claim_at(store.now()).is_some() {
                if self.until.is_some() {
                    break;
                }
            } else if roll_forward(store, pk, &lock).await? == Progress::Clean {
                let found = store.container.read::<InstanceDoc>(pk, InstanceDoc::ID).await?;
                let instance = found.filter(|found| found.doc.name.is_some()).ok_or_else(missing)?;
                if instance.doc.commit == lock.doc.last_commit() {
                    return Ok(Fence { lock, instance });
                }
            }
            tokio::time::sleep(WAIT).await;
        }
        Err(Failure::busy(pk))
    }

    /// Waits a little before the next plan. Progress of others is no failure, but it must not go on for ever.
    async fn lost_race(&mut self) -> Result<(), Failure> {
        self.races += 1;
        if self.races >= ATTEMPTS {
            return Err(Failure::busy(self.pk));
        }
        tokio::time::sleep(WAIT).await;
        Ok(())
    }
}
