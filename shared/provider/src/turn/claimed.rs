//! The turns that this process has fetched: what a fetch learned and the commit needs.
//!
//! The token of a claim is enough to commit: when this process does not know it (another process fetched), `recall` reads
//! the same documents again, at the price of one more request. A turn that was fetched without a claim can be committed by
//! this process only. Entries are dropped when their time is over.

use crate::model::{InstanceDoc, KvDoc, MessageDoc, Scope};
use crate::read::KnownHistories;
use crate::store::{Fence, Spending};
use cosmos::PartitionKey;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio::time::Instant;

/// How many lost tokens are kept.
const MOST_LOST: usize = 1000;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct ClaimedTurn {
    pub pk: PartitionKey,
    pub nonce: String,
    /// The instance document: with the claim, or as it was read.
    pub fence: Fence,
    pub kv: Vec<KvDoc>,
    pub messages: Vec<MessageDoc>,
    /// More messages were due than the turn took.
    pub more: bool,
    /// When its time is over (Unix ms): that of the claim, if there is one. A renewal moves it.
    pub until: u64,
    /// The same by this machine's monotonic clock.
    pub expires: Instant,
    /// What it has spent so far.
    pub spending: Arc<Spending>,
}

impl ClaimedTurn {
    /// The instance, if it exists.
    pub(crate) fn instance(&self) -> Option<&InstanceDoc> {
        Some(&self.fence.doc).filter(|instance| instance.exists())
    }

    /// Whether the instance is claimed for it. Otherwise nothing but the version that was read protects its commit.
    pub(crate) fn is_claimed(&self) -> bool {
        self.fence.doc.lock.is_claimed_by(&self.nonce)
    }

    pub(crate) fn message_ids(&self) -> Vec<String> {
        self.messages.iter().map(|message| message.id.clone()).collect()
    }

    /// Which keys the turn sees.
    pub(crate) fn scope(instance: Option<&InstanceDoc>) -> Scope {
        Scope {
            execution: instance.map_or(1, |instance| instance.current.execution),
            terminal: instance.is_some_and(|instance| instance.current.status.is_terminal()),
        }
    }
}

/// The claimed turns by nonce, and the instances that a dispatcher of this process is about to claim.
#[derive(Debug)]
pub(crate) struct ClaimedTurns {
    claimed: Mutex<HashMap<String, Arc<ClaimedTurn>>>,
    reserved: Mutex<HashSet<String>>,
    /// Notified whenever a reservation ends.
    unreserved: Notify,
    /// The histories of what this process has served.
    pub known: KnownHistories,
    /// Tokens that were reported as lost: the runtime then tries to commit a failure with them, which must not succeed
    /// even if the lock is still theirs.
    lost: Mutex<VecDeque<String>>,
}

/// Keeps the dispatchers of one process from racing for the same instance, until it is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    turns: Arc<ClaimedTurns>,
    instance: String,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        lock(&self.turns.reserved).remove(&self.instance);
        self.turns.unreserved.notify_waiters();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ClaimedTurns {
    /// None yet. So many bytes of histories are kept.
    pub(crate) fn new(history_cache: u64) -> Self {
        ClaimedTurns {
            claimed: Mutex::default(),
            reserved: Mutex::default(),
            unreserved: Notify::new(),
            known: KnownHistories::new(history_cache),
            lost: Mutex::default(),
        }
    }

    pub(crate) fn put(&self, turn: ClaimedTurn, now_ms: u64) {
        let mut claimed = lock(&self.claimed);
        claimed.retain(|_, turn| turn.until > now_ms);
        claimed.insert(turn.nonce.clone(), Arc::new(turn));
    }

    pub(crate) fn get(&self, nonce: &str) -> Option<Arc<ClaimedTurn>> {
        lock(&self.claimed).get(nonce).cloned()
    }

    pub(crate) fn forget(&self, nonce: &str) {
        lock(&self.claimed).remove(nonce);
    }

    /// Records that the token is lost.
    pub(crate) fn lose(&self, nonce: &str) {
        self.forget(nonce);
        let mut lost = lock(&self.lost);
        lost.push_back(nonce.to_owned());
        if lost.len() > MOST_LOST {
            lost.pop_front();
        }
    }

    /// Whether the token was reported as lost.
    pub(crate) fn is_lost(&self, nonce: &str) -> bool {
        lock(&self.lost).iter().any(|lost| lost == nonce)
    }

    /// Records the newest version, after a renewal.
    pub(crate) fn relock(&self, nonce: &str, renewed: &Fence, expires: Instant) {
        if let Some(turn) = lock(&self.claimed).get_mut(nonce) {
            let turn = Arc::make_mut(turn);
            turn.fence = renewed.clone();
            turn.until = renewed.doc.lock.until;
            turn.expires = expires;
        }
    }

    /// Moves the time of a turn that is not claimed.
    pub(crate) fn extend(&self, nonce: &str, until: u64, expires: Instant) {
        if let Some(turn) = lock(&self.claimed).get_mut(nonce) {
            let turn = Arc::make_mut(turn);
            (turn.until, turn.expires) = (until, expires);
        }
    }

    /// Reserves the instance for one dispatcher of this process; `None` when another has reserved or claimed it.
    pub(crate) fn reserve(self: &Arc<Self>, instance: &str, now_ms: u64) -> Option<Reservation> {
        let is_new = lock(&self.reserved).insert(instance.to_owned());
        // Made only by the winner: dropping it ends the reservation.
        let reservation = is_new.then(|| Reservation {
            turns: Arc::clone(self),
            instance: instance.to_owned(),
        })?;
        (!self.is_claimed(instance, now_ms)).then_some(reservation)
    }

    /// Whether a turn of this instance is under way in this process, or about to be.
    pub(crate) fn is_running(&self, instance: &str, now_ms: u64) -> bool {
        self.is_reserved(instance) || self.is_claimed(instance, now_ms)
    }

    /// Waits until no dispatcher of this process is about to claim the instance: it is claimed then, or free.
    pub(crate) async fn unreserved(&self, instance: &str) {
        loop {
            // Subscribe before checking, or a change in between would be missed.
            let changed = self.unreserved.notified();
            if !self.is_reserved(instance) {
                return;
            }
            changed.await;
        }
    }

    fn is_reserved(&self, instance: &str) -> bool {
        lock(&self.reserved).contains(instance)
    }

    fn is_claimed(&self, instance: &str, now_ms: u64) -> bool {
        lock(&self.claimed)
            .values()
            .any(|turn| turn.pk.as_str() == instance && turn.until > now_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_loses_a_reservation_does_not_end_that_of_the_winner() {
        let turns = Arc::new(ClaimedTurns::new(0));
        let winner = turns.reserve("i", 0);
        assert!(winner.is_some());
        for _ in 0..3 {
            assert!(turns.reserve("i", 0).is_none(), "another has reserved it");
            assert!(turns.is_running("i", 0), "the reservation outlives those who lost");
        }
        assert!(turns.reserve("j", 0).is_some(), "another instance is free");
        drop(winner);
        assert!(!turns.is_running("i", 0));
        assert!(turns.reserve("i", 0).is_some(), "it is free again");
    }
}
