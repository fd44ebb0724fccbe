//! Claiming one work item: two requests, one when there is nothing to claim.

use crate::error::Failure;
use crate::hints::WorkHint;
use crate::model::WorkDoc;
use crate::provider::{ClaimedWork, Fetched};
use crate::session::SessionClaim;
use crate::store::{Store, millis};
use crate::token::Token;
use cosmos::{Etag, PartitionKey, Retry};
use duroxide::providers::{SessionFetchConfig, TagFilter, WorkItem};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkRequest<'a> {
    pub lock_timeout: Duration,
    pub session: Option<&'a SessionFetchConfig>,
    pub tags: &'a TagFilter,
}

impl WorkRequest<'_> {
    /// Whether the caller serves such an item at all.
    pub(crate) fn serves(&self, tag: Option<&str>, session: Option<&str>) -> bool {
        self.tags.matches(tag) && (session.is_none() || self.session.is_some())
    }
}

/// A claimed item, in the version that the claim wrote.
#[derive(Clone, Debug)]
pub(crate) struct HeldWork {
    pub doc: WorkDoc,
    pub etag: Etag,
}

/// The items that this process holds, by nonce. As with turns, the token alone is enough: this saves a read.
#[derive(Debug, Default)]
pub(crate) struct HeldWorks(Mutex<HashMap<String, HeldWork>>);

impl HeldWorks {
    pub(crate) fn put(&self, nonce: &str, held: HeldWork, now_ms: u64) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, held| held.doc.until > now_ms);
        all.insert(nonce.to_owned(), held);
    }

    pub(crate) fn get(&self, nonce: &str) -> Option<HeldWork> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(nonce)
            .cloned()
    }

    pub(crate) fn forget(&self, nonce: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(nonce);
    }
}

impl Store {
    /// Claims the work item `id` of `pk`.
    pub(crate) async fn fetch_work(
        &self,
        pk: &PartitionKey,
        id: &str,
        request: WorkRequest<'_>,
        held: &HeldWorks,
    ) -> Result<Fetched<ClaimedWork>, Failure> {
        let Some(found) = self.container.read::<WorkDoc>(pk, id).await? else {
            return Ok(Fetched::Nothing);
        };
        self.claim_work(
            pk,
            HeldWork {
                doc: found.doc,
                etag: found.etag,
            },
            request,
            held,
        )
        .await
    }

    /// The same with a hint, which may know the item: then the read is spared, unless the item has changed since.
    pub(crate) async fn fetch_hinted_work(
        &self,
        pk: &PartitionKey,
        hint: &WorkHint,
        request: WorkRequest<'_>,
        held: &HeldWorks,
    ) -> Result<Fetched<ClaimedWork>, Failure> {
        if let Some(written) = &hint.written
            && let claimed @ Fetched::Ready(_) = self.claim_work(pk, HeldWork::clone(written), request, held).await?
        {
            return Ok(claimed);
        }
        self.fetch_work(pk, &hint.id, request, held).await
    }

    /// Claims an item in the version that is known.
    async fn claim_work(
        &self,
        pk: &PartitionKey,
        known: HeldWork,
        request: WorkRequest<'_>,
        held: &HeldWorks,
    ) -> Result<Fetched<ClaimedWork>, Failure> {
        let now = self.now();
        let HeldWork { doc, etag: seen } = known;
        let id = doc.id.as_str();
        if doc.is_held_at(now) {
            return Ok(Fetched::Busy { until_ms: doc.until });
        }
        if doc.due_at > now || !request.serves(doc.tag.as_deref(), doc.session.as_deref()) {
            return Ok(Fetched::Nothing);
        }
        if let (Some(session), Some(config)) = (&doc.session, request.session)
            && let SessionClaim::Closed { until_ms } = self.claim_session(session, config).await?
        {
            return Ok(Fetched::Busy { until_ms });
        }
        let item: WorkItem = serde_json::from_str(doc.item.get()).map_err(|error| Failure::Corrupt {
            instance: pk.as_str().to_owned(),
            reason: format!("work item {id} cannot be decoded: {error}"),
        })?;
        let nonce = self.ids.unique();
        let next = doc.claimed(&nonce, now.saturating_add(millis(request.lock_timeout)));
        let etag = match self
            .container
            .replace(pk, id, &next, Some(&seen), Retry::Idempotent)
            .await
        {
            Ok(etag) => etag,
            Err(error) if error.is_not_found() => return Ok(Fetched::Nothing),
            Err(error) if error.is_precondition_failed() && error.after_ambiguity() => {
                match self.own_work(pk, id, &nonce).await? {
                    Some(held) => held.etag,
                    None => return Ok(Fetched::Busy { until_ms: now }),
                }
            }
            Err(error) if error.is_precondition_failed() => return Ok(Fetched::Busy { until_ms: now }),
            Err(error) => return Err(error.into()),
        };
        let claimed = ClaimedWork {
            item,
            lock_token: Token::work(&nonce, pk.as_str(), id).encode()?,
            attempt: next.attempts,
        };
        held.put(&nonce, HeldWork { doc: next, etag }, now);
        Ok(Fetched::Ready(claimed))
    }

    /// The item in its newest version, if this token still holds it.
    pub(crate) async fn own_work(&self, pk: &PartitionKey, id: &str, nonce: &str) -> Result<Option<HeldWork>, Failure> {
        let found = self.container.read::<WorkDoc>(pk, id).await?;
        Ok(found.filter(|found| found.doc.is_held_by(nonce)).map(|found| HeldWork {
            doc: found.doc,
            etag: found.etag,
        }))
    }
}
