//! The reminder schedule: which due items a run wakes. Pure decisions, no I/O.
//!
//! An item is *overdue* from the threshold on: that gives the functions time to serve what was queued just now. A timer is
//! overdue from its time on, because its wakeup was sent for that time, when it was queued or by an earlier run. If the
//! timer is still there, that wakeup was lost. A run that comes so soon that the wakeup may still be in flight wakes it with a
//! delay.
//!
//! An overdue item is woken by every run until it is served, unless its wakeup may still be in the queue (`queue_view`). After
//! [`EAGER_MS`] something else than a wakeup is missing, so from then on it is woken at growing *ages*: the threshold, twice
//! the threshold, four times, and so on up to a day; then once a day. The same ages hold from the beginning where nothing
//! is known of the queue. A run covers the time since the run before, so each item is woken once at each age however often
//! maintenance runs, and nothing is remembered of single items:
//!
//! ```text
//!   due            +30 s    +60 s         +120 s                        +240 s
//!    |──────────────|────────|──────────────|──────────────────────────────|────>
//!          runs:  |        |        |        |        |        |        |
//!  queue empty:   no      wake     wake     wake     wake     wake     wake ...
//!  not known:     no      wake     wake     wake      no       no      wake ...
//! ```
//!
//! At the growing ages, a timer is woken by the first run after its time. A timer whose commit took longer than the timer
//! itself may be missed by that run. So the next run wakes it again, if the threshold would come later (it does when the
//! period is shorter).
//!
//! A reminder costs nothing but an invocation: it counts as an attempt only when a function begins the step. An activity under
//! way is due when its lock ends, so it is not overdue; an item whose functions are throttled is never begun.

use super::queue_view::QueueView;
use duroxide_cosmos::{DueItem, DueWindow, Target};

const DAY_MS: u64 = 24 * 60 * 60 * 1000;
/// How long an overdue item is woken by every run. That many wakeups are not lost one after the other.
pub(super) const EAGER_MS: u64 = 60 * 60 * 1000;
/// The time in which a timer's wakeup may still be in flight. Schedules run less often than this.
const TIMER_GRACE_MS: u64 = 2_000;
/// A message that was put off by at least this much was woken for its own time, like a timer.
const LEAST_PUT_OFF_MS: u64 = 1_000;

/// What a run does with an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// It is not overdue, or was woken before and has not reached its next age.
    Later,
    /// Its wakeup may still be in the queue.
    Held,
    Wake,
}

/// The time that a run covers: from the run before until now, without what was woken already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overdue {
    /// The first age of an item, in ms.
    pub threshold_ms: u64,
    /// The time between two runs, in ms.
    pub period_ms: u64,
    pub last_run_ms: u64,
    pub now_ms: u64,
    /// Items that were due up to here were woken.
    pub after_ms: u64,
}

impl Overdue {
    /// The due times of the items that may be woken: in order, without overlaps.
    pub(super) fn windows(&self) -> Vec<DueWindow> {
        if self.now_ms <= self.last_run_ms {
            return Vec::new();
        }
        let mut spans: Vec<(u64, u64)> = self
            .ages()
            .map(|age| (self.last_run_ms.saturating_sub(age), self.now_ms.saturating_sub(age)))
            .collect();
        spans.push((self.now_ms.saturating_sub(EAGER_MS), self.now_ms));
        if self.is_new_day() {
            spans.push((0, self.now_ms.saturating_sub(DAY_MS)));
        }
        spans.sort_unstable();
        let mut windows: Vec<DueWindow> = Vec::new();
        for (after_ms, until_ms) in spans {
            let after_ms = after_ms.max(self.after_ms);
            match windows.last_mut() {
                _ if until_ms <= after_ms => {}
                Some(last) if after_ms <= last.until_ms => last.until_ms = last.until_ms.max(until_ms),
                _ => windows.push(DueWindow { after_ms, until_ms }),
            }
        }
        windows
    }

    /// Whether this run wakes an item of the windows, as far as its queue allows. If not, nothing need be known of the queue.
    pub(super) fn is_candidate(&self, item: &DueItem) -> bool {
        item.due_ms > self.after_ms && (self.is_eager(item) || self.is_of_schedule(item))
    }

    /// Whether this run wakes a candidate.
    pub(super) fn decide(&self, item: &DueItem, queue: &QueueView) -> Decision {
        let is_wanted = (queue.is_every_run && self.is_eager(item)) || self.is_of_schedule(item);
        match self.is_candidate(item) && is_wanted {
            false => Decision::Later,
            true if self.is_eager(item) && queue.may_hold(item) => Decision::Held,
            true => Decision::Wake,
        }
    }

    /// How long after `now_ms` the wakeup of such an item should arrive.
    pub(super) fn wait_ms(&self, item: &DueItem, now_ms: u64) -> u64 {
        if self.is_over_threshold(item) {
            return 0;
        }
        item.due_ms.saturating_add(TIMER_GRACE_MS).saturating_sub(now_ms)
    }

