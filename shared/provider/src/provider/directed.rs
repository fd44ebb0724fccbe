//! The directed calls of functions: straight to one logical partition, no query across partitions.

use super::{CosmosProvider, Operation as _, pk_of};
use crate::build::Build;
use crate::due::{Due, Target, TurnDecision, WorkTarget, WorkVersion};
use crate::error::Failure;
use crate::model::{AttemptEnd, Block, Blocked, GivenUpWork, WorkDoc};
use crate::polling::WorkCandidate;
use crate::read::{self, ActivityAttempts, HistoryAfter, KnownHistory};
use crate::recovery;
use crate::session::{self, SessionClaim};
use crate::store::Store;
use crate::token::{TurnToken, WorkToken};
use crate::turn::{self, ClaimedTurn, Commit, Committed, Plan, TurnRequest};
use crate::types::{ClaimedWork, Decided, Fetched, PendingCommit, TurnItem};
use crate::work::{self, Completion, NamedWork, WorkRequest};
use cosmos::PartitionKey;
use duroxide::providers::{
    DispatcherCapabilityFilter, ProviderError, ScheduledActivityIdentifier, SessionFetchConfig, TagFilter, WorkItem,
};
use std::sync::Arc;
use std::time::Duration;

impl CosmosProvider {
    /// Fetches the turn of this instance, and claims it: no other process can run it until it is committed, released, or
    /// the lock expires.
    ///
    /// # Errors
    /// When the store cannot be reached, or the id cannot be an instance's.
    pub async fn fetch_turn(
        &self,
        instance: &str,
        lock_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Fetched<TurnItem>, ProviderError> {
        let request = TurnRequest {
            lock_timeout,
            filter,
            execution: None,
            claims: true,
        };
        self.fetch(instance, request).await
    }

    /// Fetches the turn of this instance without a claim, unless it was tried before: one request less to fetch and to
    /// commit it. Others may run the same turn at once; the first to commit wins, and the others find out with their
    /// commit ([`Decided::is_raced`]). `execution` is the one that the turn is expected to belong to: a wrong one costs a
    /// request.
    ///
    /// # Errors
    /// When the store cannot be reached, or the id cannot be an instance's.
    pub async fn begin_turn(
        &self,
        instance: &str,
        execution: Option<u64>,
        time: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Fetched<TurnItem>, ProviderError> {
        let request = TurnRequest {
            lock_timeout: time,
            filter,
            execution,
            claims: false,
        };
        self.fetch(instance, request).await
    }

    async fn fetch(&self, instance: &str, request: TurnRequest<'_>) -> Result<Fetched<TurnItem>, ProviderError> {
        let store = self.store.step(self.store.spent.take_spare(instance));
        // On the heap: the futures of its callers would be as large.
        let fetched =
            Box::pin(async { turn::fetch(&store, &PartitionKey::new(instance)?, request, &self.turns).await });
        let fetched = fetched.await;
        if !matches!(fetched, Ok(Fetched::Ready(_) | Fetched::GivenUp(_))) {
            store.spare_step(instance);
        }
        fetched.of("fetch_turn")
    }

    /// Fetches this work item, named by instance, execution and activity.
    ///
    /// # Errors
    /// When the store cannot be reached, or the item cannot be decoded.
    pub async fn fetch_work(
        &self,
        activity: &ScheduledActivityIdentifier,
        lock_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tags: &TagFilter,
    ) -> Result<Fetched<ClaimedWork>, ProviderError> {
        let request = WorkRequest {
            lock_timeout,
            session,
            tags,
        };
        let store = self.store.step(self.store.spent.take_spare(&activity.instance));
        let fetched = Box::pin(async {
            let pk = PartitionKey::new(&activity.instance)?;
            work::fetch(&store, &pk, &WorkDoc::id_of(activity), request, &self.works).await
        });
        let fetched = fetched.await;
        if !matches!(fetched, Ok(Fetched::Ready(_))) {
            store.spare_step(&activity.instance);
        }
        fetched.of("fetch_work")
    }

    /// Fetches the work item that a wakeup names. If the wakeup knows its version, and this build writes the same schema
    /// version, the claim is the only request; [`Fetched::Busy`] then also means that the item was written since: retry
    /// without the version. Otherwise this is [`CosmosProvider::fetch_work`].
    ///
    /// # Errors
    /// When the store cannot be reached, or the item cannot be decoded.
    pub async fn fetch_written_work(
        &self,
        work: &WorkTarget,
        lock_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tags: &TagFilter,
    ) -> Result<Fetched<ClaimedWork>, ProviderError> {
        let request = WorkRequest {
            lock_timeout,
            session,
            tags,
        };
        let store = self.store.step(self.store.spent.take_spare(&work.instance));
        let fetched = Box::pin(async {
            let pk = PartitionKey::new(&work.instance)?;
            let named = NamedWork {
                id: &WorkDoc::id_of(&work.identifier()),
                tag: work.tag.as_deref(),
                session: work.session.as_deref(),
                written: work.written.as_ref(),
            };
            work::fetch_written(&store, &pk, named, request, &self.works).await
        });
        let fetched = fetched.await;
        if !matches!(fetched, Ok(Fetched::Ready(_))) {
            store.spare_step(&work.instance);
        }
        fetched.of("fetch_written_work")
    }

    /// Claims an affinity session for an owner, or extends it when it is the owner's already.
    ///
    /// # Errors
    /// When the store cannot be reached, or the id cannot be a session's.
    pub async fn claim_session(&self, session: &str, claim: &SessionFetchConfig) -> Result<Fetched<()>, ProviderError> {
        Ok(
            match session::claim(&self.store, session, claim).await.of("claim_session")? {
                SessionClaim::Owned { .. } => Fetched::Ready(()),
                SessionClaim::Busy { until_ms, .. } => Fetched::Busy { until_ms },
            },
        )
    }

    /// Commits a turn. The result names who becomes due by it before it is written.
    pub fn commit_turn<'a>(&'a self, lock_token: &'a str, decision: TurnDecision) -> PendingCommit<'a> {
        let token = TurnToken::decode(lock_token);
        let due = decision.due();
        let decided = Decided::default();
        PendingCommit {
            due: due.clone(),
            decided: decided.clone(),
            done: Box::pin(async move {
                let done = async { self.commit(&token?, decision, due, decided).await };
                done.await.of("ack_orchestration_item")
            }),
        }
    }

    /// Names the build that this process runs. From then on [`Self::block_turn`] can be used, and what this build has blocked
    /// is left alone during its pauses. The first name counts.
    pub fn serve_as(&self, build: Build) {
        if self.store.build.set(build).is_err() {
            tracing::debug!("the build has a name already");
        }
    }

    /// Whether this process runs the build of that name.
    pub fn is_this_build(&self, name: &str) -> bool {
        self.store.build.get().is_some_and(|build| build.name() == name)
    }

    /// Blocks the instance of a turn instead of committing the turn. Returns what is noted, or `None` when another turn of
    /// the instance was committed first: then nothing was written.
    ///
    /// # Errors
    /// When the store cannot be reached, or the claim is lost.
    pub async fn block_turn(&self, lock_token: &str, block: &Block) -> Result<Option<Blocked>, ProviderError> {
        let blocked = async {
            let turn = self.claimed_turn(&TurnToken::decode(lock_token)?).await?;
            let store = self.store.resumed(&turn.spending);
            let blocked = turn::block(&store, &turn.pk, &turn.fence, &turn.messages, block).await;
            store.spare_step(turn.pk.as_str());
            self.turns.forget(&turn.nonce);
            self.turns.known.forget(turn.pk.as_str());
            match blocked {
                Ok(blocked) => Ok(Some(blocked)),
                Err(Failure::Raced { .. }) => Ok(None),
                Err(failure) => Err(failure),
            }
        };
        blocked.await.of("block_turn")
    }

    /// What cancels the instance of a turn whose history cannot be read: its activities and its parent are found without it, and
    /// its children by one query of all partitions. `None` when its execution has ended.
    ///
    /// # Errors
    /// When the store cannot be reached, or the claim is lost.
    pub async fn cancellation_of(&self, lock_token: &str, reason: &str) -> Result<Option<TurnDecision>, ProviderError> {
        let decision = async {
            let turn = self.claimed_turn(&TurnToken::decode(lock_token)?).await?;
            let store = self.store.resumed(&turn.spending);
            turn::cancelled(&store, &turn.pk, &turn.fence.doc, reason).await
        };
        decision.await.of("cancellation_of")
    }

    /// Blocks an activity instead of completing it: its work item is given back, to be tried again after a pause, and the affinity
    /// session that this owner took for it.
    ///
    /// # Errors
    /// When the store cannot be reached, or the claim is lost.
    pub async fn block_work(
        &self,
        lock_token: &str,
        block: &Block,
        session_owner: Option<&str>,
    ) -> Result<Blocked, ProviderError> {
        let blocked = async {
            let token = WorkToken::decode(lock_token)?;
            work::block(&self.store, &token, block, session_owner, &self.works).await
        };
        blocked.await.of("block_work")
    }

    /// Completes an activity: removes its work item, and queues the completion for its instance. The result names who
    /// becomes due by it before it is written.
    pub fn complete_work<'a>(&'a self, lock_token: &'a str, completion: Option<WorkItem>) -> PendingCommit<'a> {
        let completion = completion.map(|item| Completion { item, given_up: None });
        self.completing(lock_token, completion)
    }

    fn completing<'a>(&'a self, lock_token: &'a str, completion: Option<Completion>) -> PendingCommit<'a> {
        let due: Vec<Due> = completion
            .iter()
            .filter_map(|completion| Due::message(&completion.item))
            .collect();
        let decided = Decided::default();
        PendingCommit {
            due: due.clone(),
            decided: decided.clone(),
            done: Box::pin(async move {
                let done = async {
                    let token = WorkToken::decode(lock_token)?;
                    work::complete(&self.store, &token, completion.as_ref(), &self.works, &decided).await
                };
                done.await.of("ack_work_item")?;
                self.add_turn_candidates(due);
                Ok(())
            }),
        }
    }

    /// Completes an activity that was tried as often as allowed: with this failure, and a dead letter in the same batch.
    pub fn give_up_work<'a>(
        &'a self,
        lock_token: &'a str,
        failure: WorkItem,
        given_up: GivenUpWork,
    ) -> PendingCommit<'a> {
        self.completing(
            lock_token,
            Some(Completion {
                item: failure,
                given_up: Some(given_up),
            }),
        )
    }

