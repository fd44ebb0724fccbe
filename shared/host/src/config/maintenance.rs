//! The settings of the maintenance function.

use duroxide_cosmos::Retention;
use std::time::Duration;

/// When maintenance runs, how much it takes at once, and what it deletes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaintenanceSettings {
    /// An item that has been due for this long is woken again.
    pub overdue: Duration,
    /// The time between two runs.
    pub period: Duration,
    /// The most items of each physical partition on one page of a pass.
    pub page: u32,
    /// What is deleted, and when.
    pub retention: Retention,
    /// How often a scheduled run applies retention, and searches for affinity sessions that an older release wrote.
    pub search_interval: Duration,
    /// How far ahead the functions send wakeups for timers.
    pub wakeup_reach: Duration,
}

impl MaintenanceSettings {
    /// How far ahead a run sends wakeups for timers: beyond the next run, even if one run is missed.
    pub fn ahead(&self) -> Duration {
        let runs = self.period.saturating_mul(2).saturating_add(self.overdue);
        runs.min(self.wakeup_reach)
    }

    /// An item that has been due and unlocked for this long is stuck: several wakeups did not help.
    pub fn stuck(&self) -> Duration {
        self.overdue.saturating_mul(8).saturating_add(self.period)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_looks_beyond_the_next_run_but_not_beyond_the_reach_of_a_wakeup() {
        let settings = |period, reach| MaintenanceSettings {
            overdue: Duration::from_secs(30),
            period: Duration::from_secs(period),
            page: 100,
            retention: Retention::default(),
            search_interval: Duration::from_secs(3_600),
            wakeup_reach: Duration::from_secs(reach),
        };
        for (period, reach, ahead) in [(60, 900, 150), (60, 100, 100), (3_600, 900, 900), (60, 0, 0)] {
            assert_eq!(settings(period, reach).ahead(), Duration::from_secs(ahead));
        }
    }
}
