//! Waiting inside an invocation, for what is due within a second.
//!
//! A wakeup arrives up to a second before its due time, because SQS delays by whole seconds (`due`). The group of such a wakeup
//! takes its steps in this order:
//!
//! ```text
//!   records of one target ─┬─ due now, or without a time ──> step, at once: an event does not wait for a timer
//!                          ├─ due within a second ─────────> wait, then a step at each due time
//!                          └─ due later ───────────────────> sent again, with the whole seconds before
//! ```
//!
//! The group waits outside of the gate, so that it occupies no dispatcher, and costs no request before its time. The other
//! groups of the batch go on meanwhile; the answer to the batch waits for it. That is at most 1.05 s of the function's time
//! for a batch (a second, and the time that a wakeup may need to arrive), however many of its groups wait.
//!
//! A waiting invocation occupies its place in the environment. So at most half as many invocations wait at once as the
//! environment has dispatchers, and always one. On Lambda, which gives an environment one invocation at a time, that is
//! no limit; where a process serves several, the other half is free for what is due.
//!
//! What can go wrong, and what becomes of it:
//! - Too little of the budget is left for the wait and a step, or too many wait: the wakeup is sent again with the whole
//!   seconds *after* its due time. It is late by less than a second, and cannot come early again and again.
//! - The clock is behind, or stands still: the wait has a limit by the process's own timer. Then the same.
//! - The function dies while it waits: its records were not deleted, so SQS delivers them again.
//! - The step before takes longer than the wait: what is due meanwhile is served right after it.
//! - The turn of another invocation takes the timer's message first: the step finds nothing, as after any duplicate wakeup.

use crate::due::{NEAR_MS, Schedule, delay_after};
use crate::notifier::Delayed;
use crate::wakeup::Wakeup;
use duroxide_cosmos::{Due, Target};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};

/// What is due within so many ms of the first is one turn: timers of one length that a turn schedules one after the other.
const TOGETHER_MS: u64 = 5;

/// The longest time that a group waits, by the process's own timer: what is near, and some more for a clock that is slow.
pub(crate) const LONGEST: Duration = Duration::from_millis(NEAR_MS + 100);

/// Parts wakeups at a moment: what is due until then or has no time, and what is due later. One that lists several due times may
/// be in both, each with its own.
pub(crate) fn split(wakeups: Vec<Wakeup>, at_ms: u64) -> (Vec<Wakeup>, Vec<Wakeup>) {
    let (mut due, mut later) = (Vec::new(), Vec::new());
    for wakeup in wakeups {
        let (before, after): (Vec<u64>, Vec<u64>) = wakeup.dues().partition(|due| *due <= at_ms);
        if !after.is_empty() {
            let mut rest = wakeup.clone();
            rest.set_dues(&after);
            later.push(rest);
        }
        if !before.is_empty() || after.is_empty() {
            let mut first = wakeup;
            first.set_dues(&before);
            due.push(first);
        }
    }
    (due, later)
}

/// What is near at this moment, and what is farther away.
pub(crate) fn split_near(later: Vec<Wakeup>, now_ms: u64) -> (Vec<Wakeup>, Vec<Wakeup>) {
    split(later, now_ms.saturating_add(NEAR_MS - 1))
}

/// The due times of these wakeups, in order.
pub(crate) fn dues(wakeups: &[Wakeup]) -> Vec<u64> {
    let mut dues: Vec<u64> = wakeups.iter().flat_map(Wakeup::dues).collect();
    dues.sort_unstable();
    dues.dedup();
    dues
}

/// How long to wait for the first of these due times, which are in order, and for what is due together with it. `None` if there
/// are none, or if that is longer than `most`.
pub(crate) fn wait_for(dues: &[u64], now_ms: u64, most: Duration) -> Option<Duration> {
    let first = *dues.first()?;
    let together = |due: &&u64| **due <= first.saturating_add(TOGETHER_MS);
    let last = dues.iter().take_while(together).last().copied().unwrap_or(first);
    let wait = Duration::from_millis(last.saturating_sub(now_ms));
    (wait <= most).then_some(wait)
}

