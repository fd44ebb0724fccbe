use super::layer::JsonLayer;
use super::*;
use cosmos::Clock;
use serde_json::{Value, json};
use std::fmt;
use std::io::Write;
use tracing::{debug, error, info, info_span};

#[derive(Debug)]
struct Fixed;

impl Clock for Fixed {
    fn now_ms(&self) -> u64 {
        1_760_000_000_250
    }
}

/// What was written.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The lines that `act` logs, with the invocation it may set.
fn logged_in(level: &str, act: impl FnOnce(&'static Current)) -> Vec<Value> {
    let written = Written::default();
    let current: &'static Current = Box::leak(Box::new(Current::new()));
    let layer = JsonLayer::with_current(written.clone(), Arc::new(Fixed), current);
    let subscriber = tracing_subscriber::registry().with(layer.with_filter(filter(level).unwrap()));
    tracing::subscriber::with_default(subscriber, || act(current));
    let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn logged(act: impl FnOnce()) -> Value {
    let mut lines = logged_in("info", |_| act());
    assert_eq!(lines.len(), 1, "{lines:?}");
    lines.remove(0)
}

#[test]
fn an_event_is_one_object_whose_values_keep_their_types() {
    let line = logged(|| {
        info!(
            target: "some::target",
            text = "a \"quoted\"\nline",
            yes = true,
            count = 7u64,
            less = -7i64,
            ratio = 0.5,
            none = f64::NAN,
            shown = %"display",
            debugged = ?Some(1),
            "done in {} steps",
            3
        );
    });
    assert_eq!(
        line,
        json!({
            "timestamp": "2025-10-09T08:53:20.250Z",
            "level": "INFO",
            "target": "some::target",
            "message": "done in 3 steps",
            "text": "a \"quoted\"\nline",
            "yes": true,
            "count": 7,
            "less": -7,
            "ratio": 0.5,
            "none": "NaN",
            "shown": "display",
            "debugged": "Some(1)",
        })
    );
}

#[test]
fn a_line_begins_with_time_level_target_and_message() {
    let written = Written::default();
    let layer = JsonLayer::new(written.clone(), Arc::new(Fixed));
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
        error!(target: "t", instance = "i", "broken");
    });
    let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
    let expected =
        r#"{"timestamp":"2025-10-09T08:53:20.250Z","level":"ERROR","target":"t","message":"broken","instance":"i"}"#;
    assert_eq!(text, format!("{expected}\n"));
}

#[test]
fn a_line_inside_spans_carries_their_fields_and_the_innermost_wins() {
    let line = logged(|| {
        let outer = info_span!(
            "outer",
            instance_id = "outer",
            execution_id = 1u64,
            late = tracing::field::Empty
        );
        let _outer = outer.enter();
        outer.record("late", 5);
        let _inner = info_span!("inner", instance = "inner").entered();
        info!(execution_id = 2u64, activity_name = "Charge", "hello");
    });
    assert_eq!(line["instance"], "inner");
    assert_eq!(line["execution"], 2);
    assert_eq!(line["activity_name"], "Charge");
    assert_eq!(line["late"], 5);
    assert!(
        line.get("instance_id").is_none() && line.get("execution_id").is_none(),
        "{line}"
    );
}

#[test]
fn no_name_is_twice_in_a_line() {
    let written = Written::default();
    let layer = JsonLayer::new(written.clone(), Arc::new(Fixed));
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
        let _span = info_span!("span", instance_id = "a", message = "b", requestId = "c").entered();
        info!(instance = "d", instance_id = "e", request_id = "f", "hello");
    });
    let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
    for member in [r#""instance":"e""#, r#""message":"hello""#, r#""requestId":"f""#] {
        assert!(text.contains(member), "{text}");
        let name = member.split_inclusive(':').next().unwrap();
        assert_eq!(text.matches(name).count(), 1, "{name} in {text}");
    }
}

