//! Rolling forward what an earlier commit or deletion left unfinished.
//!
//! Whoever meets an unfinished commit publishes the rest of it: a fetch before it claims, maintenance when it sweeps.
//! Each publication advances a counter in the lock with `If-Match`, in the same batch as the operations themselves,
//! so two that publish at once cannot publish the same thing twice.

use crate::error::Failure;
use crate::model::{LockDoc, StagedDoc, StagedHead, StagedOp, StagedOpKind, Unfinished};
use crate::store::{Locked, Store};
use crate::turn::{BATCH_BYTES, BATCH_OPS, extend, lock_first, pack};
use cosmos::{Batch, PartitionKey, Retry};
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::time::Duration;

/// How often to look again for a staged document that a lagging replica does not show.
const REREADS: u32 = 20;
const REREAD_WAIT: Duration = Duration::from_millis(20);
/// Between two looks at a lock that others write as well.
const TURN_BY_TURN: Duration = Duration::from_millis(5);

/// What a commit has just staged itself and need not read again: operations by the number of their document.
#[derive(Debug, Default)]
pub(crate) struct StagedOps {
    pub commit: String,
    pub ops: HashMap<u32, Vec<StagedOp>>,
}

impl StagedOps {
    /// The operations of that document, if they are of this very commit: others may have finished it meanwhile, and
    /// begun to publish their own.
    fn take(&mut self, unfinished: &Unfinished) -> Option<Vec<StagedOp>> {
        if self.commit != unfinished.commit {
            return None;
        }
        self.ops.remove(&unfinished.next)
    }
}

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    /// Nothing was left over.
    Clean,
    /// Something was finished: look again.
    Changed,
    /// Somebody is at it.
    Underway { until_ms: u64 },
}

impl Store {
    /// Finishes whatever the lock says is unfinished.
    pub(crate) async fn finish(&self, pk: &PartitionKey, lock: &Locked) -> Result<Finish, Failure> {
        if lock.doc.deleting.is_some() {
            return self.finish_deletion(pk, lock).await;
        }
        if lock.doc.unfinished.is_some() {
            tracing::info!(instance = pk.as_str(), "rolling an unfinished commit forward");
            self.publish(pk, lock.clone(), StagedOps::default()).await?;
            return Ok(Finish::Changed);
        }
        Ok(Finish::Clean)
    }

    /// Publishes what the lock's unfinished commit has staged. Returns when nothing is left, whoever did it. The commit
    /// itself passes what it has just staged; others read it.
    pub(crate) async fn publish(
        &self,
        pk: &PartitionKey,
        mut lock: Locked,
        mut known: StagedOps,
    ) -> Result<(), Failure> {
        let mut rereads = 0;
        while let Some(unfinished) = lock.doc.unfinished.clone() {
            let id = StagedDoc::id(&unfinished.commit, unfinished.next);
            let staged = match known.take(&unfinished) {
                Some(ops) => Some(ops),
                None => self
                    .container
                    .read::<StagedDoc>(pk, &id)
                    .await?
                    .map(|found| found.doc.ops),
            };
            let Some(mut ops) = staged else {
                rereads += 1;
                if rereads > REREADS {
                    let reason = format!("staged document {id} does not show");
                    return Err(Failure::Stale {
                        instance: pk.as_str().to_owned(),
                        reason,
                    });
                }
                tokio::time::sleep(REREAD_WAIT).await;
                let Some(now) = self.lock(pk).await? else { return Ok(()) };
                lock = now;
                continue;
            };
            let mut next = lock.doc.clone();
            ops.push(StagedOp::discard(&id));
            if unfinished.next + 1 < unfinished.total {
                next.unfinished = Some(Unfinished {
                    next: unfinished.next + 1,
                    ..unfinished
                });
            } else {
                next.unfinished = None;
                next.owe(None);
                ops.push(StagedOp::discard(&StagedHead::id(&unfinished.commit)));
            }
            match self.publish_one(pk, &lock, &next, ops).await? {
                Some(published) => lock = published,
                None => {
                    // Somebody publishes too, or the answer to our own batch was lost.
                    tokio::time::sleep(TURN_BY_TURN).await;
                    match self.lock(pk).await? {
                        Some(now) => lock = now,
                        None => return Ok(()),
                    }
                }
            }
        }
        Ok(())
    }

