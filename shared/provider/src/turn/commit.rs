//! Writing a plan: one batch when it fits, and a staged commit when it does not. Both are all or nothing.
//!
//! A commit that does not fit into 100 operations and 2 MB has four steps: the surplus is *staged* (invisible), one
//! *decisive* batch replaces the instance document, the staged operations are *published*, and the last publication removes
//! the head. A crash before the decisive batch leaves orphans that recovery removes by age; a crash after it leaves an
//! unfinished commit that the next fetch, or maintenance, rolls forward. No other state is visible.
//!
//! A turn without a claim commits in the version that was read, if it fits one batch; for more it must claim first
//! ([`Failure::Unclaimed`]), because several who run the same turn would each stage. One that finds another version has
//! lost the race ([`Failure::Raced`]): it has written nothing, and must not try again with the newer version.
//!
//! What can go wrong: the response of the decisive batch is lost (the instance document keeps the commit's name); the claim was renewed
//! meanwhile (its version is read again, the token is still the same); another process has claimed (the commit fails as a
//! whole); a cancelled activity completed by itself (its delete is left out and the batch is sent again).

use super::claimed::{ClaimedTurn, ClaimedTurns};
use super::plan::{Plan, PlanContext, TurnUsage, is_earlier};
use super::release::unclaim;
use crate::batch::{self, BATCH_BYTES, BATCH_OPS, Split, Written, extend, fence_first, pack};
use crate::due::{Due, TurnDecision};
use crate::error::Failure;
use crate::model::sql::{KEPT_RESULT, TURN};
use crate::model::{
    ExecutionDoc, GivenUp, InstanceDoc, KeptResultDoc, StagedDoc, StagedHead, StagedOp, StagedOpKind, Unfinished, Usage,
};
use crate::recovery::{self, StagedOps};
use crate::store::{Fence, Store, millis};
use crate::types::Decided;
use cosmos::{Batch, Container, Etag, Query, Retry};
use duroxide::{Event, EventKind};
use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Between two attempts of a commit.
const PAUSE: Duration = Duration::from_millis(50);

/// The result of a commit.
#[derive(Debug)]
pub(crate) struct Committed {
    pub plan: Plan,
    /// More messages are due than the turn took.
    pub more: bool,
    /// The versions of the documents that it wrote, as far as they are known.
    pub etags: HashMap<String, Etag>,
    /// What the turn had spent, as far as the commit counts it.
    counted: Usage,
}

/// Keeps what a commit, and what followed it, has cost: the next one counts it. Forgets what this one has counted.
pub(crate) fn settle(store: &Store, committed: &Committed) {
    let plan = &committed.plan;
    let instance = plan.instance.pk.as_str();
    store.spent.forget(instance, &plan.counted_late);
    if let Some(usage) = &plan.instance.usage {
        store.spent.settle(instance, usage);
    }
    let used = store.spending.of_turn(store.now());
    store.keep_late(instance, &plan.commit, used, committed.counted);
}

/// One commit under way.
#[derive(Debug)]
pub(crate) struct Commit<'a> {
    store: &'a Store,
    turns: &'a ClaimedTurns,
    turn: &'a ClaimedTurn,
    /// An attempt was sent whose outcome is unknown: only then can the commit already have happened.
    uncertain: AtomicBool,
    decided: Decided,
    /// Why the provider ends the orchestration, if it does.
    given_up: Option<GivenUp>,
    /// What the turn had spent when it was first planned, with the request of the commit itself. All attempts write the same, because
    /// any of them may be the one that was applied.
    counted: OnceLock<Usage>,
}

impl<'a> Commit<'a> {
    /// A commit of `turn`, whose renewals are recorded in `turns`. Fails when the claim has expired.
    pub(crate) fn of(store: &'a Store, turns: &'a ClaimedTurns, turn: &'a ClaimedTurn) -> Result<Self, Failure> {
        let commit = Commit {
            store,
            turns,
            turn,
            uncertain: AtomicBool::new(false),
            decided: Decided::default(),
            given_up: None,
            counted: OnceLock::new(),
        };
        if turn.until <= store.now() || commit.is_late() {
            Err(commit.lost())
        } else {
            Ok(commit)
        }
    }

