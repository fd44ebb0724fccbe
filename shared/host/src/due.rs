//! From who is due to the wakeups that say so: pure decisions, no I/O.
//!
//! Invariant: each target that is due within the notifier's reach gets at least one wakeup, and at most one per second.
//! A target that is due later is left to maintenance.

use crate::notifier::Delayed;
use crate::wakeup::Wakeup;
use duroxide_cosmos::{Due, Target};
use std::collections::HashMap;
use std::time::Duration;

/// When the wakeups of one commit are sent, and what they carry.
#[derive(Debug)]
pub(crate) struct Schedule {
    /// When the commit was decided (Unix ms).
    pub decided_ms: u64,
    /// When it was written, by the writer's clock. What is due at once is due from then on: a reader whose clock is
    /// behind would not see it yet, and must know that it came early.
    pub written_ms: u64,
    /// How far ahead a wakeup can be sent.
    pub reach: Duration,
    /// What the writer has seen of the store.
    pub consistency_token: Option<String>,
}

impl Schedule {
    /// The wakeups for whoever is due.
    pub(crate) fn wakeups(&self, due: Vec<Due>) -> Vec<Delayed> {
        let mut places: HashMap<(Target, u64), usize> = HashMap::new();
        let mut wakeups: Vec<Delayed> = Vec::new();
        for Due {
            target,
            at_ms,
            execution,
        } in due
        {
            let at_ms = at_ms.filter(|at| *at > self.decided_ms);
            let delay = Duration::from_millis(at_ms.map_or(0, |at| at - self.decided_ms));
            if delay > self.reach {
                continue;
            }
            let due_ms = at_ms.unwrap_or(self.written_ms);
            // SQS counts in seconds: two timers of one second are one turn.
            let second = delay.as_millis().div_ceil(1000) as u64;
            let place = *places.entry((target.clone(), second)).or_insert(wakeups.len());
            if place == wakeups.len() {
                let mut wakeup = Wakeup::to(target);
                wakeup.consistency_token.clone_from(&self.consistency_token);
                wakeup.due_ms = Some(due_ms);
                wakeup.execution = execution;
                wakeups.push(Delayed { wakeup, delay });
            } else if wakeups[place].delay < delay {
                // The later of two in one second decides, or the wakeup would be too early for it.
                wakeups[place].wakeup.due_ms = Some(due_ms);
                wakeups[place].delay = delay;
            }
        }
        wakeups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_000_000;

    fn turn(instance: &str, at_ms: Option<u64>) -> Due {
        Due {
            target: Target::Turn {
                instance: instance.to_owned(),
            },
            at_ms,
            execution: None,
        }
    }

    /// Instance, delay and due time of the wakeups for these.
    fn planned(due: Vec<Due>) -> Vec<(String, u64, Option<u64>)> {
        let schedule = Schedule {
            decided_ms: NOW,
            written_ms: NOW + 7,
            reach: Duration::from_secs(900),
            consistency_token: Some("0:-1#5".to_owned()),
        };
        let wakeups = schedule.wakeups(due).into_iter();
        wakeups
            .map(|Delayed { wakeup, delay }| {
                assert_eq!(wakeup.consistency_token.as_deref(), Some("0:-1#5"));
                let instance = wakeup.target.instance().to_owned();
                (instance, delay.as_millis() as u64, wakeup.due_ms)
            })
            .collect()
    }

    #[test]
    fn a_timer_gets_a_wakeup_for_its_time_unless_it_is_beyond_the_reach() {
        let at = |ms: u64| turn("i", Some(NOW + ms));
        let due = vec![at(0), at(1_500), at(900_000), at(900_001), turn("past", Some(5))];
        assert_eq!(
            planned(due),
            [
                ("i".to_owned(), 0, Some(NOW + 7)),
                ("i".to_owned(), 1_500, Some(NOW + 1_500)),
                ("i".to_owned(), 900_000, Some(NOW + 900_000)),
                ("past".to_owned(), 0, Some(NOW + 7)),
            ]
        );
    }

    #[test]
    fn one_target_gets_one_wakeup_per_second_for_the_last_of_that_second() {
        let due = vec![
            turn("i", None),
            turn("i", None),
            turn("i", Some(NOW + 4_100)),
            turn("i", Some(NOW + 4_900)),
            turn("i", Some(NOW + 4_500)),
            turn("j", Some(NOW + 2_000)),
        ];
        assert_eq!(
            planned(due),
            [
                ("i".to_owned(), 0, Some(NOW + 7)),
                ("i".to_owned(), 4_900, Some(NOW + 4_900)),
                ("j".to_owned(), 2_000, Some(NOW + 2_000)),
            ]
        );
    }
}
