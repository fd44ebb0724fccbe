//! Which wakeups follow from what was written: pure decisions, no I/O.
//!
//! Invariant: whatever a commit made due within the notifier's reach is announced by at least one wakeup, and one target
//! is notified once per moment. What is due later than the reach is left to maintenance.

use crate::notifier::Delayed;
use crate::wakeup::{Wakeup, WorkTarget};
use duroxide::providers::WorkItem;
use duroxide_cosmos::target_of;
use std::collections::HashSet;
use std::time::Duration;

/// The wakeups of one commit.
#[derive(Debug)]
pub(crate) struct Planner {
    now_ms: u64,
    reach: Duration,
    known: HashSet<(Wakeup, Duration)>,
    wakeups: Vec<Delayed>,
}

/// The orchestration that a work item belongs to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Orchestration {
    pub name: String,
    pub version: String,
}

impl Planner {
    pub(crate) fn new(now_ms: u64, reach: Duration) -> Planner {
        Planner {
            now_ms,
            reach,
            known: HashSet::new(),
            wakeups: Vec::new(),
        }
    }

    /// A message was queued, to be seen after `delay` (a timer: at its own time).
    pub(crate) fn message(&mut self, item: &WorkItem, delay: Option<Duration>) {
        let Some(instance) = target_of(item) else {
            return;
        };
        let delayed = delay.map(|delay| self.now_ms.saturating_add(delay.as_millis() as u64));
        let due = match item {
            WorkItem::TimerFired { fire_at_ms, .. } => Some(delayed.unwrap_or(0).max(*fire_at_ms)),
            _ => delayed,
        };
        self.add(Wakeup::turn(instance), due);
    }

    /// An activity was queued.
    pub(crate) fn work(&mut self, item: &WorkItem, of: Option<&Orchestration>) {
        if let WorkItem::ActivityExecute {
            instance,
            execution_id,
            id,
            tag,
            ..
        } = item
        {
            let work = WorkTarget {
                instance: instance.clone(),
                execution: *execution_id,
                activity: *id,
                tag: tag.clone(),
                orchestration: of.map(|of| of.name.clone()),
                version: of.map(|of| of.version.clone()),
            };
            self.add(Wakeup::work(work), None);
        }
    }

    /// The wakeups of what was written by `written_ms`, each carrying what the writer has seen of the store.
    ///
    /// What is due at once is due by the writer's clock. A reader whose clock is behind would find it not due yet, and
    /// must know that it came early.
    pub(crate) fn finish(self, written_ms: u64, consistency_token: Option<String>) -> Vec<Delayed> {
        let mut wakeups = self.wakeups;
        for delayed in &mut wakeups {
            delayed.wakeup.consistency_token.clone_from(&consistency_token);
            delayed.wakeup.due_ms.get_or_insert(written_ms);
        }
        wakeups
    }