    /// The same commit, which notes there that it was written.
    pub(crate) fn noting(self, decided: Decided) -> Self {
        Commit { decided, ..self }
    }

    /// The same, with a dead letter.
    pub(super) fn giving_up(self, given_up: GivenUp) -> Self {
        Commit {
            given_up: Some(given_up),
            ..self
        }
    }

    /// When the claim expires: the runtime may renew it while the commit is under way.
    fn deadline(&self) -> Instant {
        self.turns
            .get(&self.turn.nonce)
            .map_or(self.turn.expires, |turn| turn.expires)
    }

    fn is_late(&self) -> bool {
        Instant::now() >= self.deadline()
    }

    /// The container, for requests that end when the claim does.
    fn container(&self) -> Container {
        self.store.container.within(self.deadline())
    }

    /// Plans and writes. Transient errors are retried until the claim expires: the runtime fails an orchestration for good
    /// after a few retryable errors in a row.
    pub(crate) async fn run(&self, decision: TurnDecision) -> Result<Committed, Failure> {
        loop {
            match self.attempt(decision.clone()).await {
                Err(failure) if failure.is_transient() && !self.is_late() => {
                    tracing::warn!(instance = self.turn.pk.as_str(), %failure, "a commit failed; trying again");
                    tokio::time::sleep(PAUSE).await;
                }
                Err(failure) if failure.is_transient() => return Err(self.lost()),
                done => return done,
            }
        }
    }

    fn counted(&self) -> Usage {
        let used = || self.store.spending.of_turn(self.store.now());
        *self.counted.get_or_init(|| used().plus(Usage::REQUEST))
    }

    /// How many wakeups follow the commit for the instance itself. Those for others count for them.
    fn wakeups(&self, due: &[Due]) -> u64 {
        let Some(reach) = self.store.wakeup_reach.get() else {
            return 0;
        };
        let last = self.store.now().saturating_add(millis(*reach));
        let is_own = |due: &&Due| due.target.instance() == self.turn.pk.as_str();
        let own = due.iter().filter(is_own);
        own.filter(|due| due.at_ms.is_none_or(|at_ms| at_ms <= last)).count() as u64
    }

    fn lost(&self) -> Failure {
        Failure::lock_lost(&self.turn.pk)
    }

    /// Another process has written to the instance.
    fn beaten(&self) -> Failure {
        match self.turn.is_claimed() {
            true => self.lost(),
            false => Failure::raced(&self.turn.pk),
        }
    }

    async fn attempt(&self, decision: TurnDecision) -> Result<Committed, Failure> {
        let pk = &self.turn.pk;
        let earlier = if is_earlier(self.turn, decision.execution) {
            let id = ExecutionDoc::id(decision.execution);
            self.container()
                .read::<ExecutionDoc>(pk, &id)
                .await?
                .map(|found| found.doc)
        } else {
            None
        };
        let late = self.store.spent.late(pk.as_str());
        let usage = TurnUsage {
            spent: self.counted(),
            wakeups: self.wakeups(&decision.due()),
            late: &late,
            announced: self.store.announced(),
        };
        let context = PlanContext {
            now_ms: self.store.now(),
            repair_due: self.store.repair_due(),
            commit: &self.turn.nonce,
            dead_letter_ttl: self.store.dead_letter_ttl,
            receipt_ttl: self.store.receipt_ttl,
            sequence: &self.store.sequence,
            given_up: self.given_up.clone(),
            earlier,
            kept: self.kept(&decision).await?,
            usage,
        };
        let plan = Plan::make(self.turn, decision, context)?;
        if plan.reused > 0 {
            self.decided.adds(Due {
                execution: Some(plan.instance.current.execution),
                ..Due::turn(self.turn.pk.as_str())
            });
        }
        let etags = self.apply(&plan).await?;
        Ok(Committed {
            // A result that was kept waits for the next turn.
            more: self.turn.more || plan.reused > 0,
            plan,
            etags,
            counted: self.counted(),
        })
    }