    fn is_over_threshold(&self, item: &DueItem) -> bool {
        item.due_ms.saturating_add(self.threshold_ms.max(1)) <= self.now_ms
    }

    /// Whether the item is overdue, and not so old that wakeups do not help.
    fn is_eager(&self, item: &DueItem) -> bool {
        let is_overdue = self.is_over_threshold(item) || (is_timer(item) && item.due_ms <= self.now_ms);
        is_overdue && self.holds_from(item.due_ms)
    }

    /// Whether items that are due at this time or later may be held back. Older ones are woken at their ages in any case: they
    /// have so few that nothing is gained, and the probes of one age are forgotten at the next.
    pub(super) fn holds_from(&self, due_ms: u64) -> bool {
        due_ms.saturating_add(EAGER_MS) > self.now_ms
    }

    /// Whether the item reaches one of its growing ages in this run.
    fn is_of_schedule(&self, item: &DueItem) -> bool {
        let is_timer_of_age = || is_timer(item) && self.timer_ages().any(|age| self.reaches(item, age));
        self.is_of_age(item) || is_timer_of_age()
    }

    /// Whether the item reaches one of the ages of every item in this run.
    fn is_of_age(&self, item: &DueItem) -> bool {
        let is_old = item.due_ms.saturating_add(DAY_MS) <= self.now_ms;
        self.ages().any(|age| self.reaches(item, age)) || (is_old && self.is_new_day())
    }

    fn reaches(&self, item: &DueItem, age: u64) -> bool {
        let moment = item.due_ms.saturating_add(age);
        moment > self.last_run_ms && moment <= self.now_ms
    }

    /// The ages below a day.
    fn ages(&self) -> impl Iterator<Item = u64> {
        let first = self.threshold_ms.max(1);
        std::iter::successors(Some(first), |age| age.checked_mul(2)).take_while(|age| *age < DAY_MS)
    }

    /// The ages at which a timer is woken before the threshold. When the period is no shorter than the threshold, some age
    /// of every item lies in each period anyway.
    fn timer_ages(&self) -> impl Iterator<Item = u64> {
        let one_period = Some(self.period_ms).filter(|period| *period < self.threshold_ms);
        std::iter::once(0).chain(one_period)
    }

    fn is_new_day(&self) -> bool {
        self.now_ms / DAY_MS > self.last_run_ms / DAY_MS
    }
}

/// The timers that come within reach: no wakeup could be sent for them when they were queued, because a delay has a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Coming {
    /// Wakeups were sent for all timers up to here.
    pub after_ms: u64,
    pub until_ms: u64,
    /// The longest delay of a wakeup.
    pub reach_ms: u64,
}

impl Coming {
    /// From the end of the run before, to `ahead_ms` from now. A timer that became due a moment ago is woken at once; one
    /// that is later than that is overdue.
    pub(super) fn new(notified_until_ms: u64, now_ms: u64, ahead_ms: u64, reach_ms: u64) -> Coming {
        Coming {
            after_ms: notified_until_ms.max(now_ms.saturating_sub(TIMER_GRACE_MS)),
            until_ms: now_ms.saturating_add(ahead_ms),
            reach_ms,
        }
    }

    pub(super) fn windows(&self) -> Vec<DueWindow> {
        let window = DueWindow {
            after_ms: self.after_ms,
            until_ms: self.until_ms,
        };
        Vec::from_iter((window.after_ms < window.until_ms).then_some(window))
    }

    /// Whether this run sends a wakeup for an item of the window. An activity that is due later is claimed, or its wakeup
    /// was sent by the function that put it off.
    pub(super) fn wakes(&self, item: &DueItem) -> bool {
        let was_out_of_reach = item
            .queued_ms
            .is_none_or(|queued| item.due_ms.saturating_sub(queued) > self.reach_ms);
        matches!(item.target, Target::Turn { .. }) && was_out_of_reach
    }
}

/// Whether a wakeup was sent for the item's due time, rather than when it was queued.
pub(super) fn is_timer(item: &DueItem) -> bool {
    let is_put_off = |queued: u64| item.due_ms.saturating_sub(queued) >= LEAST_PUT_OFF_MS;
    matches!(item.target, Target::Turn { .. }) && (item.is_timer || item.queued_ms.is_some_and(is_put_off))
}

/// Up to which due time a phase has woken everything, when all items due before `reached_ms` were on its pages.
///
/// A page has items of every physical partition, and the partitions do not advance alike. Items beyond what all of them have
/// reached wait, so that the next run can continue a phase that stopped and wakes nothing twice. If that is no progress,
/// because a whole run saw items of one single moment, those that were seen are woken and the rest of that moment waits
/// for its next age: better late than never.
pub(super) fn watermark(after_ms: u64, reached_ms: u64) -> u64 {
    reached_ms.saturating_sub(1).max(after_ms.saturating_add(1))
}

#[cfg(test)]
mod tests;
