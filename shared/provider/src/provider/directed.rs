//! The directed calls of functions: straight to one logical partition, no query across partitions.

use super::{CosmosProvider, Operation as _};
use crate::due::{Due, Target, TurnDecision};
use crate::error::Failure;
use crate::model::WorkDoc;
use crate::polling::WorkCandidate;
use crate::recovery;
use crate::session::{self, SessionClaim};
use crate::token::{TurnToken, WorkToken};
use crate::turn::{self, ClaimedTurn, Commit, Committed, TurnRequest};
use crate::types::{ClaimedWork, Decided, Fetched, PendingCommit, TurnItem};
use crate::work::{self, WorkRequest};
use cosmos::PartitionKey;
use duroxide::providers::{
    DispatcherCapabilityFilter, ProviderError, ScheduledActivityIdentifier, SessionFetchConfig, TagFilter, WorkItem,
};
use std::sync::Arc;
use std::time::Duration;

impl CosmosProvider {
    /// Fetches the turn of this instance.
    ///
    /// # Errors
    /// When the store cannot be reached, or the id cannot be an instance's.
    pub async fn fetch_turn(
        &self,
        instance: &str,
        lock_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Fetched<TurnItem>, ProviderError> {
        let request = TurnRequest { lock_timeout, filter };
        let fetched = async { turn::fetch(&self.store, &PartitionKey::new(instance)?, request, &self.turns).await };
        fetched.await.of("fetch_turn")
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
        let fetched = async {
            let pk = PartitionKey::new(&activity.instance)?;
            work::fetch(&self.store, &pk, &WorkDoc::id_of(activity), request, &self.works).await
        };
        fetched.await.of("fetch_work")
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
        let claimed = token.as_ref().ok().and_then(|token| self.turns.get(&token.nonce));
        let due = decision.due(claimed.as_ref().and_then(|turn| turn.orchestration.as_ref()));
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

    /// Completes an activity: removes its work item, and queues the completion for its instance. The result names who
    /// becomes due by it before it is written.
    pub fn complete_work<'a>(&'a self, lock_token: &'a str, completion: Option<WorkItem>) -> PendingCommit<'a> {
        let due: Vec<Due> = completion.iter().filter_map(Due::message).collect();
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

    /// The claimed turn of a token.
    pub(super) async fn claimed_turn(&self, token: &TurnToken) -> Result<Arc<ClaimedTurn>, Failure> {
        if self.turns.is_lost(&token.nonce) {
            return Err(Failure::lock_lost(&token.pk));
        }
        match self.turns.get(&token.nonce) {
            Some(turn) => Ok(turn),
            None => Ok(Arc::new(turn::recall(&self.store, &token.pk, &token.nonce).await?)),
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
        let commit = Commit::of(&self.store, &self.turns, &turn)?.noting(decided);
        let done = commit.run(decision).await;
        match &done {
            Ok(_) => self.turns.forget(&turn.nonce),
            Err(Failure::LockLost { .. }) => self.turns.lose(&turn.nonce),
            // A refused plan (too large, a duplicate event) keeps the claim: the runtime then commits the failure with it.
            Err(_) => {}
        }
        let instance = turn.pk.as_str().to_owned();
        self.turn_candidates.wake(&instance);
        let Committed { plan, more, mut etags } = done?;
        recovery::deliver(&self.store, &turn.pk, &plan.intents).await;
        for work in plan.work {
            self.work_candidates.push(match etags.remove(&work.id) {
                Some(etag) => WorkCandidate::written(work, etag),
                None => WorkCandidate::of(&work),
            });
        }
        self.add_turn_candidates(due);
        if more {
            self.turn_candidates.push(instance);
        }
        Ok(())
    }

    fn add_turn_candidates(&self, due: Vec<Due>) {
        let now = self.store.now();
        for Due { target, at_ms } in due {
            if let Target::Turn { instance } = target {
                self.turn_candidates.push_at(at_ms.unwrap_or(now), now, instance);
            }
        }
    }
}
