//! Which due items a run of the sweep rings: pure decisions, no I/O.
//!
//! An item that is overdue is rung when it reaches certain *ages*: a threshold, twice the threshold, four times, and so
//! on up to a day; from then on once a day. A run answers for the time since the run before, so each item is rung once
//! at each age, whoever runs how often, and nothing needs to be remembered of single items:
//!
//! ```text
//!   due            +30 s    +60 s         +120 s                        +240 s
//!    |──────────────|────────|──────────────|──────────────────────────────|────>
//!          runs:  |        |        |        |        |        |        |
//!                 no      ring     ring     ring     no       ring ...
//! ```
//!
//! A timer was rung for its moment when it was queued, or by a former run. If it is still there soon after, that ring
//! was lost: it need not wait for the threshold, which gives functions the time to take what was queued just now.

use duroxide_cosmos::{DueItem, DueWhat, DueWindow};

const DAY_MS: u64 = 24 * 60 * 60 * 1000;
/// How long after its time a timer should have been taken.
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
    /// Where the items are that may be rung: in order, without overlaps.
    pub(super) fn windows(&self) -> Vec<DueWindow> {
        if self.now_ms <= self.last_run_ms {
            return Vec::new();
        }
        let mut spans: Vec<(u64, u64)> = std::iter::once(TIMER_GRACE_MS)
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

    /// Whether this run rings an item of the windows.
    pub(super) fn rings(&self, item: &DueItem) -> bool {
        let passed = |age: u64| {
            let moment = item.due_ms.saturating_add(age);
            moment > self.last_run_ms && moment <= self.now_ms
        };
        let is_old = item.due_ms.saturating_add(DAY_MS) <= self.now_ms;
        item.due_ms > self.after_ms
            && ((is_timer(item) && passed(TIMER_GRACE_MS)) || self.ages().any(passed) || (is_old && self.is_new_day()))
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

/// The timers that come within reach: those that were out of reach of the doorbell when they were queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Coming {
    /// Up to here all are rung.
    pub after_ms: u64,
    pub until_ms: u64,
    /// How far the doorbell reaches.
    pub reach_ms: u64,
}

impl Coming {
    /// From where the last run ended, to `ahead_ms` from now. What became due since the run before is late already; what
    /// is later than that is overdue, and not our business.
    pub(super) fn new(rung_until_ms: u64, now_ms: u64, ahead_ms: u64, reach_ms: u64) -> Coming {
        Coming {
            after_ms: rung_until_ms.max(now_ms.saturating_sub(TIMER_GRACE_MS)),
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
    pub(super) fn rings(&self, item: &DueItem) -> bool {
        let is_unrung = item
            .queued_ms
            .is_none_or(|queued| item.due_ms.saturating_sub(queued) > self.reach_ms);
        matches!(item.what, DueWhat::Turn) && is_unrung
    }
}

fn is_timer(item: &DueItem) -> bool {
    let put_off = |queued: u64| item.due_ms.saturating_sub(queued) >= LEAST_TIMER_MS;
    matches!(item.what, DueWhat::Turn) && item.queued_ms.is_some_and(put_off)
}

/// Up to which due time a phase that stops between two pages has surely served everything.
///
/// A page has items of every physical range, and the ranges do not come forward alike: only what is due before the last
/// page's first item is served in all of them. If that is no progress, because a whole run was one page, the rest of
/// that page's time is given up to the next age: better late than never.
pub(super) fn watermark(after_ms: u64, first_ms: u64, last_ms: u64) -> u64 {
    let sure = first_ms.saturating_sub(1);
    if sure > after_ms { sure } else { last_ms }
}

#[cfg(test)]
mod tests;
