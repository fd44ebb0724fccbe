//! The sweep: wakes what no wakeup reached, in phases.
//!
//! | phase | wakes | when it stops early |
//! |---|---|---|
//! | coming | timers that come within reach, with a delay | the next run begins after the last timer that was woken |
//! | left | what the run before had no time for | stays, from there on |
//! | new | what reached an age since the run before (`reminders`) | becomes the next run's `left` |
//!
//! Items are woken in the order of their due times, over all physical partitions: items that one partition returns ahead of
//! the others wait until those have come as far. So a run that stops knows up to when everything was woken, and the next run
//! repeats nothing (except of a single moment that fills whole pages, which no cursor can divide).
//!
//! Between runs only the state document remains, written once at the end of a run. A run that dies writes nothing, and the
//! next run wakes the same items again: a duplicate wakeup finds nothing to do.

use super::look::DueSource;
use super::reminders::{Coming, Overdue, watermark};
use super::wakeups::{RunWakeups, SentWakeups, coming_wakeups, overdue_wakeups};
use crate::config::MaintenanceSettings;
use duroxide::providers::ProviderError;
use duroxide_cosmos::{Cursor, DueItem, DuePage, DueWindow, MaintenanceState, PageRequest, UnfinishedSweep};
use std::collections::VecDeque;

/// A sweep under way.
#[derive(Debug)]
pub(super) struct Sweep {
    state: MaintenanceState,
    phases: VecDeque<Phase>,
    /// There was no time for some wakeups: no more pages are read.
    is_cut_short: bool,
}

#[derive(Debug)]
struct Phase {
    kind: Kind,
    windows: Vec<DueWindow>,
    cursor: Option<Cursor>,
    /// Items that were returned ahead of other partitions.
    ahead: Vec<DueItem>,
    /// Everything due up to here was woken.
    woken_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Coming(Coming),
    Left(Overdue),
    New(Overdue),
}

impl Phase {
    fn new(kind: Kind) -> Phase {
        let windows = match &kind {
            Kind::Coming(coming) => coming.windows(),
            Kind::Left(overdue) | Kind::New(overdue) => overdue.windows(),
        };
        Phase {
            kind,
            windows,
            cursor: None,
            ahead: Vec::new(),
            woken_ms: None,
        }
    }

    /// The items to wake after this page, oldest first, and up to when everything was woken then.
    fn next(&mut self, page: DuePage) -> (Vec<DueItem>, Option<u64>) {
        let mut due = std::mem::take(&mut self.ahead);
        due.extend(page.items);
        due.sort_by_key(|item| item.due_ms);
        if page.cursor.is_none() {
            return (due, None);
        }
        let after_ms = match &self.kind {
            Kind::Coming(coming) => coming.after_ms,
            Kind::Left(overdue) | Kind::New(overdue) => overdue.after_ms,
        };
        let until_ms = page.reached_ms.map(|reached| watermark(after_ms, reached));
        let up_to = |until_ms: Option<u64>| due.partition_point(|item| Some(item.due_ms) <= until_ms);
        // Of a moment that fills whole pages, the items seen are woken; they are repeated if the run stops there.
        let ready = Some(up_to(until_ms)).filter(|ready| *ready > 0);
        self.ahead = due.split_off(ready.unwrap_or_else(|| up_to(page.reached_ms)));
        (due, until_ms)
    }
}

