//! What the status of an instance means, for people.

use crate::terminal::text::{escape, moment, span};
use clap::ValueEnum;
use clap::builder::NonEmptyStringValueParser;
use comfy_table::Color;
use duroxide_lambda_api::types::time::parse_rfc3339;
use duroxide_lambda_api::types::{Blocked, Instance, Paused, Status};

/// Parses an id on the command line.
pub(super) fn id_parser() -> NonEmptyStringValueParser {
    NonEmptyStringValueParser::new()
}

/// The statuses that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Wanted {
    /// Started, and without a turn so far
    Pending,
    Running,
    /// No deployed build can go on with it
    Blocked,
    /// An operator has paused it
    Paused,
    Completed,
    Failed,
    Cancelled,
    /// Between two executions
    ContinuedAsNew,
}

impl From<Wanted> for Status {
    fn from(status: Wanted) -> Status {
        match status {
            Wanted::Pending => Status::Pending,
            Wanted::Running => Status::Running,
            Wanted::Blocked => Status::Blocked,
            Wanted::Paused => Status::Paused,
            Wanted::Completed => Status::Completed,
            Wanted::Failed => Status::Failed,
            Wanted::Cancelled => Status::Cancelled,
            Wanted::ContinuedAsNew => Status::ContinuedAsNew,
        }
    }
}

/// The colour of a status.
pub(super) fn status_colour(status: Status) -> Color {
    match status {
        Status::Completed => Color::Green,
        Status::Failed | Status::Blocked => Color::Red,
        _ => Color::Yellow,
    }
}

/// The version for people: a pending instance has none.
pub(super) fn version_of(instance: &Instance) -> &str {
    instance.version.as_deref().unwrap_or_default()
}

/// A time of the API as Unix ms.
pub(super) fn ms_of(time: &str) -> u64 {
    parse_rfc3339(time).unwrap_or_default()
}

/// Why an instance is blocked, in lines for people.
pub(super) fn blocked_lines(blocked: &Blocked, now_ms: u64) -> String {
    let next = match ms_of(&blocked.next_try).checked_sub(now_ms) {
        Some(wait) if wait > 0 => format!("next in {}", span(wait)),
        _ => "next one is due".to_owned(),
    };
    let since = ms_of(&blocked.since);
    format!(
        "{}, since {} ({} ago)\nbuild {}; tries so far: {}, {next}\n{}",
        blocked.cause,
        moment(since),
        span(now_ms.saturating_sub(since)),
        blocked.build,
        blocked.tries,
        blocked.reason
    )
}

/// Since when an instance is paused, and why, for people.
pub(super) fn paused_line(paused: &Paused, now_ms: u64) -> String {
    let since = ms_of(&paused.since);
    let ago = span(now_ms.saturating_sub(since));
    let reason = paused.reason.as_ref().map(|reason| format!(": {}", escape(reason)));
    format!("since {} ({ago} ago){}", moment(since), reason.unwrap_or_default())
}

/// What an instance that has not finished waits for.
pub(super) fn waits_for(instance: &Instance, now_ms: u64) -> String {
    let since = |time: &str| span(now_ms.saturating_sub(ms_of(time)));
    match (instance.status, &instance.blocked) {
        (Status::Pending, _) => format!(
            "Pending: accepted {} ago, it waits for its first turn",
            since(&instance.created_at)
        ),
        (Status::Blocked, Some(blocked)) => format!(
            "Blocked for {} ({}, build {}): {}",
            since(&blocked.since),
            blocked.cause,
            blocked.build,
            blocked.reason
        ),
        (Status::Paused, _) => match &instance.paused {
            Some(paused) => format!("Paused {}; `resume` lets it go on", paused_line(paused, now_ms)),
            None => Status::Paused.to_string(),
        },
        (status, _) => status.to_string(),
    }
}
