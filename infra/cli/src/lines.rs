//! The functions' JSON logs as lines for people.

use local_cloud::lambda::LogLine;
use local_cloud::term::text::{cut, escape};
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

/// Whether a line says only that maintenance had nothing to do: with every tick of the schedule there is one.
pub(crate) fn is_idle(line: &LogLine) -> bool {
    // Looked for first: few lines need to be parsed here.
    if line.function != "maintenance" || !line.text.contains("\"maintained\"") {
        return false;
    }
    let Ok(record) = serde_json::from_str::<Value>(&line.text) else {
        return false;
    };
    let report: Value = serde_json::from_str(record["report"].as_str().unwrap_or_default()).unwrap_or_default();
    let idle = |pass: &Value| pass["found"] == 0 && pass["error"].is_null();
    let passes = report["passes"].as_object();
    record["message"] == "maintained" && passes.is_some_and(|passes| passes.values().all(idle))
}

/// One line, without anything that a terminal would obey.
pub(crate) fn readable(line: &LogLine) -> String {
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
    use serde_json::json;

    fn line(text: &str) -> LogLine {
        LogLine {
            function: "worker".to_owned(),
            environment: 3,
            text: text.to_owned(),
            report: false,
        }
    }

    #[test]
    fn a_run_of_maintenance_is_told_only_when_it_found_something() {
        let run = |found: u64, error: Value| {
            let passes = json!({ "outbox": { "found": 0 }, "sweep": { "found": found, "error": error } });
            let report = json!({ "passes": passes, "leftOver": false }).to_string();
            let mut line = line(&json!({ "level": "INFO", "message": "maintained", "report": report }).to_string());
            line.function = "maintenance".to_owned();
            line
        };
        assert!(is_idle(&run(0, Value::Null)));
        assert!(!is_idle(&run(1, Value::Null)));
        assert!(!is_idle(&run(0, json!("no"))));
        assert!(!is_idle(&line(r#"{"message":"a step ended"}"#)));
    }

    #[test]
    fn a_record_is_told_in_one_line_and_nothing_reaches_the_terminal_unescaped() {
        let record =
            r#"{"timestamp":"t","level":"INFO","message":"a step ended","instance":"a\u001b[2J","turn":2,"x":null}"#;
        let told = readable(&line(record));
        assert!(told.starts_with("worker#3         INFO  a step ended "), "{told}");
        assert!(
            told.contains(" turn=2") && !told.contains('\u{1b}') && !told.contains("x="),
            "{told}"
        );
        assert!(!readable(&line("panicked \u{7}")).contains('\u{7}'));
    }
}
