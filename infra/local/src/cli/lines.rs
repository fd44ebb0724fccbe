//! The functions' JSON logs as lines for people.

use crate::client::text::{cut, escape};
use crate::lambda::LogLine;
use serde_json::{Map, Value};

/// What every line has, and nobody wants to read each time.
const SAME: [&str; 7] = [
    "timestamp",
    "level",
    "message",
    "requestId",
    "target",
    "function",
    "xrayTraceId",
];
/// Longer values are cut: a report of maintenance is one.
const LONGEST: usize = 200;

/// One line, without anything that a terminal would obey.
pub(super) fn readable(line: &LogLine) -> String {
    let who = format!("{}#{}", line.function, line.environment);
    match serde_json::from_str(&line.text) {
        Ok(Value::Object(record)) => format!("{who:<16} {}", told(&record)),
        _ => format!("{who:<16} {}", escape(&line.text)),
    }
}

fn told(record: &Map<String, Value>) -> String {
    let text = |name: &str| record.get(name).and_then(Value::as_str).unwrap_or_default();
    let mut told = format!("{:<5} {}", text("level"), escape(text("message")));
    for (name, value) in record.iter().filter(|(name, _)| !SAME.contains(&name.as_str())) {
        let value = match value {
            Value::Null => continue,
            Value::String(text) => escape(text),
            other => escape(&other.to_string()),
        };
        told += &format!(" {}={}", escape(name), cut(&value, LONGEST));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> LogLine {
        LogLine {
            function: "worker".to_owned(),
            environment: 3,
            text: text.to_owned(),
            report: false,
        }
    }

    #[test]
    fn a_record_is_told_in_one_line_and_nothing_reaches_the_terminal_unescaped() {
        let record =
            r#"{"timestamp":"t","level":"INFO","message":"a cycle ended","instance":"a\u001b[2J","turn":2,"x":null}"#;
        let told = readable(&line(record));
        assert!(told.starts_with("worker#3         INFO  a cycle ended "), "{told}");
        assert!(
            told.contains(" turn=2") && !told.contains('\u{1b}') && !told.contains("x="),
            "{told}"
        );
        assert!(!readable(&line("panicked \u{7}")).contains('\u{7}'));
    }
}
