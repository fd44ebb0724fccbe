//! The passes in lock-step: a page of each in turn.
//!
//! Invariant: no pass has its second page before every other had its first, or the time for it; and each page ends
//! within its share of the time that is left. A pass that got nowhere in the run before has the first share, of a half.

use super::Maintenance;
use super::report::{PassReport, Report};
use super::request::{MaintenanceRequest, PassName};
use super::sweep::Sweep;
use super::wakeups::RunWakeups;
use duroxide::providers::ProviderError;
use duroxide_cosmos::{Cursor, PageRequest, PassOutcome, Retention};
use std::collections::BTreeSet;
use std::sync::PoisonError;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// A page of less time is not begun: no store answers so fast.
const LEAST_SHARE: Duration = Duration::from_millis(50);

/// The rounds of one run.
pub(super) struct PassSchedule<'a> {
    with: &'a Maintenance,
    calls: RunWakeups,
    lanes: Vec<Lane>,
    sweep: Option<Sweep>,
    most: u32,
    retention: Retention,
}

/// How far a pass has come.
#[derive(Debug)]
struct Lane {
    pass: PassName,
    report: PassReport,
    cursor: Option<Cursor>,
    /// It had too little time in the run before.
    was_late: bool,
    /// It settled something in this run, or came to its end.
    got_on: bool,
    /// The store answered a page in this run.
    was_answered: bool,
    /// What a page without an answer met.
    trouble: Option<String>,
}

impl<'a> PassSchedule<'a> {
    /// The passes that a request names.
    pub(super) fn new(with: &'a Maintenance, request: &MaintenanceRequest, calls: RunWakeups) -> PassSchedule<'a> {
        let retention = request.retention.unwrap_or(with.settings.retention);
        let late = with.late.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let lane = |pass: PassName| Lane {
            pass,
            // Open until it has come to its end.
            report: PassReport {
                left_over: !(pass == PassName::Retention && retention == Retention::default()),
                ..PassReport::default()
            },
            cursor: None,
            was_late: late.contains(&pass),
            got_on: false,
            was_answered: false,
            trouble: None,
        };
        let passes = request.passes.iter().copied();
        let lanes = ordered(passes.filter(|pass| *pass != PassName::Report).map(lane).collect());
        PassSchedule {
            with,
            calls,
            lanes,
            sweep: None,
            most: request.most.unwrap_or(with.settings.page).max(1),
            retention,
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
                let share = left / self.lanes[index].parts(open);
                if share < LEAST_SHARE {
                    return;
                }
                self.step(index, now, share).await;
                open -= 1;
            }
        }
    }

    /// One page of one pass, and the wakeups for what it found.
    async fn step(&mut self, index: usize, begun: Instant, share: Duration) {
        let deadline = begun + share;
        let pass = self.lanes[index].pass;
        let page = PageRequest {
            most: self.most,
            cursor: self.lanes[index].cursor.clone(),
            deadline,
        };
        let done = match pass {
            PassName::Sweep => self.sweep(page).await,
            _ => self.page(pass, page).await.map(|pass| {
                let more = pass.cursor.is_some();
                (pass, more)
            }),
        };
        let lane = &mut self.lanes[index];
        match done {
            Ok((pass, more)) => {
                lane.was_answered = true;
                lane.got_on |= pass.done + pass.dead > 0 || !more;
                lane.report.add(&pass);
                lane.report.left_over = more;
                lane.cursor = pass.cursor;
                self.calls.turns(pass.targets).await;
            }
            Err(error) => {
                lane.report.pages += 1;
                lane.meet(&error, begun.elapsed(), share);
            }
        }
    }

    async fn page(&self, pass: PassName, page: PageRequest) -> Result<PassOutcome, ProviderError> {
        let provider = &self.with.provider;
        match pass {
            PassName::Outbox => provider.maintain_outbox(page).await,
            PassName::Unfinished => provider.maintain_unfinished(page).await,
            PassName::Sessions => provider.maintain_sessions(page).await,
            PassName::Retention => provider.maintain_retention(&self.retention, page).await,
            // They have no pages here: see `sweep` and `Maintenance::run`.
            PassName::Sweep | PassName::Report => Ok(PassOutcome::default()),
        }
    }

