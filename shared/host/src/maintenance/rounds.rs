//! The passes in lock-step: a portion of each in turn.
//!
//! Invariant: no pass has its second portion before every other had its first, or the time for it; and each portion ends
//! within its share of the time that is left. A pass that got nowhere in the run before has the first share, of a half.

use super::Maintenance;
use super::calls::Calls;
use super::report::{PassReport, Report};
use super::request::{Keep, MaintenanceRequest, PassName};
use super::sweep::Sweep;
use duroxide::providers::ProviderError;
use duroxide_cosmos::{Cursor, Pass, Portion, Retention};
use std::collections::BTreeSet;
use std::sync::PoisonError;
use tokio::time::{Instant, timeout_at};

/// The rounds of one run.
pub(super) struct Rounds<'a> {
    with: &'a Maintenance,
    calls: Calls,
    lanes: Vec<Lane>,
    sweep: Option<Sweep>,
    most: u32,
    keep: Keep,
}

/// How far a pass has come.
#[derive(Debug)]
struct Lane {
    pass: PassName,
    report: PassReport,
    cursor: Option<Cursor>,
    /// It had too little time in the run before.
    was_late: bool,
    /// A portion came to its end in this run.
    got_on: bool,
}

impl<'a> Rounds<'a> {
    /// The passes that a request names.
    pub(super) fn new(with: &'a Maintenance, request: &MaintenanceRequest, calls: Calls) -> Rounds<'a> {
        let keep = request.keep.unwrap_or(with.settings.keep);
        let late = with.late.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let lane = |pass: PassName| Lane {
            pass,
            // Open until it has come to its end.
            report: PassReport {
                left_over: !(pass == PassName::Retention && keep.is_everything()),
                ..PassReport::default()
            },
            cursor: None,
            was_late: late.contains(&pass),
            got_on: false,
        };
        let passes = request.passes.iter().copied();
        let lanes = ordered(passes.filter(|pass| *pass != PassName::Report).map(lane).collect());
        Rounds {
            with,
            calls,
            lanes,
            sweep: None,
            most: request.most.unwrap_or(with.settings.portion).max(1),
            keep,
        }
    }

    /// Goes round until nothing is left, or until that moment.
    pub(super) async fn go(&mut self, until: Instant) {
        loop {
            let mut open = self.lanes.iter().filter(|lane| lane.is_open()).count() as u32;
            if open == 0 {
                return;
            }
            for index in 0..self.lanes.len() {
                if !self.lanes[index].is_open() {
                    continue;
                }
                let now = Instant::now();
                let left = until.saturating_duration_since(now);
                if left.is_zero() {
                    return;
                }
                let parts = self.lanes[index].parts(open);
                self.step(index, now + left / parts).await;
                open -= 1;
            }
        }
    }

    /// One portion of one pass, and the rings for what it found.
    async fn step(&mut self, index: usize, deadline: Instant) {
        let pass = self.lanes[index].pass;
        let portion = Portion {
            most: self.most,
            cursor: self.lanes[index].cursor.clone(),
            deadline,
        };
        let done = match pass {
            PassName::Sweep => self.sweep(portion).await,
            _ => self.portion(pass, portion).await.map(|pass| {
                let more = pass.cursor.is_some();
                (pass, more)
            }),
        };
        let lane = &mut self.lanes[index];
        match done {
            Ok((pass, more)) => {
                lane.got_on = true;
                lane.report.add(&pass);
                lane.report.left_over = more;
                lane.cursor = pass.cursor;
                self.calls.turns(pass.targets).await;
            }
            Err(error) => {
                lane.report.portions += 1;
                // Its share of the time was too short: it has another in the next round, or in the next run.
                if !(error.is_retryable() && Instant::now() >= deadline) {
                    lane.report.error = Some(error.to_string());
                }
            }
        }
    }

    async fn portion(&self, pass: PassName, portion: Portion) -> Result<Pass, ProviderError> {
        let provider = &self.with.provider;
        match pass {
            PassName::Outbox => provider.maintain_outbox(portion).await,
            PassName::Unfinished => provider.maintain_unfinished(portion).await,
            PassName::Sessions => provider.maintain_sessions(portion).await,
            PassName::Retention => {
                let policy = Retention {
                    delete_after: self.keep.delete_after,
                    keep_executions: self.keep.keep_executions,
                };
                provider.maintain_retention(&policy, portion).await
            }
            // They have no portions here: see `sweep` and `Maintenance::run`.
            PassName::Sweep | PassName::Report => Ok(Pass::default()),
        }
    }

    async fn sweep(&mut self, portion: Portion) -> Result<(Pass, bool), ProviderError> {
        let (provider, now_ms) = (&self.with.provider, self.with.clock.now_ms());
        let sweep = match &mut self.sweep {
            Some(sweep) => sweep,
            None => {
                let asked = timeout_at(portion.deadline, provider.maintenance_state()).await;
                let late = |_| ProviderError::retryable("maintenance_state", "the store did not answer in time");
                let state = asked.map_err(late)??;
                self.sweep.insert(Sweep::new(state, &self.with.settings, now_ms))
            }
        };
        let (called, more) = sweep.portion(provider, &mut self.calls, portion, now_ms).await?;
        let pass = Pass {
            found: called.sent + called.failed + called.left,
            done: called.sent,
            failed: called.failed,
            ..Pass::default()
        };
        Ok((pass, more))
    }

    /// The passes that have something left and never had enough time for it.
    pub(super) fn late(&self) -> BTreeSet<PassName> {
        late(&self.lanes)
    }

    /// Remembers how far the sweep came.
    pub(super) async fn keep_state(&mut self, until: Instant) {
        let Some(sweep) = self.sweep.take() else {
            return;
        };
        let state = sweep.into_state();
        let keeping = self.with.provider.keep_maintenance_state(state);
        let trouble = match timeout_at(until, keeping).await {
            Ok(Ok(true)) => return,
            Ok(Ok(false)) => {
                tracing::info!("another run has kept its state: some rings were sent twice");
                return;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "there was no time left".to_owned(),
        };
        // The next run covers the same time again.
        if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.pass == PassName::Sweep) {
            lane.report.error = Some(format!("the state of the sweep could not be kept: {trouble}"));
        }
    }

    /// What the passes did.
    pub(super) fn into_report(self) -> Report {
        Report {
            rings_sent: self.calls.sent,
            rings_failed: self.calls.failed,
            passes: self.lanes.into_iter().map(|lane| (lane.pass, lane.report)).collect(),
            ..Report::default()
        }
    }
}

impl Lane {
    /// Of how many parts of the time that is left it gets one, when so many lanes wait for theirs.
    fn parts(&self, open: u32) -> u32 {
        if self.was_late && !self.got_on { 2 } else { open }
    }