    /// The results that a rewind has kept, if the turn may use them.
    async fn kept(&self, decision: &TurnDecision) -> Result<Vec<KeptResultDoc>, Failure> {
        let subscribes = |event: &Event| matches!(event.kind, EventKind::ExternalSubscribed { .. });
        let asks = !decision.work.is_empty() || decision.events.iter().any(subscribes);
        if self.turn.fence.doc.kept_results() == 0 || !asks {
            return Ok(Vec::new());
        }
        let query = Query::new(format!("SELECT * FROM c WHERE c.type = {KEPT_RESULT}"));
        let mut kept = self.container().query::<KeptResultDoc>(&self.turn.pk, &query).await?;
        kept.retain(|kept| kept.execution == decision.execution);
        kept.sort_by_key(|kept| kept.order);
        Ok(kept)
    }

    /// Writes a plan. Returns the versions of what it wrote.
    pub(crate) async fn apply(&self, plan: &Plan) -> Result<HashMap<String, Etag>, Failure> {
        if self.uncertain.load(Ordering::Relaxed)
            && let Some(now) = self.store.fence(&self.turn.pk).await?
            && self.is_done(&now, plan)
        {
            self.decided.set();
            return Ok(HashMap::new());
        }
        let everything = || plan.state.iter().chain(&plan.history).chain(&plan.rest);
        let bytes: usize = everything().map(StagedOp::bytes).sum();
        if everything().count() <= BATCH_OPS && bytes <= BATCH_BYTES {
            let decided = self
                .decide(plan, plan.instance.clone(), everything().cloned().collect())
                .await?;
            return Ok(decided.etags);
        }
        if !self.turn.is_claimed() {
            let instance = self.turn.pk.as_str().to_owned();
            return Err(Failure::Unclaimed { instance });
        }
        self.apply_staged(plan).await
    }

    async fn apply_staged(&self, plan: &Plan) -> Result<HashMap<String, Etag>, Failure> {
        let pk = &self.turn.pk;
        // History is staged under its final ids: it is invisible until the instance's head names it. So it never waits
        // for publication, and a reader sees the whole turn with the decisive batch.
        let split = Split::of(plan.state.iter().chain(&plan.rest));
        self.check_messages(&split).await?;
        let total = u32::try_from(split.staged.len()).map_err(|_| Failure::Refused("too many operations".into()))?;
        let history: Vec<String> = plan.history.iter().map(|op| op.id.clone()).collect();
        let head = StagedHead::new(pk.as_str(), &plan.commit, self.store.repair_due(), total, history);
        let mut writes = vec![StagedOp::create(&head.id, &head)?];
        writes.extend(plan.history.iter().cloned());
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
        for group in pack(writes) {
            self.stage(&group).await?;
        }
        let mut instance = plan.instance.clone();
        let mut decisive = split.decisive;
        if total == 0 {
            decisive.push(StagedOp::discard(&head.id));
        } else {
            instance.lock.unfinished = Some(Unfinished {
                commit: plan.commit.clone(),
                next: 0,
                total,
            });
            instance.lock.mark_due(Some(self.store.repair_due()));
        }
        let Written { fence, mut etags } = self.decide(plan, instance, decisive).await?;
        // The commit has happened. What is left is published now if possible, and by others if not.
        match recovery::publish(self.store, pk, fence, staged).await {
            Ok(published) => {
                self.decided.wrote(published.etags.clone());
                etags.extend(published.etags);
            }
            Err(error) => tracing::warn!(instance = pk.as_str(), commit = plan.commit, %error,
                "a committed turn is not fully published; the next fetch or maintenance rolls it forward"),
        }
        Ok(etags)
    }

