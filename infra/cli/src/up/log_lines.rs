//! The functions' JSON log records as lines for people.

use crate::terminal::text::{cut, escape};
use local_cloud::LogLine;
use serde_json::{Map, Value};

/// Fields that are shown otherwise or not at all.
const HIDDEN: [&str; 7] = [
    "timestamp",
    "level",
    "message",
    "requestId",
    "target",
    "function",
    "xrayTraceId",
];
/// Fields that say nothing more to a reader who follows instances.
const HIDDEN_OF_INSTANCE: [&str; 4] = ["activity_id", "orchestration_version", "records", "worker_id"];
/// The most columns of a value; the report of maintenance is longer.
const LONGEST: usize = 200;

/// Whether a line only says that maintenance had nothing to do. There is one in each period of the schedule.
pub(crate) fn is_idle(line: &LogLine) -> bool {
    // Most lines need not be parsed.
    if line.function != "maintenance" || !line.text.contains("\"maintenance ended\"") {
        return false;
    }
    let Ok(record) = serde_json::from_str::<Value>(&line.text) else {
        return false;
    };
    let report: Value = serde_json::from_str(record["report"].as_str().unwrap_or_default()).unwrap_or_default();
    let idle = |pass: &Value| pass["found"] == 0 && pass["error"].is_null();
    let passes = report["passes"].as_object();
    record["message"] == "maintenance ended" && passes.is_some_and(|passes| passes.values().all(idle))
}

/// The line as it is shown, escaped.
pub(crate) fn readable(line: &LogLine) -> String {
    let who = format!("{}#{}", line.function, line.environment);
    match serde_json::from_str(&line.text) {
        Ok(Value::Object(record)) => format!("{who:<16} {}", fields(&record)),
        _ => format!("{who:<16} {}", escape(&line.text)),
    }
}

/// A line with the instance that it is about, if it names one.
pub(crate) struct OfInstance {
    pub(crate) instance: Option<String>,
    /// The function, level, message and fields, escaped.
    pub(crate) text: String,
    /// It only says that a process of ours has started, or the like.
    pub(crate) is_routine: bool,
}

/// The line for a reader who follows instances: without the number of the environment and the id of the instance.
pub(crate) fn of_instance(line: &LogLine) -> OfInstance {
    let who = &line.function;
    match serde_json::from_str(&line.text) {
        Ok(Value::Object(mut record)) => {
            let instance = match record.remove("instance") {
                Some(Value::String(instance)) => Some(instance),
                _ => None,
            };
            record.retain(|name, value| {
                let is_the_only = name == "execution" && *value == 1;
                !is_the_only && !HIDDEN_OF_INSTANCE.contains(&name.as_str())
            });
            let begins = |name: &str, with: &str| {
                record
                    .get(name)
                    .is_some_and(|it| it.as_str().is_some_and(|it| it.starts_with(with)))
            };
            OfInstance {
                text: format!("{who:<12} {}", fields(&record)),
                is_routine: instance.is_none() && begins("level", "INFO") && begins("target", "duroxide"),
                instance,
            }
        }
        _ => OfInstance {
            instance: None,
            text: format!("{who:<12} {}", escape(&line.text)),
            is_routine: false,
        },
    }
}

fn fields(record: &Map<String, Value>) -> String {
    let text = |name: &str| record.get(name).and_then(Value::as_str).unwrap_or_default();
    let mut shown = format!("{:<5} {}", text("level"), escape(text("message")));
    for (name, value) in record.iter().filter(|(name, _)| !HIDDEN.contains(&name.as_str())) {
        let value = match value {
            Value::Null => continue,
            Value::String(text) => escape(text),
            other => escape(&other.to_string()),
        };
        shown += &format!(" {}={}", escape(name), cut(&value, LONGEST));
    }
    shown
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
    fn only_maintenance_runs_that_found_nothing_are_idle() {
        let run = |found: u64, error: Value| {
            let passes = json!({ "outbox": { "found": 0 }, "sweep": { "found": found, "error": error } });
            let report = json!({ "passes": passes, "leftOver": false }).to_string();
            let mut line =
                line(&json!({ "level": "INFO", "message": "maintenance ended", "report": report }).to_string());
            line.function = "maintenance".to_owned();
            line
        };
        assert!(is_idle(&run(0, Value::Null)));
        assert!(!is_idle(&run(1, Value::Null)));
        assert!(!is_idle(&run(0, json!("no"))));
        assert!(!is_idle(&line(r#"{"message":"a step ended"}"#)));
    }

    #[test]
    fn a_record_names_its_instance_apart() {
        let shown = of_instance(&line(
            r#"{"level":"INFO","message":"a step ended","instance":"order-7","turn":2}"#,
        ));
        assert_eq!(shown.instance.as_deref(), Some("order-7"));
        assert_eq!(shown.text, "worker       INFO  a step ended turn=2");
        let ready = |level: &str, target: &str| {
            let record = json!({ "level": level, "message": "ready", "target": target });
            of_instance(&line(&record.to_string())).is_routine
        };
        assert!(ready("INFO", "duroxide_lambda::environment") && ready("INFO", "duroxide::runtime"));
        assert!(!ready("WARN", "duroxide::runtime") && !ready("INFO", "workflows"));
        let plain = of_instance(&line("printed\u{7}"));
        assert_eq!((plain.instance, plain.is_routine), (None, false));
        assert_eq!(plain.text, "worker       printed\\u{7}");
    }

    #[test]
    fn a_record_becomes_one_escaped_line() {
        let record =
            r#"{"timestamp":"t","level":"INFO","message":"a step ended","instance":"a\u001b[2J","turn":2,"x":null}"#;
        let shown = readable(&line(record));
        assert!(shown.starts_with("worker#3         INFO  a step ended "), "{shown}");
        assert!(
            shown.contains(" turn=2") && !shown.contains('\u{1b}') && !shown.contains("x="),
            "{shown}"
        );
        assert!(!readable(&line("panicked \u{7}")).contains('\u{7}'));
    }
}
