//! What one run of the canary shows: how long steps wait for their wakeup, how late its timer was, and which of its activities
//! began in a new process. Pure.
//!
//! ```text
//!   turn ── activity scheduled ──> wakeup ──> attempt began ... ended ──> wakeup ──> turn ── activity completed
//!                └───── to_activity ──────┘                       └──── to_turn ────────┘
//! ```
//!
//! The times are those of the functions' clocks, which AWS keeps together. Each includes the commit before its wakeup.

use super::super::instance::ms_of;
use duroxide::{Event, EventKind};
use duroxide_lambda::canary::StepReport;
use duroxide_lambda_api::types::{ActivityAttempts, Usage};

/// One run.
#[derive(Clone, Debug, Default)]
pub(super) struct Run {
    pub(super) usage: Usage,
    /// From the decision to run an activity to its beginning, in ms.
    pub(super) to_activity: Vec<u64>,
    /// From the end of an activity to the turn that takes its result, in ms.
    pub(super) to_turn: Vec<u64>,
    /// How late timers fired, in ms.
    pub(super) late: Vec<u64>,
    /// What the activities have reported.
    pub(super) reports: Vec<StepReport>,
}

impl Run {
    pub(super) fn of(usage: Usage, events: &[Event], attempts: &[ActivityAttempts]) -> Run {
        let mut run = Run {
            usage,
            ..Run::default()
        };
        for event in events {
            match &event.kind {
                EventKind::ActivityCompleted { result } => {
                    run.reports.extend(serde_json::from_str::<StepReport>(result).ok());
                    run.activity(event, events, attempts);
                }
                EventKind::TimerFired { fire_at_ms } => {
                    run.late.push(event.timestamp_ms.saturating_sub(*fire_at_ms));
                }
                _ => {}
            }
        }
        run
    }

    /// The waits before and after an activity that was tried once.
    fn activity(&mut self, completed: &Event, events: &[Event], attempts: &[ActivityAttempts]) {
        let Some(id) = completed.source_event_id else {
            return;
        };
        let scheduled = events.iter().find(|event| event.event_id == id);
        let tried = attempts.iter().find(|of| of.activity == id);
        let (Some(scheduled), Some([attempt])) = (scheduled, tried.map(|of| of.ended.as_slice())) else {
            return;
        };
        let (began, ended) = (ms_of(&attempt.began_at), ms_of(&attempt.ended_at));
        self.to_activity.push(began.saturating_sub(scheduled.timestamp_ms));
        self.to_turn.push(completed.timestamp_ms.saturating_sub(ended));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use duroxide_lambda_api::types::EndedAttempt;
    use duroxide_lambda_api::types::time::rfc3339;

    fn event(id: u64, at_ms: u64, source: Option<u64>, kind: EventKind) -> Event {
        let mut event = Event::with_event_id(id, "i", 1, source, kind);
        event.timestamp_ms = at_ms;
        event
    }

    #[test]
    fn waits_lateness_and_reports_are_read_from_the_history() {
        let scheduled = EventKind::ActivityScheduled {
            name: "a".to_owned(),
            input: String::new(),
            session_id: None,
            tag: None,
        };
        let report = StepReport {
            environment: "e".to_owned(),
            invocation: 1,
            ..StepReport::default()
        };
        let result = serde_json::to_string(&report).unwrap();
        let events = [
            event(2, 1_000, None, scheduled),
            event(3, 1_500, Some(2), EventKind::ActivityCompleted { result }),
            event(5, 2_007, Some(4), EventKind::TimerFired { fire_at_ms: 2_000 }),
        ];
        let attempt = EndedAttempt {
            number: 1,
            began_at: rfc3339(1_040),
            ended_at: rfc3339(1_470),
            end: "completed".to_owned(),
        };
        let attempts = |ended: Vec<EndedAttempt>| {
            [ActivityAttempts {
                activity: 2,
                open: false,
                name: None,
                attempts: 1,
                running_since: None,
                ended,
                blocked: None,
            }]
        };
        let run = Run::of(Usage::default(), &events, &attempts(vec![attempt.clone()]));
        assert_eq!((run.to_activity, run.to_turn, run.late), (vec![40], vec![30], vec![7]));
        assert_eq!(run.reports, [report]);
        let twice = Run::of(Usage::default(), &events, &attempts(vec![attempt.clone(), attempt]));
        assert_eq!(
            twice.to_activity,
            Vec::<u64>::new(),
            "a repeated activity measures its retry"
        );
    }
}
