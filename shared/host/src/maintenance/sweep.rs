//! The sweep: rings for what no ring reached, in phases.
//!
//! | phase | rings | when it stops early |
//! |---|---|---|
//! | coming | timers that come within reach, with a delay | the next run begins at the last one rung |
//! | left | what the run before had no time for | stays, from there on |
//! | new | what came to an age since the run before (`ladder`) | becomes the next run's `left` |
//!
//! What is remembered between runs is the state document, written once at the end of a run. A run that dies writes
//! nothing, and the next one rings the same again: a ring too many finds nothing to do.

use super::calls::{Called, Calls, coming_rings, overdue_rings};
use super::ladder::{Coming, Overdue, watermark};
use super::settings::MaintenanceSettings;
use duroxide::providers::ProviderError;
use duroxide_cosmos::{CosmosProvider, Cursor, DueWindow, MaintenanceState, Portion, UnfinishedSweep};
use std::collections::VecDeque;

/// A sweep under way.
#[derive(Debug)]
pub(super) struct Sweep {
    state: MaintenanceState,
    phases: VecDeque<Phase>,
}

#[derive(Debug)]
struct Phase {
    kind: Kind,
    windows: Vec<DueWindow>,
    cursor: Option<Cursor>,
    /// The first and last due time of the last page that was served.
    served: Option<(u64, u64)>,
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
            served: None,
        }
    }
}

/// A duration as the store counts.
pub(super) fn ms(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Sweep {
    /// Plans a run that begins now.
    pub(super) fn new(state: MaintenanceState, settings: &MaintenanceSettings, now_ms: u64) -> Sweep {
        let (ahead_ms, reach_ms) = (ms(settings.ahead()), ms(settings.ring_reach));
        let overdue = Overdue {
            threshold_ms: ms(settings.overdue),
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
        let coming = Coming::new(state.rung_until_ms, now_ms, ahead_ms, reach_ms);
        let kinds = [
            Some(Kind::Coming(coming)),
            left.map(Kind::Left),
            Some(Kind::New(overdue)),
        ];
        let phases = kinds.into_iter().flatten().map(Phase::new).collect();
        Sweep { state, phases }
    }

    /// Rings for one page. Answers what became of the rings, and whether there is more to do.
    pub(super) async fn portion(
        &mut self,
        provider: &CosmosProvider,
        calls: &mut Calls,
        portion: Portion,
        now_ms: u64,
    ) -> Result<(Called, bool), ProviderError> {
        while let Some(phase) = self.phases.pop_front_if(|phase| phase.windows.is_empty()) {
            finish(&mut self.state, &phase.kind);
        }
        let Some(phase) = self.phases.front_mut() else {
            return Ok((Called::default(), false));
        };
        let portion = Portion {
            cursor: phase.cursor.clone(),
            ..portion
        };
        let page = provider.due(&phase.windows, portion).await?;
        let rings = match &phase.kind {
            Kind::Coming(coming) => coming_rings(&page.items, coming, now_ms),
            Kind::Left(overdue) | Kind::New(overdue) => overdue_rings(&page.items, overdue, &mut calls.known),
        };
        let called = calls.ring(rings).await;
        if called.left > 0 {
            return Ok((called, true));
        }
        if let (Some(first), Some(last)) = (page.items.first(), page.items.last()) {
            phase.served = Some((first.due_ms, last.due_ms));
        }
        phase.cursor = page.cursor;
        if phase.cursor.is_none()
            && let Some(phase) = self.phases.pop_front()
        {
            finish(&mut self.state, &phase.kind);
        }
        Ok((called, !self.phases.is_empty()))
    }

    /// The state that the next run begins with.
    pub(super) fn into_state(mut self) -> MaintenanceState {
        if let Some(Phase {
            kind,
            served: Some((first, last)),
            ..
        }) = self.phases.pop_front()
        {
            stop(&mut self.state, &kind, first, last);
        }
        self.state
    }
}

/// A phase has come to its end.
fn finish(state: &mut MaintenanceState, kind: &Kind) {
    match kind {
        Kind::Coming(coming) => state.rung_until_ms = state.rung_until_ms.max(coming.until_ms),
        Kind::Left(_) => state.sweep = None,
        Kind::New(overdue) => state.last_run_ms = state.last_run_ms.max(overdue.now_ms),
    }
}

/// A phase stops between two pages.
fn stop(state: &mut MaintenanceState, kind: &Kind, first_ms: u64, last_ms: u64) {
    match kind {
        Kind::Coming(coming) => {
            let served = watermark(coming.after_ms, first_ms, last_ms);
            state.rung_until_ms = state.rung_until_ms.max(served);
        }
        Kind::Left(overdue) | Kind::New(overdue) => {
            state.sweep = Some(UnfinishedSweep {
                now_ms: overdue.now_ms,
                last_run_ms: overdue.last_run_ms,
                after_ms: watermark(overdue.after_ms, first_ms, last_ms),
            });
            state.last_run_ms = state.last_run_ms.max(overdue.now_ms);
        }
    }
}
