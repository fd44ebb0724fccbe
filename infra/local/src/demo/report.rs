//! What the demo found, and whether everything holds.

use super::audit::Audit;
use super::orders::PlacedOrder;
use super::watch::Ended;
use std::collections::BTreeMap;
use std::time::Duration;

/// What the demo found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// How many orders were placed.
    pub orders: usize,
    /// How many orders ended with each outcome.
    pub outcomes: BTreeMap<String, usize>,
    /// Turns that the functions logged as committed.
    pub turns: usize,
    /// What the histories say, of all orders together.
    pub audit: Audit,
    /// Orders that were not charged exactly once.
    pub mischarged: usize,
    /// Processes killed, by function.
    pub kills: BTreeMap<String, u64>,
    /// Wakeups sent.
    pub wakeups: u64,
    /// Of these, lost on purpose.
    pub wakeups_lost: u64,
    /// Requests of the functions to the embedded Cosmos DB.
    pub cosmos_requests: Option<u64>,
    /// Dead letters in the store.
    pub dead_letters: u64,
    /// Orders whose approval or cancellation came too late, so that their outcome is another one: the machine is slow.
    pub answered_late: usize,
    /// One order that has failed, as it should, and what `explain` says of it.
    pub explained: Option<(String, String)>,
    /// From the first order to the last outcome.
    pub elapsed: Duration,
    /// Everything that should not be.
    pub problems: Vec<String>,
}

impl Report {
    /// Whether every order has its outcome and one charge, every activity one result, and nothing is a dead letter.
    pub fn all_well(&self) -> bool {
        self.problems.is_empty()
    }

    /// Median and maximum of how late timers fired; `None` if no timer fired.
    pub fn timer_lateness(&self) -> Option<(Duration, Duration)> {
        let mut sorted = self.audit.lateness_ms.clone();
        sorted.sort_unstable();
        let worst = sorted.last()?;
        let median = sorted[sorted.len() / 2];
        Some((Duration::from_millis(median), Duration::from_millis(*worst)))
    }

    pub(super) fn add_order(&mut self, placed: &PlacedOrder, ended: Ended, audit: Audit) {
        let id = &placed.order.id;
        let Ended {
            outcome,
            error,
            answered_ms,
        } = ended;
        let waits = placed.cancelled || placed.order.needs_approval();
        // The wait was over before somebody answered: the timer has won, rightly.
        let is_late = audit
            .longest_wait
            .is_some_and(|(_, end_ms)| answered_ms.is_none_or(|answered| answered >= end_ms));
        if outcome != placed.expected && waits && is_late {
            self.answered_late += 1;
        } else if outcome != placed.expected {
            let error = error.map(|error| format!(" ({error})")).unwrap_or_default();
            self.problems.push(format!(
                "{id}: the outcome is {outcome}{error} instead of {}",
                placed.expected
            ));
        }
        *self.outcomes.entry(outcome).or_default() += 1;
        if audit.charges != 1 {
            self.mischarged += 1;
            self.problems.push(format!("{id}: charged {} times", audit.charges));
        }
        self.problems.extend(audit.problems.iter().cloned());
        self.audit.merge(audit);
    }

    pub(super) fn add_dead_letters(&mut self, count: u64) {
        self.dead_letters = count;
        if count > 0 {
            self.problems.push(format!("{count} dead letters"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::orders::orders;

    fn audit(charges: u64) -> Audit {
        Audit {
            charges,
            lateness_ms: vec![900, 100, 200],
            ..Audit::default()
        }
    }

    fn ended(outcome: &str) -> Ended {
        Ended {
            outcome: outcome.to_owned(),
            error: None,
            answered_ms: None,
        }
    }

    #[test]
    fn a_cancellation_that_was_accepted_in_time_must_count_and_a_late_one_need_not() {
        let orders = orders(8, "o");
        let placed = orders.iter().find(|placed| placed.cancelled).expect("a kind of order");
        for (answered_ms, outcome, problems, late) in [
            (Some(999), "cancelled", 0, 0),
            (Some(999), "shipped", 1, 0),
            (Some(1_000), "shipped", 0, 1),
            (Some(1_000), "cancelled", 0, 0),
            (None, "shipped", 0, 1),
        ] {
            let mut report = Report::default();
            let ended = Ended {
                answered_ms,
                ..ended(outcome)
            };
            let audit = Audit {
                longest_wait: Some((20_000, 1_000)),
                ..audit(1)
            };
            report.add_order(placed, ended, audit);
            assert_eq!(
                (report.problems.len(), report.answered_late),
                (problems, late),
                "{report:?}"
            );
        }
    }

    #[test]
    fn everything_must_hold_for_all_to_be_well() {
        let placed = &orders(1, "o")[0];
        let mut report = Report::default();
        assert_eq!(report.timer_lateness(), None);
        report.add_order(placed, ended("shipped"), audit(1));
        report.add_dead_letters(0);
        assert!(report.all_well() && report.mischarged == 0, "{report:?}");
        let lateness = report
            .timer_lateness()
            .map(|(median, worst)| (median.as_millis(), worst.as_millis()));
        assert_eq!(lateness, Some((200, 900)));

        for (outcome, audit, dead_letters) in [
            ("cancelled", audit(1), 0),
            ("shipped", audit(2), 0),
            ("shipped", audit(1), 1),
            (
                "shipped",
                Audit {
                    problems: vec!["o-01: activity 3 has 2 results".to_owned()],
                    ..audit(1)
                },
                0,
            ),
        ] {
            let mut report = Report::default();
            report.add_order(placed, ended(outcome), audit);
            report.add_dead_letters(dead_letters);
            assert_eq!(report.problems.len(), 1, "{report:?}");
            assert!(!report.all_well());
        }
    }
}