    /// One publication; `None` when the lock has moved on.
    async fn publish_one(
        &self,
        pk: &PartitionKey,
        lock: &Locked,
        next: &LockDoc,
        mut ops: Vec<StagedOp>,
    ) -> Result<Option<Locked>, Failure> {
        loop {
            let batch = lock_first(next, &lock.etag)?;
            let error = match self.container.batch(pk, &extend(batch, &ops)?, Retry::Idempotent).await {
                Ok(results) => return Ok(Some(self.written_lock(pk, next.clone(), &results).await?)),
                Err(error) => error,
            };
            let Some(index) = error.batch_index() else {
                return Err(error.into());
            };
            if index == 0 {
                return Ok(None);
            }
            let Some(op) = ops.get(index - 1) else {
                return Err(error.into());
            };
            match &op.op {
                StagedOpKind::Discard => {}
                // The commit checked that these exist, and it alone may consume them.
                StagedOpKind::Delete { .. } | StagedOpKind::Replace { .. } => {
                    tracing::error!(instance = pk.as_str(), id = op.id, %error, "a consumed message is gone already");
                }
                StagedOpKind::Create | StagedOpKind::Upsert => return Err(error.into()),
            }
            ops.remove(index - 1);
            ops = self.without_missing(pk, ops).await?;
        }
    }

    /// Settles a staged commit, met by its head or by one of its parts: publishes it if it happened, removes what it
    /// staged if it did not. Answers whether anything was done.
    ///
    /// A commit that happened is named by the lock as unfinished until its parts and its head are gone. So one that is
    /// still there in a state no older than the lock's belongs to a commit that has not happened; and it cannot happen
    /// any more once the removal has written the lock.
    pub(crate) async fn settle_staged(&self, pk: &PartitionKey, commit: &str, id: &str) -> Result<bool, Failure> {
        let lock = self.lock(pk).await?;
        let Some(met) = self.container.read::<Box<RawValue>>(pk, id).await? else {
            return Ok(false);
        };
        let leftovers = if id == StagedHead::id(commit) {
            serde_json::from_str::<StagedHead>(met.doc.get())?.everything()
        } else {
            vec![id.to_owned()]
        };
        let Some(lock) = lock else {
            // Only if there really is no lock (the answer may have been old) was the instance deleted, and with it
            // every lock that could still decide.
            let deleted = self.settled_lock(pk).await?.is_none();
            if deleted {
                self.discard_all(pk, leftovers).await?;
            }
            return Ok(deleted);
        };
        let unfinished = lock.doc.unfinished.as_ref();
        if unfinished.is_some_and(|unfinished| unfinished.commit == commit) {
            self.publish(pk, lock, StagedOps::default()).await?;
            return Ok(true);
        }
        let by_maker = lock.doc.is_held_by(commit);
        if by_maker && lock.doc.until > self.now() {
            return Ok(false);
        }
        tracing::info!(
            instance = pk.as_str(),
            commit,
            "removing what a commit left behind that never happened"
        );
        let next = if by_maker {
            lock.doc.released(false)
        } else {
            lock.doc.clone()
        };
        let done = self
            .discard_fenced(
                pk,
                Locked {
                    doc: next,
                    etag: lock.etag,
                },
                leftovers,
            )
            .await?;
        Ok(done.is_some())
    }

    /// Deletes documents by id, in order, as long as the lock stays in the version that is given; each batch writes the
    /// lock, as it is given, too. Answers its newest version, or `None` when somebody else has written it.
    pub(crate) async fn discard_fenced(
        &self,
        pk: &PartitionKey,
        mut lock: Locked,
        ids: Vec<String>,
    ) -> Result<Option<Locked>, Failure> {
        let ops = ids.iter().map(|id| StagedOp::discard(id)).collect();
        for group in pack(ops, BATCH_OPS, BATCH_BYTES) {
            let next = lock.doc.clone();
            match self.publish_one(pk, &lock, &next, group).await? {
                Some(written) => lock = written,
                None => return Ok(None),
            }
        }
        Ok(Some(lock))
    }

    /// Deletes documents by id, in order, whether they exist or not.
    pub(crate) async fn discard_all(&self, pk: &PartitionKey, ids: Vec<String>) -> Result<(), Failure> {
        let ops = ids.iter().map(|id| StagedOp::discard(id)).collect();
        for mut group in pack(ops, BATCH_OPS, BATCH_BYTES) {
            while !group.is_empty() {
                match self
                    .container
                    .batch(pk, &extend(Batch::new(), &group)?, Retry::Idempotent)
                    .await
                {
                    Ok(_) => break,
                    Err(error) if error.is_not_found() => {
                        if let Some(index) = error.batch_index().filter(|index| *index < group.len()) {
                            group.remove(index);
                        }
                        group = self.without_missing(pk, group).await?;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }
}
