//! The report of a run: the function's answer, a line in the log, and metrics.

use super::look::LookReport;
use super::request::PassName;
use crate::metrics::{Metric, Metrics};
use duroxide_cosmos::{Backlog, PassOutcome};
use serde::Serialize;
use std::collections::BTreeMap;

/// The answer of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// What the look at the beginning found, unless the request names passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub look: Option<LookReport>,
    /// What each requested pass did.
    pub passes: BTreeMap<PassName, PassReport>,
    /// Wakeups that the notifier accepted.
    pub wakeups_sent: u64,
    /// Wakeups that it did not accept.
    pub wakeups_failed: u64,
    /// Overdue items that were not woken again, because their wakeups may still be in the queue. Of a backlog that fills
    /// several pages, only those of the first pages are counted.
    pub reminders_held: u64,
    /// Whether a pass has something left to do; the next run continues.
    pub left_over: bool,
    /// The items in the store after the run, if the request names `report` and there was time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<StoreReport>,
}

/// What a pass did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PassReport {
    /// Items that were found.
    pub found: u64,
    /// Items that are completed now; of the sweep: wakeups that were sent.
    pub done: u64,
    /// Items that could not be completed this time.
    pub failed: u64,
    /// Items that were given up, and became dead letters.
    pub given_up: u64,
    /// Whether the budget ended before the pass.
    pub left_over: bool,
    /// The number of pages.
    pub pages: u64,
    /// Why the pass could not continue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl PassReport {
    pub(super) fn add(&mut self, pass: &PassOutcome) {
        self.pages += 1;
        self.found += pass.found;
        self.done += pass.done;
        self.failed += pass.failed;
        self.given_up += pass.dead;
    }

    /// The pass cannot continue.
    pub(super) fn fail(&mut self, error: String) {
        tracing::error!(error, "the pass failed; the next run tries again");
        self.error = Some(error);
    }
}

/// The items in the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoreReport {
    /// Intents: messages to other instances that were not delivered.
    pub outbox_depth: u64,
    /// The age of the oldest intent.
    pub oldest_intent_seconds: u64,
    /// Messages that are due.
    pub messages_due: u64,
    /// Activities that are due.
    pub activities_due: u64,
    /// How long the oldest message or activity has been due.
    pub oldest_due_seconds: u64,
    /// Timers that should have fired.
    pub overdue_timers: u64,
    /// Timers that are not due yet.
    pub timers_pending: u64,
    /// Instances with an item that has been due for long, and no turn in progress.
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
            messages_due: backlog.turns_due,
            activities_due: backlog.works_due,
            oldest_due_seconds: age(backlog.oldest_due_ms),
            overdue_timers: backlog.overdue_timers,
            timers_pending: backlog.timers_pending,
            stuck_instances: backlog.stuck_instances,
            dead_letters: backlog.dead_letters,
        }
    }
}

/// The metrics of a pass: found, done, failed, left over. Only the outbox gives anything up.
fn metrics_of(pass: PassName) -> Option<[Metric; 4]> {
    use Metric::*;
    match pass {
        PassName::Outbox => Some([OutboxFound, OutboxDone, OutboxFailed, OutboxLeftOver]),
        PassName::Unfinished => Some([UnfinishedFound, UnfinishedDone, UnfinishedFailed, UnfinishedLeftOver]),
        PassName::Sessions => Some([SessionsFound, SessionsDone, SessionsFailed, SessionsLeftOver]),
        PassName::Sweep => Some([SweepFound, SweepDone, SweepFailed, SweepLeftOver]),
        PassName::Retention => Some([RetentionFound, RetentionDone, RetentionFailed, RetentionLeftOver]),
        PassName::Report => None,
    }
}