    /// Releases an activity that was stopped because it took too long: due again after `delay`, with the attempt counted.
    ///
    /// # Errors
    /// When the store cannot be reached, or the claim is lost.
    pub async fn release_timed_out_work(&self, lock_token: &str, delay: Duration) -> Result<(), ProviderError> {
        self.release_claimed(lock_token, Some(delay), Some(AttemptEnd::TimedOut))
            .await
    }

    /// Releases an activity with the end of its attempt; without one, the attempt does not count.
    pub(super) async fn release_claimed(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        end: Option<AttemptEnd>,
    ) -> Result<(), ProviderError> {
        let released = async {
            let token = WorkToken::decode(lock_token)?;
            work::release(&self.store, &token, delay, end, &self.works).await
        };
        let work = released.await.of("abandon_work_item")?;
        let candidate = WorkCandidate::of(&work);
        self.work_candidates
            .give_back(candidate, work.due_at, self.store.now(), end.is_none());
        Ok(())
    }

    /// The activities of an execution that were begun, with their attempts: when each began, and how it ended. Activities that
    /// an earlier release completed have none.
    ///
    /// # Errors
    /// When the store cannot be reached, or there is no such instance.
    pub async fn activity_attempts(
        &self,
        instance: &str,
        execution: u64,
    ) -> Result<Vec<ActivityAttempts>, ProviderError> {
        let read = async { read::attempts(&self.store, &pk_of(instance)?, execution).await };
        read.await.of("activity_attempts")
    }

