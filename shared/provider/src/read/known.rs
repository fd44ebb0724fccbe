//! Histories that this process knows: those of the instances that it served, so that their next turns read only what is new.
//!
//! Correctness never depends on it. The instance document names the last commit of the history, and each history document
//! the commit before it: what is known counts only if the chain from the instance's `head` leads to it. Anything else (the
//! instance was deleted and started again, another process has served it, a commit was undecided) ends in a whole read.

use duroxide::Event;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What an event takes beyond its text.
const EVENT_BYTES: u64 = 200;

/// The history of one execution, up to a commit.
#[derive(Clone, Debug)]
pub(crate) struct KnownHistory {
    pub execution: u64,
    /// The last commit.
    pub head: String,
    pub events: Arc<Vec<Event>>,
    /// The bytes of its events as they are stored.
    pub bytes: u64,
    /// The turns that have written events.
    pub turns: u64,
}

impl KnownHistory {
    fn size(&self) -> u64 {
        self.bytes + EVENT_BYTES * self.events.len() as u64
    }
}

/// The known histories by instance. When there is no room, those that were used longest ago go first.
#[derive(Debug)]
pub(crate) struct KnownHistories {
    most_bytes: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    histories: HashMap<String, (KnownHistory, u64)>,
    bytes: u64,
    /// Counts the uses.
    clock: u64,
}

impl State {
    fn remove(&mut self, instance: &str) {
        if let Some((removed, _)) = self.histories.remove(instance) {
            self.bytes -= removed.size();
        }
    }
}

impl KnownHistories {
    pub(crate) fn new(most_bytes: u64) -> Self {
        KnownHistories {
            most_bytes,
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, instance: &str) -> Option<KnownHistory> {
        let mut state = self.lock();
        state.clock += 1;
        let now = state.clock;
        let (known, used) = state.histories.get_mut(instance)?;
        *used = now;
        Some(known.clone())
    }

    pub(crate) fn put(&self, instance: &str, known: KnownHistory) {
        let mut state = self.lock();
        state.remove(instance);
        let size = known.size();
        if size > self.most_bytes {
            return;
        }
        while state.bytes + size > self.most_bytes {
            let oldest = state.histories.iter().min_by_key(|(_, (_, used))| *used);
            let Some(oldest) = oldest.map(|(instance, _)| instance.clone()) else {
                break;
            };
            state.remove(&oldest);
        }
        state.clock += 1;
        let now = state.clock;
        state.bytes += size;
        state.histories.insert(instance.to_owned(), (known, now));
    }

    /// Adds what a commit appended to the history that ended with the commit `before`.
    pub(crate) fn append(&self, instance: &str, before: &str, next: impl FnOnce(KnownHistory) -> KnownHistory) {
        let known = self.lock().histories.get(instance).map(|(known, _)| known.clone());
        match known {
            Some(known) if known.head == before => self.put(instance, next(known)),
            _ => self.forget(instance),
        }
    }

    pub(crate) fn forget(&self, instance: &str) {
        self.lock().remove(instance);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(head: &str, bytes: u64) -> KnownHistory {
        KnownHistory {
            execution: 1,
            head: head.to_owned(),
            events: Arc::default(),
            bytes,
            turns: 1,
        }
    }

    #[test]
    fn the_longest_unused_goes_first_and_what_does_not_fit_is_not_kept() {
        let all = KnownHistories::new(100);
        all.put("a", known("1", 40));
        all.put("b", known("1", 40));
        assert!(all.get("a").is_some());
        all.put("c", known("1", 40));
        assert!(all.get("b").is_none() && all.get("a").is_some() && all.get("c").is_some());
        all.put("a", known("2", 101));
        assert!(all.get("a").is_none(), "it would displace everything else");
        all.put("d", known("1", 60));
        assert!(all.get("c").is_some() && all.get("d").is_some());
    }

    #[test]
    fn only_what_follows_the_known_commit_is_appended() {
        let all = KnownHistories::new(100);
        all.put("a", known("1", 10));
        all.append("a", "1", |before| known("2", before.bytes + 10));
        assert_eq!(
            all.get("a").map(|known| (known.head, known.bytes)),
            Some(("2".to_owned(), 20))
        );
        all.append("a", "1", |_| known("3", 30));
        assert!(all.get("a").is_none(), "another commit came in between");
    }
}
