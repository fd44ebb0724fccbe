//! Writing a plan: one batch when it fits, and a staged commit when it does not. Both are all or nothing.
//!
//! A commit that does not fit into 100 operations and 2 MB writes in four steps: the surplus is *staged* (invisible),
//! one *decisive* batch flips lock and instance, the staged operations are *published*, and the last publication
//! removes the head. A crash before the decisive batch leaves orphans that are swept by age; a crash after it leaves
//! an unfinished commit that the next fetch, or maintenance, rolls forward. Nothing else can be seen.
//!
//! What can go wrong: the answer of the decisive batch is lost (the lock remembers the commit's name); the lock was
//! renewed meanwhile (its version is read again, the holder is still this token); it was taken over (the commit
//! fails whole); a cancelled activity completed by itself meanwhile (it is left out and the batch sent again).

use super::plan::{PlanContext, is_earlier};
use super::{Decision, HeldTurn, Plan};
use crate::error::Failure;
use crate::finish::StagedOps;
use crate::model::{ExecutionDoc, LockDoc, StagedDoc, StagedHead, StagedOp, StagedOpKind, Unfinished};
use crate::store::{Locked, Store};
use cosmos::{Batch, Container, Etag, PartitionKey, Query, Retry};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// How many operations and bytes a batch is filled to. The service takes 100 and 2 MB; the lock document, which is in
/// every batch and may name a thousand messages, must still fit.
pub(crate) const BATCH_OPS: usize = cosmos::MAX_BATCH_OPERATIONS - 3;
pub(crate) const BATCH_BYTES: usize = cosmos::MAX_REQUEST_BYTES - 128 * 1024;
/// A staged document must fit a document, and its operations a batch.
const STAGED_BYTES: usize = 1800 * 1024;

/// Between two attempts of a commit.
const PAUSE: Duration = Duration::from_millis(50);

/// What a commit did.
#[derive(Debug)]
pub(crate) struct Committed {
    pub plan: Plan,
    /// The instance may have more to do: messages that the turn did not take.
    pub more: bool,
}

/// One commit under way.
#[derive(Debug)]
pub(crate) struct Commit<'a> {
    store: &'a Store,
    container: Container,
    deadline: Instant,
    turn: &'a HeldTurn,
    /// An attempt has gone out whose outcome is not known: only then may the commit turn out to have happened.
    uncertain: AtomicBool,
}

impl<'a> Commit<'a> {
    /// The requests of the commit end when the lock does.
    pub(crate) fn of(store: &'a Store, turn: &'a HeldTurn) -> Result<Self, Failure> {
        let left = turn.lock.doc.until.saturating_sub(store.now());
        if left == 0 {
            return Err(Failure::LockLost {
                instance: turn.pk.as_str().to_owned(),
            });
        }
        let deadline = Instant::now() + Duration::from_millis(left);
        Ok(Commit {
            store,
            container: store.container.within(deadline),
            deadline,
            turn,
            uncertain: AtomicBool::new(false),
        })
    }

    /// Decides and writes. Transient trouble is met again and again until the lock ends: what reached the runtime as
    /// "retryable" a few times in a row would fail the orchestration for good.
    pub(crate) async fn run(&self, decision: Decision) -> Result<Committed, Failure> {
        loop {
            match self.attempt(decision.clone()).await {
                Err(failure) if failure.is_transient() && Instant::now() < self.deadline => {
                    tracing::warn!(instance = self.turn.pk.as_str(), %failure, "a commit is tried again");
                    tokio::time::sleep(PAUSE).await;
                }
                Err(failure) if failure.is_transient() => return Err(self.lost()),
                done => return done,
            }
        }
    }

    fn lost(&self) -> Failure {
        Failure::LockLost {
            instance: self.turn.pk.as_str().to_owned(),
        }
    }

    async fn attempt(&self, decision: Decision) -> Result<Committed, Failure> {
        let pk = &self.turn.pk;
        let earlier = if is_earlier(self.turn, decision.execution) {
            let id = ExecutionDoc::id(decision.execution);
            self.container
                .read::<ExecutionDoc>(pk, &id)
                .await?
                .map(|found| found.doc.state)
        } else {
            None
        };
        let context = PlanContext {
            now_ms: self.store.now(),
            repair_due: self.store.repair_due(),
            commit: &self.turn.nonce,
            sequence: &self.store.sequence,
            earlier,
        };
        let plan = Plan::make(self.turn, decision, context)?;
        self.apply(&plan).await?;
        Ok(Committed {
            more: self.turn.more,
            plan,
        })
    }

    /// Writes a plan that was made elsewhere.
    pub(crate) async fn apply(&self, plan: &Plan) -> Result<(), Failure> {
        let everything = || plan.state.iter().chain(&plan.history).chain(&plan.rest);
        let bytes: usize = everything().map(StagedOp::bytes).sum();
        if everything().count() <= BATCH_OPS && bytes <= BATCH_BYTES {
            let lock = self.turn.lock.doc.committed(&plan.commit, &plan.consumed);
            self.decide(plan, lock, everything().cloned().collect()).await?;
            return Ok(());
        }
        self.apply_staged(plan).await
    }

