//! The span of each operation: its fields, and its absence at the default level.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod support;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use cosmos::Retry;
use serde_json::{Value, json};
use support::{Scripted, answer, pk};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

/// The fields of the spans of this crate, in the order of their creation.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<(Id, Fields)>>>);

#[derive(Clone, Debug, Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl<S: tracing::Subscriber> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        if attributes.metadata().name() == "cosmos_request" {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            self.0.lock().unwrap().push((id.clone(), fields));
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        let mut spans = self.0.lock().unwrap();
        // Ids are used again, so the newest span with the id is meant.
        if let Some((_, fields)) = spans.iter_mut().rev().find(|(known, _)| known == id) {
            values.record(fields);
        }
    }
}

impl Spans {
    /// Collects spans of this thread, which runs the whole test.
    fn collect(level: LevelFilter) -> (Spans, DefaultGuard) {
        let spans = Spans::default();
        let subscriber = tracing_subscriber::registry().with(spans.clone().with_filter(level));
        (spans, tracing::subscriber::set_default(subscriber))
    }

    fn all(&self) -> Vec<BTreeMap<&'static str, String>> {
        let spans = self.0.lock().unwrap();
        spans.iter().map(|(_, fields)| fields.0.clone()).collect()
    }
}

#[tokio::test]
async fn each_operation_is_a_span_with_what_it_cost_and_without_its_data() {
    let (spans, _guard) = Spans::collect(LevelFilter::DEBUG);
    let busy = answer(429)
        .with("x-ms-retry-after-ms", 1)
        .with("x-ms-request-charge", 0.5);
    let refused = answer(404).with("x-ms-substatus", 1003);
    let server = Scripted::playing(vec![busy, answer(201).with("x-ms-request-charge", 6.5), refused]).await;
    let container = server.container();
    let doc = json!({"id": "secret-id", "text": "secret-text"});
    container.create(&pk("secret-key"), &doc, Retry::Once).await.unwrap();
    container
        .read::<Value>(&pk("secret-key"), "secret-id")
        .await
        .unwrap_err();

    let all = spans.all();
    let [created, read] = all.as_slice() else {
        panic!("{all:?}")
    };
    for (name, value) in [
        ("operation", "\"create\""),
        ("container", "\"things\""),
        ("status", "201"),
        ("attempts", "2"),
        ("charge", "7.0"),
    ] {
        assert_eq!(created[name], value, "{name}");
    }
    assert!(created["duration_ms"].parse::<f64>().unwrap() >= 1.0, "{created:?}");
    for (name, value) in [("operation", "\"read\""), ("status", "404"), ("substatus", "1003")] {
        assert_eq!(read[name], value, "{name}");
    }
    assert!(!format!("{all:?}").contains("secret"), "{all:?}");
}

#[tokio::test]
async fn the_default_level_creates_no_span() {
    let (spans, _guard) = Spans::collect(LevelFilter::INFO);
    let server = Scripted::playing(vec![answer(200)]).await;
    server.container().read::<Value>(&pk("p"), "a").await.unwrap();
    assert!(spans.all().is_empty());
}
