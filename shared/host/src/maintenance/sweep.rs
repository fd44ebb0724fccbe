//! The sweep: wakes what no wakeup reached, in phases.
//!
//! | phase | wakes | when it stops early |
//! |---|---|---|
//! | coming | timers that come within reach, with a delay | the next run begins after the last timer that was woken |
//! | left | what the run before had no time for | stays, from there on |
//! | new | what reached an age since the run before (`reminders`) | becomes the next run's `left` |
//!
//! What paused instances hold is parked instead of woken, when it is found for the first time. Overdue items whose wakeups may still be in their queue are held back (`queues`). Where that is true for all later activities
//! of a backlog, the phase goes on without them, so that a backlog costs a run one page; the same for messages.
//!
//! Items are woken in the order of their due times, over all physical partitions: items that one partition returns ahead of
//! the others wait until those have come as far. So a run that stops knows up to when everything was woken, and the next run
//! repeats nothing (except of a single moment that fills whole pages, which no cursor can divide).
//!
//! Between runs only the state document remains, written once at the end of a run. A run that dies writes nothing, and the
//! next run wakes the same items again: a duplicate wakeup finds nothing to do.

use super::look::DueSource;
use super::queue_view::{self, RunTimes};
use super::queues::Queues;
use super::reminders::{Coming, Overdue, watermark};
use super::wakeups::{RunWakeups, SentWakeups, coming_wakeups, overdue_wakeups};
use crate::config::MaintenanceSettings;
use crate::notifier::BoundedNotifier;
use duroxide::providers::ProviderError;
use duroxide_cosmos::{
    CosmosProvider, Cursor, DueItem, DueKinds, DuePage, DueWindow, MaintenanceState, PageRequest, Target,
    UnfinishedSweep,
};
use std::collections::{BTreeSet, VecDeque};
use tokio::time::Instant;

/// A sweep under way.
#[derive(Debug)]
pub(super) struct Sweep {
    state: MaintenanceState,
    phases: VecDeque<Phase>,
    queues: Queues,
    /// There was no time for some wakeups: no more pages are read.
    is_cut_short: bool,
}

#[derive(Debug)]
struct Phase {
    kind: Kind,
    windows: Vec<DueWindow>,
    /// What it still looks for.
    items: DueKinds,
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
            items: DueKinds::All,
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

    /// Leaves out messages or work items that are due at `from_ms` or later. Returns whether something is left to look for.
    fn leave_out(&mut self, turns: bool, works: bool, from_ms: u64) -> bool {
        let items = match self.items {
            DueKinds::All if turns && works => return false,
            DueKinds::Turns if turns => return false,
            DueKinds::Works if works => return false,
            DueKinds::All if works => DueKinds::Turns,
            DueKinds::All if turns => DueKinds::Works,
            _ => return true,
        };
        self.items = items;
        // Another query has other cursors, so it begins where all partitions are.
        (self.cursor, self.ahead) = (None, Vec::new());
        for window in &mut self.windows {
            window.after_ms = window.after_ms.max(from_ms.saturating_sub(1));
        }
        self.windows.retain(|window| window.after_ms < window.until_ms);
        !self.windows.is_empty()
    }
}

/// A duration in ms, as the store counts.
pub(super) fn ms(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Sweep {
    /// Plans a run that begins now.
    pub(super) fn new(
        state: MaintenanceState,
        settings: &MaintenanceSettings,
        notifier: BoundedNotifier,
        now_ms: u64,
    ) -> Sweep {
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
        let run = RunTimes {
            now_ms,
            last_run_ms: state.last_run_ms,
            period_ms: overdue.period_ms,
            threshold_ms: overdue.threshold_ms,
        };
        Sweep {
            queues: Queues::new(state.queues.clone(), run, notifier),
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
        let deadline = request.deadline;
        let request = PageRequest {
            cursor: phase.cursor.clone(),
            ..request
        };
        let page = source.due(phase.items, &phase.windows, request).await?;
        phase.cursor.clone_from(&page.cursor);
        let (due, until_ms) = phase.next(page);
        let queues = &mut self.queues;
        let due = match &phase.kind {
            Kind::Coming(coming) => coming_wakeups(&due, coming, now_ms, &mut wakeups.woken),
            Kind::Left(overdue) | Kind::New(overdue) => {
                let due = without_paused(due, overdue, source.provider, deadline).await?;
                let candidates = due.iter().filter(|item| overdue.is_candidate(item));
                let names: BTreeSet<_> = candidates.map(|item| queues.queue_of(&item.target)).collect();
                queues.learn(names, source.provider, deadline).await;
                overdue_wakeups(&due, overdue, now_ms, queues, &mut wakeups.woken)
            }
        };
        let sent = wakeups.notify(due).await;
        queues.note_sent(sent.failed + sent.left == 0);
        if sent.left > 0 {
            self.is_cut_short = true;
            return Ok((sent, true));
        }
        phase.woken_ms = until_ms.or(phase.woken_ms);
        let can_hold = |until_ms: &u64| match &phase.kind {
            Kind::Coming(_) => false,
            Kind::Left(overdue) | Kind::New(overdue) => overdue.holds_from(*until_ms),
        };
        let is_over = match until_ms.filter(can_hold) {
            Some(until_ms) => {
                let (turns, works) = queues.closed_from(until_ms, source.provider, deadline).await;
                !phase.leave_out(turns, works, until_ms)
            }
            None => phase.cursor.is_none(),
        };
        if is_over && let Some(phase) = self.phases.pop_front() {
            finish(&mut self.state, &phase.kind);
        }
        Ok((sent, !self.phases.is_empty()))
    }

    /// How many overdue items were held back, because their wakeups may still be in the queue.
    pub(super) fn held(&self) -> u64 {
        self.queues.held
    }

    /// Sends the last wakeups of the run: the reminders that carry probes.
    pub(super) async fn send_probes(&mut self, wakeups: &mut RunWakeups) -> SentWakeups {
        self.queues.send_probes(wakeups).await
    }

    /// The state that the next run begins with.
    pub(super) fn into_state(mut self) -> MaintenanceState {
        self.state.queues = self.queues.into_states(self.phases.is_empty());
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

/// The items without what paused instances hold, which is parked: later runs do not find it.
async fn without_paused(
    mut due: Vec<DueItem>,
    overdue: &Overdue,
    provider: &CosmosProvider,
    deadline: Instant,
) -> Result<Vec<DueItem>, ProviderError> {
    let candidates = due.iter().filter(|item| overdue.is_candidate(item));
    let targets: Vec<Target> = candidates.map(|item| item.target.clone()).collect();
    let held = provider.park_overdue(&targets, deadline).await?;
    due.retain(|item| !held.contains(item.target.instance()));
    Ok(due)
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
        state
            .queues
            .values_mut()
            .for_each(|queue| queue_view::not_ahead(queue, now_ms));
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