    async fn apply_staged(&self, plan: &Plan) -> Result<(), Failure> {
        let pk = &self.turn.pk;
        let split = Split::of(plan);
        self.check_messages(&split).await?;
        let total = u32::try_from(split.staged.len()).map_err(|_| Failure::Refused("too many operations".into()))?;
        let history: Vec<String> = split.history.iter().map(|op| op.id.clone()).collect();
        let head = StagedHead::new(pk.as_str(), &plan.commit, self.store.repair_due(), total, history);
        let mut writes = vec![StagedOp::create(&head.id, &head)?];
        writes.extend(split.history);
        let mut staged = StagedOps::new();
        for (n, ops) in (0..).zip(split.staged) {
            let doc = StagedDoc::new(pk.as_str(), &plan.commit, n, ops);
            writes.push(StagedOp::create(&doc.id, &doc)?);
            staged.insert(n, doc.ops);
        }
        tracing::debug!(
            instance = pk.as_str(),
            staged = total,
            "the commit does not fit one batch: staging"
        );
        for group in pack(writes, BATCH_OPS, BATCH_BYTES) {
            self.stage(&group).await?;
        }
        let mut lock = self.turn.lock.doc.committed(&plan.commit, &plan.consumed);
        let mut decisive = split.decisive;
        if total == 0 {
            decisive.push(StagedOp::discard(&head.id));
        } else {
            lock.unfinished = Some(Unfinished {
                commit: plan.commit.clone(),
                next: 0,
                total,
            });
            lock.owe(Some(self.store.repair_due()));
        }
        let locked = self.decide(plan, lock, decisive).await?;
        // The commit has happened. What is left is published now if possible, and by others if not.
        if let Err(error) = self.store.publish(pk, locked, staged).await {
            tracing::warn!(instance = pk.as_str(), commit = plan.commit, %error,
                "a committed turn is not fully published; the next fetch or maintenance rolls it forward");
        }
        Ok(())
    }

    /// Consumed messages that are deleted only after the decision must exist before it: in a single batch their
    /// deletion would fail it, here nothing would. The read is as fresh as the claim, whose session it shares.
    async fn check_messages(&self, split: &Split) -> Result<(), Failure> {
        let later = split.staged.iter().flatten().filter_map(|op| match &op.op {
            StagedOpKind::Delete { etag } | StagedOpKind::Replace { etag } => Some((&op.id, etag)),
            _ => None,
        });
        let expected: HashMap<&String, &String> = later.collect();
        if expected.is_empty() {
            return Ok(());
        }
        #[derive(serde::Deserialize)]
        struct Seen {
            id: String,
            #[serde(rename = "_etag")]
            etag: String,
        }
        let query = Query::new("SELECT c.id, c._etag FROM c WHERE c.queue = 'turn'");
        let seen = self.container.query::<Seen>(&self.turn.pk, &query).await?;
        let there = seen
            .iter()
            .filter(|seen| expected.get(&seen.id) == Some(&&seen.etag))
            .count();
        if there == expected.len() {
            Ok(())
        } else {
            Err(self.lost())
        }
    }

