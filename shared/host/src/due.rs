//! From who is due to the wakeups that say so: pure decisions, no I/O.
//!
//! SQS delays a message by whole seconds, and a timer may be due at any millisecond. So a wakeup is sent with the whole seconds
//! *before* its due time, and the function waits for the rest (`waiting`). Due times of one target that have the same whole
//! seconds share a wakeup, which lists them: it arrives for the first of them, and the function serves each at its time.
//!
//! ```text
//!   sent        +1 s            +2 s            +3 s
//!    |───────────|───────────────|───────────────|──>
//!                |  arrives      ^1,500  ^1,900     due times: one wakeup, delay 1 s, due +1,500, also +1,900
//! ```
//!
//! Invariant: each due time within the notifier's reach is in at least one wakeup, and a target gets at most one wakeup per
//! second (and one more for each [`MOST_DUES`] due times of that second). A target that is due later is left to maintenance.
//!
//! What can go wrong: sending takes longer than [`LEAD_MS`], then the wakeup arrives after its first due time, and that timer is
//! late by the rest. The clocks of writer and reader differ: the reader waits by its own clock, which is also the one that
//! decides what it may read.

use crate::notifier::Delayed;
use crate::wakeup::Wakeup;
use duroxide_cosmos::{Due, Target};
use std::collections::HashMap;
use std::time::Duration;

/// How long before its due time a wakeup arrives at least, unless it is due sooner: to be sent, received and given to a function
/// takes some of it.
const LEAD_MS: u64 = 50;

/// What is due in less than this (ms) gets a wakeup without delay: a function can wait for it.
pub(crate) const NEAR_MS: u64 = 1_000 + LEAD_MS;

/// The most due times that one wakeup lists: they are some bytes each.
const MOST_DUES: usize = 100;

/// The delay of a wakeup for what is due in so many ms: the whole seconds before.
pub(crate) fn delay_before(left_ms: u64) -> Duration {
    Duration::from_secs(left_ms.saturating_sub(LEAD_MS) / 1000)
}

/// The delay of a wakeup that must not arrive before what is due in so many ms: the whole seconds after.
pub(crate) fn delay_after(left_ms: u64) -> Duration {
    Duration::from_secs(left_ms.div_ceil(1000))
}

/// When wakeups are sent, and what they carry.
#[derive(Debug)]
pub(crate) struct Schedule {
    /// When the commit was written, by the writer's clock: the delays count from then. What is due at once is due from then
    /// on: a reader whose clock is behind would not see it yet, and must know that it came early.
    pub written_ms: u64,
    /// How far ahead a wakeup can be sent.
    pub reach: Duration,
    /// What the writer has seen of the store.
    pub consistency_token: Option<String>,
}

impl Schedule {
    /// The wakeups for whoever is due.
    pub(crate) fn wakeups(&self, due: Vec<Due>) -> Vec<Delayed> {
        let mut places: HashMap<(Target, Duration), usize> = HashMap::new();
        let mut wakeups: Vec<(Delayed, Vec<u64>)> = Vec::new();
        for Due {
            target,
            at_ms,
            execution,
        } in due
        {
            let due_ms = at_ms.unwrap_or(0).max(self.written_ms);
            let left_ms = due_ms - self.written_ms;
            if Duration::from_millis(left_ms) > self.reach {
                continue;
            }
            let delay = delay_before(left_ms);
            let place = *places.entry((target.clone(), delay)).or_insert(wakeups.len());
            if place == wakeups.len() {
                let mut wakeup = Wakeup::to(target);
                wakeup.consistency_token.clone_from(&self.consistency_token);
                wakeups.push((Delayed { wakeup, delay }, Vec::new()));
            }
            let (shared, dues) = &mut wakeups[place];
            shared.wakeup.execution = shared.wakeup.execution.max(execution);
            dues.push(due_ms);
        }
        wakeups
            .into_iter()
            .flat_map(|(first, dues)| listing(&first, dues))
            .collect()
    }
}

