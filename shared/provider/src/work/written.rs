//! Claiming a work item that nobody has written since its commit: one PATCH, without a read before it.
//!
//! The commit's answer names the version of each work item (`types::Decided`), and wakeups and candidates carry it. The
//! PATCH has that version as `If-Match`, so it cannot take a claim from anybody, and its answer is the whole item. What
//! the wakeup says besides is checked against that answer; the store decides.
//!
//! | answer | meaning |
//! |---|---|
//! | 200 | claimed |
//! | 404 | cancelled or completed: nothing to do |
//! | 412 | somebody has written it: claimed, released, given back, or parked because its instance is paused. Functions send the wakeup again without the version, which then reads; polling reads at once |
//! | 412 after a lost answer | perhaps our own claim: the item is read, and its token decides |
//!
//! A build that writes another schema version must not change the item before it knows it: it reads first. The claim of an
//! affinity session comes before that of the item, and is returned if the item is not there any more. With a session, an
//! activity costs six requests: two for the session, the claim, the completion, and two to record the session's use.

use super::claimed::{ClaimedWorks, own};
use super::fetch::{WorkRequest, claim_session, decoded, fetch};
use crate::due::WorkVersion;
use crate::error::Failure;
use crate::model::WorkDoc;
use crate::session::{self, SessionClaim};
use crate::store::{Store, millis};
use crate::token::WorkToken;
use crate::types::{ClaimedWork, Fetched};
use cosmos::{Etag, Found, PartitionKey, Retry};

/// A work item as a wakeup or a candidate names it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamedWork<'a> {
    pub id: &'a str,
    pub tag: Option<&'a str>,
    pub session: Option<&'a str>,
    pub written: Option<&'a WorkVersion>,
}

impl<'a> NamedWork<'a> {
    /// The version, if it allows a claim without a read.
    fn version(&self) -> Option<&'a Etag> {
        self.written
            .filter(|version| version.is_usable())
            .map(|version| &version.etag)
    }
}

/// Claims the work item in the version that is named; without a usable one, reads it first. An item that was written since is
/// busy: the caller comes back without the version.
pub(crate) async fn fetch_written(
    store: &Store,
    pk: &PartitionKey,
    work: NamedWork<'_>,
    request: WorkRequest<'_>,
    works: &ClaimedWorks,
) -> Result<Fetched<ClaimedWork>, Failure> {
    let Some(etag) = work.version() else {
        return fetch(store, pk, work.id, request, works).await;
    };
    let claimed = claim(store, pk, (work, etag), request, works).await?;
    Ok(claimed.unwrap_or_else(|| Fetched::Busy { until_ms: store.now() }))
}

/// The same for a caller that reads an item that was written since.
pub(crate) async fn fetch_candidate(
    store: &Store,
    pk: &PartitionKey,
    work: NamedWork<'_>,
    request: WorkRequest<'_>,
    works: &ClaimedWorks,
) -> Result<Fetched<ClaimedWork>, Failure> {
    if let Some(etag) = work.version()
        && let Some(claimed) = claim(store, pk, (work, etag), request, works).await?
    {
        return Ok(claimed);
    }
    fetch(store, pk, work.id, request, works).await
}

/// Claims the session, then the item. `None`: the item was written since.
async fn claim(
    store: &Store,
    pk: &PartitionKey,
    (work, etag): (NamedWork<'_>, &Etag),
    request: WorkRequest<'_>,
    works: &ClaimedWorks,
) -> Result<Option<Fetched<ClaimedWork>>, Failure> {
    if !request.serves(work.tag, work.session) {
        return Ok(Some(Fetched::Nothing));
    }
    let taken = match claim_session(store, work.session, request, works).await? {
        Some(SessionClaim::Busy { until_ms, .. }) => return Ok(Some(Fetched::Busy { until_ms })),
        Some(SessionClaim::Owned { taken, .. }) => taken,
        None => None,
    };
    let claimed = claim_item(store, pk, (work, etag), request, works).await?;
    if !matches!(claimed, Some(Fetched::Ready(_)))
        && let (Some(session), Some(config), Some(taken)) = (work.session, request.session, taken)
    {
        works.owners.forget(session, &config.owner_id);
        session::release(store, session, &taken).await;
    }
    Ok(claimed)
}

async fn claim_item(
    store: &Store,
    pk: &PartitionKey,
    (work, etag): (NamedWork<'_>, &Etag),
    request: WorkRequest<'_>,
    works: &ClaimedWorks,
) -> Result<Option<Fetched<ClaimedWork>>, Failure> {
    let token = WorkToken {
        nonce: store.ids.unique(),
        pk: pk.clone(),
        id: work.id.to_owned(),
    };
    let now = store.now();
    let patch = WorkDoc::claim_of(&token.nonce, now, now.saturating_add(millis(request.lock_timeout)));
    let patched = store.container.patch(pk, work.id, &patch, etag, Retry::Idempotent);
    let found: Found<WorkDoc> = match patched.await {
        Ok(found) => found,
        Err(error) if error.is_not_found() => return Ok(Some(Fetched::Nothing)),
        Err(error) if error.is_precondition_failed() && error.after_ambiguity() => match own(store, &token).await {
            Ok(own) => own,
            Err(Failure::WorkLost { .. }) => return Ok(None),
            Err(failure) => return Err(failure),
        },
        Err(error) if error.is_precondition_failed() => return Ok(None),
        Err(error @ cosmos::Error::Decode { .. }) => return Ok(Some(Fetched::Foreign { why: error.to_string() })),
        Err(error) => return Err(error.into()),
    };
    if (found.doc.tag.as_deref(), found.doc.session.as_deref()) != (work.tag, work.session) {
        // The claim expires, and whoever comes then reads the item first.
        return Err(Failure::Corrupt {
            instance: pk.as_str().to_owned(),
            reason: format!(
                "the wakeup of work item {} names another tag or affinity session than the item has; only this \
                 application should send to this queue",
                work.id
            ),
        });
    }
    let claimed = ClaimedWork {
        item: decoded(pk, &found.doc)?,
        lock_token: token.encode()?,
        attempt: found.doc.attempts,
        blocked: found.doc.blocked.clone(),
        orchestration: found.doc.orchestration.clone(),
        earlier: found.doc.log().attempts().to_vec(),
    };
    works.put(store, &token.nonce, found, now);
    Ok(Some(Fetched::Ready(claimed)))
}