    /// Writes staged documents. Their ids belong to this commit alone: a conflict is the echo of our own write.
    async fn stage(&self, ops: &[StagedOp]) -> Result<(), Failure> {
        match self
            .container
            .batch(&self.turn.pk, &batch_of(ops)?, Retry::Idempotent)
            .await
        {
            Ok(_) => Ok(()),
            Err(error) if error.is_conflict() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether an earlier attempt was applied after all. Without one, the name in the lock is that of a second commit
    /// with the same token, and this one is too late.
    fn is_done(&self, now: &Locked, plan: &Plan) -> bool {
        self.uncertain.load(Ordering::Relaxed) && now.doc.remembers(&plan.commit)
    }

    /// The one batch that makes the commit happen: the lock with `If-Match`, and `ops`.
    async fn decide(&self, plan: &Plan, lock: LockDoc, mut ops: Vec<StagedOp>) -> Result<Locked, Failure> {
        let pk = &self.turn.pk;
        let mut etag = self.turn.lock.etag.clone();
        loop {
            let batch = extend(lock_first(&lock, &etag)?, &ops)?;
            let error = match self.container.batch(pk, &batch, Retry::Idempotent).await {
                Ok(results) => {
                    let etag = results.first().and_then(|result| result.etag.clone());
                    return Ok(Locked {
                        doc: lock,
                        etag: etag.unwrap_or_else(|| Etag::new("")),
                    });
                }
                Err(error) => error,
            };
            if error.after_ambiguity() || error.is_transient() {
                self.uncertain.store(true, Ordering::Relaxed);
            }
            if error.batch_index() == Some(0) || (error.batch_index().is_none() && error.is_transient()) {
                match self.store.lock(pk).await? {
                    Some(now) if self.is_done(&now, plan) => return Ok(now),
                    // Renewed meanwhile, or never applied.
                    Some(now) if now.doc.is_held_by(&self.turn.nonce) && Instant::now() < self.deadline => {
                        etag = now.etag;
                        tokio::time::sleep(PAUSE).await;
                        continue;
                    }
                    _ => return Err(self.lost()),
                }
            }
            let failed = error
                .batch_index()
                .map(|index| index - 1)
                .filter(|index| *index < ops.len());
            match failed.map(|index| &ops[index].op) {
                Some(StagedOpKind::Discard) if error.is_not_found() => {
                    ops.remove(failed.unwrap_or_default());
                    ops = self.store.without_missing(pk, ops).await?;
                }
                // A message that we were shown is gone, or a name of ours is taken: the view was a ghost.
                Some(StagedOpKind::Delete { .. } | StagedOpKind::Replace { .. })
                    if error.is_not_found() || error.is_precondition_failed() =>
                {
                    return Err(self.lost());
                }
                _ => return Err(error.into()),
            }
        }
    }
}

/// Which operations go where, when they do not fit one batch.
struct Split {
    decisive: Vec<StagedOp>,
    history: Vec<StagedOp>,
    staged: Vec<Vec<StagedOp>>,
}

impl Split {
    fn of(plan: &Plan) -> Split {
        let mut decisive: Vec<StagedOp> = Vec::new();
        let mut surplus: Vec<StagedOp> = Vec::new();
        let mut bytes = 0;
        // History is staged under its final ids, for it is invisible until the instance's head names it. So it
        // never waits for publication, and a reader sees all of the turn with the decisive batch.
        for op in plan.state.iter().chain(&plan.rest) {
            if surplus.is_empty() && decisive.len() < BATCH_OPS - 1 && bytes + op.bytes() <= BATCH_BYTES {
                bytes += op.bytes();
                decisive.push(op.clone());
            } else {
                surplus.push(op.clone());
            }
        }
        Split {
            decisive,
            history: plan.history.clone(),
            staged: pack(surplus, BATCH_OPS, STAGED_BYTES),
        }
    }
}

/// Cuts a list of operations into groups that each fit, in order.
pub(crate) fn pack(ops: Vec<StagedOp>, most: usize, most_bytes: usize) -> Vec<Vec<StagedOp>> {
    let mut groups: Vec<Vec<StagedOp>> = Vec::new();
    let mut bytes = 0;
    for op in ops {
        let fits = bytes + op.bytes() <= most_bytes;
        match groups.last_mut() {
            Some(group) if fits && group.len() < most => group.push(op.clone()),
            _ => {
                groups.push(vec![op.clone()]);
                bytes = 0;
            }
        }
        bytes += op.bytes();
    }
    groups
}

/// A batch of these operations.
pub(crate) fn batch_of(ops: &[StagedOp]) -> Result<Batch, Failure> {
    extend(Batch::new(), ops)
}

/// A batch that begins with the fence: the lock, in the version that was seen.
pub(crate) fn lock_first(lock: &LockDoc, seen: &Etag) -> Result<Batch, Failure> {
    let mut batch = Batch::new();
    batch.replace(LockDoc::ID, lock, Some(seen.clone()))?;
    Ok(batch)
}

/// Adds these operations to a batch.
pub(crate) fn extend(mut batch: Batch, ops: &[StagedOp]) -> Result<Batch, Failure> {
    for StagedOp { id, op, body } in ops {
        match (op, body) {
            (StagedOpKind::Create, Some(body)) => batch.create(id, body)?,
            (StagedOpKind::Upsert, Some(body)) => batch.upsert(id, body)?,
            (StagedOpKind::Replace { etag }, Some(body)) => batch.replace(id, body, Some(Etag::new(etag.clone())))?,
            (StagedOpKind::Delete { etag }, _) => batch.delete(id, Some(Etag::new(etag.clone())))?,
            (StagedOpKind::Discard, _) => batch.delete(id, None)?,
            (_, None) => return Err(Failure::Refused(format!("a staged operation on '{id}' lost its body"))),
        };
    }
    Ok(batch)
}

impl Store {
    /// The operations without those that would delete what is gone already.
    pub(crate) async fn without_missing(
        &self,
        pk: &PartitionKey,
        ops: Vec<StagedOp>,
    ) -> Result<Vec<StagedOp>, Failure> {
        let discards: Vec<&str> = ops
            .iter()
            .filter(|op| matches!(op.op, StagedOpKind::Discard))
            .map(|op| op.id.as_str())
            .collect();
        let query = Query::new("SELECT VALUE c.id FROM c WHERE ARRAY_CONTAINS(@ids, c.id)").param("@ids", &discards);
        let there: HashSet<String> = self.container.query::<String>(pk, &query).await?.into_iter().collect();
        Ok(ops
            .into_iter()
            .filter(|op| !matches!(op.op, StagedOpKind::Discard) || there.contains(&op.id))
            .collect())
    }
}
