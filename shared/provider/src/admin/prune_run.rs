//! One instance that is being pruned: reads, plans and writes until nothing is left. See `prune` for the protocol.

use super::prune_plan::{Earlier, GROUP, Piece, Step, plan};
use crate::batch::{extend, fence_first};
use crate::error::Failure;
use crate::model::sql::{EXECUTION, HISTORY, TERMINAL, TEXT};
use crate::model::{ExecutionDoc, InstanceDoc, Lock, StagedOp, check_version, newest_version};
use crate::recovery::{Progress, roll_forward};
use crate::store::{Fence, Store};
use cosmos::{BatchResult, Etag, PageOptions, PartitionKey, Query, Retry};
use duroxide::providers::{PruneOptions, PruneResult};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::time::Duration;
use tokio::time::Instant;

/// Executions and history documents that are read at a time.
const EXECUTIONS_AT_ONCE: u32 = 200;
const HISTORY_AT_ONCE: u32 = 1000;
/// How often, and how long apart, to try again after a turn, or another process, wrote to the instance.
const ATTEMPTS: u32 = 60;
const WAIT: Duration = Duration::from_millis(50);

/// How a run of a pruning ended without a failure.
pub(super) enum End {
    Done,
    /// The time is over.
    Time,
}

/// Which executions are to be pruned.
struct Selected<'a> {
    /// The newest of them.
    newest: u64,
    /// Those that have a document of a newer release.
    left: &'a [u64],
}

impl Selected<'_> {
    /// Selects [`Earlier`], the oldest first.
    fn query(&self, which: &str, options: &PruneOptions) -> Query {
        let old_enough = match options.completed_before {
            Some(_) => " AND c.completedAt < @before",
            None => "",
        };
        let query = Query::new(format!(
            "SELECT c.id, c._etag, c.execution, c.events FROM c WHERE c.type = {EXECUTION} AND c.execution <= @newest \
             AND c.status IN ({TERMINAL}) AND {which}{old_enough} ORDER BY c.execution"
        ))
        .param("@newest", self.newest)
        .param("@left", self.left);
        match options.completed_before {
            Some(before) => query.param("@before", before),
            None => query,
        }
    }
}

/// A document of a newer release.
#[derive(Deserialize)]
struct Newer {
    id: String,
    v: serde_json::Value,
}

/// The outcome of a batch.
type Sent = Result<Vec<BatchResult>, cosmos::Error>;

/// One instance that is being pruned.
pub(super) struct Pruning<'a> {
    store: &'a Store,
    pk: &'a PartitionKey,
    /// When to stop.
    until: Instant,
    /// Wait for a turn that is under way, instead of failing as busy.
    pub waits: bool,
    fence: Option<Fence>,
    /// The last batch that was written.
    commit: String,
    /// Batches in a row that failed because something was written meanwhile.
    races: u32,
    pub result: PruneResult,
}

impl<'a> Pruning<'a> {
    pub(super) fn new(store: &'a Store, pk: &'a PartitionKey, until: Instant) -> Self {
        Pruning {
            store,
            pk,
            until,
            waits: true,
            fence: None,
            commit: String::new(),
            races: 0,
            result: PruneResult {
                instances_processed: 1,
                ..PruneResult::default()
            },
        }
    }