/// The wakeups for these due times of a target. Where nobody could wait for them, they come after the first of them.
pub(crate) fn again(schedule: &Schedule, due: &Due, dues: &[u64], nobody_waits: bool) -> Vec<Delayed> {
    let all = dues.iter().map(|at_ms| Due {
        at_ms: Some(*at_ms),
        ..due.clone()
    });
    let mut wakeups = schedule.wakeups(all.collect());
    if nobody_waits {
        for delayed in &mut wakeups {
            let first = delayed.wakeup.due_ms.unwrap_or(0);
            delayed.delay = delay_after(first.saturating_sub(schedule.written_ms));
        }
    }
    wakeups
}

/// Whether a target's step finds it whatever the clock says: its wakeup names the version of the work item.
pub(crate) fn is_written(target: &Target) -> bool {
    matches!(target, Target::Work(work) if work.written.is_some())
}

/// The places for waiting invocations in an environment.
#[derive(Debug)]
pub(crate) struct Waits(Semaphore);

impl Waits {
    pub(crate) fn new(concurrency: usize) -> Waits {
        Waits(Semaphore::new((concurrency / 2).max(1)))
    }

    /// The place of one invocation, which it takes when a group of it first waits, and keeps until its end.
    pub(crate) fn invocation(&self) -> InvocationWait<'_> {
        InvocationWait {
            places: &self.0,
            taken: Mutex::default(),
        }
    }
}

/// See [`Waits::invocation`].
#[derive(Debug)]
pub(crate) struct InvocationWait<'a> {
    places: &'a Semaphore,
    taken: Mutex<Option<SemaphorePermit<'a>>>,
}