#[test]
fn a_librarys_fields_do_not_hide_the_lines_own() {
    let line = logged(|| info!(level = "high", timestamp = 1, target = "moon", r#type = "t", "hello"));
    assert_eq!(line["level"], "INFO");
    assert_eq!(line["event.level"], "high");
    assert_eq!(line["event.timestamp"], 1);
    assert_eq!(line["event.target"], "moon");
    assert_eq!(line["type"], "t");
}

#[test]
fn an_error_is_logged_with_its_sources() {
    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] io::Error);
    let failure = Outer(io::Error::other("inner"));
    let line = logged(|| error!(error = &failure as &dyn std::error::Error, "failed"));
    assert_eq!(line["error"], "outer: inner");
}

#[test]
fn the_request_id_is_on_every_line_of_its_invocation() {
    let lines = logged_in("info", |current| {
        info!("before");
        let first = current.begin("r1");
        info!("in the first");
        let second = current.begin("r2");
        drop(first);
        info!("in the second, the first having ended late");
        drop(second);
        info!("after");
    });
    let ids: Vec<_> = lines
        .iter()
        .map(|line| line.get("requestId").and_then(Value::as_str))
        .collect();
    assert_eq!(ids, [None, Some("r1"), Some("r2"), None]);
}

#[test]
fn the_process_has_one_current_invocation() {
    let guard = invocation("r9");
    assert_eq!(CURRENT.request_id().as_deref(), Some("r9"));
    drop(guard);
    assert_eq!(CURRENT.request_id(), None);
}

#[test]
fn long_texts_are_cut_between_characters_with_a_mark() {
    let long = "é".repeat(20_000);
    struct Endless;
    impl fmt::Debug for Endless {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            (0..1_000_000).try_for_each(|_| f.write_str("0123456789"))
        }
    }
    let line = logged(|| info!(text = long, odd = format!("x{long}"), value = ?Endless, short = "fine", "hello"));
    for (name, bytes) in [("text", 40_000), ("odd", 40_001), ("value", 10_000_000)] {
        let text = line[name].as_str().unwrap();
        assert!(text.ends_with(&format!("…[cut, {bytes} bytes]")), "{name}");
        assert!((32_700..33_000).contains(&text.len()), "{name}: {}", text.len());
    }
    assert_eq!(line["short"], "fine");
    let exact = "x".repeat(32 * 1024);
    assert_eq!(logged(|| info!(exact, "hello"))["exact"], exact);
}

#[test]
fn a_line_fits_into_one_event_of_cloudwatch() {
    let noise = "\u{1}".repeat(32 * 1024);
    let line = logged(|| info!(a = noise, b = noise, c = noise, d = noise, n = 1, "hello"));
    assert!(line.to_string().len() < 256 * 1024);
    assert!(line["d"].as_str().unwrap().contains("[cut, 32768 bytes]"));
    assert_eq!((&line["message"], &line["n"]), (&json!("hello"), &json!(1)));
}

#[test]
fn a_level_or_a_list_of_targets_decides_what_is_written() {
    let count = |level: &str| {
        logged_in(level, |_| {
            debug!(target: "duroxide::runtime", "a");
            info!(target: "duroxide::runtime", "b");
            debug!(target: "ours", "c");
            info!(target: "ours", "d");
            error!(target: "ours", "e");
        })
        .len()
    };
    for (level, lines) in [
        ("info", 3),
        ("INFO", 3),
        ("debug", 5),
        ("error", 1),
        ("off", 0),
        ("error,duroxide=debug", 3),
        ("info, duroxide=off", 2),
    ] {
        assert_eq!(count(level), lines, "{level}");
    }
}

#[test]
fn a_closed_stdout_and_a_failing_debug_are_harmless() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }
    struct Failing;
    impl fmt::Debug for Failing {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("so far")?;
            Err(fmt::Error)
        }
    }
    let layer = JsonLayer::new(Closed, Arc::new(Fixed));
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || info!("hello"));
    let line = logged(|| info!(value = ?Failing, "hello"));
    assert_eq!(line["value"], "so far…[its Debug failed]");
}

#[test]
fn a_debug_that_logs_does_not_deadlock() {
    struct Logging;
    impl fmt::Debug for Logging {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            info!("from within");
            f.write_str("value")
        }
    }
    let lines = logged_in("info", |_| info!(value = ?Logging, "outer"));
    assert_eq!(lines.last().unwrap()["value"], "value");
}

#[test]
fn installing_twice_is_no_error() {
    init("info");
    init("debug");
    init("no level at all");
    info!("hello");
}