    pub(super) async fn run(&mut self, options: &PruneOptions) -> Result<End, Failure> {
        let Some(newest) = self.newest_to_prune(options).await? else {
            return Ok(End::Done);
        };
        let left = self.of_newer_releases(newest).await?;
        loop {
            let selected = Selected { newest, left: &left };
            let executions = self.oldest(&selected, options).await?;
            let (Some(first), Some(last)) = (executions.first(), executions.last()) else {
                self.report_left(&selected, options).await?;
                return Ok(End::Done);
            };
            let (history, more) = self.history(first.execution, last.execution).await?;
            for step in plan(executions, history, more) {
                // A call that waits has deleted something before it ends, or calls on a slow day would never come further.
                let may_end = !self.waits || self.result.events_deleted > 0;
                if may_end && Instant::now() >= self.until {
                    return Ok(End::Time);
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
            let instance = &self.fence().await?.doc;
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

    /// The executions that have a document of a newer release.
    async fn of_newer_releases(&self, newest: u64) -> Result<Vec<u64>, Failure> {
        let query = Query::new(format!(
            "SELECT DISTINCT VALUE c.execution FROM c WHERE c.type IN ({EXECUTION}, {HISTORY}, {TEXT}) \
             AND c.execution <= @newest AND c.v > @known"
        ))
        .param("@newest", newest)
        .param("@known", newest_version());
        Ok(self.store.container.query::<u64>(self.pk, &query).await?)
    }

    /// The oldest executions to prune.
    async fn oldest(&self, selected: &Selected<'_>, options: &PruneOptions) -> Result<Vec<Earlier>, Failure> {
        let query = selected.query("NOT ARRAY_CONTAINS(@left, c.execution)", options);
        Ok(self.some(&query, EXECUTIONS_AT_ONCE).await?.0)
    }

    /// Fails if an execution to prune was left for a newer release.
    async fn report_left(&self, selected: &Selected<'_>, options: &PruneOptions) -> Result<(), Failure> {
        if selected.left.is_empty() {
            return Ok(());
        }
        let query = selected.query("ARRAY_CONTAINS(@left, c.execution)", options);
        let Some(Earlier { execution, .. }) = self.some(&query, 1).await?.0.pop() else {
            return Ok(());
        };
        let query = Query::new(format!(
            "SELECT c.id, c.v FROM c WHERE c.type IN ({EXECUTION}, {HISTORY}, {TEXT}) AND c.execution = @execution \
             AND c.v > @known OFFSET 0 LIMIT 1"
        ))
        .param("@execution", execution)
        .param("@known", newest_version());
        let found = self.store.container.query::<Newer>(self.pk, &query).await?;
        found
            .iter()
            .try_for_each(|newer| check_version(self.pk, &newer.id, Some(&newer.v)))
    }

    /// The first history documents of these executions, in order, and whether there are more.
    async fn history(&self, first: u64, last: u64) -> Result<(Vec<Piece>, bool), Failure> {
        let query = Query::new(format!(
            "SELECT c.id, c.execution FROM c WHERE c.type IN ({HISTORY}, {TEXT}) AND c.execution >= @first AND c.execution <= @last \
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

    /// Deletes documents of an execution that has more of them than a batch holds. The first batch also empties it, so that
    /// no batch makes the partition larger.
    async fn empty(&mut self, execution: &Earlier, history: &[String]) -> Result<bool, Failure> {
        let (mut ops, mut events) = (Vec::new(), 0);
        if execution.events > 0 {
            let Some(found) = self.store.read::<ExecutionDoc>(self.pk, &execution.id).await? else {
                return Ok(false);
            };
            events = found.doc.state.events;
            ops.push(StagedOp::replace(
                &execution.id,
                found.etag.as_str(),
                &found.doc.emptied(),
            )?);
        }
        ops.extend(history.iter().map(|id| StagedOp::discard(id)));
        for group in ops.chunks(GROUP) {
            let emptied = std::mem::take(&mut events);
            let written = self.write(group.to_vec(), |instance| {
                instance.earlier_events = instance.earlier_events.saturating_sub(emptied);
            });
            if !written.await? {
                return Ok(false);
            }
            self.result.events_deleted += emptied;
        }
        Ok(true)
    }

    /// Writes one batch: the fence, the changed counts, and `ops`. Returns `false` when a document of it is not in the
    /// version that was read any more.
    async fn write(&mut self, ops: Vec<StagedOp>, change: impl FnOnce(&mut InstanceDoc)) -> Result<bool, Failure> {
        let (store, pk) = (self.store, self.pk);
        let Fence { doc: mut next, etag } = match self.fence.take() {
            Some(fence) => fence,
            None => self.read_fence().await?,
        };
        let commit = store.ids.unique();
        if next.lock.last_commit() == self.commit {
            // Many batches in a row must not displace the commit of a turn, whose process may still look for it.
            next.lock.commits.pop();
        }
        next.lock.commit(&commit, &[]);
        change(&mut next);
        let (next, written) = self.send(&etag, next, &ops).await?;
        match written {
            Ok(results) => {
                self.commit = commit;
                self.fence = Some(store.written_fence(pk, next, &results).await?);
                Ok(true)
            }
            Err(error) if error.is_not_found() || error.is_precondition_failed() => {
                // It may come from our own first attempt, whose response was lost.
                let now = store.fence(pk).await?;
                Ok(error.after_ambiguity() && now.is_some_and(|now| now.doc.lock.remembers(&commit)))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Sends a fenced batch. A full partition refuses one more name of a commit: it then replaces the others.
    async fn send(&self, seen: &Etag, next: InstanceDoc, ops: &[StagedOp]) -> Result<(InstanceDoc, Sent), Failure> {
        let container = &self.store.container;
        let batch = extend(fence_first(&next, Some(seen))?, ops)?;
        match container.batch(self.pk, &batch, Retry::Idempotent).await {
            Err(cosmos::Error::PartitionFull { .. }) => {
                let shorter = next.with(Lock::shorten);
                let batch = extend(fence_first(&shorter, Some(seen))?, ops)?;
                let sent = container.batch(self.pk, &batch, Retry::Idempotent).await;
                Ok((shorter, sent))
            }
            sent => Ok((next, sent)),
        }
    }

    async fn fence(&mut self) -> Result<&Fence, Failure> {
        let fence = match self.fence.take() {
            Some(fence) => fence,
            None => self.read_fence().await?,
        };
        Ok(self.fence.insert(fence))
    }

    /// The instance, while nobody has claimed it.
    async fn read_fence(&self) -> Result<Fence, Failure> {
        let (store, pk) = (self.store, self.pk);
        let missing = || Failure::NoInstance(pk.as_str().to_owned());
        for _ in 0..ATTEMPTS {
            let fence = store.fence(pk).await?.ok_or_else(missing)?;
            if fence.doc.lock.claim_at(store.now()).is_some() {
                if !self.waits {
                    break;
                }
            } else if self.is_clean(&fence).await? {
                return Some(fence).filter(|fence| fence.doc.name.is_some()).ok_or_else(missing);
            }
            tokio::time::sleep(WAIT).await;
        }
        Err(Failure::busy(pk))
    }

    /// Whether nothing unfinished is in the way of pruning.
    async fn is_clean(&self, fence: &Fence) -> Result<bool, Failure> {
        match roll_forward(self.store, self.pk, fence).await {
            // See `prune`.
            Err(Failure::Cosmos(cosmos::Error::PartitionFull { .. })) if fence.doc.lock.deleting.is_none() => Ok(true),
            progress => Ok(progress? == Progress::Clean),
        }
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