    fn add(&mut self, mut wakeup: Wakeup, due_ms: Option<u64>) {
        let due_ms = due_ms.filter(|due| *due > self.now_ms);
        let delay = Duration::from_millis(due_ms.map_or(0, |due| due - self.now_ms));
        if delay > self.reach {
            return;
        }
        // Notifiers count in seconds: two timers of one second are one turn.
        let moment = Duration::from_secs(delay.as_millis().div_ceil(1000) as u64);
        if self.known.insert((wakeup.clone(), moment)) {
            wakeup.due_ms = due_ms;
            self.wakeups.push(Delayed { wakeup, delay });
            return;
        }
        // The later of two in one second decides, or the wakeup would be too early for it.
        for known in self
            .wakeups
            .iter_mut()
            .filter(|known| known.wakeup.target == wakeup.target)
        {
            if due_ms > known.wakeup.due_ms && known.delay.as_millis().div_ceil(1000) as u64 == moment.as_secs() {
                known.wakeup.due_ms = due_ms;
                known.delay = delay;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_000_000;
    const REACH: Duration = Duration::from_secs(900);

    fn timer(instance: &str, fire_at_ms: u64) -> WorkItem {
        WorkItem::TimerFired {
            instance: instance.to_owned(),
            execution_id: 1,
            id: 2,
            fire_at_ms,
        }
    }

    fn raised(instance: &str) -> WorkItem {
        WorkItem::ExternalRaised {
            instance: instance.to_owned(),
            name: String::new(),
            data: String::new(),
        }
    }

    fn planned(items: &[(WorkItem, Option<Duration>)]) -> Vec<(String, u64, Option<u64>)> {
        let mut planner = Planner::new(NOW, REACH);
        items.iter().for_each(|(item, delay)| planner.message(item, *delay));
        let wakeups = planner.finish(NOW + 7, None);
        wakeups
            .into_iter()
            .map(|delayed| {
                let instance = delayed.wakeup.target.instance().to_owned();
                (instance, delayed.delay.as_millis() as u64, delayed.wakeup.due_ms)
            })
            .collect()
    }

    #[test]
    fn each_message_wakeups_the_one_who_gets_it() {
        let details = duroxide::ErrorDetails::Application {
            kind: duroxide::AppErrorKind::ActivityFailed,
            message: String::new(),
            retryable: false,
        };
        let to = |name: &str| name.to_owned();
        let start = WorkItem::StartOrchestration {
            instance: to("child"),
            orchestration: to("O"),
            input: String::new(),
            version: None,
            parent_instance: Some(to("parent")),
            parent_id: Some(1),
            parent_execution_id: Some(1),
            execution_id: 1,
        };
        let again = WorkItem::ContinueAsNew {
            instance: to("again"),
            orchestration: to("O"),
            input: String::new(),
            version: None,
            parent_instance: Some(to("parent")),
            parent_id: None,
            parent_execution_id: None,
            carry_forward_events: Vec::new(),
            initial_custom_status: None,
        };
        let completed = WorkItem::SubOrchCompleted {
            parent_instance: to("parent"),
            parent_execution_id: 1,
            parent_id: 1,
            result: String::new(),
        };
        let failed = WorkItem::SubOrchFailed {
            parent_instance: to("unlucky"),
            parent_execution_id: 1,
            parent_id: 1,
            details,
        };
        let cancel = WorkItem::CancelInstance {
            instance: to("unwanted"),
            reason: String::new(),
        };
        let queued = WorkItem::QueueMessage {
            instance: to("mailbox"),
            name: String::new(),
            data: String::new(),
        };
        let all = [start, again, completed, failed, cancel, queued, raised("event")];
        let notified: Vec<String> = planned(&all.map(|item| (item, None)))
            .into_iter()
            .map(|wakeup| wakeup.0)
            .collect();
        assert_eq!(
            notified,
            ["child", "again", "parent", "unlucky", "unwanted", "mailbox", "event"]
        );
    }

    #[test]
    fn a_timer_wakeups_at_its_time_and_one_beyond_the_reach_does_not() {
        let at = |ms: u64| (timer("i", NOW + ms), None);
        assert_eq!(
            planned(&[at(0), at(1_500), at(900_000), at(900_001), (timer("past", 5), None)]),
            [
                ("i".to_owned(), 0, Some(NOW + 7)),
                ("i".to_owned(), 1_500, Some(NOW + 1_500)),
                ("i".to_owned(), 900_000, Some(NOW + 900_000)),
                ("past".to_owned(), 0, Some(NOW + 7)),
            ]
        );
    }

    #[test]
    fn one_target_is_notified_once_per_second_and_late_enough_for_all() {
        let many = [
            (raised("i"), None),
            (raised("i"), None),
            (timer("i", NOW + 4_100), None),
            (timer("i", NOW + 4_900), None),
            (timer("i", NOW + 4_500), None),
            (raised("j"), Some(Duration::from_secs(2))),
        ];
        assert_eq!(
            planned(&many),
            [
                ("i".to_owned(), 0, Some(NOW + 7)),
                ("i".to_owned(), 4_900, Some(NOW + 4_900)),
                ("j".to_owned(), 2_000, Some(NOW + 2_000)),
            ]
        );
    }

    #[test]
    fn a_work_wakeup_carries_what_spares_the_worker_a_read() {
        let item = WorkItem::ActivityExecute {
            instance: "i".to_owned(),
            execution_id: 3,
            id: 7,
            name: "A".to_owned(),
            input: String::new(),
            session_id: None,
            tag: Some("gpu".to_owned()),
        };
        let of = Orchestration {
            name: "O".to_owned(),
            version: "1.2.0".to_owned(),
        };
        let mut planner = Planner::new(NOW, REACH);
        planner.work(&item, Some(&of));
        let wakeups = planner.finish(NOW + 7, Some("0:-1#5".to_owned()));
        let mut expected = Wakeup::work(WorkTarget {
            instance: "i".to_owned(),
            execution: 3,
            activity: 7,
            tag: Some("gpu".to_owned()),
            orchestration: Some("O".to_owned()),
            version: Some("1.2.0".to_owned()),
        });
        expected.consistency_token = Some("0:-1#5".to_owned());
        expected.due_ms = Some(NOW + 7);
        assert_eq!(wakeups, [Delayed::now(expected)]);
    }
}
