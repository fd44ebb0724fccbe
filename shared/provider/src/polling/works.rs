//! Polling for work items.

use super::candidates::{Candidates, Place, WorkCandidate};
use super::{PAGE, Search, Source, begin_sweep, end_sweep, skip};
use crate::error::Failure;
use crate::model::sql::WORK;
use crate::store::Store;
use crate::types::{ClaimedWork, Fetched};
use crate::work::{self, ClaimedWorks, WorkRequest};
use cosmos::{PartitionKey, Query};
use duroxide::providers::TagFilter;
use serde::Deserialize;

/// See the module.
#[derive(Debug)]
pub(crate) struct Works<'a> {
    pub store: &'a Store,
    pub claimed: &'a ClaimedWorks,
    pub candidates: &'a Candidates<WorkCandidate>,
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

    fn serves(&self, candidate: &WorkCandidate) -> bool {
        self.request
            .serves(candidate.tag.as_deref(), candidate.session.as_deref())
    }

    fn key(candidate: &WorkCandidate) -> String {
        format!("{} {}", candidate.id, candidate.pk)
    }

    async fn attempt(&self, _: &Search, candidate: &WorkCandidate) -> Result<Option<ClaimedWork>, Failure> {
        let pk = PartitionKey::new(&candidate.pk)?;
        let taken = self.candidates.taken(candidate);
        let fetched = match &candidate.written {
            Some(written) => work::fetch_known(self.store, &pk, written, self.request, self.claimed).await,
            None => work::fetch(self.store, &pk, &candidate.id, self.request, self.claimed).await,
        };
        taken.done();
        match fetched {
            Ok(Fetched::Ready(claimed)) => return Ok(Some(claimed)),
            Ok(Fetched::Nothing | Fetched::Busy { .. } | Fetched::Foreign { .. }) => {}
            Err(failure) => skip(&candidate.pk, failure)?,
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
            if !search.tried.contains(&Self::key(&candidate)) {
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
