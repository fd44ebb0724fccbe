//! Reading and claiming one work item: two requests, one when there is nothing to claim. `written` saves the read.

use super::claimed::{ClaimedWorks, own};
use crate::error::Failure;
use crate::model::WorkDoc;
use crate::session::{self, SessionClaim};
use crate::store::{Store, millis};
use crate::token::WorkToken;
use crate::types::{ClaimedWork, Fetched};
use cosmos::{Found, PartitionKey, Retry};
use duroxide::providers::{SessionFetchConfig, TagFilter, WorkItem};
use std::time::Duration;

/// How to fetch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkRequest<'a> {
    pub lock_timeout: Duration,
    pub session: Option<&'a SessionFetchConfig>,
    pub tags: &'a TagFilter,
}

impl WorkRequest<'_> {
    /// Whether the caller serves such an item.
    pub(crate) fn serves(&self, tag: Option<&str>, session: Option<&str>) -> bool {
        self.tags.matches(tag) && (session.is_none() || self.session.is_some())
    }
}

/// Claims the work item `id` of `pk`.
pub(crate) async fn fetch(
    store: &Store,
    pk: &PartitionKey,
    id: &str,
    request: WorkRequest<'_>,
    works: &ClaimedWorks,
) -> Result<Fetched<ClaimedWork>, Failure> {
    match store.container.read::<WorkDoc>(pk, id).await {
        Ok(Some(found)) => claim(store, pk, found, request, works).await,
        Ok(None) => Ok(Fetched::Nothing),
        Err(error @ cosmos::Error::Decode { .. }) => Ok(Fetched::Foreign { why: error.to_string() }),
        Err(error) => Err(error.into()),
    }
}

async fn claim(
    store: &Store,
    pk: &PartitionKey,
    known: Found<WorkDoc>,
    request: WorkRequest<'_>,
    works: &ClaimedWorks,
) -> Result<Fetched<ClaimedWork>, Failure> {
    let now = store.now();
    let Found { doc, etag: seen } = known;
    if doc.is_claimed_at(now) {
        return Ok(Fetched::Busy { until_ms: doc.until });
    }
    if doc.is_paused() {
        let is_late = !doc.is_parked_at(now);
        return Ok(Fetched::Paused { is_late });
    }
    if let Some(blocked) = doc.blocked.as_ref().filter(|blocked| blocked.until > now)
        && store.build.get().is_some_and(|build| build.name() == blocked.build)
    {
        return Ok(Fetched::StillBlocked {
            until_ms: blocked.until,
        });
    }
    let is_due = doc.due_at <= now || (doc.parked && store.build.get().is_some());
    if !is_due || !request.serves(doc.tag.as_deref(), doc.session.as_deref()) {
        return Ok(Fetched::Nothing);
    }
    let session = claim_session(store, doc.session.as_deref(), request, works).await?;
    if let Some(SessionClaim::Busy { until_ms, .. }) = session {
        return Ok(Fetched::Busy { until_ms });
    }
    let item = decoded(pk, &doc)?;
    let token = WorkToken {
        nonce: store.ids.unique(),
        pk: pk.clone(),
        id: doc.id.clone(),
    };
    let next = doc.claimed(&token.nonce, now, now.saturating_add(millis(request.lock_timeout)));
    let replaced = store
        .container
        .replace(pk, &doc.id, &next, Some(&seen), Retry::Idempotent);
    let etag = match replaced.await {
        Ok(etag) => etag,
        Err(error) if error.is_not_found() => return Ok(Fetched::Nothing),
        Err(error) if error.is_precondition_failed() && error.after_ambiguity() => match own(store, &token).await {
            Ok(own) => own.etag,
            Err(Failure::WorkLost { .. }) => return Ok(Fetched::Busy { until_ms: now }),
            Err(failure) => return Err(failure),
        },
        Err(error) if error.is_precondition_failed() => return Ok(Fetched::Busy { until_ms: now }),
        Err(error) => return Err(error.into()),
    };
    let claimed = ClaimedWork {
        item,
        lock_token: token.encode()?,
        attempt: next.attempts,
        blocked: next.blocked.clone(),
        orchestration: next.orchestration.clone(),
        earlier: next.log().attempts().to_vec(),
    };
    works.put(store, &token.nonce, Found { doc: next, etag }, now);
    Ok(Fetched::Ready(claimed))
}

/// Claims the affinity session of an item, if it has one.
pub(super) async fn claim_session(
    store: &Store,
    session: Option<&str>,
    request: WorkRequest<'_>,
    works: &ClaimedWorks,
) -> Result<Option<SessionClaim>, Failure> {
    let (Some(session), Some(config)) = (session, request.session) else {
        return Ok(None);
    };
    let now = store.now();
    let claim = session::claim(store, session, config).await?;
    works.owners.note(session, &config.owner_id, &claim, now);
    Ok(Some(claim))
}

/// What duroxide runs.
pub(super) fn decoded(pk: &PartitionKey, doc: &WorkDoc) -> Result<WorkItem, Failure> {
    serde_json::from_str(doc.item.get()).map_err(|error| Failure::Corrupt {
        instance: pk.as_str().to_owned(),
        reason: format!("work item {} cannot be decoded: {error}", doc.id),
    })
}
