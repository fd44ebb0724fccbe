//! The attempts of activities, for `history` and `status`.

use super::instance::BlockedView;
use crate::terminal::text::{escape, span};
use duroxide::{Event, EventKind};
use duroxide_cosmos::{ActivityAttempts, Attempt};
use duroxide_lambda::log::rfc3339;
use serde::Serialize;

/// The attempts of an activity. Its JSON is an interface: fields may be added, not renamed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AttemptsView {
    /// The id of the event that scheduled it.
    pub activity: u64,
    /// The name of an activity that has not completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How often it was begun.
    pub attempts: u32,
    /// When the attempt began that runs now: RFC 3339, as all times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_since: Option<String>,
    /// The newest attempts that have ended.
    pub ended: Vec<EndedAttempt>,
    /// Why no worker runs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked: Option<BlockedView>,
    #[serde(skip)]
    blocked_since_ms: Option<u64>,
    #[serde(skip)]
    running_since_ms: Option<u64>,
}

/// One attempt that has ended.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EndedAttempt {
    pub number: u32,
    pub began_at: String,
    pub ended_at: String,
    /// `completed`, `failed`, `timed-out`, `released` or `lost`.
    pub end: &'static str,
}

impl From<&ActivityAttempts> for AttemptsView {
    fn from(of: &ActivityAttempts) -> AttemptsView {
        let ended = of.ended.iter().map(|attempt| EndedAttempt {
            number: attempt.number,
            began_at: rfc3339(attempt.began),
            ended_at: rfc3339(attempt.ended),
            end: attempt.end.name(),
        });
        let last = of.ended.last().map_or(0, |attempt| attempt.number);
        let running_since_ms = of.open.as_ref().and_then(|open| open.began);
        let blocked = of.open.as_ref().and_then(|open| open.blocked.as_ref());
        AttemptsView {
            activity: of.activity,
            name: of.open.as_ref().map(|open| open.name.clone()),
            attempts: of.open.as_ref().map_or(last, |open| open.attempts),
            running_since: running_since_ms.map(rfc3339),
            ended: ended.collect(),
            blocked: blocked.map(BlockedView::from),
            blocked_since_ms: blocked.map(|blocked| blocked.since),
            running_since_ms,
        }
    }
}

impl AttemptsView {
    /// The activities that have not completed.
    pub(super) fn open(all: &[ActivityAttempts]) -> Vec<AttemptsView> {
        let open = all.iter().filter(|of| of.open.is_some());
        open.map(AttemptsView::from).collect()
    }

    /// One line of `status`.
    pub(super) fn line(&self, now_ms: u64) -> String {
        let name = escape(self.name.as_deref().unwrap_or_default());
        if let (Some(blocked), Some(since)) = (&self.blocked, self.blocked_since_ms) {
            let (since, cause) = (span(now_ms.saturating_sub(since)), blocked.cause);
            let (build, reason) = (&blocked.build, &blocked.reason);
            return format!(
                "{name} ({}): blocked for {since} ({cause}, build {build}): {reason}",
                self.activity
            );
        }
        let now = match (self.running_since_ms, self.attempts) {
            (Some(since), number) => format!("attempt {number} runs for {}", span(now_ms.saturating_sub(since))),
            (None, 0) => "waits for its first attempt".to_owned(),
            (None, number) => format!("waits after attempt {number}"),
        };
        let ends: Vec<String> = self
            .ended
            .iter()
            .map(|attempt| format!("{} {}", attempt.number, attempt.end))
            .collect();
        match ends.is_empty() {
            true => format!("{name} ({}): {now}", self.activity),
            false => format!("{name} ({}): {now}; earlier: {}", self.activity, ends.join(", ")),
        }
    }
}

/// What `history` adds to an event: which attempt of the activity ended with it, when that began, and how earlier ones ended.
pub(super) fn note(event: &Event, begin_ms: u64, all: &[ActivityAttempts]) -> Option<String> {
    if !matches!(
        event.kind,
        EventKind::ActivityCompleted { .. } | EventKind::ActivityFailed { .. }
    ) {
        return None;
    }
    let of = all.iter().find(|of| Some(of.activity) == event.source_event_id)?;
    let (last, earlier) = of.ended.split_last()?;
    let began = span(last.began.saturating_sub(begin_ms));
    let took = span(last.ended.saturating_sub(last.began));
    let ends: Vec<String> = earlier.iter().map(end_of).collect();
    let last = format!("attempt {} began at +{began}, took {took}", last.number);
    Some(match ends.is_empty() {
        true => format!("[{last}]"),
        false => format!("[{last}; earlier: {}]", ends.join(", ")),
    })
}

fn end_of(attempt: &Attempt) -> String {
    let took = span(attempt.ended.saturating_sub(attempt.began));
    format!("{} {} after {took}", attempt.number, attempt.end.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use duroxide_cosmos::{AttemptEnd, BlockCause, Blocked, OpenActivity};

    fn attempt(number: u32, end: AttemptEnd) -> Attempt {
        let began = 10_000 * u64::from(number);
        Attempt {
            number,
            began,
            ended: began + 2_000,
            end,
        }
    }

    #[test]
    fn a_completion_has_its_attempt_and_how_earlier_ones_ended() {
        let all = [ActivityAttempts {
            activity: 2,
            ended: vec![attempt(1, AttemptEnd::Lost), attempt(2, AttemptEnd::Completed)],
            open: None,
        }];
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
        let open = |attempts, began| ActivityAttempts {
            activity: 2,
            ended: vec![attempt(1, AttemptEnd::TimedOut)],
            open: Some(OpenActivity {
                name: "Charge".to_owned(),
                attempts,
                began,
                due_at: 0,
                blocked: None,
            }),
        };
        let line = |of: &ActivityAttempts| AttemptsView::from(of).line(23_000);
        let runs = span(3_000);
        assert_eq!(
            line(&open(2, Some(20_000))),
            format!("Charge (2): attempt 2 runs for {runs}; earlier: 1 timed-out")
        );
        assert_eq!(
            line(&open(1, None)),
            "Charge (2): waits after attempt 1; earlier: 1 timed-out"
        );
        let mut blocked = open(1, None);
        if let Some(open) = &mut blocked.open {
            open.blocked = Some(Blocked {
                cause: BlockCause::UnknownName,
                reason: "nobody registers it".to_owned(),
                build: "v7".to_owned(),
                since: 20_000,
                tries: 2,
                until: 25_000,
            });
        }
        assert_eq!(
            line(&blocked),
            format!("Charge (2): blocked for {runs} (unknown-name, build v7): nobody registers it")
        );
    }
}
