use super::*;
use cosmos::{ClientConfig, CosmosClient, Key, PartitionKey, Retry, StaticKey};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;

fn metrics() -> Metrics {
    Metrics::new(Some("space".to_owned()))
}

fn flushed(metrics: &Metrics) -> Value {
    let line = metrics
        .flush("worker", Duration::from_millis(5), 1_760_000_000_123)
        .unwrap();
    assert!(!line.contains('\n'), "one line: {line}");
    serde_json::from_str(&line).unwrap()
}

/// The names that the directive declares.
fn declared(line: &Value) -> BTreeSet<String> {
    let metrics = line["_aws"]["CloudWatchMetrics"][0]["Metrics"].as_array().unwrap();
    metrics
        .iter()
        .map(|metric| metric["Name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_line_is_in_the_embedded_metric_format() {
    let metrics = metrics();
    flushed(&metrics);
    for (metric, number) in [
        (Metric::Turns, 1),
        (Metric::Committed, 1),
        (Metric::WakeupsSent, 3),
        (Metric::WakeupsFailed, 1),
    ] {
        metrics.count(metric, number);
    }
    let line = metrics
        .flush("orchestrator", Duration::from_micros(12_345), 1_760_000_000_123)
        .unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(&line).unwrap(),
        json!({
            "_aws": {
                "Timestamp": 1_760_000_000_123u64,
                "CloudWatchMetrics": [{
                    "Namespace": "space",
                    "Dimensions": [["Function"]],
                    "Metrics": [
                        {"Name": "Turns", "Unit": "Count"},
                        {"Name": "Activities", "Unit": "Count"},
                        {"Name": "Committed", "Unit": "Count"},
                        {"Name": "Failed", "Unit": "Count"},
                        {"Name": "OrchestrationsFailed", "Unit": "Count"},
                        {"Name": "Duration", "Unit": "Milliseconds"},
                        {"Name": "CosmosRequests", "Unit": "Count"},
                        {"Name": "CosmosCharge", "Unit": "None"},
                        {"Name": "WakeupsSent", "Unit": "Count"},
                        {"Name": "WakeupsFailed", "Unit": "Count"},
                    ],
                }],
            },
            "Function": "orchestrator",
            "Turns": 1, "Activities": 0, "Committed": 1, "Failed": 0, "OrchestrationsFailed": 0, "Duration": 12.345,
            "CosmosRequests": 0, "CosmosCharge": 0, "WakeupsSent": 3, "WakeupsFailed": 1,
        })
    );
}

#[test]
fn each_count_is_written_once_and_the_cold_start_with_the_first_line() {
    let metrics = metrics();
    for metric in [Metric::Activities, Metric::TimedOut, Metric::TimedOut, Metric::GivenUp] {
        metrics.count(metric, 1);
    }
    let line = flushed(&metrics);
    for (name, value) in [("Activities", 1), ("TimedOut", 2), ("GivenUp", 1), ("ColdStarts", 1)] {
        assert_eq!(line[name], json!(value), "{name}");
    }
    let again = flushed(&metrics);
    let always = Metric::ALL.iter().filter(|metric| metric.is_always_written());
    let always: BTreeSet<_> = always.map(|metric| metric.name().to_owned()).collect();
    assert_eq!(declared(&again), always);
    assert_eq!(again["Activities"], json!(0));
}

#[test]
fn a_level_is_written_while_it_is_not_zero_and_once_more_when_it_is() {
    let metrics = metrics();
    let written = |height: Option<u64>| {
        height.inspect(|height| metrics.level(Metric::DeadLetters, *height));
        flushed(&metrics).get("DeadLetters").and_then(Value::as_u64)
    };
    // A run that did not count, such as one for dead letters, says nothing about the level.
    for (height, line) in [
        (Some(0), None),
        (Some(2), Some(2)),
        (Some(2), Some(2)),
        (None, None),
        (Some(0), Some(0)),
        (Some(0), None),
        (Some(1), Some(1)),
        (Some(0), Some(0)),
    ] {
        assert_eq!(written(height), line, "{height:?}");
    }
}

#[test]
fn a_brief_line_has_only_what_happened_and_the_next_one_everything() {
    let metrics = metrics();
    flushed(&metrics);
    metrics.count(Metric::CosmosRequests, 11);
    metrics.count(Metric::OutboxFound, 0);
    metrics.brief();
    let line = flushed(&metrics);
    assert_eq!(declared(&line), BTreeSet::from(["CosmosRequests".to_owned()]));
    assert_eq!((&line["CosmosRequests"], line.get("Duration")), (&json!(11), None));
    assert!(declared(&flushed(&metrics)).contains("Duration"));
}

#[test]
fn a_line_declares_every_value_that_it_has() {
    let metrics = metrics();
    Metric::ALL.iter().for_each(|metric| metrics.count(*metric, 1));
    let line = flushed(&metrics);
    let members: BTreeSet<String> = line.as_object().unwrap().keys().cloned().collect();
    let mut expected = declared(&line);
    assert_eq!(expected.len(), Metric::ALL.len());
    assert!(expected.len() <= 100, "the limit of one directive");
    expected.extend(["_aws".to_owned(), "Function".to_owned()]);
    assert_eq!(members, expected);
}

#[test]
fn without_a_namespace_nothing_is_written() {
    let metrics = Metrics::new(None);
    metrics.count(Metric::Turns, 1);
    assert_eq!(metrics.flush("worker", Duration::from_millis(1), 0), None);
}

/// `Observed` is made by the client only, so a client reports it: two throttled attempts, then an answer.
#[tokio::test]
async fn cosmos_requests_their_charge_and_throttling_are_counted() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        for status in ["429 Too Many Requests", "429 Too Many Requests", "201 Created"] {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"{\"id\":\"a\"}") {
                let mut part = [0; 4096];
                let count = stream.read(&mut part).unwrap();
                assert!(count > 0);
                request.extend_from_slice(&part[..count]);
            }
            let head = "x-ms-request-charge: 1.1\r\nx-ms-retry-after-ms: 1\r\netag: \"1\"\r\nconnection: close";
            write!(stream, "HTTP/1.1 {status}\r\n{head}\r\ncontent-length: 2\r\n\r\n{{}}").unwrap();
        }
    });
    let metrics = Arc::new(metrics());
    let key = StaticKey::new(Key::from_base64("c2VjcmV0").unwrap());
    let config = ClientConfig::new(&endpoint, key)
        .unwrap()
        .observer(Arc::clone(&metrics) as _);
    let container = CosmosClient::new(config).container("d", "c");
    container
        .create(&PartitionKey::new("p").unwrap(), &json!({"id": "a"}), Retry::Idempotent)
        .await
        .unwrap();
    server.join().unwrap();
    let line = flushed(&metrics);
    assert_eq!(
        (&line["CosmosRequests"], &line["CosmosCharge"], &line["CosmosThrottled"]),
        (&json!(3), &json!(3.3), &json!(2))
    );
}
