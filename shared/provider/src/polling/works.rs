//! Polling for work items.
//!
//! A worker slot does not take the activities of a session that another slot of this process owns: they stay for that slot.
//! At the limit of its sessions a slot asks without sessions. Its answer must then come soon if activities of sessions
//! wait: the slot asks again, with sessions if it is no longer at its limit.

use super::candidates::{Candidates, Place, WorkCandidate};
use super::{PAGE, Search, Source, begin_sweep, end_sweep, handover, park_late, skip};
use crate::error::Failure;
use crate::model::sql::WORK;
use crate::store::Store;
use crate::types::{ClaimedWork, Fetched};
use crate::work::{self, ClaimedWorks, NamedWork, WorkRequest};
use cosmos::{PartitionKey, Query};
use duroxide::providers::TagFilter;
use futures::FutureExt as _;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long a caller that asks without sessions waits while activities of sessions wait.
const WITHOUT_SESSIONS: Duration = Duration::from_millis(100);

/// See the module.
#[derive(Debug)]
pub(crate) struct Works<'a> {
    pub store: &'a Arc<Store>,
    pub claimed: &'a Arc<ClaimedWorks>,
    pub candidates: &'a Arc<Candidates<WorkCandidate>>,
    pub request: WorkRequest<'a>,
}

/// What the sweep's query returns.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DueWork {
    due_at: u64,
    sort_key: String,
    #[serde(flatten)]
    candidate: WorkCandidate,
}

impl Source for Works<'_> {
    type Candidate = WorkCandidate;
    type Item = ClaimedWork;

    fn store(&self) -> &Store {
        self.store
    }

    fn candidates(&self) -> &Candidates<WorkCandidate> {
        self.candidates
    }

    fn serves(&self, search: &Search, candidate: &WorkCandidate) -> bool {
        let session = candidate.session.as_deref();
        // For a caller that does not wait, only the store's answer counts.
        self.request.serves(candidate.tag.as_deref(), session) && (!search.waits || self.may_claim(session))
    }

    fn deadline(&self, search: &Search) -> Instant {
        let waits = |c: &WorkCandidate| c.session.is_some() && self.request.tags.matches(c.tag.as_deref());
        // Where nobody asks with sessions, they are the business of other processes.
        let is_at_limit = self.request.session.is_none() && self.claimed.owners.any_here();
        if is_at_limit && self.candidates.any(waits) {
            return search.deadline.min(search.begun + WITHOUT_SESSIONS);
        }
        search.deadline
    }

    fn key(candidate: &WorkCandidate) -> String {
        format!("{} {}", candidate.id, candidate.pk)
    }

    async fn attempt(&self, search: &Search, candidate: &WorkCandidate) -> Result<Option<ClaimedWork>, Failure> {
        let pk = PartitionKey::new(&candidate.pk)?;
        let store = Arc::new(self.store.step(self.store.spent.take_spare(&candidate.pk)));
        let fetched = self.claim(&store, pk, candidate.clone()).await;
        if !matches!(fetched, Ok(Fetched::Ready(_))) {
            store.spare_step(&candidate.pk);
        }
        match fetched {
            Ok(Fetched::Ready(claimed)) => return Ok(Some(claimed)),
            Ok(
                Fetched::Nothing
                | Fetched::Busy { .. }
                | Fetched::Blocked(_)
                | Fetched::StillBlocked { .. }
                | Fetched::Paused { is_late: false }
                | Fetched::GivenUp(_)
                | Fetched::RolledForward { .. }
                | Fetched::Foreign { .. },
            ) => {}
            // The next sweep would find it again.
            Ok(Fetched::Paused { is_late: true }) => park_late(self.store, &candidate.pk).await?,
            Err(failure) => skip(&candidate.pk, failure)?,
        }
        let session = candidate.session.as_deref();
        if search.waits && !self.may_claim(session) && !self.is_elsewhere(session) {
            // Another slot of this process owns the session: it takes the candidate.
            self.candidates.push(candidate.clone());
        }
        Ok(None)
    }

    async fn sweep(&self, search: &mut Search) -> Result<(), Failure> {
        let Some((_alone, place)) = begin_sweep(self.store, self.candidates, search).await else {
            return Ok(());
        };
        let query = self.query().param("@now", place.now_ms);
        let container = &self.store.container;
        let page = container
            .sweep::<DueWork, _, _>(&query, PAGE, place.cursor, |due| (due.due_at, due.sort_key.clone()))
            .await?;
        self.candidates.note_sweep();
        let mut found = false;
        for DueWork { candidate, .. } in page.items {
            let is_for_others = search.waits
                && (self.candidates.is_left(&candidate, place.now_ms)
                    || self.is_elsewhere(candidate.session.as_deref()));
            if !is_for_others && !search.tried.contains(&Self::key(&candidate)) {
                self.candidates.push(candidate);
                found = true;
            }
        }
        let next = page.cursor.map(|cursor| Place {
            now_ms: place.now_ms,
            cursor: Some(cursor),
        });
        end_sweep(self.candidates, search, next, found);
        Ok(())
    }
}

