//! Deleting instances: all of a group or none, over many partitions. See `model::deletion` for the protocol.
//!
//! ```text
//!   check ──> mark every lock (fences turns) ──> check again ──> DECIDE (one document) ──> erase each partition
//! ```
//!
//! An instance that is alone and small goes the short way: one batch that deletes everything, fenced by its lock.

use super::erase::{AT_ONCE, ATTEMPTS, add, tally};
use super::guard::Guard;
use crate::error::Failure;
use crate::finish::Finish;
use crate::model::{Deleting, DeletionDoc, Kind, LockDoc, StagedOp};
use crate::store::{Locked, Store};
use crate::turn::{BATCH_OPS, extend};
use cosmos::{Batch, PartitionKey, Retry};
use duroxide::providers::{DeleteInstanceResult, InstanceFilter};
use futures::future::try_join_all;
use std::collections::HashSet;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

const PAUSE: Duration = Duration::from_millis(25);
/// How long the marking of an instance may take before others take the deletion for forgotten.
const MARKING_MS: u64 = 100;

impl Store {
    /// Deletes all of these instances, or none.
    pub(crate) async fn delete_group(&self, ids: &[String], force: bool) -> Result<DeleteInstanceResult, Failure> {
        self.delete_guarded(ids, if force { Guard::Any } else { Guard::Over }, None)
            .await
    }

    /// Deletes a tree, the root first, that is over and whose root ended before then, or nothing. It may take until the
    /// limit: a tree that cannot be marked in time has its marks taken off again.
    pub(crate) async fn delete_expired(
        &self,
        tree: &[String],
        before: u64,
        limit: Instant,
    ) -> Result<DeleteInstanceResult, Failure> {
        let left = limit.saturating_duration_since(Instant::now());
        // To take off the marks needs about the time that it took to make them.
        let mark_until = limit.checked_sub(left / 2);
        self.delete_guarded(tree, Guard::Expired { before }, mark_until).await
    }

    async fn delete_guarded(
        &self,
        ids: &[String],
        guard: Guard,
        mark_until: Option<Instant>,
    ) -> Result<DeleteInstanceResult, Failure> {
        let mut seen = HashSet::new();
        let ids: Vec<String> = ids.iter().filter(|id| seen.insert(id.as_str())).cloned().collect();
        let Some(root) = ids.first() else {
            return Ok(DeleteInstanceResult::default());
        };
        let ids = ids.as_slice();
        self.check(ids, guard).await?;
        if let [only] = ids
            && let Some(result) = self.delete_alone(&PartitionKey::new(only)?, guard).await?
        {
            return Ok(result);
        }
        let group = self.ids.unique();
        let mark = Deleting {
            group: group.clone(),
            root: root.clone(),
            expires: self.repair_due() + ids.len() as u64 * MARKING_MS,
        };
        let decision = DeletionDoc::new(root, &group, self.repair_due(), ids);
        let marked = async {
            for some in ids.chunks(AT_ONCE) {
                try_join_all(some.iter().map(|id| self.mark(id, &mark))).await?;
            }
            self.check(ids, guard).await?;
            self.decide_deletion(&decision).await
        };
        let marked = match mark_until {
            Some(until) => timeout_at(until, marked)
                .await
                .unwrap_or_else(|_| Err(Failure::Busy(root.clone()))),
            None => marked.await,
        };
        if let Err(failure) = marked {
            // Undone here if possible, and by whoever meets the marks if not.
            if let Err(error) = self.give_up(&decision).await {
                tracing::warn!(group, %error, "a deletion that was not decided left marks; they expire");
            }
            return Err(failure);
        }
        self.carry_out(&decision).await
    }

    /// Refuses what must not be deleted.
    async fn check(&self, ids: &[String], guard: Guard) -> Result<(), Failure> {
        if !matches!(guard, Guard::Any) {
            let root = ids.first();
            for some in ids.chunks(AT_ONCE) {
                let each = some.iter().map(|id| async {
                    let instance = self.instance(&PartitionKey::new(id)?).await?;
                    guard.check(id, root == Some(id), instance.as_ref())
                });
                try_join_all(each).await?;
            }
        }
        let group: HashSet<&String> = ids.iter().collect();
        let orphans: Vec<String> = self
            .children_of(ids)
            .await?
            .into_iter()
            .filter(|child| !group.contains(child))
            .collect();
        if let Some(orphan) = orphans.first() {
            return Err(Failure::Refused(format!(
                "instance '{orphan}' is a child of one that would be deleted and is not itself among them: \
                 delete the whole tree"
            )));
        }
        Ok(())
    }

