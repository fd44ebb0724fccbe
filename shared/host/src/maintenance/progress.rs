//! How far one pass has come in a run, and how much of the time it gets. Pure decisions, no I/O.
//!
//! A pass whose shares of the time were too short in a whole run is *starved*: in the next run of a warm environment it
//! comes first and gets half of the time, until it advances.

use super::report::PassReport;
use super::request::PassName;
use duroxide::providers::ProviderError;
use duroxide_cosmos::{Cursor, PassOutcome};
use std::collections::BTreeSet;
use std::time::Duration;

/// One pass in a run.
#[derive(Debug)]
pub(super) struct Progress {
    pub(super) pass: PassName,
    pub(super) report: PassReport,
    pub(super) cursor: Option<Cursor>,
    /// It had too little time in the run before.
    was_starved: bool,
    /// It completed an item in this run, or reached its end.
    has_advanced: bool,
    /// The store answered a page in this run.
    was_answered: bool,
    /// Items failed or were done in part: the next run should try them again.
    has_rest: bool,
    /// The error of the last page without an answer.
    last_error: Option<String>,
}

impl Progress {
    /// A pass at its start. One that is off is complete.
    pub(super) fn new(pass: PassName, is_off: bool, was_starved: bool) -> Progress {
        Progress {
            pass,
            report: PassReport {
                left_over: !is_off,
                ..PassReport::default()
            },
            cursor: None,
            was_starved,
            has_advanced: false,
            was_answered: false,
            has_rest: false,
            last_error: None,
        }
    }

    /// Whether there is more to do, and nothing prevents it.
    pub(super) fn is_open(&self) -> bool {
        self.report.left_over && self.report.error.is_none()
    }

    /// Its share of the time that is left, when so many passes wait for theirs.
    pub(super) fn share(&self, left: Duration, open: u32) -> Duration {
        let is_starved = self.was_starved && !self.has_advanced;
        left / if is_starved { 2 } else { open }
    }

    /// There is nothing to do in this run, as far as it knows without a page.
    pub(super) fn needs_no_page(&mut self) {
        self.report.left_over = false;
        self.has_advanced = true;
    }

    /// Whether the pass has reached its end, and nothing of what it found is left.
    pub(super) fn is_complete(&self) -> bool {
        self.was_answered && !self.has_rest && !self.report.left_over && self.report.error.is_none()
    }

    /// A page was completed, and `more` of them follow.
    pub(super) fn completed(&mut self, page: &PassOutcome, more: bool) {
        self.was_answered = true;
        self.has_rest |= page.failed + page.partial > 0;
        self.has_advanced |= page.done + page.dead > 0 || !more;
        self.report.add(page);
        self.report.left_over = more;
        self.cursor.clone_from(&page.cursor);
    }

    /// A page failed after a part of its share. If the share may have been too short for the store of this moment, the
    /// pass stays open: it has another share in this run or in the next.
    pub(super) fn failed(&mut self, error: &ProviderError, used: Duration, share: Duration) {
        self.report.pages += 1;
        // The client gives up when the next of its doubling waits would end too late: it has used a third of the time then.
        // An error that comes at once would only come again and again.
        if error.is_retryable() && used >= share / 4 {
            self.last_error = Some(error.to_string());
        } else {
            self.report.fail(error.to_string());
        }
    }

    /// The run ends. A pass that the store never answered has failed: its backlog is unknown.
    pub(super) fn close(&mut self) {
        if !self.is_open() || self.was_answered {
            return;
        }
        self.report.fail(match (&self.last_error, self.report.pages) {
            (_, 0) => "no time was left for the pass: give the function a longer timeout".to_owned(),
            (error, pages) => {
                let error = error.as_deref().unwrap_or("no answer");
                format!("the store did not answer in time, in {pages} pages: {error}")
            }
        });
    }
}

/// Starved passes come first; the order of the others stays.
pub(super) fn order(passes: &mut [Progress]) {
    passes.sort_by_key(|pass| !pass.was_starved);
}