    /// Consumed messages that are deleted only after the decision must exist before it: in a single batch a missing one
    /// fails the commit, here nothing else would. The read is as fresh as the claim, whose consistency token it uses.
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
        let query = Query::new(format!("SELECT c.id, c._etag FROM c WHERE c.queue = {TURN}"));
        let seen = self.container().query::<Seen>(&self.turn.pk, &query).await?;
        let there = seen
            .iter()
            .filter(|seen| expected.get(&seen.id) == Some(&&seen.etag))
            .count();
        if there == expected.len() {
            return Ok(());
        }
        unclaim(self.store, &self.turn.pk, &self.turn.fence).await;
        Err(self.lost())
    }

    /// Writes staged documents. Their ids are unique to this commit: a conflict comes from our own first attempt.
    async fn stage(&self, ops: &[StagedOp]) -> Result<(), Failure> {
        let batch = extend(Batch::new(), ops)?;
        match self.container().batch(&self.turn.pk, &batch, Retry::Idempotent).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_conflict() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether an earlier attempt was applied. Without an earlier attempt, the remembered commit is another one with the
    /// same token, and this one is too late.
    fn is_done(&self, now: &Fence, plan: &Plan) -> bool {
        self.uncertain.load(Ordering::Relaxed) && now.doc.lock.remembers(&plan.commit)
    }

    /// Whether nobody else has written to the instance: it has the claim of this turn, or is as it was read.
    fn is_mine(&self, now: &Fence, seen: &Etag) -> bool {
        now.doc.lock.is_claimed_by(&self.turn.nonce) || now.etag == *seen
    }

    /// The one batch that makes the commit happen: the instance document with `If-Match`, and `ops`.
    async fn decide(&self, plan: &Plan, instance: InstanceDoc, mut ops: Vec<StagedOp>) -> Result<Written, Failure> {
        let pk = &self.turn.pk;
        let mut etag = self.turn.fence.etag.clone();
        loop {
            let batch = extend(fence_first(&instance, Some(&etag))?, &ops)?;
            let error = match self.container().batch(pk, &batch, Retry::Idempotent).await {
                Ok(results) => {
                    let etags = batch::etags_of(ops, &results);
                    self.decided.wrote(etags.clone());
                    self.uncertain.store(true, Ordering::Relaxed);
                    let fence = self.store.written_fence(pk, instance, &results).await?;
                    return Ok(Written { fence, etags });
                }
                Err(error) => error,
            };
            if error.after_ambiguity() || error.is_transient() {
                self.uncertain.store(true, Ordering::Relaxed);
            }
            let is_fenced_off = error.batch_index() == Some(0);
            if is_fenced_off && !self.turn.is_claimed() && !self.uncertain.load(Ordering::Relaxed) {
                return Err(self.beaten());
            }
            if is_fenced_off || (error.batch_index().is_none() && error.is_transient()) {
                match self.store.fence(pk).await? {
                    Some(now) if self.is_done(&now, plan) => {
                        self.decided.set();
                        return Ok(Written {
                            fence: now,
                            etags: HashMap::new(),
                        });
                    }
                    // Renewed meanwhile, or never applied.
                    Some(now) if self.is_mine(&now, &etag) && !self.is_late() => {
                        etag = now.etag;
                        tokio::time::sleep(PAUSE).await;
                        continue;
                    }
                    _ if self.is_late() => return Err(self.lost()),
                    _ => return Err(self.beaten()),
                }
            }
            let failed = error
                .batch_index()
                .map(|index| index - 1)
                .filter(|index| *index < ops.len());
            match failed.map(|index| &ops[index].op) {
                Some(StagedOpKind::Discard) if error.is_not_found() => {
                    ops.remove(failed.unwrap_or_default());
                    ops = batch::without_missing(self.store, pk, ops).await?;
                }
                // A message of the turn is gone: the view was stale, and so is the turn.
                Some(StagedOpKind::Delete { .. } | StagedOpKind::Replace { .. })
                    if error.is_not_found() || error.is_precondition_failed() =>
                {
                    unclaim(self.store, pk, &self.turn.fence).await;
                    return Err(self.beaten());
                }
                _ => return Err(error.into()),
            }
        }
    }
}
