//! Candidates: what this process believes to be due, in the order in which it learned it.
//!
//! All waiting callers wake for a new candidate: not each of them serves it (tags, affinity sessions).

use crate::due::{Due, Target, WorkVersion};
use crate::model::WorkDoc;
use crate::store::millis;
use cosmos::SweepCursor;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How many half sweep intervals a candidate that this process gave back is left to others, after it is due: each of them
/// sweeps within two, and has another to claim it.
const LEFT_FOR: u32 = 3;
/// Candidates that are kept.
const MOST_CANDIDATES: usize = 10_000;
/// Candidates that are kept before the first poll: a function never polls, and must not collect them.
const MOST_UNPOLLED: usize = 64;

/// A work item worth trying.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct WorkCandidate {
    pub pk: String,
    pub id: String,
    pub tag: Option<String>,
    pub session: Option<String>,
    /// The version in which this process wrote the item, so that the fetch need not read it.
    #[serde(skip)]
    pub written: Option<WorkVersion>,
}

/// Two candidates are equal when they name the same item.
impl PartialEq for WorkCandidate {
    fn eq(&self, other: &Self) -> bool {
        self.pk == other.pk && self.id == other.id
    }
}

impl Eq for WorkCandidate {}

impl Hash for WorkCandidate {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.pk.hash(state);
        self.id.hash(state);
    }
}

impl WorkCandidate {
    /// A candidate whose version is not known.
    pub(crate) fn of(work: &WorkDoc) -> Self {
        WorkCandidate {
            pk: work.pk.clone(),
            id: work.id.clone(),
            tag: work.tag.clone(),
            session: work.session.clone(),
            written: None,
        }
    }

    /// The activity that is due now, if it is one.
    pub(crate) fn of_due(due: &Due) -> Option<Self> {
        let Target::Work(work) = due.at_ms.is_none().then_some(&due.target)? else {
            return None;
        };
        Some(WorkCandidate {
            pk: work.instance.clone(),
            id: WorkDoc::id_of(&work.identifier()),
            tag: work.tag.clone(),
            session: work.session.clone(),
            written: work.written.clone(),
        })
    }
}

/// The candidates of one kind.
#[derive(Debug)]
pub(crate) struct Candidates<C> {
    state: Mutex<State<C>>,
    arrived: Notify,
    interval: Duration,
    /// Fence during a sweep: callers that find nothing at the same time share one sweep.
    pub(crate) sweeping: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct State<C> {
    queue: VecDeque<C>,
    known: HashSet<C>,
    timed: BTreeMap<u64, Vec<C>>,
    /// How many candidates `timed` has.
    timers: usize,
    /// Candidates whose turn is under way in this process.
    waiting: HashSet<C>,
    /// Candidates that are left to other processes, and until when (Unix ms).
    left: HashMap<C, u64>,
    /// How often a candidate was added.
    added: u64,
    /// The latest sweep; `None` before the first.
    swept: Option<Instant>,
    /// Where the next sweep continues, so that what is due and cannot be claimed does not hide the rest.
    place: Option<Place>,
    /// The next sweep is due at once.
    hurry: bool,
    polled: bool,
}

impl<C: Eq + Hash> State<C> {
    fn most(&self) -> usize {
        if self.polled { MOST_CANDIDATES } else { MOST_UNPOLLED }
    }

    fn is_left(&self, candidate: &C, now_ms: u64) -> bool {
        self.left.get(candidate).is_some_and(|until_ms| *until_ms > now_ms)
    }
}

/// A candidate that was popped. Dropped before it is done (the fetch's caller shuts down), it goes back.
#[derive(Debug)]
pub(crate) struct Taken<'a, C: Clone + Eq + Hash> {
    candidates: &'a Candidates<C>,
    candidate: Option<C>,
}

impl<C: Clone + Eq + Hash> Taken<'_, C> {
    pub(crate) fn done(mut self) {
        self.candidate = None;
    }
}

