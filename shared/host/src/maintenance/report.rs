//! What a run says of itself: the function's answer, a line in the log, and metrics.

use super::request::PassName;
use crate::metrics::Metrics;
use duroxide_cosmos::{Backlog, PassOutcome};
use serde::Serialize;
use std::collections::BTreeMap;

/// The answer of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// What each requested pass did.
    pub passes: BTreeMap<PassName, PassReport>,
    /// Wakeups that the notifier took.
    pub wakeups_sent: u64,
    /// Wakeups that it did not take.
    pub wakeups_failed: u64,
    /// Whether a pass has something left to do; the next run goes on.
    pub left_over: bool,
    /// How the store is after the run, if that was asked for and there was time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<StoreReport>,
}

/// What a pass did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PassReport {
    /// Items that were looked at.
    pub found: u64,
    /// Items that are settled now; of the sweep: wakeups that were sent.
    pub done: u64,
    /// Items that could not be settled this time.
    pub failed: u64,
    /// Items that were given up, and became dead letters.
    pub dead: u64,
    /// Whether the budget ended before the pass.
    pub left_over: bool,
    /// In how many pages.
    pub pages: u64,
    /// Why the pass could not go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl PassReport {
    pub(super) fn add(&mut self, pass: &PassOutcome) {
        self.pages += 1;
        self.found += pass.found;
        self.done += pass.done;
        self.failed += pass.failed;
        self.dead += pass.dead;
    }
}

/// How the store is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoreReport {
    /// Messages to other instances that are not delivered.
    pub outbox_depth: u64,
    /// The age of the oldest of them.
    pub oldest_intent_seconds: u64,
    /// Messages that are due.
    pub turns_due: u64,
    /// Activities that are due.
    pub works_due: u64,
    /// For how long the oldest of both is due.
    pub oldest_due_seconds: u64,
    /// Timers that should have fired.
    pub overdue_timers: u64,
    /// Timers that are not due yet.
    pub timers_pending: u64,
    /// Instances with something that is due for long, and no turn under way.
    pub stuck_instances: u64,
    /// Dead letters.
    pub dead_letters: u64,
}

impl StoreReport {
    pub(super) fn new(backlog: &Backlog, now_ms: u64) -> StoreReport {
        let age = |since: Option<u64>| since.map_or(0, |since| now_ms.saturating_sub(since) / 1000);
        StoreReport {
            outbox_depth: backlog.outbox,
            oldest_intent_seconds: age(backlog.oldest_intent_ms),
            turns_due: backlog.turns_due,
            works_due: backlog.works_due,
            oldest_due_seconds: age(backlog.oldest_due_ms),
            overdue_timers: backlog.overdue_timers,
            timers_pending: backlog.timers_pending,
            stuck_instances: backlog.stuck_instances,
            dead_letters: backlog.dead_letters,
        }
    }
}

/// The metrics of a pass: found, done, failed, left over. Only the outbox gives anything up (`OutboxDead`).
fn names(pass: PassName) -> Option<[&'static str; 4]> {
    match pass {
        PassName::Outbox => Some(["OutboxFound", "OutboxDone", "OutboxFailed", "OutboxLeftOver"]),
        PassName::Unfinished => Some([
            "UnfinishedFound",
            "UnfinishedDone",
            "UnfinishedFailed",
            "UnfinishedLeftOver",
        ]),
        PassName::Sessions => Some(["SessionsFound", "SessionsDone", "SessionsFailed", "SessionsLeftOver"]),
        PassName::Sweep => Some(["SweepFound", "SweepDone", "SweepFailed", "SweepLeftOver"]),
        PassName::Retention => Some([
            "RetentionFound",
            "RetentionDone",
            "RetentionFailed",
            "RetentionLeftOver",
        ]),
        PassName::Report => None,
    }
}

