//! How the times of a deployment must agree: function, queue, locks and schedule.

use crate::config::Limits;
use std::time::Duration;

/// The visibility timeout of a queue is this many times its function's timeout, as AWS recommends: a record must not
/// come again while it is served, nor while the mapping tries a throttled function again.
pub const VISIBILITY_FACTOR: u32 = 6;

/// A function that takes longer than this is near its timeout.
pub fn near_timeout(function: Duration) -> Duration {
    function * 4 / 5
}

/// What is wrong with a function's timeout alone, whatever its queue; `None` is well.
pub fn timeout_problem(function: Duration, limits: &Limits) -> Option<String> {
    let (holds, rule) = above_reserves(function, limits);
    (!holds).then(|| told(rule))
}

fn above_reserves(function: Duration, limits: &Limits) -> (bool, String) {
    let reserves = limits.turn_reserve.max(limits.cancel_grace + limits.commit_reserve);
    let rule =
        format!("the function's timeout is at least four times its reserves of {reserves:?}, or little is begun");
    (function >= reserves * 4, rule)
}

fn told(rule: String) -> String {
    format!("it does not hold that {rule}")
}

/// The times and counts of one function with its queue.
#[derive(Clone, Debug)]
pub struct Timing {
    /// The function's timeout.
    pub function: Duration,
    /// The queue's visibility timeout.
    pub visibility: Duration,
    /// How often a record is received before it is put aside.
    pub max_receive_count: u32,
    /// How long the queue keeps a message.
    pub retention: Duration,
    /// How long the dead-letter queue keeps it. SQS counts from the first sending, in the first queue.
    pub dead_retention: Duration,
    /// How many records an invocation gets.
    pub batch_size: u32,
    /// How often maintenance runs.
    pub period: Duration,
    /// The timeout of maintenance.
    pub maintenance: Duration,
    /// What the function is configured with.
    pub limits: Limits,
}

impl Timing {
    /// Everything that does not agree; empty is well.
    pub fn problems(&self) -> Vec<String> {
        let limits = &self.limits;
        let visibility = self.function * VISIBILITY_FACTOR;
        let lock = limits.turn_lock.max(limits.work_lock).max(limits.session_lock);
        let tries = self.visibility * self.max_receive_count;
        let rules = [
            (
                self.visibility == visibility,
                format!("the visibility timeout is {VISIBILITY_FACTOR} times the function's timeout: {visibility:?}"),
            ),
            above_reserves(self.function, limits),
            (
                lock <= self.visibility,
                format!("a record that comes again after a crash finds the lock of {lock:?} expired"),
            ),
            (
                self.max_receive_count > limits.max_attempts,
                format!(
                    "what kills its function becomes poison after {} attempts, before its wakeup is put aside",
                    limits.max_attempts
                ),
            ),
            (
                self.retention > tries,
                format!("a wakeup lives longer than the {tries:?} that all its tries may take"),
            ),
            (
                self.dead_retention > self.retention,
                "a wakeup that was put aside is kept for longer than a wakeup".to_owned(),
            ),
            (
                limits.concurrency >= self.batch_size as usize,
                format!("all {} records of a batch are served at once", self.batch_size),
            ),
            (
                self.maintenance <= self.period,
                format!(
                    "a run of maintenance ends before the next begins, after {:?}",
                    self.period
                ),
            ),
            (
                self.period * 2 <= limits.wakeup_reach,
                format!(
                    "maintenance comes twice within the {:?} before a far timer is due",
                    limits.wakeup_reach
                ),
            ),
        ];
        let broken = rules.into_iter().filter(|(holds, _)| !holds);
        broken.map(|(_, rule)| told(rule)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn timing() -> Timing {
        Timing {
            function: Duration::from_secs(30),
            visibility: Duration::from_secs(180),
            max_receive_count: 15,
            retention: 4 * DAY,
            dead_retention: 14 * DAY,
            batch_size: 10,
            period: Duration::from_secs(60),
            maintenance: Duration::from_secs(50),
            limits: Limits::default(),
        }
    }

    #[test]
    fn the_values_that_the_readme_recommends_agree() {
        assert_eq!(timing().problems(), Vec::<String>::new());
    }

    /// A change, and what is told of it.
    type Case = (fn(&mut Timing), &'static str);

    #[test]
    fn each_disagreement_is_told() {
        let cases: [Case; 9] = [
            (|timing| timing.visibility = Duration::from_secs(120), "6 times"),
            (
                |timing| (timing.function, timing.visibility) = (Duration::from_secs(10), Duration::from_secs(60)),
                "reserves",
            ),
            (|timing| timing.limits.work_lock = Duration::from_secs(300), "expired"),
            (|timing| timing.max_receive_count = 10, "poison after 10"),
            (|timing| timing.retention = Duration::from_secs(600), "tries may take"),
            (|timing| timing.dead_retention = 4 * DAY, "put aside is kept"),
            (|timing| timing.batch_size = 11, "11 records"),
            (|timing| timing.maintenance = Duration::from_secs(61), "before the next"),
            (
                |timing| (timing.period, timing.maintenance) = (Duration::from_secs(600), Duration::from_secs(50)),
                "far timer",
            ),
        ];
        for (change, expected) in cases {
            let mut timing = timing();
            change(&mut timing);
            let problems = timing.problems();
            assert!(
                problems.len() == 1 && problems[0].contains(expected),
                "{expected}: {problems:?}"
            );
        }
    }
}
