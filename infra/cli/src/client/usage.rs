//! What an instance has used, for people.

use crate::terminal::text::span;
use duroxide_lambda_api::types::{Decimal, Usage};

/// Three lines: what happened, what it took of the store, and the time.
pub(super) fn usage_lines(usage: &Usage) -> String {
    let time = |seconds: Decimal| span(seconds.thousandths);
    let attempts = match usage.attempts == usage.activities {
        true => String::new(),
        false => format!(" ({})", many(usage.attempts, "attempt")),
    };
    let activities = match usage.activities {
        1 => "1 activity".to_owned(),
        count => format!("{count} activities"),
    };
    let steps = format!(
        "{}, {activities}{attempts}, {}",
        many(usage.turns, "turn"),
        many(usage.wakeups, "wakeup")
    );
    let store = format!(
        "{}, {} request units, {} read, {} written",
        many(usage.requests, "request"),
        usage.request_units,
        bytes(usage.bytes_read),
        bytes(usage.bytes_written)
    );
    let times = format!(
        "{} in turns, {} in activities, {} waiting",
        time(usage.turn_seconds),
        time(usage.activity_seconds),
        time(usage.waiting_seconds)
    );
    [steps, store, times].join("\n")
}

fn many(count: u64, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

fn bytes(count: u64) -> String {
    match count {
        0..10_000 => format!("{count} bytes"),
        10_000..10_000_000 => format!("{} kB", count / 1_000),
        _ => format!("{} MB", count / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_lines_say_what_an_instance_has_used() {
        let mut usage = Usage {
            turns: 6,
            activities: 5,
            attempts: 7,
            wakeups: 11,
            requests: 23,
            request_units: Decimal::of_thousandths(151_230),
            bytes_read: 9_999,
            bytes_written: 21_400,
            turn_seconds: Decimal::of_thousandths(2_000),
            ..Usage::default()
        };
        let shown = usage_lines(&usage);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], "6 turns, 5 activities (7 attempts), 11 wakeups");
        assert_eq!(
            lines[1],
            "23 requests, 151.23 request units, 9999 bytes read, 21 kB written"
        );
        assert!(
            lines[2].contains("in turns") && lines[2].ends_with("waiting"),
            "{shown}"
        );
        (usage.turns, usage.activities, usage.attempts) = (1, 1, 1);
        assert!(usage_lines(&usage).starts_with("1 turn, 1 activity, 11 wakeups"));
    }
}
