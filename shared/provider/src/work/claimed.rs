//! The work items that this process has claimed, by nonce. As with turns, the token alone is enough: this saves a read.

use super::owners::SessionOwners;
use crate::error::Failure;
use crate::model::WorkDoc;
use crate::store::Store;
use crate::token::WorkToken;
use cosmos::Found;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ClaimedWorks {
    claimed: Mutex<HashMap<String, Found<WorkDoc>>>,
    pub owners: SessionOwners,
}

impl ClaimedWorks {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Found<WorkDoc>>> {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn put(&self, nonce: &str, work: Found<WorkDoc>, now_ms: u64) {
        let mut all = self.all();
        all.retain(|_, work| work.doc.until > now_ms);
        all.insert(nonce.to_owned(), work);
    }

    pub(crate) fn forget(&self, nonce: &str) {
        self.all().remove(nonce);
    }

    /// The claimed item of a token, from memory or read again.
    pub(super) async fn of(&self, store: &Store, token: &WorkToken) -> Result<Found<WorkDoc>, Failure> {
        let known = self.all().get(&token.nonce).cloned();
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