    async fn sweep(&mut self, page: PageRequest) -> Result<(PassOutcome, bool), ProviderError> {
        let (provider, now_ms) = (&self.with.provider, self.with.clock.now_ms());
        let sweep = match &mut self.sweep {
            Some(sweep) => sweep,
            None => {
                let asked = timeout_at(page.deadline, provider.maintenance_state()).await;
                let late = |_| ProviderError::retryable("maintenance_state", "the store did not answer in time");
                let state = asked.map_err(late)??;
                self.sweep.insert(Sweep::new(state, &self.with.settings, now_ms))
            }
        };
        let (called, more) = sweep.page(provider, &mut self.calls, page, now_ms).await?;
        let pass = PassOutcome {
            found: called.sent + called.failed + called.left,
            done: called.sent,
            failed: called.failed,
            ..PassOutcome::default()
        };
        Ok((pass, more))
    }

    /// Notes which of the passes of this run have something left and never had enough time for it.
    pub(super) fn note_late(&self, known: &mut BTreeSet<PassName>) {
        note_late(&self.lanes, known);
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
                tracing::info!("another run has kept its state: some wakeups were sent twice");
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
    pub(super) fn into_report(mut self) -> Report {
        self.lanes.iter_mut().for_each(Lane::close);
        Report {
            wakeups_sent: self.calls.sent,
            wakeups_failed: self.calls.failed,
            passes: self.lanes.into_iter().map(|lane| (lane.pass, lane.report)).collect(),
            ..Report::default()
        }
    }
}

impl Lane {
    /// A page failed after a part of its share. If it had to be too short for the store of this moment, the lane stays
    /// open: it has another share in the next round, or in the next run.
    fn meet(&mut self, error: &ProviderError, used: Duration, share: Duration) {
        // The client gives up when the next of its doubling waits would end too late: then it has used a third of the time.
        // What fails at once would only fail again and again.
        if error.is_retryable() && used >= share / 4 {
            self.trouble = Some(error.to_string());
        } else {
            self.report.error = Some(error.to_string());
        }
    }

    /// The run ends. A lane that the store never answered is told as broken: nobody knows how much it has to do.
    fn close(&mut self) {
        if !self.is_open() || self.was_answered {
            return;
        }
        self.report.error = Some(match (&self.trouble, self.report.pages) {
            (_, 0) => "there was no time for it: give the function a longer timeout".to_owned(),
            (trouble, pages) => {
                let trouble = trouble.as_deref().unwrap_or("no answer");
                format!("the store did not answer in time, in {pages} pages: {trouble}")
            }
        });
    }

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

/// What is known of passes that did not run stays.
fn note_late(lanes: &[Lane], known: &mut BTreeSet<PassName>) {
    for lane in lanes {
        if lane.is_open() && !lane.got_on {
            known.insert(lane.pass);
        } else {
            known.remove(&lane.pass);
        }
    }
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
            was_answered: got_on,
            trouble: None,
        }
    }

    #[test]
    fn trouble_that_took_its_time_leaves_a_lane_open_and_any_other_closes_it() {
        let second = Duration::from_secs(1);
        let busy = ProviderError::retryable("due", "throttled");
        let refused = ProviderError::permanent("due", "the key is refused");
        for (error, used, stays) in [
            (&busy, second, true),
            (&busy, second / 3, true),
            (&busy, second / 5, false),
            (&busy, Duration::ZERO, false),
            (&refused, second, false),
        ] {
            let mut lane = lane(PassName::Sweep, true, false);
            lane.meet(error, used, second);
            assert_eq!(lane.is_open(), stays, "{error} {used:?}");
        }
    }

    #[test]
    fn a_lane_that_was_never_answered_is_broken_when_the_run_ends_and_says_why() {
        let told = |pages, trouble: Option<&str>| {
            let mut lane = lane(PassName::Sweep, true, false);
            lane.report.pages = pages;
            lane.trouble = trouble.map(str::to_owned);
            lane.close();
            lane.report.error.expect("it is broken")
        };
        assert!(told(0, None).contains("no time"), "{}", told(0, None));
        let text = told(3, Some("throttled"));
        assert!(text.contains("3 pages") && text.contains("throttled"), "{text}");
        // One that has something left, and one that has nothing left.
        for (left_over, got_on) in [(true, true), (false, false)] {
            let mut lane = lane(PassName::Sweep, left_over, got_on);
            lane.close();
            assert_eq!(lane.report.error, None);
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
        // Retention did not run.
        let mut known = BTreeSet::from([PassName::Outbox, PassName::Retention]);
        note_late(&lanes, &mut known);
        assert_eq!(known, BTreeSet::from([PassName::Sessions, PassName::Retention]));
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
