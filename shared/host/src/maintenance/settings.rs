//! The numbers of maintenance.

use super::request::Keep;
use std::time::Duration;

/// How often, how much, how late.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaintenanceSettings {
    /// What is due for so long and was not taken is notified for.
    pub overdue: Duration,
    /// How often the schedule runs.
    pub period: Duration,
    /// At most so many items of each physical range in one page of a pass.
    pub page: u32,
    /// What is kept, and for how long.
    pub keep: Keep,
    /// How far ahead the functions wakeup for timers.
    pub wakeup_reach: Duration,
}

impl MaintenanceSettings {
    /// How far ahead a run wakeups for timers: to beyond the next run, even if one is left out.
    pub fn ahead(&self) -> Duration {
        let runs = self.period.saturating_mul(2).saturating_add(self.overdue);
        runs.min(self.wakeup_reach)
    }

    /// From when on something that is due and free counts as stuck: it was notified several times.
    pub fn stuck(&self) -> Duration {
        self.overdue.saturating_mul(8).saturating_add(self.period)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_wakeups_beyond_the_next_one_as_far_as_the_notifier_reaches() {
        let settings = |period, reach| MaintenanceSettings {
            overdue: Duration::from_secs(30),
            period: Duration::from_secs(period),
            page: 100,
            keep: Keep::default(),
            wakeup_reach: Duration::from_secs(reach),
        };
        for (period, reach, ahead) in [(60, 900, 150), (60, 100, 100), (3_600, 900, 900), (60, 0, 0)] {
            assert_eq!(settings(period, reach).ahead(), Duration::from_secs(ahead));
        }
    }
}