impl Report {
    /// Counts everything. An idle run writes only what it cost, so that an idle system pays for few metrics.
    pub fn measure(&self, metrics: &Metrics) {
        metrics.brief();
        let failed = self.passes.values().filter(|pass| pass.error.is_some()).count();
        metrics.level(Metric::PassesFailed, failed as u64);
        for (pass, report) in &self.passes {
            let numbers = [report.found, report.done, report.failed, u64::from(report.left_over)];
            for (metric, number) in metrics_of(*pass).into_iter().flatten().zip(numbers) {
                metrics.count(metric, number);
            }
            metrics.count(Metric::OutboxGivenUp, report.given_up);
        }
        metrics.level(Metric::RemindersHeld, self.reminders_held);
        let Some(store) = &self.store else {
            return;
        };
        for (metric, number) in [
            (Metric::OutboxDepth, store.outbox_depth),
            (Metric::OldestIntentSeconds, store.oldest_intent_seconds),
            (Metric::MessagesDue, store.messages_due),
            (Metric::ActivitiesDue, store.activities_due),
            (Metric::OldestDueSeconds, store.oldest_due_seconds),
            (Metric::OverdueTimers, store.overdue_timers),
            (Metric::TimersPending, store.timers_pending),
            (Metric::StuckInstances, store.stuck_instances),
            (Metric::DeadLetters, store.dead_letters),
        ] {
            metrics.level(metric, number);
        }
    }

    /// Logs it in one line.
    pub(super) fn log(&self) {
        let report = serde_json::to_string(self).expect("names and numbers have a JSON form");
        tracing::info!(report, "maintenance ended");
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
            given_up: 1,
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
            look: None,
            passes: BTreeMap::from([(PassName::Outbox, pass), (PassName::Report, PassReport::default())]),
            wakeups_sent: 2,
            wakeups_failed: 0,
            reminders_held: 3,
            left_over: true,
            store: Some(StoreReport::new(&backlog, 75_900)),
        }
    }

    #[test]
    fn the_answer_is_json_in_camel_case() {
        let text = serde_json::to_value(report()).unwrap();
        assert_eq!(
            text["passes"]["outbox"],
            json!({"found": 5, "done": 3, "failed": 1, "givenUp": 1, "leftOver": true, "pages": 2, "error": "no"})
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
    fn the_items_in_the_store_are_metrics_until_there_are_none() {
        let metrics = Metrics::new(Some("space".to_owned()));
        let line = |report: &Report| -> Value {
            report.measure(&metrics);
            serde_json::from_str(&metrics.flush("m", Duration::ZERO, 0).unwrap()).unwrap()
        };
        let idle = Report {
            passes: BTreeMap::from([(PassName::Report, PassReport::default())]),
            store: Some(StoreReport::default()),
            ..Report::default()
        };
        let (busy, then, later) = (line(&report()), line(&idle), line(&idle));
        for (name, value) in [
            ("OutboxDepth", 4),
            ("MessagesDue", 7),
            ("OldestIntentSeconds", 65),
            ("PassesFailed", 1),
            ("RemindersHeld", 3),
        ] {
            assert_eq!((&busy[name], &then[name]), (&json!(value), &json!(0)), "{name}");
        }
        assert_eq!(busy.get("DeadLetters"), None, "there was none before");
        let names: Vec<_> = later["_aws"]["CloudWatchMetrics"][0]["Metrics"]
            .as_array()
            .unwrap()
            .clone();
        assert_eq!(names, [] as [Value; 0], "an idle run has nothing to say");
    }

    #[test]
    fn the_counts_of_a_pass_are_metrics_unless_they_are_zero() {
        let each = PassReport {
            error: None,
            ..report().passes[&PassName::Outbox].clone()
        };
        let mut busy = report();
        busy.passes = PassName::ALL.map(|pass| (pass, each.clone())).into();
        busy.passes.remove(&PassName::Report);
        let line = line_of(&busy);
        for metrics in PassName::ALL.into_iter().filter_map(metrics_of) {
            let values = metrics.map(|metric| &line[metric.name()]);
            assert_eq!(values, [5, 3, 1, 1].map(|n| json!(n)).each_ref(), "{metrics:?}");
        }
        let idle = Report {
            passes: PassName::ALL.map(|pass| (pass, PassReport::default())).into(),
            ..report()
        };
        let line = line_of(&idle);
        for metric in PassName::ALL.into_iter().filter_map(metrics_of).flatten() {
            assert!(line[metric.name()].is_null(), "{metric:?}");
        }
        assert!(line["OutboxGivenUp"].is_null());
    }

    #[test]
    fn intents_given_up_are_a_metric() {
        assert_eq!(line_of(&report())["OutboxGivenUp"], json!(1));
    }
}