/// The wakeup with these due times, as several if one cannot list them all.
pub(crate) fn listing(first: &Delayed, mut dues: Vec<u64>) -> Vec<Delayed> {
    dues.sort_unstable();
    dues.dedup();
    let with = |dues: &[u64]| {
        let mut delayed = first.clone();
        delayed.wakeup.set_dues(dues);
        delayed
    };
    dues.chunks(MOST_DUES).map(with).collect()
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

    fn schedule(written_ms: u64, reach: Duration) -> Schedule {
        Schedule {
            written_ms,
            reach,
            consistency_token: Some("0:-1#5".to_owned()),
        }
    }

    /// Instance, delay in seconds, and due times after `NOW` of the wakeups for these.
    fn planned(due: Vec<Due>) -> Vec<(String, u64, Vec<u64>)> {
        let wakeups = schedule(NOW, Duration::from_secs(900)).wakeups(due).into_iter();
        wakeups
            .map(|Delayed { wakeup, delay }| {
                assert_eq!(wakeup.consistency_token.as_deref(), Some("0:-1#5"));
                assert_eq!(delay.subsec_nanos(), 0, "SQS would round it");
                let dues = wakeup.dues().map(|due| due - NOW).collect();
                (wakeup.target.instance().to_owned(), delay.as_secs(), dues)
            })
            .collect()
    }

    #[test]
    fn a_wakeup_is_delayed_by_the_whole_seconds_before_its_due_time() {
        for (left_ms, seconds) in [
            (0, 0),
            (1, 0),
            (200, 0),
            (999, 0),
            (1_000, 0),
            (NEAR_MS - 1, 0),
            (NEAR_MS, 1),
            (1_500, 1),
            (2_049, 1),
            (2_050, 2),
            (5_000, 4),
            (900_000, 899),
            (u64::MAX, (u64::MAX - LEAD_MS) / 1000),
        ] {
            assert_eq!(delay_before(left_ms), Duration::from_secs(seconds), "{left_ms} ms");
        }
        for (left_ms, seconds) in [(0, 0), (1, 1), (1_000, 1), (1_001, 2), (u64::MAX, u64::MAX / 1000 + 1)] {
            assert_eq!(delay_after(left_ms), Duration::from_secs(seconds), "{left_ms} ms");
        }
    }

    #[test]
    fn a_timer_gets_a_wakeup_for_its_time_unless_it_is_beyond_the_reach() {
        let at = |ms: u64| turn("i", Some(NOW + ms));
        let due = vec![at(0), at(1_500), at(900_000), at(900_001), turn("past", Some(5))];
        assert_eq!(
            planned(due),
            [
                ("i".to_owned(), 0, vec![0]),
                ("i".to_owned(), 1, vec![1_500]),
                ("i".to_owned(), 899, vec![900_000]),
                ("past".to_owned(), 0, vec![0]),
            ]
        );
        assert_eq!(planned(vec![turn("never", Some(u64::MAX))]), []);
    }

    #[test]
    fn due_times_at_the_end_of_all_time_do_not_overflow() {
        let last = schedule(u64::MAX, Duration::from_secs(900)).wakeups(vec![turn("i", None), turn("i", Some(5))]);
        assert_eq!(last.len(), 1);
        assert_eq!((last[0].wakeup.due_ms, last[0].delay), (Some(u64::MAX), Duration::ZERO));
        let far = schedule(0, Duration::MAX).wakeups(vec![turn("i", Some(u64::MAX))]);
        assert_eq!(far[0].delay, delay_before(u64::MAX));
    }

    /// A bucket begins `LEAD_MS` after a whole second.
    #[test]
    fn due_times_of_one_second_share_a_wakeup_for_the_first_which_lists_them() {
        let due = vec![
            turn("i", None),
            turn("i", None),
            turn("i", Some(NOW + 300)),
            turn("i", Some(NOW + 4_100)),
            turn("i", Some(NOW + 4_900)),
            turn("i", Some(NOW + 4_500)),
            turn("i", Some(NOW + 5_049)),
            turn("i", Some(NOW + 5_050)),
            turn("j", Some(NOW + 2_000)),
        ];
        assert_eq!(
            planned(due),
            [
                ("i".to_owned(), 0, vec![0, 300]),
                ("i".to_owned(), 4, vec![4_100, 4_500, 4_900, 5_049]),
                ("i".to_owned(), 5, vec![5_050]),
                ("j".to_owned(), 1, vec![2_000]),
            ]
        );
    }

    #[test]
    fn no_due_time_is_lost_when_there_are_more_than_a_wakeup_lists() {
        let due = (0..1_000).map(|n| turn("i", Some(NOW + 2_050 + n))).collect();
        let planned = planned(due);
        assert_eq!(planned.len(), 10);
        assert!(
            planned
                .iter()
                .all(|(_, delay, dues)| *delay == 2 && dues.len() == MOST_DUES)
        );
        let listed: Vec<u64> = planned.into_iter().flat_map(|(_, _, dues)| dues).collect();
        assert_eq!(listed, (2_050..3_050).collect::<Vec<_>>());
    }
}
