//! `duroxide-lambda watch`: follows an instance live.
//!
//! ```text
//!   long poll for a change ──> events since the last one ──> a line each ──> until the instance has finished
//! ```

use super::answer::{Answer, Failure, line, warn};
use super::attempts::note;
use super::connection::Connection;
use super::event::{described, is_failure, parsed};
use super::instance::id_parser;
use super::wait::{Changes, Held, Timeout, code_of};
use super::{Common, examples};
use crate::terminal::text::{escape, moment, short, span};
use clap::Args;
use duroxide::Event;
use duroxide_lambda_api::types::{ActivityAttempts, Instance};
use serde_json::json;
use std::collections::BTreeMap;

/// Follow an instance live: its events as they happen, with durations.
///
/// It begins with the events of the current execution so far, and ends when the instance has finished. With --json it prints one
/// JSON value per line: each event, and the instance at its end.
#[derive(Debug, Args)]
#[command(after_help = examples(&["watch order-7", "watch order-7 --timeout 60", "watch order-7 --json | jq -c .event.type"]))]
pub struct Watch {
    /// The instance's id
    #[arg(value_parser = id_parser())]
    instance: String,
    /// How long to watch at most [default: until it has finished]
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<Timeout>,
    #[command(flatten)]
    pub(super) common: Common,
}

/// What was shown so far.
#[derive(Default)]
struct Shown {
    execution: u64,
    /// The last event.
    after: u64,
    /// When each event of this execution happened, by its id.
    times: BTreeMap<u64, u64>,
}

impl Watch {
    pub(super) async fn act(self, connection: &Connection) -> Result<Answer, Failure> {
        let timeout = self.timeout;
        let mut changes = Changes::of(connection, &self.instance, timeout.map(|timeout| timeout.0));
        let (mut shown, mut held) = (Shown::default(), Held::default());
        while let Some(now) = changes.next().await? {
            let goes_on = now.started_at.is_none() || self.show_new(connection, &now, &mut shown).await?;
            // The lines of the answer are events.
            if let Some(line) = held.changed(&now, connection.now_ms()) {
                warn(&format!("{}: {line}", escape(&self.instance)));
            }
            if now.status.is_finished() || !goes_on {
                return Ok(self.ended(&now));
            }
        }
        Err(changes.timed_out(timeout.unwrap_or_default()))
    }

    /// Prints the events since the last look, and returns whether somebody reads on.
    async fn show_new(&self, connection: &Connection, now: &Instance, shown: &mut Shown) -> Result<bool, Failure> {
        if shown.execution != now.execution {
            let first = shown.execution == 0;
            *shown = Shown {
                execution: now.execution,
                ..Shown::default()
            };
            if !self.common.json && !self.heading(now, first)? {
                return Ok(false);
            }
        }
        loop {
            let page = connection
                .events(&self.instance, Some(now.execution), Some(shown.after))
                .await?;
            for (event, json) in parsed(&page.events)?.iter().zip(&page.events) {
                let took = shown.take(event);
                let text = match self.common.json {
                    true => {
                        let event: serde_json::Value = serde_json::from_str(json.json())
                            .map_err(|error| Failure::error(format!("an event is not JSON: {error}")))?;
                        json!({ "execution": now.execution, "event": event, "tookMs": took }).to_string()
                    }
                    false => described_line(event, shown.begin(), took, &page.attempts),
                };
                if !line(&text)? {
                    return Ok(false);
                }
            }
            if page.next_after.is_none() {
                return Ok(true);
            }
        }
    }

    fn heading(&self, now: &Instance, is_first: bool) -> Result<bool, Failure> {
        let what = match is_first {
            true => format!("{} ({})", escape(&self.instance), escape(&now.orchestration)),
            false => "continued as new".to_owned(),
        };
        line(&format!("{what}, execution {}", now.execution))
    }

    fn ended(&self, now: &Instance) -> Answer {
        let took = now.duration_ms.map(|ms| format!(" after {}", span(ms)));
        let result = now.output.as_ref().map(|output| output.text().into_owned());
        let result = result.or_else(|| now.error.clone()).filter(|text| !text.is_empty());
        let result = result.map(|text| format!(": {}", short(&text, false)));
        Answer {
            code: code_of(now.status),
            json: json!({ "instance": now }),
            text: format!(
                "{}{}{}",
                now.status,
                took.unwrap_or_default(),
                result.unwrap_or_default()
            ),
        }
    }
}

impl Shown {
    /// Notes an event; returns how long it took since the event that it answers.
    fn take(&mut self, event: &Event) -> Option<u64> {
        self.after = event.event_id;
        self.times.insert(event.event_id, event.timestamp_ms);
        let begun = self.times.get(&event.source_event_id?)?;
        Some(event.timestamp_ms.saturating_sub(*begun))
    }

    fn begin(&self) -> u64 {
        self.times.values().next().copied().unwrap_or_default()
    }
}

fn described_line(event: &Event, begin: u64, took: Option<u64>, attempts: &[ActivityAttempts]) -> String {
    let (kind, details) = described(&event.kind);
    let at = format!("+{}", span(event.timestamp_ms.saturating_sub(begin)));
    let mark = if is_failure(&event.kind) { "!" } else { " " };
    let took = took.map(|ms| format!(" took {}", span(ms))).unwrap_or_default();
    let note = note(event, begin, attempts).map(|note| format!(" {note}"));
    format!(
        "{} {at:>9} {mark} {kind}{took}  {}{}",
        moment(event.timestamp_ms),
        short(&details, false),
        note.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use duroxide::EventKind;

    fn event(id: u64, source: Option<u64>, ms: u64, kind: EventKind) -> Event {
        let mut event = Event::with_event_id(id, "i", 1, source, kind);
        event.timestamp_ms = ms;
        event
    }

    #[test]
    fn a_completion_shows_how_long_it_took() {
        let mut shown = Shown::default();
        let scheduled = EventKind::ActivityScheduled {
            name: "Greet".to_owned(),
            input: "Kyoto\u{1b}".to_owned(),
            session_id: None,
            tag: None,
        };
        assert_eq!(shown.take(&event(1, None, 1_000, scheduled.clone())), None);
        let failed = EventKind::ActivityCompleted {
            result: "hi".to_owned(),
        };
        let completed = event(2, Some(1), 3_500, failed);
        let took = shown.take(&completed);
        assert_eq!((took, shown.after, shown.begin()), (Some(2_500), 2, 1_000));
        let text = described_line(&completed, shown.begin(), took, &[]);
        assert_eq!(
            text,
            "1970-01-01T00:00:03Z    +2.5 s   ActivityCompleted took 2.5 s  hi"
        );
        let text = described_line(&event(1, None, 1_000, scheduled), 1_000, None, &[]);
        assert!(text.ends_with("ActivityScheduled  Greet: Kyoto\\u{1b}"), "{text}");
    }
}
