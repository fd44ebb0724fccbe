//! Hints: what this process believes to be due, in the order it learned of it.
//!
//! Forgetting a hint costs time, never work (a sweep finds what it was about), so their number is bounded.

use crate::model::WorkDoc;
use crate::work::HeldWork;
use cosmos::{Etag, SweepCursor};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The largest input that a hint carries.
const MOST_WRITTEN: usize = 8 * 1024;
/// Hints that are kept.
const MOST_HINTS: usize = 10_000;
/// Hints that are kept before anybody asks for one.
const MOST_UNASKED: usize = 64;

/// A work item worth trying.
#[derive(Clone, Debug)]
pub(crate) struct WorkHint {
    pub pk: String,
    pub id: String,
    pub tag: Option<String>,
    pub session: Option<String>,
    /// The item as this process wrote it: whoever takes the hint need not read it again.
    pub written: Option<Arc<HeldWork>>,
}

/// Two hints are the same when they are about the same item.
impl PartialEq for WorkHint {
    fn eq(&self, other: &Self) -> bool {
        self.pk == other.pk && self.id == other.id
    }
}

impl Eq for WorkHint {}

impl Hash for WorkHint {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.pk.hash(state);
        self.id.hash(state);
    }
}

impl WorkHint {
    /// A hint for an item of which only the document is known.
    pub(crate) fn of(work: &WorkDoc) -> Self {
        WorkHint {
            pk: work.pk.clone(),
            id: work.id.clone(),
            tag: work.tag.clone(),
            session: work.session.clone(),
            written: None,
        }
    }

    /// A hint for an item in the version that was just written. A large one is read again instead of being kept, and so
    /// is one of a session, whose claim comes first.
    pub(crate) fn written(work: WorkDoc, etag: Etag) -> Self {
        let hint = WorkHint::of(&work);
        if work.item.get().len() > MOST_WRITTEN || work.session.is_some() {
            return hint;
        }
        WorkHint {
            written: Some(Arc::new(HeldWork { doc: work, etag })),
            ..hint
        }
    }
}

/// The hints of one kind.
#[derive(Debug)]
pub(crate) struct Hints<H> {
    state: Mutex<HintState<H>>,
    arrived: Notify,
    /// Held while sweeping: callers that find nothing at the same time share one sweep.
    pub(crate) sweeping: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct HintState<H> {
    queue: VecDeque<H>,
    known: HashSet<H>,
    timed: BTreeMap<u64, Vec<H>>,
    /// How many hints `timed` holds.
    timers: usize,
    /// Hints for instances whose turn is under way here.
    waiting: HashSet<H>,
    swept: Instant,
    /// Where the next sweep at the interval goes on, so that what is due and cannot be taken does not hide the rest.
    place: Option<Place>,
    /// It is due at once.
    hurry: bool,
    /// Somebody has asked for hints. In a function nobody ever does, and nothing should pile up there.
    polled: bool,
}

impl<H> HintState<H> {
    fn most(&self) -> usize {
        if self.polled { MOST_HINTS } else { MOST_UNASKED }
    }
}

/// A hint that was popped. Until it is spent it goes back when this is dropped, as a fetch is whose caller shuts down.
#[derive(Debug)]
pub(crate) struct Unspent<'a, H: Clone + Eq + Hash> {
    hints: &'a Hints<H>,
    hint: Option<H>,
}

impl<H: Clone + Eq + Hash> Unspent<'_, H> {
    pub(crate) fn spend(mut self) {
        self.hint = None;
    }
}

impl<H: Clone + Eq + Hash> Drop for Unspent<'_, H> {
    fn drop(&mut self) {
        if let Some(hint) = self.hint.take() {
            self.hints.push(hint);
        }
    }
}

/// A place in the queue: a query of one moment, and how far it was read.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub now_ms: u64,
    pub cursor: Option<SweepCursor>,
}

impl<H: Clone + Eq + Hash> Default for Hints<H> {
    fn default() -> Self {
        Hints {
            state: Mutex::new(HintState {
                queue: VecDeque::new(),
                known: HashSet::new(),
                timed: BTreeMap::new(),
                timers: 0,
                waiting: HashSet::new(),
                swept: Instant::now(),
                place: None,
                hurry: false,
                polled: false,
            }),
            arrived: Notify::new(),
            sweeping: tokio::sync::Mutex::new(()),
        }
    }
}

impl<H: Clone + Eq + Hash> Hints<H> {
    fn state(&self) -> std::sync::MutexGuard<'_, HintState<H>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a hint, unless it is known.
    pub(crate) fn push(&self, hint: H) {
        let mut state = self.state();
        if !state.known.insert(hint.clone()) {
            return;
        }
        // The oldest makes room: nobody here may be serving it.
        if state.queue.len() >= state.most()
            && let Some(oldest) = state.queue.pop_front()
        {
            state.known.remove(&oldest);
        }
        state.queue.push_back(hint);
        drop(state);
        self.arrived.notify_one();
    }

    /// Adds a hint for later.
    pub(crate) fn push_at(&self, due_ms: u64, now_ms: u64, hint: H) {
        if due_ms <= now_ms {
            return self.push(hint);
        }
        let mut state = self.state();
        if state.timers < state.most() {
            state.timers += 1;
            state.timed.entry(due_ms).or_default().push(hint);
            drop(state);
            // A sleeper must learn that it has to wake earlier.
            self.arrived.notify_one();
        }
    }

