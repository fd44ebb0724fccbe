//! Giving a turn back (abandon), and holding it longer (renew).

use super::batches::{BATCH_BYTES, BATCH_OPS, extend, lock_first, pack};
use super::{HeldTurn, HeldTurns};
use crate::error::Failure;
use crate::model::{MessageDoc, StagedOp};
use crate::store::{Locked, Store, millis};
use cosmos::{PartitionKey, Query, Retry};
use std::time::Duration;

/// How often the lock's version may have moved under a release or a renewal before it counts as lost.
const ATTEMPTS: u32 = 8;

impl Store {
    /// The lock in its newest version, if this token still holds it.
    pub(crate) async fn own_lock(&self, pk: &PartitionKey, nonce: &str) -> Result<Locked, Failure> {
        self.lock(pk)
            .await?
            .filter(|lock| lock.doc.is_held_by(nonce))
            .ok_or_else(|| Failure::LockLost {
                instance: pk.as_str().to_owned(),
            })
    }

    /// Holds the turn until `extend_for` from now.
    pub(crate) async fn renew_turn(
        &self,
        pk: &PartitionKey,
        nonce: &str,
        held: &HeldTurns,
        extend_for: Duration,
    ) -> Result<(), Failure> {
        let lost = || Failure::LockLost {
            instance: pk.as_str().to_owned(),
        };
        let mut lock = match held.get(nonce) {
            Some(turn) => turn.lock.clone(),
            None => self.own_lock(pk, nonce).await?,
        };
        for _ in 0..ATTEMPTS {
            if lock.doc.until <= self.now() {
                return Err(lost());
            }
            let mut next = lock.doc.clone();
            next.until = self.now().saturating_add(millis(extend_for));
            if let Some(renewed) = self.swap_lock(pk, Some(&lock.etag), next).await? {
                held.relock(nonce, &renewed, self.expiry(renewed.doc.until));
                return Ok(());
            }
            lock = self.own_lock(pk, nonce).await?;
        }
        Err(lost())
    }

    /// Gives the turn back: its messages stay queued, due again after `delay`.
    pub(crate) async fn release_turn(
        &self,
        turn: &HeldTurn,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), Failure> {
        let pk = &turn.pk;
        let mut lock = turn.lock.clone();
        if let Some(delay) = delay.filter(|delay| !delay.is_zero()) {
            lock = self.defer_messages(turn, lock, delay).await?;
        }
        for _ in 0..ATTEMPTS {
            let next = lock.doc.released(ignore_attempt);
            if self.swap_lock(pk, Some(&lock.etag), next).await?.is_some() {
                return Ok(());
            }
            lock = self.own_lock(pk, &turn.nonce).await?;
        }
        Err(Failure::Busy(pk.as_str().to_owned()))
    }

    /// Makes the held messages due later. Each batch also writes the lock, so a lost lock defers nothing. A crash in
    /// between leaves some messages deferred and the lock to expire: both are only a delay.
    async fn defer_messages(&self, turn: &HeldTurn, mut lock: Locked, delay: Duration) -> Result<Locked, Failure> {
        let pk = &turn.pk;
        let due_at = self.now().saturating_add(millis(delay));
        let query = Query::new("SELECT * FROM c WHERE c.queue = 'turn'");
        let held = lock
            .doc
            .holder
            .as_ref()
            .map(|holder| holder.messages.clone())
            .unwrap_or_default();
        let mut ops = Vec::new();
        for mut message in self.container.query::<MessageDoc>(pk, &query).await? {
            if held.contains(&message.id) {
                let etag = std::mem::take(&mut message.etag);
                message.due_at = due_at;
                ops.push(StagedOp::replace(&message.id, &etag, &message)?);
            }
        }
        for group in pack(ops, BATCH_OPS, BATCH_BYTES) {
            lock = self.defer_group(turn, lock, &group).await?;
        }
        Ok(lock)
    }

    async fn defer_group(&self, turn: &HeldTurn, mut lock: Locked, group: &[StagedOp]) -> Result<Locked, Failure> {
        for _ in 0..ATTEMPTS {
            let batch = lock_first(&lock.doc, &lock.etag)?;
            match self
                .container
                .batch(&turn.pk, &extend(batch, group)?, Retry::Idempotent)
                .await
            {
                Ok(results) => return self.written_lock(&turn.pk, lock.doc, &results).await,
                Err(error) if error.batch_index() == Some(0) => {
                    let ambiguous = error.after_ambiguity();
                    lock = self.own_lock(&turn.pk, &turn.nonce).await?;
                    if ambiguous {
                        return Ok(lock);
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(Failure::Busy(turn.pk.as_str().to_owned()))
    }
}