impl<C: Clone + Eq + Hash> Drop for Taken<'_, C> {
    fn drop(&mut self) {
        if let Some(candidate) = self.candidate.take() {
            self.candidates.push(candidate);
        }
    }
}

/// A place in the queue: the time that the query refers to, and how far it was read.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub now_ms: u64,
    pub cursor: Option<SweepCursor>,
}

impl<C: Clone + Eq + Hash> Candidates<C> {
    /// No candidates, with a sweep at each `interval`.
    pub(crate) fn new(interval: Duration) -> Self {
        Candidates {
            interval,
            state: Mutex::new(State {
                queue: VecDeque::new(),
                known: HashSet::new(),
                timed: BTreeMap::new(),
                timers: 0,
                waiting: HashSet::new(),
                left: HashMap::new(),
                added: 0,
                swept: None,
                place: None,
                hurry: false,
                polled: false,
            }),
            arrived: Notify::new(),
            sweeping: tokio::sync::Mutex::new(()),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a candidate, unless it is known.
    pub(crate) fn push(&self, candidate: C) {
        let mut state = self.state();
        if !state.known.insert(candidate.clone()) {
            return;
        }
        // The oldest makes room: this process may not serve it.
        if state.queue.len() >= state.most()
            && let Some(oldest) = state.queue.pop_front()
        {
            state.known.remove(&oldest);
        }
        state.queue.push_back(candidate);
        state.added += 1;
        drop(state);
        self.arrived.notify_waiters();
    }

    /// Adds a candidate for later.
    pub(crate) fn push_at(&self, due_ms: u64, now_ms: u64, candidate: C) {
        if due_ms <= now_ms {
            return self.push(candidate);
        }
        let mut state = self.state();
        if state.timers < state.most() {
            state.timers += 1;
            state.timed.entry(due_ms).or_default().push(candidate);
            state.added += 1;
            drop(state);
            // Waiting callers must recompute when to wake.
            self.arrived.notify_waiters();
        }
    }

    /// Adds a candidate that this process has claimed and given back, due at that time.
    ///
    /// A delay after a counted attempt means that this process could not run it (its build does not know the name). Then
    /// others go first: it is left to them until each had the time to sweep. A process that is alone takes it again then.
    pub(crate) fn give_back(&self, candidate: C, due_ms: u64, now_ms: u64, ignore_attempt: bool) {
        if ignore_attempt || due_ms <= now_ms {
            return self.push_at(due_ms, now_ms, candidate);
        }
        let until_ms = due_ms.saturating_add(millis(self.interval * LEFT_FOR / 2));
        let mut state = self.state();
        state.left.retain(|_, until_ms| *until_ms > now_ms);
        if state.left.len() < state.most() {
            state.left.insert(candidate.clone(), until_ms);
        }
        drop(state);
        self.push_at(until_ms, now_ms, candidate);
    }

    /// Whether the candidate is left to other processes.
    pub(crate) fn is_left(&self, candidate: &C, now_ms: u64) -> bool {
        self.state().is_left(candidate, now_ms)
    }

    /// Whether there is such a candidate.
    pub(crate) fn any(&self, is_such: impl Fn(&C) -> bool) -> bool {
        self.state().queue.iter().any(is_such)
    }

    /// How often a candidate was added, for [`Candidates::wait`].
    pub(crate) fn added(&self) -> u64 {
        self.state().added
    }

    /// The first candidate that the caller serves. One that waits leaves to others what this process gave back.
    pub(crate) fn pop(&self, now_ms: u64, waits: bool, suits: impl Fn(&C) -> bool) -> Option<C> {
        let mut state = self.state();
        state.polled = true;
        let later = state.timed.split_off(&(now_ms + 1));
        let due = std::mem::replace(&mut state.timed, later);
        for candidate in due.into_values().flatten() {
            state.timers -= 1;
            if state.known.insert(candidate.clone()) {
                state.queue.push_back(candidate);
            }
        }
        let is_free = |candidate: &C| !waits || !state.is_left(candidate, now_ms);
        let index = state.queue.iter().position(|c| is_free(c) && suits(c))?;
        let candidate = state.queue.remove(index)?;
        state.known.remove(&candidate);
        Some(candidate)
    }

    /// A popped candidate that goes back unless it is done.
    pub(crate) fn taken(&self, candidate: &C) -> Taken<'_, C> {
        Taken {
            candidates: self,
            candidate: Some(candidate.clone()),
        }
    }

    /// Keeps a candidate until [`Candidates::wake`].
    pub(crate) fn park(&self, candidate: C) {
        let mut state = self.state();
        if state.waiting.len() < state.most() {
            state.waiting.insert(candidate);
        }
    }

    /// Makes a parked candidate an ordinary one.
    pub(crate) fn wake(&self, candidate: &C) {
        let parked = self.state().waiting.take(candidate);
        if let Some(candidate) = parked {
            self.push(candidate);
        }
    }

    pub(crate) fn is_sweep_due(&self) -> bool {
        let state = self.state();
        state.hurry || state.swept.is_none_or(|swept| swept.elapsed() >= self.interval)
    }

    pub(crate) fn take_place(&self) -> Option<Place> {
        self.state().place.take()
    }

    /// Records where the next sweep continues, and that it is due at once when the last one found nothing.
    pub(crate) fn keep_place(&self, place: Option<Place>, found: bool) {
        let mut state = self.state();
        state.hurry = place.is_some() && !found;
        state.place = place;
    }

    pub(crate) fn note_sweep(&self) {
        let mut state = self.state();
        state.hurry = false;
        state.swept = Some(Instant::now());
    }

    /// Waits for a candidate that was added after the first `seen`, the next timer, the next sweep, or `deadline`.
    pub(crate) async fn wait(&self, seen: u64, deadline: Instant, now_ms: u64) {
        let mut arrived = pin!(self.arrived.notified());
        // Subscribe before looking, or a candidate in between would be missed.
        arrived.as_mut().enable();
        let wake_at = {
            let state = self.state();
            if state.added != seen {
                return;
            }
            let next_sweep = match state.swept {
                Some(swept) if !state.hurry => swept + self.interval,
                _ => Instant::now(),
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
            () = arrived => {}
            () = tokio::time::sleep_until(wake_at) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(1);

    #[test]
    fn a_candidate_is_kept_once_and_popped_in_order() {
        let candidates = Candidates::<String>::new(INTERVAL);
        for name in ["a", "b", "a"] {
            candidates.push(name.to_owned());
        }
        let all: Vec<String> = std::iter::from_fn(|| candidates.pop(0, true, |_| true)).collect();
        assert_eq!(all, ["a", "b"]);
    }

    #[test]
    fn a_timer_waits_for_its_time() {
        let candidates = Candidates::<String>::new(INTERVAL);
        candidates.push_at(100, 50, "timer".to_owned());
        assert_eq!(candidates.pop(99, true, |_| true), None);
        assert_eq!(candidates.pop(100, true, |_| true).as_deref(), Some("timer"));
    }

    #[test]
    fn a_candidate_that_the_caller_does_not_serve_stays() {
        let candidates = Candidates::<String>::new(INTERVAL);
        candidates.push("gpu".to_owned());
        candidates.push("plain".to_owned());
        assert_eq!(
            candidates.pop(0, true, |candidate| candidate == "plain").as_deref(),
            Some("plain")
        );
        assert_eq!(candidates.pop(0, true, |_| true).as_deref(), Some("gpu"));
    }

    #[test]
    fn old_candidates_make_room_for_new_ones() {
        let candidates = Candidates::<usize>::new(INTERVAL);
        assert_eq!(candidates.pop(0, true, |_| true), None);
        for n in 0..=MOST_CANDIDATES {
            candidates.push(n);
        }
        assert_eq!(candidates.pop(0, true, |_| true), Some(1));
        assert_eq!(
            candidates.pop(0, true, |n| *n == MOST_CANDIDATES),
            Some(MOST_CANDIDATES)
        );
    }

    #[test]
    fn few_candidates_are_kept_before_the_first_poll() {
        let candidates = Candidates::<usize>::new(INTERVAL);
        for n in 0..1_000 {
            candidates.push(n);
            candidates.push_at(n as u64 + 1, 0, n);
        }
        let kept = std::iter::from_fn(|| candidates.pop(u64::MAX - 1, true, |_| true)).count();
        assert!(kept <= 2 * MOST_UNPOLLED, "{kept}");
        assert!(kept >= MOST_UNPOLLED, "{kept}");
    }

    #[test]
    fn a_candidate_that_is_dropped_before_it_is_done_comes_back() {
        let candidates = Candidates::<String>::new(INTERVAL);
        drop(candidates.taken(&"dropped".to_owned()));
        candidates.taken(&"done".to_owned()).done();
        assert_eq!(candidates.pop(0, true, |_| true).as_deref(), Some("dropped"));
        assert_eq!(candidates.pop(0, true, |_| true), None);
    }

    #[test]
    fn a_parked_candidate_comes_back_when_it_is_woken() {
        let candidates = Candidates::<String>::new(INTERVAL);
        candidates.park("i".to_owned());
        assert_eq!(candidates.pop(0, true, |_| true), None);
        candidates.wake(&"i".to_owned());
        assert_eq!(candidates.pop(0, true, |_| true).as_deref(), Some("i"));
    }

    #[test]
    fn what_was_given_back_is_left_to_others_until_they_had_time_to_sweep() {
        let candidates = Candidates::<String>::new(INTERVAL);
        candidates.give_back("i".to_owned(), 1_000, 900, false);
        // News of it, and a sweep, change nothing.
        candidates.push("i".to_owned());
        assert_eq!(candidates.pop(2_499, true, |_| true), None);
        assert!(candidates.is_left(&"i".to_owned(), 2_499));
        assert_eq!(candidates.pop(2_500, true, |_| true).as_deref(), Some("i"));
        assert_eq!(candidates.pop(2_500, true, |_| true), None, "it is one candidate");
    }

    #[test]
    fn what_was_given_back_is_taken_at_once_by_a_caller_that_does_not_wait() {
        let candidates = Candidates::<String>::new(INTERVAL);
        candidates.give_back("i".to_owned(), 1_000, 900, false);
        candidates.push("i".to_owned());
        assert_eq!(candidates.pop(1_000, false, |_| true).as_deref(), Some("i"));
    }

    #[test]
    fn what_was_given_back_without_a_delay_or_an_attempt_is_not_left_to_others() {
        let candidates = Candidates::<String>::new(INTERVAL);
        candidates.give_back("now".to_owned(), 900, 900, false);
        candidates.give_back("later".to_owned(), 1_000, 900, true);
        assert_eq!(candidates.pop(999, true, |_| true).as_deref(), Some("now"));
        assert_eq!(candidates.pop(1_000, true, |_| true).as_deref(), Some("later"));
    }

    #[tokio::test]
    async fn every_waiting_caller_wakes_for_a_candidate() {
        let candidates = Candidates::<String>::new(Duration::from_secs(3_600));
        candidates.note_sweep();
        let deadline = Instant::now() + Duration::from_secs(3_600);
        let wait = || candidates.wait(candidates.added(), deadline, 0);
        let news = async { candidates.push("i".to_owned()) };
        futures::join!(wait(), wait(), wait(), news);
        // A candidate that came before the wait is not missed.
        candidates.wait(0, deadline, 0).await;
    }
}