    /// The short way; `None` when the instance is too large for it, or moved meanwhile.
    async fn delete_alone(&self, pk: &PartitionKey, guard: Guard) -> Result<Option<DeleteInstanceResult>, Failure> {
        let Some(lock) = self.lock(pk).await? else {
            return Ok(None);
        };
        if lock.doc.unfinished.is_some() || lock.doc.deleting.is_some() {
            return Ok(None);
        }
        // Read after the lock, which the batch fences: what is checked here is what is deleted.
        let instance = self.instance(pk).await?;
        guard.check(pk.as_str(), true, instance.as_ref())?;
        let remains = self.remains(pk).await?;
        if remains.len() > BATCH_OPS || remains.iter().any(|doc| doc.kind == Kind::Intent) {
            return Ok(None);
        }
        let mut batch = Batch::new();
        batch.delete(LockDoc::ID, Some(lock.etag))?;
        let ops: Vec<StagedOp> = remains
            .iter()
            .filter(|doc| doc.kind != Kind::Lock)
            .map(|doc| StagedOp::discard(&doc.id))
            .collect();
        match self.container.batch(pk, &extend(batch, &ops)?, Retry::Idempotent).await {
            Ok(_) => Ok(Some(tally(instance.as_ref(), &remains))),
            Err(error) if error.after_ambiguity() && error.is_not_found() && self.lock(pk).await?.is_none() => {
                Ok(Some(tally(instance.as_ref(), &remains)))
            }
            Err(error) if error.is_not_found() || error.is_precondition_failed() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the lock from whoever holds it, for the deletion.
    async fn mark(&self, instance: &str, mark: &Deleting) -> Result<(), Failure> {
        let pk = &PartitionKey::new(instance)?;
        for _ in 0..ATTEMPTS {
            let seen = self.lock(pk).await?;
            if let Some(lock) = &seen {
                match self.finish(pk, lock).await? {
                    Finish::Clean => {}
                    Finish::Changed => continue,
                    Finish::Underway { .. } => return Err(Failure::Busy(pk.as_str().to_owned())),
                }
            }
            let mut next = seen
                .as_ref()
                .map_or_else(|| LockDoc::new(pk.as_str()), |lock| lock.doc.released(false));
            next.deleting = Some(mark.clone());
            next.owe(Some(mark.expires));
            if self
                .swap_lock(pk, seen.as_ref().map(|lock| &lock.etag), next)
                .await?
                .is_some()
            {
                return Ok(());
            }
        }
        Err(Failure::Busy(pk.as_str().to_owned()))
    }

    async fn decide_deletion(&self, decision: &DeletionDoc) -> Result<(), Failure> {
        let root = PartitionKey::new(&decision.pk)?;
        match self.container.create(&root, decision, Retry::Idempotent).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_conflict() => {
                if error.after_ambiguity() {
                    match self.container.read::<DeletionDoc>(&root, &decision.id).await? {
                        Some(found) if !found.doc.given_up => return Ok(()),
                        Some(_) => {}
                        None => {
                            let reason = "a decision about a deletion does not show".to_owned();
                            return Err(Failure::Stale {
                                instance: decision.pk.clone(),
                                reason,
                            });
                        }
                    }
                }
                Err(Failure::Refused(
                    "the deletion took too long and was given up: try again".to_owned(),
                ))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Decides against an undecided deletion, and does what was decided: that, or what somebody decided before.
    async fn give_up(&self, decision: &DeletionDoc) -> Result<(), Failure> {
        let root = PartitionKey::new(&decision.pk)?;
        let given_up = decision.given_up();
        match self.container.create(&root, &given_up, Retry::Idempotent).await {
            Ok(_) => return self.carry_out(&given_up).await.map(|_| ()),
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error.into()),
        }
        // There is a decision, even if a lagging replica does not show it yet.
        for _ in 0..ATTEMPTS {
            if let Some(found) = self.container.read::<DeletionDoc>(&root, &decision.id).await? {
                return self.carry_out(&found.doc).await.map(|_| ());
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(Failure::Stale {
            instance: decision.pk.clone(),
            reason: "a decided deletion does not show".to_owned(),
        })
    }

    /// Meets the mark of somebody's deletion.
    pub(crate) async fn finish_deletion(&self, pk: &PartitionKey, lock: &Locked) -> Result<Finish, Failure> {
        let Some(mark) = &lock.doc.deleting else {
            return Ok(Finish::Clean);
        };
        let root = PartitionKey::new(&mark.root)?;
        match self
            .container
            .read::<DeletionDoc>(&root, &DeletionDoc::id(&mark.group))
            .await?
        {
            Some(decision) => {
                self.carry_out(&decision.doc).await?;
                if decision.doc.given_up {
                    self.unmark(pk, &mark.group).await?;
                }
                Ok(Finish::Changed)
            }
            None if mark.expires > self.now() => Ok(Finish::Underway { until_ms: mark.expires }),
            None => {
                let only = [pk.as_str().to_owned()];
                self.give_up(&DeletionDoc::new(&mark.root, &mark.group, self.repair_due(), &only))
                    .await?;
                Ok(Finish::Changed)
            }
        }
    }

    /// Deletes the trees of all roots that are over and match.
    pub(crate) async fn delete_bulk(&self, filter: &InstanceFilter) -> Result<DeleteInstanceResult, Failure> {
        let roots = self
            .matching(filter, |instance| instance.parent.is_none() && instance.is_over())
            .await?;
        let (mut total, mut failed) = (DeleteInstanceResult::default(), None);
        for root in roots {
            let deleted = async { self.delete_group(&self.tree_of(&root).await?, true).await };
            match deleted.await {
                Ok(one) => add(&mut total, &one),
                Err(failure) => {
                    tracing::warn!(instance = root, %failure, "a tree is not deleted; the others are");
                    failed = Some(failure);
                }
            }
        }
        match failed {
            Some(failure) if total.instances_deleted == 0 => Err(failure),
            _ => Ok(total),
        }
    }
}
