//! How the times of a deployment must agree: function, queue, locks and schedule. `timing` holds the template to it.

use duroxide_lambda::Limits;
use std::time::Duration;

/// The visibility timeout of a queue is this many times its function's timeout, as AWS recommends: a record must not
/// be delivered again while it is served, nor while the mapping retries a throttled function.
pub const VISIBILITY_FACTOR: u32 = 6;

/// A function that takes longer than this is near its timeout.
pub fn near_timeout(function: Duration) -> Duration {
    function * 4 / 5
}

/// The times and counts of one function with its queue.
#[derive(Clone, Debug)]
pub struct Timing {
    /// The function's timeout.
    pub function: Duration,
    /// The queue's visibility timeout.
    pub visibility: Duration,
    /// How often a record is received before it goes to the dead-letter queue.
    pub max_receive_count: u32,
    /// How long the queue keeps a message.
    pub retention: Duration,
    /// How long the dead-letter queue keeps it. SQS counts from the moment it was first sent, in the first queue.
    pub dead_retention: Duration,
    /// The most records of one invocation.
    pub batch_size: u32,
    /// The time between two runs of maintenance.
    pub period: Duration,
    /// The timeout of maintenance.
    pub maintenance: Duration,
    /// The function's settings.
    pub limits: Limits,
}

impl Timing {
    /// The rules that do not hold.
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
            (
                self.function >= limits.least_timeout(),
                format!(
                    "the function's timeout is at least {:?}, or it begins little",
                    limits.least_timeout()
                ),
            ),
            (
                lock <= self.visibility,
                format!("a record delivered again after a crash finds the lock of {lock:?} expired"),
            ),
            (
                self.max_receive_count > limits.max_attempts,
                format!(
                    "a step that kills its function is given up after {} attempts, before its wakeup becomes a dead letter",
                    limits.max_attempts
                ),
            ),
            (
                self.retention > tries,
                format!("a wakeup lives longer than the {tries:?} that all its deliveries may take"),
            ),
            (
                self.dead_retention > self.retention,
                "a wakeup in the dead-letter queue is kept longer than one in its queue".to_owned(),
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
                    "maintenance runs twice within the {:?} before a far timer is due",
                    limits.wakeup_reach
                ),
            ),
        ];
        let broken = rules.into_iter().filter(|(holds, _)| !holds);
        broken.map(|(_, rule)| rule).collect()
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
    fn the_default_values_agree() {
        assert_eq!(timing().problems(), Vec::<String>::new());
    }

    /// A change, and the rule that it breaks.
    type Case = (fn(&mut Timing), &'static str);

    #[test]
    fn each_rule_is_checked() {
        let cases: [Case; 9] = [
            (|timing| timing.visibility = Duration::from_secs(120), "6 times"),
            (
                |timing| (timing.function, timing.visibility) = (Duration::from_secs(10), Duration::from_secs(60)),
                "begins little",
            ),
            (|timing| timing.limits.work_lock = Duration::from_secs(300), "expired"),
            (|timing| timing.max_receive_count = 10, "given up after 10"),
            (
                |timing| timing.retention = Duration::from_secs(600),
                "deliveries may take",
            ),
            (|timing| timing.dead_retention = 4 * DAY, "dead-letter queue is kept"),
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
