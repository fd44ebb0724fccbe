//! Releasing a turn (abandon), and renewing its claim.

use super::claimed::{ClaimedTurn, ClaimedTurns};
use crate::batch::{extend, fence_first, pack, write_fenced};
use crate::error::Failure;
use crate::model::{MessageDoc, StagedOp};
use crate::store::{Fence, Store, millis};
use crate::token::TurnToken;
use cosmos::{PartitionKey, Retry};
use std::time::Duration;

/// How often the instance may change during a release or a renewal before it counts as lost.
const ATTEMPTS: u32 = 8;

/// The newest version, if this token still has the claim.
async fn own_fence(store: &Store, pk: &PartitionKey, nonce: &str) -> Result<Fence, Failure> {
    let fence = store
        .fence(pk)
        .await?
        .filter(|fence| fence.doc.lock.is_claimed_by(nonce));
    fence.ok_or_else(|| Failure::lock_lost(pk))
}

/// Extends the claim until `extend_for` from now.
pub(crate) async fn renew(
    store: &Store,
    pk: &PartitionKey,
    nonce: &str,
    turns: &ClaimedTurns,
    extend_for: Duration,
) -> Result<(), Failure> {
    let mut fence = match turns.get(nonce) {
        Some(turn) if !turn.is_claimed() => {
            // There is no claim to renew: its commit is fenced, however long it takes.
            let until = store.now().saturating_add(millis(extend_for));
            turns.extend(nonce, until, store.expiry(until));
            return Ok(());
        }
        Some(turn) => turn.fence.clone(),
        None => own_fence(store, pk, nonce).await?,
    };
    for _ in 0..ATTEMPTS {
        if fence.doc.lock.until <= store.now() {
            return Err(Failure::lock_lost(pk));
        }
        let mut next = fence.doc.clone();
        next.lock.until = store.now().saturating_add(millis(extend_for));
        if let Some(renewed) = store.swap_fence(pk, Some(&fence.etag), next).await? {
            turns.relock(nonce, &renewed, store.expiry(renewed.doc.lock.until));
            return Ok(());
        }
        fence = own_fence(store, pk, nonce).await?;
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
    if !turn.is_claimed() {
        return release_unclaimed(store, turn, delay, ignore_attempt).await;
    }
    let mut fence = turn.fence.clone();
    if let Some(delay) = delay.filter(|delay| !delay.is_zero()) {
        fence = defer_messages(store, turn, fence, delay).await?;
    }
    for _ in 0..ATTEMPTS {
        let next = fence.doc.with(|lock| lock.release(ignore_attempt));
        if store.swap_fence(pk, Some(&fence.etag), next).await?.is_some() {
            return Ok(());
        }
        fence = own_fence(store, pk, &turn.nonce).await?;
    }
    Err(Failure::busy(pk))
}

/// Releases a turn without a claim: counts the attempt. Whoever was faster has served the messages, or will.
async fn release_unclaimed(
    store: &Store,
    turn: &ClaimedTurn,
    delay: Option<Duration>,
    ignore_attempt: bool,
) -> Result<(), Failure> {
    let ids = turn.message_ids();
    let counted = turn.fence.doc.with(|lock| {
        lock.claim(&turn.nonce, 0, &ids);
        lock.release(ignore_attempt);
    });
    let ops = match delay.filter(|delay| !delay.is_zero()) {
        Some(delay) => deferrals(store, turn, delay)?,
        None => Vec::new(),
    };
    let mut fence = turn.fence.clone();
    let mut groups = pack(ops);
    if groups.is_empty() {
        groups.push(Vec::new());
    }
    for group in groups {
        match write_fenced(store, &turn.pk, &fence, &counted, group).await? {
            Some(written) => fence = written.fence,
            None => return Ok(()),
        }
    }
    Ok(())
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
pub(super) async fn unclaim(store: &Store, pk: &PartitionKey, fence: &Fence) {
    if fence.doc.lock.claim.is_none() {
        return;
    }
    let released = async {
        let swapped = store
            .swap_fence(pk, Some(&fence.etag), fence.doc.with(|lock| lock.release(true)))
            .await?;
        if let (None, Some(claim)) = (swapped, &fence.doc.lock.claim) {
            // It was renewed since.
            let now = own_fence(store, pk, &claim.token).await?;
            store
                .swap_fence(pk, Some(&now.etag), now.doc.with(|lock| lock.release(true)))
                .await?;
        }
        Ok::<(), Failure>(())
    };
    if let Err(error) = released.await {
        tracing::warn!(instance = pk.as_str(), %error, "a claim could not be released; it will expire");
    }
}

/// Makes the claimed messages due later. Each batch is fenced, so a lost claim defers nothing. A crash in
/// between leaves some messages deferred and the claim to expire: both are only a delay.
async fn defer_messages(
    store: &Store,
    turn: &ClaimedTurn,
    mut fence: Fence,
    delay: Duration,
) -> Result<Fence, Failure> {
    for group in pack(deferrals(store, turn, delay)?) {
        fence = defer_group(store, turn, fence, &group).await?;
    }
    Ok(fence)
}

/// The operations that make the turn's messages due later.
fn deferrals(store: &Store, turn: &ClaimedTurn, delay: Duration) -> Result<Vec<StagedOp>, Failure> {
    let due_at = store.now().saturating_add(millis(delay));
    due_from(turn.messages.iter(), due_at)
}

/// The operations that make these messages due at that time.
pub(super) fn due_from<'a>(
    messages: impl Iterator<Item = &'a MessageDoc>,
    due_at: u64,
) -> Result<Vec<StagedOp>, Failure> {
    messages
        .map(|message| {
            let later = message.due_from(due_at);
            Ok(StagedOp::replace(&message.id, &message.etag, &later)?)
        })
        .collect()
}

async fn defer_group(
    store: &Store,
    turn: &ClaimedTurn,
    mut fence: Fence,
    group: &[StagedOp],
) -> Result<Fence, Failure> {
    for _ in 0..ATTEMPTS {
        let batch = extend(fence_first(&fence.doc, Some(&fence.etag))?, group)?;
        match store.container.batch(&turn.pk, &batch, Retry::Idempotent).await {
            Ok(results) => return store.written_fence(&turn.pk, fence.doc, &results).await,
            Err(error) if error.batch_index() == Some(0) => {
                let ambiguous = error.after_ambiguity();
                fence = own_fence(store, &turn.pk, &turn.nonce).await?;
                if ambiguous {
                    return Ok(fence);
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(Failure::busy(&turn.pk))
}
