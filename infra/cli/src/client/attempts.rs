//! The attempts of activities, for `history`, `status` and `watch`.

use super::instance::ms_of;
use crate::terminal::text::{escape, span};
use duroxide::{Event, EventKind};
use duroxide_lambda_api::types::{ActivityAttempts, EndedAttempt};

/// An activity that has not completed, as one line of `status`.
pub(super) fn open_line(of: &ActivityAttempts, now_ms: u64) -> String {
    let name = escape(of.name.as_deref().unwrap_or_default());
    if let Some(blocked) = &of.blocked {
        let since = span(now_ms.saturating_sub(ms_of(&blocked.since)));
        let (cause, build, reason) = (&blocked.cause, escape(&blocked.build), escape(&blocked.reason));
        return format!(
            "{name} ({}): blocked for {since} ({cause}, build {build}): {reason}",
            of.activity
        );
    }
    let now = match (&of.running_since, of.attempts) {
        (Some(since), number) => {
            let runs = span(now_ms.saturating_sub(ms_of(since)));
            format!("attempt {number} has been running for {runs}")
        }
        (None, 0) => "waits for its first attempt".to_owned(),
        (None, number) => format!("waits after attempt {number}"),
    };
    let ends: Vec<String> = of
        .ended
        .iter()
        .map(|attempt| format!("{} {}", attempt.number, attempt.end))
        .collect();
    match ends.is_empty() {
        true => format!("{name} ({}): {now}", of.activity),
        false => format!("{name} ({}): {now}; earlier: {}", of.activity, ends.join(", ")),
    }
}

/// What is added to an event: which attempt of the activity ended with it, when that began, and how earlier ones ended.
pub(super) fn note(event: &Event, begin_ms: u64, all: &[ActivityAttempts]) -> Option<String> {
    if !matches!(
        event.kind,
        EventKind::ActivityCompleted { .. } | EventKind::ActivityFailed { .. }
    ) {
        return None;
    }
    let of = all.iter().find(|of| Some(of.activity) == event.source_event_id)?;
    let (last, earlier) = of.ended.split_last()?;
    let began = span(ms_of(&last.began_at).saturating_sub(begin_ms));
    let ends: Vec<String> = earlier.iter().map(end_of).collect();
    let last = format!("attempt {} began at +{began}, took {}", last.number, took(last));
    Some(match ends.is_empty() {
        true => format!("[{last}]"),
        false => format!("[{last}; earlier: {}]", ends.join(", ")),
    })
}

fn took(attempt: &EndedAttempt) -> String {
    span(ms_of(&attempt.ended_at).saturating_sub(ms_of(&attempt.began_at)))
}

fn end_of(attempt: &EndedAttempt) -> String {
    format!("{} {} after {}", attempt.number, attempt.end, took(attempt))
}

#[cfg(test)]
mod tests {
    use super::*;
    use duroxide_lambda_api::types::Blocked;
    use duroxide_lambda_api::types::time::rfc3339;

    fn attempt(number: u32, end: &str) -> EndedAttempt {
        let began = 10_000 * u64::from(number);
        EndedAttempt {
            number,
            began_at: rfc3339(began),
            ended_at: rfc3339(began + 2_000),
            end: end.to_owned(),
        }
    }

    fn activity(attempts: u32, running_since: Option<u64>, ended: Vec<EndedAttempt>) -> ActivityAttempts {
        ActivityAttempts {
            activity: 2,
            open: true,
            name: Some("Charge".to_owned()),
            attempts,
            running_since: running_since.map(rfc3339),
            ended,
            blocked: None,
        }
    }

    #[test]
    fn a_completion_has_its_attempt_and_how_earlier_ones_ended() {
        let all = [activity(2, None, vec![attempt(1, "lost"), attempt(2, "completed")])];
        let completed = |source| {
            let kind = EventKind::ActivityCompleted { result: String::new() };
            Event::with_event_id(3, "i", 1, Some(source), kind)
        };
        let noted = note(&completed(2), 5_000, &all).unwrap();
        let (began, took) = (span(15_000), span(2_000));
        assert_eq!(
            noted,
            format!("[attempt 2 began at +{began}, took {took}; earlier: 1 lost after {took}]")
        );
        assert_eq!(note(&completed(4), 5_000, &all), None, "an older release completed it");
    }

    #[test]
    fn an_open_activity_has_a_line_with_its_attempts() {
        let ended = || vec![attempt(1, "timed-out")];
        let runs = span(3_000);
        assert_eq!(
            open_line(&activity(2, Some(20_000), ended()), 23_000),
            format!("Charge (2): attempt 2 has been running for {runs}; earlier: 1 timed-out")
        );
        assert_eq!(
            open_line(&activity(1, None, ended()), 23_000),
            "Charge (2): waits after attempt 1; earlier: 1 timed-out"
        );
        let mut blocked = activity(1, None, Vec::new());
        blocked.blocked = Some(Blocked {
            cause: "unknown-name".to_owned(),
            reason: "nobody registers it".to_owned(),
            build: "v7".to_owned(),
            since: rfc3339(20_000),
            tries: 2,
            next_try: rfc3339(25_000),
        });
        assert_eq!(
            open_line(&blocked, 23_000),
            format!("Charge (2): blocked for {runs} (unknown-name, build v7): nobody registers it")
        );
    }
}