/// Notes which passes of this run were starved. Passes that did not run stay as they were.
pub(super) fn note_starved(passes: &[Progress], starved: &mut BTreeSet<PassName>) {
    for pass in passes {
        if pass.is_open() && !pass.has_advanced {
            starved.insert(pass.pass);
        } else {
            starved.remove(&pass.pass);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn progress(pass: PassName, left_over: bool, has_advanced: bool) -> Progress {
        Progress {
            has_advanced,
            was_answered: has_advanced,
            ..Progress::new(pass, !left_over, false)
        }
    }

    #[test]
    fn an_error_that_took_its_time_leaves_a_pass_open_and_any_other_ends_it() {
        let busy = ProviderError::retryable("due", "throttled");
        let refused = ProviderError::permanent("due", "the key is refused");
        for (error, used, stays) in [
            (&busy, SECOND, true),
            (&busy, SECOND / 3, true),
            (&busy, SECOND / 5, false),
            (&busy, Duration::ZERO, false),
            (&refused, SECOND, false),
        ] {
            let mut pass = progress(PassName::Sweep, true, false);
            pass.failed(error, used, SECOND);
            assert_eq!((pass.is_open(), pass.report.pages), (stays, 1), "{error} {used:?}");
        }
    }

    #[test]
    fn a_pass_that_was_never_answered_has_failed_when_the_run_ends() {
        let error_of = |pages, last_error: Option<&str>| {
            let mut pass = progress(PassName::Sweep, true, false);
            pass.report.pages = pages;
            pass.last_error = last_error.map(str::to_owned);
            pass.close();
            pass.report.error.expect("it has failed")
        };
        assert!(error_of(0, None).contains("no time"), "{}", error_of(0, None));
        let text = error_of(3, Some("throttled"));
        assert!(text.contains("3 pages") && text.contains("throttled"), "{text}");
        // One that has something left, and one that has nothing left.
        for (left_over, has_advanced) in [(true, true), (false, false)] {
            let mut pass = progress(PassName::Sweep, left_over, has_advanced);
            pass.close();
            assert_eq!(pass.report.error, None);
        }
    }

    #[test]
    fn a_pass_is_complete_when_it_reached_its_end_and_not_when_it_was_left_out() {
        let mut open = progress(PassName::Sessions, true, false);
        assert!(!open.is_complete());
        open.completed(&PassOutcome::default(), true);
        assert!(!open.is_complete(), "more follows");
        open.completed(&PassOutcome::default(), false);
        assert!(open.is_complete());
        open.report.fail("the store says no".to_owned());
        assert!(!open.is_complete());
        for rest in [
            PassOutcome {
                failed: 1,
                ..PassOutcome::default()
            },
            PassOutcome {
                partial: 1,
                ..PassOutcome::default()
            },
        ] {
            let mut pass = progress(PassName::Retention, true, false);
            pass.completed(&rest, true);
            pass.completed(&PassOutcome::default(), false);
            assert!(!pass.is_open() && !pass.is_complete(), "{rest:?}");
        }
        let mut left_out = progress(PassName::Sessions, true, false);
        left_out.needs_no_page();
        assert!(!left_out.is_open() && !left_out.is_complete());
        left_out.close();
        assert_eq!(left_out.report, PassReport::default(), "no page, no error");
    }

    #[test]
    fn only_a_pass_that_never_had_enough_time_is_starved() {
        let mut failed = progress(PassName::Sweep, true, false);
        failed.report.fail("the store says no".to_owned());
        let passes = [
            progress(PassName::Outbox, true, true),
            progress(PassName::Unfinished, false, true),
            progress(PassName::Sessions, true, false),
            failed,
        ];
        // Retention did not run.
        let mut starved = BTreeSet::from([PassName::Outbox, PassName::Retention]);
        note_starved(&passes, &mut starved);
        assert_eq!(starved, BTreeSet::from([PassName::Sessions, PassName::Retention]));
    }

    #[test]
    fn a_starved_pass_comes_first_and_has_half_of_the_time_until_it_advances() {
        let mut sessions = progress(PassName::Sessions, true, false);
        sessions.was_starved = true;
        let mut passes = [
            progress(PassName::Outbox, true, false),
            progress(PassName::Unfinished, true, false),
            sessions,
        ];
        order(&mut passes);
        let names = passes.each_ref().map(|pass| pass.pass);
        assert_eq!(names, [PassName::Sessions, PassName::Outbox, PassName::Unfinished]);
        let shares = passes.each_ref().map(|pass| pass.share(6 * SECOND, 3));
        assert_eq!(shares, [3 * SECOND, 2 * SECOND, 2 * SECOND]);
        passes[0].has_advanced = true;
        assert_eq!(passes[0].share(6 * SECOND, 3), 2 * SECOND);
    }
}
