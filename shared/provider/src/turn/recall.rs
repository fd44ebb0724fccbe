//! Claimed turns that this process did not fetch with messages: recalled from a token, or claimed for another change.

use super::claimed::{ClaimedMessage, ClaimedTurn};
use super::release::unclaim;
use crate::error::Failure;
use crate::model::sql::TURN;
use crate::model::{LockDoc, MessageDoc};
use crate::read;
use crate::recovery::{Progress, roll_forward};
use crate::store::{Store, millis};
use cosmos::{PartitionKey, Query};
use std::time::Duration;

/// How often, and how long apart, to try to claim an instance whose turn is under way.
const ATTEMPTS: u32 = 60;
const WAIT: Duration = Duration::from_millis(50);
/// How long a change that is no turn may take.
const CHANGE_TIME: Duration = Duration::from_secs(30);

/// The claimed turn of a token that another process, or an earlier life of this one, has fetched.
pub(crate) async fn recall(store: &Store, pk: &PartitionKey, nonce: &str) -> Result<ClaimedTurn, Failure> {
    // No message is due at time 0: the claimed messages are read by id.
    let view = read::view(store, pk, 0).await?;
    if !view.is_coherent() {
        return Err(Failure::stale(pk, "instance and lock differ"));
    }
    let lock = view.lock.filter(|lock| lock.doc.is_claimed_by(nonce));
    let lock = lock.ok_or_else(|| Failure::lock_lost(pk))?;
    // The runtime has the history; the commit needs the keys.
    let past = read::keys(store, pk).await?;
    let instance = view.instance.as_ref();
    if instance.is_some_and(|instance| !past.has_keys_of(instance)) {
        return Err(Failure::stale(pk, "keys are missing"));
    }
    let ids = lock.doc.claimed_messages();
    let messages = messages_of(store, pk, ids).await?;
    if messages.len() != ids.len() {
        let reason = format!("{} of {} claimed messages were read", messages.len(), ids.len());
        return Err(Failure::stale(pk, reason));
    }
    Ok(ClaimedTurn {
        pk: pk.clone(),
        nonce: nonce.to_owned(),
        expires: store.expiry(lock.doc.until),
        lock,
        instance: view.instance,
        kv: past.kv,
        messages,
        more: false,
        orchestration: None,
    })
}

async fn messages_of(store: &Store, pk: &PartitionKey, ids: &[String]) -> Result<Vec<ClaimedMessage>, Failure> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let query = Query::new(format!(
        "SELECT * FROM c WHERE c.queue = {TURN} AND ARRAY_CONTAINS(@ids, c.id)"
    ))
    .param("@ids", ids);
    let found = store.container.query::<MessageDoc>(pk, &query).await?;
    Ok(found.into_iter().map(ClaimedMessage::from).collect())
}

/// Claims an instance without messages, for a change that is no turn. Waits a little for a turn that is under way.
pub(crate) async fn claim_idle(store: &Store, pk: &PartitionKey) -> Result<ClaimedTurn, Failure> {
    for _ in 0..ATTEMPTS {
        let seen = store.lock(pk).await?;
        if let Some(lock) = &seen {
            let is_claimed = lock.doc.claim_at(store.now()).is_some();
            if is_claimed || roll_forward(store, pk, lock).await? != Progress::Clean {
                tokio::time::sleep(WAIT).await;
                continue;
            }
        }
        let nonce = store.ids.unique();
        let next = seen
            .as_ref()
            .map_or_else(|| LockDoc::new(pk.as_str()), |lock| lock.doc.clone());
        let next = next.claimed(&nonce, store.now().saturating_add(millis(CHANGE_TIME)), &[]);
        if let Some(lock) = store.swap_lock(pk, seen.as_ref().map(|lock| &lock.etag), next).await? {
            let claimed = recall(store, pk, &nonce).await;
            if claimed.is_err() {
                unclaim(store, pk, &lock).await;
            }
            return claimed;
        }
    }
    Err(Failure::busy(pk))
}
