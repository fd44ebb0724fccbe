//! Who owns which affinity session, as far as this process knows.
//!
//! Each worker slot of duroxide's runtime may be an owner of its own. A slot that fetches an activity of another slot's
//! session cannot run it, and must leave it to that slot. What is known here saves the attempt; the session's document
//! decides.

use crate::session::SessionClaim;
use cosmos::Etag;
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Sessions that are known before expired ones are forgotten, and owners that are known.
const MOST: usize = 1_000;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct SessionOwners(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    sessions: HashMap<String, Owned>,
    /// The owners that fetch in this process.
    here: HashSet<String>,
}

#[derive(Debug)]
struct Owned {
    owner: String,
    until_ms: u64,
    /// The version of the session's document, if its newest claim was the first.
    taken: Option<Etag>,
}

impl SessionOwners {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that this owner fetches in this process.
    pub(crate) fn is_here(&self, owner: &str) {
        let mut known = self.known();
        if known.here.contains(owner) {
            return;
        }
        // Those that still fetch come back.
        if known.here.len() >= MOST {
            known.here.clear();
        }
        known.here.insert(owner.to_owned());
    }

    /// Whether any owner fetches in this process.
    pub(crate) fn any_here(&self) -> bool {
        !self.known().here.is_empty()
    }

    /// Records the result of a claim by `claimer`.
    pub(super) fn note(&self, session: &str, claimer: &str, claim: &SessionClaim, now_ms: u64) {
        let (owner, until_ms, taken) = match claim {
            SessionClaim::Owned { until_ms, taken } => (claimer, *until_ms, taken.clone()),
            SessionClaim::Busy {
                until_ms,
                owner: Some(owner),
            } => (owner.as_str(), *until_ms, None),
            SessionClaim::Busy { owner: None, .. } => return,
        };
        self.put(session, owner, until_ms, taken, now_ms);
    }

    /// Records a renewal.
    pub(crate) fn renewed(&self, session: &str, owner: &str, until_ms: u64, now_ms: u64) {
        self.put(session, owner, until_ms, None, now_ms);
    }

    fn put(&self, session: &str, owner: &str, until_ms: u64, taken: Option<Etag>, now_ms: u64) {
        let mut known = self.known();
        if known.sessions.len() >= MOST {
            known.sessions.retain(|_, owned| owned.until_ms > now_ms);
        }
        let owned = Owned {
            owner: owner.to_owned(),
            until_ms,
            taken,
        };
        known.sessions.insert(session.to_owned(), owned);
    }

    /// Whether this owner may claim the session: nobody else is known to have it.
    pub(crate) fn may_claim(&self, session: &str, owner: &str, now_ms: u64) -> bool {
        let known = self.known();
        let owned = known.sessions.get(session);
        owned.is_none_or(|owned| owned.owner == owner || owned.until_ms <= now_ms)
    }

    /// Whether an owner in another process has the session: no slot of this one can run its activities.
    pub(crate) fn is_elsewhere(&self, session: &str, now_ms: u64) -> bool {
        let known = self.known();
        let owned = known.sessions.get(session);
        owned.is_some_and(|owned| owned.until_ms > now_ms && !known.here.contains(&owned.owner))
    }

    /// Forgets a session that this owner has. Returns its version, if the owner's newest claim was its first.
    pub(crate) fn forget(&self, session: &str, owner: &str) -> Option<Etag> {
        let mut known = self.known();
        if known.sessions.get(session)?.owner != owner {
            return None;
        }
        known.sessions.remove(session)?.taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(until_ms: u64) -> SessionClaim {
        SessionClaim::Owned {
            until_ms,
            taken: Some(Etag::new("\"1\"")),
        }
    }

    #[test]
    fn a_session_is_left_to_its_owner_until_it_expires() {
        let owners = SessionOwners::default();
        assert!(owners.may_claim("s", "slot-1", 0), "nothing is known");
        owners.note("s", "slot-0", &owned(100), 0);
        assert!(owners.may_claim("s", "slot-0", 99) && !owners.may_claim("s", "slot-1", 99));
        assert!(owners.may_claim("s", "slot-1", 100));
        owners.renewed("s", "slot-0", 200, 99);
        assert!(!owners.may_claim("s", "slot-1", 199) && owners.may_claim("s", "slot-1", 200));
    }

    #[test]
    fn a_session_of_another_process_is_known_as_such() {
        let owners = SessionOwners::default();
        owners.is_here("slot-0");
        let of = |owner: &str| SessionClaim::Busy {
            until_ms: 100,
            owner: Some(owner.to_owned()),
        };
        owners.note("here", "slot-1", &of("slot-0"), 0);
        owners.note("there", "slot-1", &of("other"), 0);
        assert!(!owners.is_elsewhere("here", 99) && !owners.is_elsewhere("unknown", 99));
        assert!(owners.is_elsewhere("there", 99) && !owners.is_elsewhere("there", 100));
    }

    #[test]
    fn only_a_session_that_was_just_taken_can_be_returned() {
        let owners = SessionOwners::default();
        owners.note("s", "slot-0", &owned(100), 0);
        assert_eq!(owners.forget("s", "slot-1"), None, "it is not theirs");
        assert!(owners.forget("s", "slot-0").is_some());
        owners.note("s", "slot-0", &owned(100), 0);
        owners.renewed("s", "slot-0", 200, 0);
        assert_eq!(owners.forget("s", "slot-0"), None, "it was in use");
    }

    #[test]
    fn expired_sessions_are_forgotten() {
        let owners = SessionOwners::default();
        for n in 0..5 * MOST as u64 {
            owners.note(&format!("s{n}"), "slot-0", &owned(n + 1), n);
            owners.is_here(&format!("slot-{n}"));
        }
        let known = owners.known();
        assert!(known.sessions.len() <= MOST && known.here.len() <= MOST);
    }
}