    fn is_open(&self) -> bool {
        self.report.left_over && self.report.error.is_none()
    }
}

/// Those that were late come first; else the order stays.
fn ordered(mut lanes: Vec<Lane>) -> Vec<Lane> {
    lanes.sort_by_key(|lane| !lane.was_late);
    lanes
}

/// Those that have something left and never had enough time for it.
fn late(lanes: &[Lane]) -> BTreeSet<PassName> {
    let late = lanes.iter().filter(|lane| lane.is_open() && !lane.got_on);
    late.map(|lane| lane.pass).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(pass: PassName, left_over: bool, got_on: bool) -> Lane {
        Lane {
            pass,
            report: PassReport {
                left_over,
                ..PassReport::default()
            },
            cursor: None,
            was_late: false,
            got_on,
        }
    }

    #[test]
    fn a_pass_that_never_had_enough_time_is_late_and_no_other() {
        let mut broken = lane(PassName::Sweep, true, false);
        broken.report.error = Some("the store says no".to_owned());
        let lanes = [
            lane(PassName::Outbox, true, true),
            lane(PassName::Unfinished, false, true),
            lane(PassName::Sessions, true, false),
            broken,
        ];
        assert_eq!(late(&lanes), BTreeSet::from([PassName::Sessions]));
    }

    #[test]
    fn who_was_late_comes_first_and_has_half_of_the_time_until_it_gets_on() {
        let mut sessions = lane(PassName::Sessions, true, false);
        sessions.was_late = true;
        let lanes = ordered(vec![
            lane(PassName::Outbox, true, false),
            lane(PassName::Unfinished, true, false),
            sessions,
        ]);
        let order: Vec<PassName> = lanes.iter().map(|lane| lane.pass).collect();
        assert_eq!(order, [PassName::Sessions, PassName::Outbox, PassName::Unfinished]);
        let parts: Vec<u32> = lanes.iter().map(|lane| lane.parts(3)).collect();
        assert_eq!(parts, [2, 3, 3]);
        let mut first = lanes.into_iter().next().expect("there are three");
        first.got_on = true;
        assert_eq!(first.parts(3), 3);
    }
}
