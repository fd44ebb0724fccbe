//! The work items that this process has claimed, by nonce. As with turns, the token alone is enough: this saves a read.

use super::owners::SessionOwners;
use crate::error::Failure;
use crate::model::WorkDoc;
use crate::store::{Spending, Store};
use crate::token::WorkToken;
use cosmos::Found;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ClaimedWorks {
    claimed: Mutex<HashMap<String, Entry>>,
    pub owners: SessionOwners,
}

/// One of them, with what its step has spent so far.
#[derive(Clone, Debug)]
struct Entry {
    work: Found<WorkDoc>,
    spending: Arc<Spending>,
}

impl ClaimedWorks {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps an item that the step of this store has claimed or renewed.
    pub(crate) fn put(&self, store: &Store, nonce: &str, work: Found<WorkDoc>, now_ms: u64) {
        let spending = Arc::clone(&store.spending);
        let mut all = self.all();
        all.retain(|_, entry| entry.work.doc.until > now_ms);
        all.insert(nonce.to_owned(), Entry { work, spending });
    }

    /// The store for what follows in the step of this token.
    pub(super) fn step(&self, store: &Store, token: &WorkToken) -> Store {
        let spending = self.all().get(&token.nonce).map(|entry| Arc::clone(&entry.spending));
        store.resumed(&spending.unwrap_or_default())
    }

    pub(crate) fn forget(&self, nonce: &str) {
        self.all().remove(nonce);
    }

    /// The claimed item of a token, from memory or read again.
    pub(super) async fn of(&self, store: &Store, token: &WorkToken) -> Result<Found<WorkDoc>, Failure> {
        let known = self.all().get(&token.nonce).map(|entry| entry.work.clone());
        match known {
            Some(work) => Ok(work),
            None => own(store, token).await,
        }
    }
}

/// The item in its newest version, if this token still has the claim.
pub(super) async fn own(store: &Store, token: &WorkToken) -> Result<Found<WorkDoc>, Failure> {
    let found = store.container.read::<WorkDoc>(&token.pk, &token.id).await?;
    found
        .filter(|found| found.doc.is_claimed_by(&token.nonce))
        .ok_or_else(|| token.lost())
}