/// A duration in ms, as the store counts.
pub(super) fn ms(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Sweep {
    /// Plans a run that begins now.
    pub(super) fn new(state: MaintenanceState, settings: &MaintenanceSettings, now_ms: u64) -> Sweep {
        let (ahead_ms, reach_ms) = (ms(settings.ahead()), ms(settings.wakeup_reach));
        let state = not_ahead(state, ms(settings.period), now_ms);
        let overdue = Overdue {
            threshold_ms: ms(settings.overdue),
            period_ms: ms(settings.period),
            last_run_ms: state.last_run_ms,
            now_ms,
            after_ms: 0,
        };
        let left = state.sweep.as_ref().map(|left| Overdue {
            last_run_ms: left.last_run_ms,
            now_ms: left.now_ms,
            after_ms: left.after_ms,
            ..overdue
        });
        let coming = Coming::new(state.notified_until_ms, now_ms, ahead_ms, reach_ms);
        let kinds = [
            Some(Kind::Coming(coming)),
            left.map(Kind::Left),
            Some(Kind::New(overdue)),
        ];
        let phases = kinds.into_iter().flatten().map(Phase::new).collect();
        Sweep {
            state,
            phases,
            is_cut_short: false,
        }
    }

    /// Wakes the items of one page. Returns what became of the wakeups, and whether there is more to do.
    pub(super) async fn page(
        &mut self,
        source: DueSource<'_>,
        wakeups: &mut RunWakeups,
        request: PageRequest,
        now_ms: u64,
    ) -> Result<(SentWakeups, bool), ProviderError> {
        while let Some(phase) = self.phases.pop_front_if(|phase| phase.windows.is_empty()) {
            finish(&mut self.state, &phase.kind);
        }
        let Some(phase) = self.phases.front_mut().filter(|_| !self.is_cut_short) else {
            return Ok((SentWakeups::default(), self.is_cut_short));
        };
        let request = PageRequest {
            cursor: phase.cursor.clone(),
            ..request
        };
        let page = source.due(&phase.windows, request).await?;
        let cursor = page.cursor.clone();
        let (due, until_ms) = phase.next(page);
        let due = match &phase.kind {
            Kind::Coming(coming) => coming_wakeups(&due, coming, now_ms, &mut wakeups.woken),
            Kind::Left(overdue) | Kind::New(overdue) => overdue_wakeups(&due, overdue, now_ms, &mut wakeups.woken),
        };
        let sent = wakeups.notify(due).await;
        if sent.left > 0 {
            self.is_cut_short = true;
            return Ok((sent, true));
        }
        phase.woken_ms = until_ms.or(phase.woken_ms);
        phase.cursor = cursor;
        if phase.cursor.is_none()
            && let Some(phase) = self.phases.pop_front()
        {
            finish(&mut self.state, &phase.kind);
        }
        Ok((sent, !self.phases.is_empty()))
    }

    /// The state that the next run begins with.
    pub(super) fn into_state(mut self) -> MaintenanceState {
        if let Some(Phase {
            kind,
            woken_ms: Some(woken_ms),
            ..
        }) = self.phases.pop_front()
        {
            stop(&mut self.state, &kind, woken_ms);
        }
        self.state
    }
}

/// The state as if the run before had been one period ago, if its clock was ahead. Otherwise nothing would be woken until
/// the time has caught up.
fn not_ahead(mut state: MaintenanceState, period_ms: u64, now_ms: u64) -> MaintenanceState {
    if state.last_run_ms > now_ms {
        state.last_run_ms = now_ms.saturating_sub(period_ms);
        state.notified_until_ms = state.notified_until_ms.min(now_ms);
        if let Some(left) = &mut state.sweep {
            left.now_ms = left.now_ms.min(now_ms);
            left.last_run_ms = left.last_run_ms.min(state.last_run_ms);
        }
    }
    state
}

/// A phase is complete.
fn finish(state: &mut MaintenanceState, kind: &Kind) {
    match kind {
        Kind::Coming(coming) => state.notified_until_ms = state.notified_until_ms.max(coming.until_ms),
        Kind::Left(_) => state.sweep = None,
        Kind::New(overdue) => state.last_run_ms = state.last_run_ms.max(overdue.now_ms),
    }
}

/// A phase stops between two pages.
fn stop(state: &mut MaintenanceState, kind: &Kind, woken_ms: u64) {
    match kind {
        Kind::Coming(_) => state.notified_until_ms = state.notified_until_ms.max(woken_ms),
        Kind::Left(overdue) | Kind::New(overdue) => {
            state.sweep = Some(UnfinishedSweep {
                now_ms: overdue.now_ms,
                last_run_ms: overdue.last_run_ms,
                after_ms: woken_ms,
            });
            state.last_run_ms = state.last_run_ms.max(overdue.now_ms);
        }
    }
}
