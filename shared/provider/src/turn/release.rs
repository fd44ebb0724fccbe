//! Releasing a turn (abandon), and renewing its claim.

use super::claimed::{ClaimedTurn, ClaimedTurns};
use crate::batch::{extend, lock_first, pack};
use crate::error::Failure;
use crate::model::sql::TURN;
use crate::model::{MessageDoc, StagedOp};
use crate::store::{Locked, Store, millis};
use crate::token::TurnToken;
use cosmos::{PartitionKey, Query, Retry};
use std::time::Duration;

/// How often the lock may change during a release or a renewal before it counts as lost.
const ATTEMPTS: u32 = 8;

/// The lock in its newest version, if this token still has the claim.
async fn own_lock(store: &Store, pk: &PartitionKey, nonce: &str) -> Result<Locked, Failure> {
    let lock = store.lock(pk).await?.filter(|lock| lock.doc.is_claimed_by(nonce));
    lock.ok_or_else(|| Failure::lock_lost(pk))
}

/// Extends the claim until `extend_for` from now.
pub(crate) async fn renew(
    store: &Store,
    pk: &PartitionKey,
    nonce: &str,
    turns: &ClaimedTurns,
    extend_for: Duration,
) -> Result<(), Failure> {
    let mut lock = match turns.get(nonce) {
        Some(turn) => turn.lock.clone(),
        None => own_lock(store, pk, nonce).await?,
    };
    for _ in 0..ATTEMPTS {
        if lock.doc.until <= store.now() {
            return Err(Failure::lock_lost(pk));
        }
        let mut next = lock.doc.clone();
        next.until = store.now().saturating_add(millis(extend_for));
        if let Some(renewed) = store.swap_lock(pk, Some(&lock.etag), next).await? {
            turns.relock(nonce, &renewed, store.expiry(renewed.doc.until));
            return Ok(());
        }
        lock = own_lock(store, pk, nonce).await?;
    }
    Err(Failure::lock_lost(pk))
}

/// Releases the turn: its messages stay queued, due again after `delay`.
pub(crate) async fn release(
    store: &Store,
    turn: &ClaimedTurn,
    delay: Option<Duration>,
    ignore_attempt: bool,
) -> Result<(), Failure> {
    let pk = &turn.pk;
    let mut lock = turn.lock.clone();
    if let Some(delay) = delay.filter(|delay| !delay.is_zero()) {
        lock = defer_messages(store, turn, lock, delay).await?;
    }
    for _ in 0..ATTEMPTS {
        let next = lock.doc.released(ignore_attempt);
        if store.swap_lock(pk, Some(&lock.etag), next).await?.is_some() {
            return Ok(());
        }
        lock = own_lock(store, pk, &turn.nonce).await?;
    }
    Err(Failure::busy(pk))
}

/// Releases a turn that this process fetched and nobody runs. If this fails, the claim expires by itself.
pub(crate) async fn give_back(store: &Store, lock_token: &str, turns: &ClaimedTurns) {
    let given_back = async {
        let token = TurnToken::decode(lock_token)?;
        let turn = turns.get(&token.nonce).ok_or_else(|| Failure::lock_lost(&token.pk))?;
        let released = release(store, &turn, None, true).await;
        turns.forget(&token.nonce);
        released
    };
    if let Err(error) = given_back.await {
        tracing::warn!(%error, "a turn that nobody runs could not be released; its claim will expire");
    }
}

/// Undoes a claim that cannot be used. If this fails too, the claim expires by itself.
pub(super) async fn unclaim(store: &Store, pk: &PartitionKey, lock: &Locked) {
    let released = async {
        let swapped = store.swap_lock(pk, Some(&lock.etag), lock.doc.released(true)).await?;
        if let (None, Some(claim)) = (swapped, &lock.doc.claim) {
            // It was renewed since.
            let now = own_lock(store, pk, &claim.token).await?;
            store.swap_lock(pk, Some(&now.etag), now.doc.released(true)).await?;
        }
        Ok::<(), Failure>(())
    };
    if let Err(error) = released.await {
        tracing::warn!(instance = pk.as_str(), %error, "a claim could not be released; it will expire");
    }
}

/// Makes the claimed messages due later. Each batch is fenced by the lock, so a lost lock defers nothing. A crash in
/// between leaves some messages deferred and the claim to expire: both are only a delay.
async fn defer_messages(
    store: &Store,
    turn: &ClaimedTurn,
    mut lock: Locked,
    delay: Duration,
) -> Result<Locked, Failure> {
    let due_at = store.now().saturating_add(millis(delay));
    let query = Query::new(format!("SELECT * FROM c WHERE c.queue = {TURN}"));
    let mut ops = Vec::new();
    for mut message in store.container.query::<MessageDoc>(&turn.pk, &query).await? {
        if lock.doc.claimed_messages().contains(&message.id) {
            let etag = std::mem::take(&mut message.etag);
            message.due_at = due_at;
            ops.push(StagedOp::replace(&message.id, &etag, &message)?);
        }
    }
    for group in pack(ops) {
        lock = defer_group(store, turn, lock, &group).await?;
    }
    Ok(lock)
}

async fn defer_group(
    store: &Store,
    turn: &ClaimedTurn,
    mut lock: Locked,
    group: &[StagedOp],
) -> Result<Locked, Failure> {
    for _ in 0..ATTEMPTS {
        let batch = extend(lock_first(&lock.doc, &lock.etag)?, group)?;
        match store.container.batch(&turn.pk, &batch, Retry::Idempotent).await {
            Ok(results) => return store.written_lock(&turn.pk, lock.doc, &results).await,
            Err(error) if error.batch_index() == Some(0) => {
                let ambiguous = error.after_ambiguity();
                lock = own_lock(store, &turn.pk, &turn.nonce).await?;
                if ambiguous {
                    return Ok(lock);
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(Failure::busy(&turn.pk))
}
