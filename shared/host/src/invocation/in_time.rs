//! The steps of one group, each at its time. What to wait for and what to send again is decided in `waiting`.

use super::{Group, LAST_WAKEUPS, Taken};
use crate::budget::Budget;
use crate::due::Schedule;
use crate::environment::{Environment, Role};
use crate::waiting::{InvocationWait, LONGEST, again, dues, is_written, split, split_near, wait_for};
use crate::wakeup::{Wakeup, recent_consistency_token};
use duroxide_cosmos::Due;
use std::time::Duration;
use tokio::time::Instant;

impl Environment {
    /// Takes a step for what is due, then waits for what is due within a second. Answers the ids of the group's records if
    /// they must come again.
    pub(super) async fn serve_group(&self, mut group: Group, wait: &InvocationWait<'_>, budget: Budget) -> Vec<String> {
        let limit = Instant::now() + LONGEST;
        let now_ms = self.clock.now_ms();
        let (mut due, later) = split(std::mem::take(&mut group.wakeups), now_ms);
        if is_written(&group.target) {
            due.extend(later.iter().cloned());
        }
        let (mut near, mut far) = split_near(later, now_ms);
        loop {
            if !due.is_empty() {
                match self.take_step(&group.part(due), budget).await {
                    // Somebody may have written the work item since.
                    Taken::Served => group.target = group.target.without_version(),
                    Taken::Ended => return Vec::new(),
                    Taken::Failed => return group.messages,
                }
            }
            if !self.send_again(&group, &std::mem::take(&mut far), false, budget).await {
                return group.messages;
            }
            if near.is_empty() {
                return Vec::new();
            }
            let begun = Instant::now();
            if !self.wait_for(&near, wait, budget, limit).await {
                let is_sent = self.send_again(&group, &near, true, budget).await;
                return if is_sent { Vec::new() } else { group.messages };
            }
            group.waited += begun.elapsed();
            (due, near) = split(near, self.clock.now_ms());
        }
    }

    /// Waits for the first moment at which one of these is due. Answers false where it may not wait so long.
    async fn wait_for(&self, near: &[Wakeup], wait: &InvocationWait<'_>, budget: Budget, limit: Instant) -> bool {
        let dues = dues(near);
        let reserve = match self.role {
            Role::Orchestrator => self.gate.turn_reserve(),
            Role::Worker => self.gate.work_reserve(),
        };
        loop {
            let in_time = budget.left().saturating_sub(reserve);
            let most = in_time.min(limit.saturating_duration_since(Instant::now()));
            match wait_for(&dues, self.clock.now_ms(), most) {
                Some(rest) if rest.is_zero() => return true,
                Some(rest) if wait.may_wait() => tokio::time::sleep(rest).await,
                _ => return false,
            }
        }
    }

    /// Sends these wakeups again for their due times. Answers false if one was not accepted.
    async fn send_again(&self, group: &Group, wakeups: &[Wakeup], nobody_waits: bool, budget: Budget) -> bool {
        let schedule = Schedule {
            written_ms: self.clock.now_ms(),
            // One that is out of reach comes early, and is sent again then.
            reach: Duration::MAX,
            consistency_token: recent_consistency_token(&self.store),
        };
        let due = Due {
            target: group.target.without_version(),
            at_ms: None,
            execution: wakeups.iter().filter_map(|wakeup| wakeup.execution).max(),
        };
        let again = again(&schedule, &due, &dues(wakeups), nobody_waits);
        if again.is_empty() {
            return true;
        }
        tracing::info!(
            instance = group.target.instance(),
            activity = group.target.activity(),
            wakeups = again.len(),
            is_late = nobody_waits,
            "a wakeup came before its due time, and is sent again"
        );
        let time = budget.left() + LAST_WAKEUPS;
        self.notifier.notify_within(time, again).await.is_empty()
    }
}