    /// The first hint that suits.
    pub(crate) fn pop(&self, now_ms: u64, suits: impl Fn(&H) -> bool) -> Option<H> {
        let mut state = self.state();
        state.polled = true;
        let later = state.timed.split_off(&(now_ms + 1));
        let due = std::mem::replace(&mut state.timed, later);
        for hint in due.into_values().flatten() {
            state.timers -= 1;
            if state.known.insert(hint.clone()) {
                state.queue.push_back(hint);
            }
        }
        let index = state.queue.iter().position(suits)?;
        let hint = state.queue.remove(index)?;
        state.known.remove(&hint);
        Some(hint)
    }

    /// Gives a popped hint back unless it is spent.
    pub(crate) fn unspent(&self, hint: &H) -> Unspent<'_, H> {
        Unspent {
            hints: self,
            hint: Some(hint.clone()),
        }
    }

    /// Keeps a hint until [`Hints::wake`] of the same.
    pub(crate) fn park(&self, hint: H) {
        let mut state = self.state();
        if state.waiting.len() < state.most() {
            state.waiting.insert(hint);
        }
    }

    /// Makes a parked hint an ordinary one.
    pub(crate) fn wake(&self, hint: &H) {
        let parked = self.state().waiting.take(hint);
        if let Some(hint) = parked {
            self.push(hint);
        }
    }

    pub(crate) fn is_sweep_due(&self, interval: Duration) -> bool {
        let state = self.state();
        state.hurry || state.swept.elapsed() >= interval
    }

    pub(crate) fn take_place(&self) -> Option<Place> {
        self.state().place.take()
    }

    /// Notes where the next sweep goes on, and that it is due at once when the last one found nothing.
    pub(crate) fn keep_place(&self, place: Option<Place>, found: bool) {
        let mut state = self.state();
        state.hurry = place.is_some() && !found;
        state.place = place;
    }

    pub(crate) fn note_sweep(&self) {
        let mut state = self.state();
        state.hurry = false;
        state.swept = Instant::now();
    }

    /// Waits for a hint, for the next timer, for the next sweep, or for `deadline`.
    pub(crate) async fn wait(&self, deadline: Instant, interval: Duration, now_ms: u64) {
        let wake_at = {
            let state = self.state();
            let next_sweep = if state.hurry {
                Instant::now()
            } else {
                state.swept + interval
            };
            let next_timer = state
                .timed
                .keys()
                .next()
                .map(|due| Instant::now() + Duration::from_millis(due.saturating_sub(now_ms)));
            next_timer
                .map_or(next_sweep, |timer| timer.min(next_sweep))
                .min(deadline)
        };
        tokio::select! {
            () = self.arrived.notified() => {}
            () = tokio::time::sleep_until(wake_at) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_kept_once_and_given_out_in_order() {
        let hints = Hints::<String>::default();
        for name in ["a", "b", "a"] {
            hints.push(name.to_owned());
        }
        let all: Vec<String> = std::iter::from_fn(|| hints.pop(0, |_| true)).collect();
        assert_eq!(all, ["a", "b"]);
    }

    #[test]
    fn a_timer_hint_waits_for_its_time() {
        let hints = Hints::<String>::default();
        hints.push_at(100, 50, "timer".to_owned());
        assert_eq!(hints.pop(99, |_| true), None);
        assert_eq!(hints.pop(100, |_| true).as_deref(), Some("timer"));
    }

    #[test]
    fn a_hint_that_does_not_suit_is_left_for_others() {
        let hints = Hints::<String>::default();
        hints.push("gpu".to_owned());
        hints.push("plain".to_owned());
        assert_eq!(hints.pop(0, |hint| hint == "plain").as_deref(), Some("plain"));
        assert_eq!(hints.pop(0, |_| true).as_deref(), Some("gpu"));
    }

    #[test]
    fn hints_that_nobody_serves_make_room_for_new_ones() {
        let hints = Hints::<usize>::default();
        assert_eq!(hints.pop(0, |_| true), None);
        for n in 0..=MOST_HINTS {
            hints.push(n);
        }
        assert_eq!(hints.pop(0, |_| true), Some(1));
        assert_eq!(hints.pop(0, |n| *n == MOST_HINTS), Some(MOST_HINTS));
    }

    #[test]
    fn where_nobody_asks_for_hints_few_are_kept() {
        let hints = Hints::<usize>::default();
        for n in 0..1_000 {
            hints.push(n);
            hints.push_at(n as u64 + 1, 0, n);
        }
        let kept = std::iter::from_fn(|| hints.pop(u64::MAX - 1, |_| true)).count();
        assert!(kept <= 2 * MOST_UNASKED, "{kept}");
        assert!(kept >= MOST_UNASKED, "{kept}");
    }

    #[test]
    fn a_hint_that_is_dropped_unspent_comes_back() {
        let hints = Hints::<String>::default();
        drop(hints.unspent(&"dropped".to_owned()));
        hints.unspent(&"spent".to_owned()).spend();
        assert_eq!(hints.pop(0, |_| true).as_deref(), Some("dropped"));
        assert_eq!(hints.pop(0, |_| true), None);
    }

    #[test]
    fn a_parked_hint_comes_back_when_it_is_woken() {
        let hints = Hints::<String>::default();
        hints.park("i".to_owned());
        assert_eq!(hints.pop(0, |_| true), None);
        hints.wake(&"i".to_owned());
        assert_eq!(hints.pop(0, |_| true).as_deref(), Some("i"));
    }
}
