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

use super::batches::{BATCH_BYTES, BATCH_OPS, Split, batch_of, extend, lock_first, pack};
use super::plan::{PlanContext, is_earlier};
use super::{HeldTurn, HeldTurns, Plan};
use crate::due::TurnDecision;
use crate::error::Failure;
use crate::finish::StagedOps;
use crate::model::{ExecutionDoc, LockDoc, StagedDoc, StagedHead, StagedOp, StagedOpKind, Unfinished};
use crate::store::{Locked, Store};
use cosmos::{Container, Etag, Query, Retry};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Between two attempts of a commit.
const PAUSE: Duration = Duration::from_millis(50);

/// What a commit did.
#[derive(Debug)]
pub(crate) struct Committed {
    pub plan: Plan,
    /// The instance may have more to do: messages that the turn did not take.
    pub more: bool,
    /// The versions of the documents that the decisive batch wrote.
    pub etags: HashMap<String, Etag>,
}

/// The decisive batch was applied.
struct Decided {
    lock: Locked,
    etags: HashMap<String, Etag>,
}

/// One commit under way.
#[derive(Debug)]
pub(crate) struct Commit<'a> {
    store: &'a Store,
    held: &'a HeldTurns,
    turn: &'a HeldTurn,
    /// An attempt has gone out whose outcome is not known: only then may the commit turn out to have happened.
    uncertain: AtomicBool,
}

impl<'a> Commit<'a> {
    /// A commit of `turn`, whose lock `held` follows through renewals.
    pub(crate) fn of(store: &'a Store, held: &'a HeldTurns, turn: &'a HeldTurn) -> Result<Self, Failure> {
        let commit = Commit {
            store,
            held,
            turn,
            uncertain: AtomicBool::new(false),
        };
        if turn.lock.doc.until <= store.now() || commit.is_late() {
            Err(commit.lost())
        } else {
            Ok(commit)
        }
    }

    /// When the lock ends: the runtime may renew it while the commit is under way.
    fn deadline(&self) -> Instant {
        self.held
            .get(&self.turn.nonce)
            .map_or(self.turn.expires, |turn| turn.expires)
    }

    fn is_late(&self) -> bool {
        Instant::now() >= self.deadline()
    }

    /// The container, for requests that end when the lock does.
    fn container(&self) -> Container {
        self.store.container.within(self.deadline())
    }