impl Works<'_> {
    /// Claims the item, or gives it back if the caller is gone by then.
    async fn claim(
        &self,
        step: &Arc<Store>,
        pk: PartitionKey,
        candidate: WorkCandidate,
    ) -> Result<Fetched<ClaimedWork>, Failure> {
        let (store, claimed) = (Arc::clone(step), Arc::clone(self.claimed));
        let (lock_timeout, session) = (self.request.lock_timeout, self.request.session.cloned());
        let tags = self.request.tags.clone();
        let owner = session.as_ref().map(|session| session.owner_id.clone());
        let returned = WorkCandidate {
            written: None,
            ..candidate.clone()
        };
        let claiming = async move {
            let request = WorkRequest {
                lock_timeout,
                session: session.as_ref(),
                tags: &tags,
            };
            let named = NamedWork {
                id: &candidate.id,
                tag: candidate.tag.as_deref(),
                session: candidate.session.as_deref(),
                written: candidate.written.as_ref(),
            };
            work::fetch_candidate(&store, &pk, named, request, &claimed).await
        };
        let (store, claimed) = (Arc::clone(self.store), Arc::clone(self.claimed));
        let candidates = Arc::clone(self.candidates);
        let give_back = move |work: ClaimedWork| {
            async move {
                work::give_back(&store, &work.lock_token, owner.as_deref(), &claimed).await;
                candidates.push(returned);
            }
            .boxed()
        };
        handover::claim(claiming, give_back).await
    }

    /// Whether the caller may claim the session, as far as this process knows.
    fn may_claim(&self, session: Option<&str>) -> bool {
        let (Some(session), Some(config)) = (session, self.request.session) else {
            return true;
        };
        let owners = &self.claimed.owners;
        owners.may_claim(session, &config.owner_id, self.store.now())
    }

    /// Whether no slot of this process may claim the session.
    fn is_elsewhere(&self, session: Option<&str>) -> bool {
        session.is_some_and(|session| self.claimed.owners.is_elsewhere(session, self.store.now()))
    }

    /// What is due and served by the caller.
    fn query(&self) -> Query {
        let (tag_clause, tags) = match self.request.tags {
            TagFilter::Any | TagFilter::None => ("", Vec::new()),
            TagFilter::DefaultOnly => (" AND NOT IS_DEFINED(c.tag)", Vec::new()),
            TagFilter::Tags(tags) => (" AND ARRAY_CONTAINS(@tags, c.tag)", tags.iter().collect()),
            TagFilter::DefaultAnd(tags) => (
                " AND (NOT IS_DEFINED(c.tag) OR ARRAY_CONTAINS(@tags, c.tag))",
                tags.iter().collect(),
            ),
        };
        let session_clause = match self.request.session {
            Some(_) => "",
            None => " AND NOT IS_DEFINED(c.session)",
        };
        Query::new(format!(
            "SELECT c.id, c.pk, c.dueAt, c.sortKey, c.tag, c.session FROM c \
             WHERE c.queue = {WORK} AND c.dueAt <= @now{tag_clause}{session_clause} ORDER BY c.queue, c.dueAt"
        ))
        .param("@tags", &tags)
    }
}