    /// The events of an execution after this one (0: all), with the attempts of the activities that have completed among them or that
    /// are open; `None` when there is no such execution. It reads what is new, however long the history is: at most two
    /// requests for the history, and one for the open activities.
    ///
    /// # Errors
    /// When the store cannot be reached, or the history is corrupt.
    pub async fn history_after(
        &self,
        instance: &str,
        execution: u64,
        after: u64,
    ) -> Result<Option<HistoryAfter>, ProviderError> {
        let Ok(pk) = pk_of(instance) else { return Ok(None) };
        let read = read::history_after(&self.store, &pk, execution, after).await;
        read.of("history_after")
    }

    /// The claimed turn of a token.
    pub(super) async fn claimed_turn(&self, token: &TurnToken) -> Result<Arc<ClaimedTurn>, Failure> {
        if self.turns.is_lost(&token.nonce) {
            return Err(Failure::lock_lost(&token.pk));
        }
        match self.turns.get(&token.nonce) {
            Some(turn) => Ok(turn),
            None => {
                let store = self.store.step(self.store.spent.take_spare(token.pk.as_str()));
                Ok(Arc::new(turn::recall(&store, &token.pk, &token.nonce).await?))
            }
        }
    }

    async fn commit(
        &self,
        token: &TurnToken,
        decision: TurnDecision,
        due: Vec<Due>,
        decided: Decided,
    ) -> Result<(), Failure> {
        let turn = self.claimed_turn(token).await?;
        let store = self.store.resumed(&turn.spending);
        let done = self.written(&store, &turn, decision, &decided).await;
        match &done {
            Ok(committed) => {
                self.turns.forget(&turn.nonce);
                self.remember(&turn, &committed.plan);
            }
            // It may have been written after all: what it has spent must not be counted twice.
            Err(Failure::LockLost { .. }) => self.turns.lose(&turn.nonce),
            Err(Failure::Raced { .. }) => {
                decided.set_raced();
                self.turns.lose(&turn.nonce);
                store.spare_step(turn.pk.as_str());
            }
            // A refused plan (too large, a duplicate event) keeps the claim: the runtime then commits the failure with it.
            Err(_) => {}
        }
        let instance = turn.pk.as_str().to_owned();
        self.turn_candidates.wake(&instance);
        let committed = done?;
        recovery::deliver(&store, &turn.pk, &committed.plan.intents).await;
        turn::settle(&store, &committed);
        let Committed {
            plan, more, mut etags, ..
        } = committed;
        for work in plan.work {
            let written = etags.remove(&work.id).map(WorkVersion::of);
            self.work_candidates.push(WorkCandidate {
                written,
                ..WorkCandidate::of(&work)
            });
        }
        self.add_turn_candidates(due);
        if more {
            self.turn_candidates.push(instance);
        }
        Ok(())
    }

