//! Which due items a run of the sweep wakeups: pure decisions, no I/O.
//!
//! An item that is overdue is notified when it reaches certain *ages*: a threshold, twice the threshold, four times, and so
//! on up to a day; from then on once a day. A run answers for the time since the run before, so each item is notified once
//! at each age, whoever runs how often, and nothing needs to be remembered of single items:
//!
//! ```text
//!   due            +30 s    +60 s         +120 s                        +240 s
//!    |──────────────|────────|──────────────|──────────────────────────────|────>
//!          runs:  |        |        |        |        |        |        |
//!                 no      wakeup     wakeup     wakeup     no       wakeup ...
//! ```
//!
//! A timer was notified for its moment when it was queued, or by a former run. If it is still there soon after, that wakeup
//! was lost: it need not wait for the threshold, which gives functions the time to take what was queued just now. The
//! first run after its moment wakeups it, so that a lost wakeup costs one period at most; a run that comes so early that the
//! first wakeup may still be under way wakeups with a delay.

use duroxide_cosmos::{DueItem, DueWhat, DueWindow};

const DAY_MS: u64 = 24 * 60 * 60 * 1000;
/// How long after its time a timer should have been taken. Schedules run more seldom than this.
const TIMER_GRACE_MS: u64 = 2_000;
/// What is put off by less is no timer.
const LEAST_TIMER_MS: u64 = 1_000;

/// The time that a run answers for, from the run before to now, without what is served already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overdue {
    /// The first age, in ms.
    pub threshold_ms: u64,
    pub last_run_ms: u64,
    pub now_ms: u64,
    /// What was due up to here is served.
    pub after_ms: u64,
}

impl Overdue {
    /// Where the items are that may be notified: in order, without overlaps.
    pub(super) fn windows(&self) -> Vec<DueWindow> {
        if self.now_ms <= self.last_run_ms {
            return Vec::new();
        }
        let mut spans: Vec<(u64, u64)> = std::iter::once(0)
            .chain(self.ages())
            .map(|age| (self.last_run_ms.saturating_sub(age), self.now_ms.saturating_sub(age)))
            .collect();
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

    /// Whether this run wakeups an item of the windows.
    pub(super) fn wakeups(&self, item: &DueItem) -> bool {
        item.due_ms > self.after_ms && (self.is_of_age(item) || (is_timer(item) && self.passed(item, 0)))
    }

    /// How long from `now_ms` on the wakeup of such an item should wait.
    pub(super) fn wait_ms(&self, item: &DueItem, now_ms: u64) -> u64 {
        if self.is_of_age(item) {
            return 0;
        }
        item.due_ms.saturating_add(TIMER_GRACE_MS).saturating_sub(now_ms)
    }

    /// Whether this is the run in which an item comes to one of its ages.
    fn is_of_age(&self, item: &DueItem) -> bool {
        let is_old = item.due_ms.saturating_add(DAY_MS) <= self.now_ms;
        self.ages().any(|age| self.passed(item, age)) || (is_old && self.is_new_day())
    }

    fn passed(&self, item: &DueItem, age: u64) -> bool {
        let moment = item.due_ms.saturating_add(age);
        moment > self.last_run_ms && moment <= self.now_ms
    }

    /// The ages below a day.
    fn ages(&self) -> impl Iterator<Item = u64> {
        let first = self.threshold_ms.max(1);
        std::iter::successors(Some(first), |age| age.checked_mul(2)).take_while(|age| *age < DAY_MS)
    }

    fn is_new_day(&self) -> bool {
        self.now_ms / DAY_MS > self.last_run_ms / DAY_MS
    }
}

/// The timers that come within reach: those that were out of reach of the notifier when they were queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Coming {
    /// Up to here all are notified.
    pub after_ms: u64,
    pub until_ms: u64,
    /// How far the notifier reaches.
    pub reach_ms: u64,
}

impl Coming {
    /// From where the last run ended, to `ahead_ms` from now. What became due since the run before is late already, and is
    /// notified at once; what is later than that is overdue, and not our business.
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

    /// An activity that is due later is held, or was put off by somebody who rang for it.
    pub(super) fn wakeups(&self, item: &DueItem) -> bool {
        let is_not_notified = item
            .queued_ms
            .is_none_or(|queued| item.due_ms.saturating_sub(queued) > self.reach_ms);
        matches!(item.what, DueWhat::Turn) && is_not_notified
    }
}

fn is_timer(item: &DueItem) -> bool {
    let put_off = |queued: u64| item.due_ms.saturating_sub(queued) >= LEAST_TIMER_MS;
    matches!(item.what, DueWhat::Turn) && item.queued_ms.is_some_and(put_off)
}

/// Up to which due time a phase serves what it has seen, when all that is due before `reached_ms` was on its pages.
///
/// A page has items of every physical range, and the ranges do not come forward alike: what is later than all of them have
/// reached waits, so that a phase that stops there and is gone on with by the next run wakeups nothing twice. If that is no
/// progress, because a whole run saw one single moment, what was seen of that moment is served and the rest of it is given
/// up to the next age: better late than never.
pub(super) fn watermark(after_ms: u64, reached_ms: u64) -> u64 {
    reached_ms.saturating_sub(1).max(after_ms.saturating_add(1))
}

#[cfg(test)]
mod tests;