impl Report {
    /// Counts it all. How the store is is written even when it is zero, for the alarms; what a pass met is not, so that an
    /// idle system pays for few metrics.
    pub fn measure(&self, metrics: &Metrics) {
        let broken = self.passes.values().filter(|pass| pass.error.is_some()).count();
        metrics.level("PassesBroken", broken as u64);
        for (pass, report) in &self.passes {
            let numbers = [report.found, report.done, report.failed, u64::from(report.left_over)];
            for (name, number) in names(*pass).into_iter().flatten().zip(numbers) {
                metrics.count(name, number);
            }
            metrics.count("OutboxDead", report.dead);
        }
        let Some(store) = &self.store else {
            return;
        };
        for (name, number) in [
            ("OutboxDepth", store.outbox_depth),
            ("OldestIntentSeconds", store.oldest_intent_seconds),
            ("TurnsDue", store.turns_due),
            ("WorksDue", store.works_due),
            ("OldestDueSeconds", store.oldest_due_seconds),
            ("OverdueTimers", store.overdue_timers),
            ("TimersPending", store.timers_pending),
            ("StuckInstances", store.stuck_instances),
            ("DeadLetters", store.dead_letters),
        ] {
            metrics.level(name, number);
        }
    }

    /// One line for the log, and one for each pass that could not go on.
    pub fn tell(&self) {
        for (pass, report) in &self.passes {
            if let Some(error) = &report.error {
                tracing::error!(
                    pass = pass.as_str(),
                    error,
                    "a pass could not go on; the next run tries again"
                );
            }
        }
        let text = serde_json::to_string(self).expect("names and numbers have a JSON form");
        tracing::info!(report = text, "maintained");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::time::Duration;

    fn report() -> Report {
        let pass = PassReport {
            found: 5,
            done: 3,
            failed: 1,
            dead: 1,
            left_over: true,
            pages: 2,
            error: Some("no".to_owned()),
        };
        let backlog = Backlog {
            outbox: 4,
            oldest_intent_ms: Some(10_000),
            turns_due: 7,
            ..Backlog::default()
        };
        Report {
            passes: BTreeMap::from([(PassName::Outbox, pass), (PassName::Report, PassReport::default())]),
            wakeups_sent: 2,
            wakeups_failed: 0,
            left_over: true,
            store: Some(StoreReport::new(&backlog, 75_900)),
        }
    }

    #[test]
    fn the_answer_is_json_in_camel_case() {
        let text = serde_json::to_value(report()).unwrap();
        assert_eq!(
            text["passes"]["outbox"],
            json!({"found": 5, "done": 3, "failed": 1, "dead": 1, "leftOver": true, "pages": 2, "error": "no"})
        );
        assert_eq!((&text["leftOver"], &text["wakeupsSent"]), (&json!(true), &json!(2)));
        assert_eq!(text["store"]["oldestIntentSeconds"], json!(65));
        assert!(text["passes"]["report"]["error"].is_null());
    }

    fn line_of(report: &Report) -> Value {
        let metrics = Metrics::new(Some("space".to_owned()));
        report.measure(&metrics);
        serde_json::from_str(&metrics.flush("m", Duration::ZERO, 0).unwrap()).unwrap()
    }

    #[test]
    fn how_the_store_is_is_a_metric_even_when_it_is_zero() {
        let line = line_of(&report());
        for (name, value) in [
            ("OutboxDepth", 4),
            ("TurnsDue", 7),
            ("OldestIntentSeconds", 65),
            ("DeadLetters", 0),
            ("PassesBroken", 1),
        ] {
            assert_eq!(line[name], json!(value), "{name}");
        }
    }

    #[test]
    fn what_a_pass_met_is_a_metric_and_nothing_is_not() {
        let each = PassReport {
            error: None,
            ..report().passes[&PassName::Outbox].clone()
        };
        let mut busy = report();
        busy.passes = PassName::ALL.map(|pass| (pass, each.clone())).into();
        busy.passes.remove(&PassName::Report);
        let line = line_of(&busy);
        for names in PassName::ALL.into_iter().filter_map(names) {
            assert_eq!(
                names.map(|name| &line[name]),
                [5, 3, 1, 1].map(|n| json!(n)).each_ref(),
                "{names:?}"
            );
        }
        let idle = Report {
            passes: PassName::ALL.map(|pass| (pass, PassReport::default())).into(),
            ..report()
        };
        let line = line_of(&idle);
        for name in PassName::ALL.into_iter().filter_map(names).flatten() {
            assert!(line[name].is_null(), "{name}");
        }
        assert!(line["OutboxDead"].is_null());
    }

    #[test]
    fn what_the_outbox_gave_up_is_a_metric() {
        assert_eq!(line_of(&report())["OutboxDead"], json!(1));
    }
}