    /// Decides and writes. Transient trouble is met again and again until the lock ends: what reached the runtime as
    /// "retryable" a few times in a row would fail the orchestration for good.
    pub(crate) async fn run(&self, decision: TurnDecision) -> Result<Committed, Failure> {
        loop {
            match self.attempt(decision.clone()).await {
                Err(failure) if failure.is_transient() && !self.is_late() => {
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

    async fn attempt(&self, decision: TurnDecision) -> Result<Committed, Failure> {
        let pk = &self.turn.pk;
        let earlier = if is_earlier(self.turn, decision.execution) {
            let id = ExecutionDoc::id(decision.execution);
            self.container()
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
            dead_letter_ttl: self.store.dead_letter_ttl,
            sequence: &self.store.sequence,
            earlier,
        };
        let plan = Plan::make(self.turn, decision, context)?;
        let etags = self.apply(&plan).await?;
        Ok(Committed {
            more: self.turn.more,
            plan,
            etags,
        })
    }

    /// Writes a plan, and answers the versions of what the decisive batch wrote.
    pub(crate) async fn apply(&self, plan: &Plan) -> Result<HashMap<String, Etag>, Failure> {
        if self.uncertain.load(Ordering::Relaxed)
            && let Some(now) = self.store.lock(&self.turn.pk).await?
            && self.is_done(&now, plan)
        {
            return Ok(HashMap::new());
        }
        let everything = || plan.state.iter().chain(&plan.history).chain(&plan.rest);
        let bytes: usize = everything().map(StagedOp::bytes).sum();
        if everything().count() <= BATCH_OPS && bytes <= BATCH_BYTES {
            let lock = self.turn.lock.doc.committed(&plan.commit, &plan.consumed);
            let decided = self.decide(plan, lock, everything().cloned().collect()).await?;
            return Ok(decided.etags);
        }
        self.apply_staged(plan).await
    }

    async fn apply_staged(&self, plan: &Plan) -> Result<HashMap<String, Etag>, Failure> {
        let pk = &self.turn.pk;
        let split = Split::of(plan);
        self.check_messages(&split).await?;
        let total = u32::try_from(split.staged.len()).map_err(|_| Failure::Refused("too many operations".into()))?;
        let history: Vec<String> = split.history.iter().map(|op| op.id.clone()).collect();
        let head = StagedHead::new(pk.as_str(), &plan.commit, self.store.repair_due(), total, history);
        let mut writes = vec![StagedOp::create(&head.id, &head)?];
        writes.extend(split.history);
        let mut staged = StagedOps {
            commit: plan.commit.clone(),
            ops: HashMap::new(),
        };
        for (n, ops) in (0..).zip(split.staged) {
            let doc = StagedDoc::new(pk.as_str(), &plan.commit, n, self.store.repair_due(), ops);
            writes.push(StagedOp::create(&doc.id, &doc)?);
            staged.ops.insert(n, doc.ops);
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
        let Decided { lock, etags } = self.decide(plan, lock, decisive).await?;
        // The commit has happened. What is left is published now if possible, and by others if not.
        if let Err(error) = self.store.publish(pk, lock, staged).await {
            tracing::warn!(instance = pk.as_str(), commit = plan.commit, %error,
                "a committed turn is not fully published; the next fetch or maintenance rolls it forward");
        }
        Ok(etags)
    }

    /// Consumed messages that are deleted only after the decision must exist before it: in a single batch their
    /// deletion would fail it, here nothing would. The read is as fresh as the claim, whose consistency token it carries.
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
        let seen = self.container().query::<Seen>(&self.turn.pk, &query).await?;
        let there = seen
            .iter()
            .filter(|seen| expected.get(&seen.id) == Some(&&seen.etag))
            .count();
        if there == expected.len() {
            return Ok(());
        }
        self.store.unclaim(&self.turn.pk, &self.turn.lock).await;
        Err(self.lost())
    }

    /// Writes staged documents. Their ids belong to this commit alone: a conflict is the echo of our own write.
    async fn stage(&self, ops: &[StagedOp]) -> Result<(), Failure> {
        match self
            .container()
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
    async fn decide(&self, plan: &Plan, lock: LockDoc, mut ops: Vec<StagedOp>) -> Result<Decided, Failure> {
        let pk = &self.turn.pk;
        let mut etag = self.turn.lock.etag.clone();
        loop {
            let batch = extend(lock_first(&lock, &etag)?, &ops)?;
            let error = match self.container().batch(pk, &batch, Retry::Idempotent).await {
                Ok(results) => {
                    self.uncertain.store(true, Ordering::Relaxed);
                    let written = ops.into_iter().zip(results.iter().skip(1));
                    let etags = written
                        .filter_map(|(op, result)| Some((op.id, result.etag.clone()?)))
                        .collect();
                    let lock = self.store.written_lock(pk, lock, &results).await?;
                    return Ok(Decided { lock, etags });
                }
                Err(error) => error,
            };
            if error.after_ambiguity() || error.is_transient() {
                self.uncertain.store(true, Ordering::Relaxed);
            }
            if error.batch_index() == Some(0) || (error.batch_index().is_none() && error.is_transient()) {
                match self.store.lock(pk).await? {
                    Some(now) if self.is_done(&now, plan) => {
                        return Ok(Decided {
                            lock: now,
                            etags: HashMap::new(),
                        });
                    }
                    // Renewed meanwhile, or never applied.
                    Some(now) if now.doc.is_held_by(&self.turn.nonce) && !self.is_late() => {
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
                // A message that we were shown is gone: the view was a ghost, and so is the turn.
                Some(StagedOpKind::Delete { .. } | StagedOpKind::Replace { .. })
                    if error.is_not_found() || error.is_precondition_failed() =>
                {
                    self.store.unclaim(pk, &self.turn.lock).await;
                    return Err(self.lost());
                }
                _ => return Err(error.into()),
            }
        }
    }
}