impl InvocationWait<'_> {
    /// Whether the invocation may wait. Its groups share one place: they wait at the same time.
    pub(crate) fn may_wait(&self) -> bool {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.is_none() {
            *taken = self.places.try_acquire().ok();
        }
        taken.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_760_000_000_000;

    fn at(dues: &[u64]) -> Wakeup {
        let mut wakeup = Wakeup::turn("i");
        wakeup.set_dues(dues);
        wakeup
    }

    #[test]
    fn what_is_due_is_parted_from_what_is_later() {
        let untimed = Wakeup::turn("i");
        for (wakeups, due, later) in [
            (vec![], vec![], vec![]),
            (vec![untimed.clone()], vec![untimed.clone()], vec![]),
            (vec![at(&[0])], vec![at(&[0])], vec![]),
            (vec![at(&[NOW])], vec![at(&[NOW])], vec![]),
            (vec![at(&[NOW + 1])], vec![], vec![at(&[NOW + 1])]),
            (vec![at(&[u64::MAX])], vec![], vec![at(&[u64::MAX])]),
            (
                vec![at(&[NOW - 9, NOW, NOW + 1, NOW + 999]), untimed.clone()],
                vec![at(&[NOW - 9, NOW]), untimed.clone()],
                vec![at(&[NOW + 1, NOW + 999])],
            ),
        ] {
            assert_eq!(split(wakeups.clone(), NOW), (due, later), "{wakeups:?}");
        }
        let mut resent = at(&[NOW, NOW + 1]);
        (resent.tries, resent.overdue, resent.execution) = (3, true, Some(7));
        let (due, later) = split(vec![resent.clone()], NOW);
        for part in due.into_iter().chain(later) {
            assert_eq!((part.tries, part.overdue, part.execution), (3, true, Some(7)));
        }
    }

    #[test]
    fn near_is_what_gets_a_wakeup_without_delay() {
        let is_near = |left: u64| split_near(vec![at(&[NOW + left])], NOW).1.is_empty();
        for (left, near) in [
            (1, true),
            (999, true),
            (1_000, true),
            (NEAR_MS - 1, true),
            (NEAR_MS, false),
        ] {
            assert_eq!(is_near(left), near, "{left} ms");
            assert_eq!(
                crate::due::delay_before(left).is_zero(),
                near,
                "or it would be sent again at once"
            );
        }
        let last = split_near(vec![at(&[u64::MAX])], u64::MAX - 5);
        assert_eq!(last, (vec![at(&[u64::MAX])], vec![]));
    }

    #[test]
    fn a_wait_ends_with_the_first_due_time_and_what_is_due_together_with_it() {
        let ms = Duration::from_millis;
        let longest = Some(LONGEST);
        for (dues, most, wait) in [
            (vec![], longest, None),
            (vec![NOW - 7], longest, Some(0)),
            (vec![NOW], longest, Some(0)),
            (vec![NOW + 1], longest, Some(1)),
            (vec![NOW + 999], longest, Some(999)),
            (vec![NOW + 1_000], longest, Some(1_000)),
            (vec![NOW + 200, NOW + 205, NOW + 206], longest, Some(205)),
            (vec![NOW + 200, NOW + 700], longest, Some(200)),
            (vec![NOW + 200], Some(ms(200)), Some(200)),
            (vec![NOW + 201], Some(ms(200)), None),
            (vec![NOW + 1], Some(Duration::ZERO), None),
            (vec![NOW], Some(Duration::ZERO), Some(0)),
            (vec![NOW + 5_000], longest, None),
            (vec![u64::MAX], longest, None),
            (vec![u64::MAX], Some(Duration::MAX), Some(u64::MAX - NOW)),
        ] {
            let most = most.unwrap_or_default();
            assert_eq!(wait_for(&dues, NOW, most), wait.map(ms), "{dues:?} within {most:?}");
        }
    }

    #[test]
    fn what_cannot_be_waited_for_comes_after_its_due_time_and_the_rest_before() {
        let schedule = Schedule {
            written_ms: NOW,
            reach: Duration::MAX,
            consistency_token: None,
        };
        let due = Due {
            target: Wakeup::turn("i").target,
            at_ms: None,
            execution: Some(4),
        };
        let sent = |dues: &[u64], nobody_waits: bool| -> Vec<(u64, Vec<u64>)> {
            let wakeups = again(&schedule, &due, dues, nobody_waits).into_iter();
            wakeups
                .map(|Delayed { wakeup, delay }| {
                    assert_eq!(wakeup.execution, Some(4));
                    (delay.as_secs(), wakeup.dues().map(|due| due - NOW).collect())
                })
                .collect()
        };
        assert_eq!(sent(&[], true), []);
        assert_eq!(sent(&[NOW + 300, NOW + 999], true), [(1, vec![300, 999])]);
        assert_eq!(sent(&[NOW + 1_020], true), [(2, vec![1_020])]);
        assert_eq!(
            sent(&[NOW + 4_020, NOW + 4_900], false),
            [(3, vec![4_020]), (4, vec![4_900])]
        );
        assert_eq!(sent(&[u64::MAX], false).len(), 1, "out of reach, and not lost");
    }

    #[test]
    fn half_of_the_invocations_may_wait_and_always_one() {
        for (concurrency, most) in [(0, 1), (1, 1), (2, 1), (3, 1), (4, 2), (10, 5), (1_000, 500)] {
            let waits = Waits::new(concurrency);
            let invocations: Vec<InvocationWait<'_>> = (0..=most).map(|_| waits.invocation()).collect();
            let waiting = invocations.iter().filter(|invocation| invocation.may_wait()).count();
            assert_eq!(waiting, most, "of {concurrency}");
            assert!(invocations[0].may_wait(), "all groups of an invocation");
            drop(invocations);
            assert!(waits.invocation().may_wait(), "its place is free after its end");
        }
    }
}
