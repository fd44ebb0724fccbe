//! Claimed turns that this process did not fetch with messages: recalled from a token, or claimed for another change.

use super::claimed::{ClaimedTurn, ClaimedTurns};
use super::release::unclaim;
use crate::error::Failure;
use crate::model::sql::TURN;
use crate::model::{InstanceDoc, Listed, MessageDoc};
use crate::read::{self, Asked};
use crate::recovery::{Progress, roll_forward};
use crate::store::{Store, millis};
use cosmos::{PartitionKey, Query};
use std::sync::Arc;
use std::time::Duration;

/// How often, and how long apart, to try to claim an instance whose turn is under way.
const ATTEMPTS: u32 = 60;
const WAIT: Duration = Duration::from_millis(50);
/// How long a change that is no turn may take.
const CHANGE_TIME: Duration = Duration::from_secs(30);

/// The claimed turn of a token that another process, or an earlier life of this one, has fetched.
pub(crate) async fn recall(store: &Store, pk: &PartitionKey, nonce: &str) -> Result<ClaimedTurn, Failure> {
    // No message is due at time 0: the claimed messages are read by id.
    let view = read::view(store, pk, 0, Asked::Nothing).await?;
    if let Some(foreign) = view.foreign {
        return Err(foreign.in_partition(pk));
    }
    let fence = view.fence.filter(|fence| fence.doc.lock.is_claimed_by(nonce));
    let fence = fence.ok_or_else(|| Failure::lock_lost(pk))?;
    // The runtime has the history; the commit needs the keys.
    let past = read::keys(store, pk).await?;
    if fence.doc.exists() && !past.has_keys_of(&fence.doc) {
        return Err(Failure::stale(pk, "keys are missing"));
    }
    let ids = fence.doc.lock.claimed_messages();
    let messages = messages_of(store, pk, ids).await?;
    if messages.len() != ids.len() {
        let reason = format!("{} of {} claimed messages were read", messages.len(), ids.len());
        return Err(Failure::stale(pk, reason));
    }
    Ok(ClaimedTurn {
        pk: pk.clone(),
        nonce: nonce.to_owned(),
        until: fence.doc.lock.until,
        expires: store.expiry(fence.doc.lock.until),
        fence,
        kv: past.kv,
        messages,
        more: false,
        spending: Arc::clone(&store.spending),
    })
}

async fn messages_of(store: &Store, pk: &PartitionKey, ids: &[String]) -> Result<Vec<MessageDoc>, Failure> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let query = Query::new(format!(
        "SELECT * FROM c WHERE c.queue = {TURN} AND ARRAY_CONTAINS(@ids, c.id)"
    ))
    .param("@ids", ids);
    let found = store.container.query::<Listed<MessageDoc>>(pk, &query).await?;
    // The turn has claimed these, and its commit consumes all of them.
    let claimed = found.into_iter().map(|message| match message {
        Listed::Known(message) => Ok(message),
        Listed::Foreign(foreign) => Err(foreign.in_partition(pk)),
    });
    claimed.collect()
}

/// Claims an instance for a turn that began without a claim. Fails when another turn was committed since.
pub(crate) async fn claim_begun(
    store: &Store,
    turn: &ClaimedTurn,
    turns: &ClaimedTurns,
) -> Result<ClaimedTurn, Failure> {
    let claimed = turn
        .fence
        .doc
        .with(|lock| lock.claim(&turn.nonce, turn.until, &turn.message_ids()));
    let swapped = store.swap_fence(&turn.pk, Some(&turn.fence.etag), claimed).await?;
    let fence = swapped.ok_or_else(|| Failure::raced(&turn.pk))?;
    let claimed = ClaimedTurn { fence, ..turn.clone() };
    turns.put(claimed.clone(), store.now());
    Ok(claimed)
}

/// Claims an instance without messages, for a change that is no turn. Waits a little for a turn that is under way.
pub(crate) async fn claim_idle(store: &Store, pk: &PartitionKey) -> Result<ClaimedTurn, Failure> {
    for _ in 0..ATTEMPTS {
        let seen = store.fence(pk).await?;
        if let Some(fence) = &seen {
            let is_claimed = fence.doc.lock.claim_at(store.now()).is_some();
            if is_claimed || roll_forward(store, pk, fence).await? != Progress::Clean {
                tokio::time::sleep(WAIT).await;
                continue;
            }
        }
        let nonce = store.ids.unique();
        let next = seen.as_ref().map_or_else(
            || InstanceDoc::absent(pk.as_str(), store.now()),
            |fence| fence.doc.clone(),
        );
        let next = next.with(|lock| lock.claim(&nonce, store.now().saturating_add(millis(CHANGE_TIME)), &[]));
        if let Some(fence) = store
            .swap_fence(pk, seen.as_ref().map(|fence| &fence.etag), next)
            .await?
        {
            let claimed = recall(store, pk, &nonce).await;
            if claimed.is_err() {
                unclaim(store, pk, &fence).await;
            }
            return claimed;
        }
    }
    Err(Failure::busy(pk))
}