    /// Writes a commit. One that does not fit a batch claims its instance first.
    async fn written(
        &self,
        store: &Store,
        turn: &ClaimedTurn,
        decision: TurnDecision,
        decided: &Decided,
    ) -> Result<Committed, Failure> {
        let commit = Commit::of(store, &self.turns, turn)?.noting(decided.clone());
        match commit.run(decision.clone()).await {
            Err(Failure::Unclaimed { .. }) => {
                let claimed = turn::claim_begun(store, turn, &self.turns).await?;
                let commit = Commit::of(store, &self.turns, &claimed)?.noting(decided.clone());
                commit.run(decision).await
            }
            done => done,
        }
    }

    /// Keeps what a commit appended, so that the next turn need not read it.
    fn remember(&self, turn: &ClaimedTurn, plan: &Plan) {
        let (known, instance) = (&self.turns.known, turn.pk.as_str());
        let (before, after) = (&turn.fence.doc.current, &plan.instance.current);
        let first = !turn.fence.doc.exists();
        if after.status.is_terminal() || (before.execution != after.execution && !first) {
            known.forget(instance);
            return;
        }
        let appended = |mut history: KnownHistory| {
            let events = Arc::make_mut(&mut history.events);
            events.extend(plan.events.iter().cloned());
            history.turns += u64::from(!plan.events.is_empty());
            KnownHistory {
                head: after.head.clone(),
                bytes: after.event_bytes,
                ..history
            }
        };
        if first {
            let nothing = KnownHistory {
                execution: after.execution,
                head: String::new(),
                events: Arc::default(),
                bytes: 0,
                turns: 0,
            };
            known.put(instance, appended(nothing));
        } else {
            known.append(instance, &before.head, appended);
        }
    }

    pub(super) fn add_turn_candidates(&self, due: Vec<Due>) {
        let now = self.store.now();
        for Due { target, at_ms, .. } in due {
            if let Target::Turn { instance } = target {
                self.turn_candidates.push_at(at_ms.unwrap_or(now), now, instance);
            }
        }
    }
}
