//! Instances as documents of the store, as turns would have left them: for volumes that would take too long to run, and for the past.

use duroxide::{Event, EventKind};
use serde_json::{Value, json};
use tests::World;

/// An activity begins so many milliseconds after the one before it.
const PACE_MS: u64 = 40;
/// So many events are in one document of a long history.
const PER_DOCUMENT: usize = 100;
/// The names of the activities of a long history.
const NAMES: [&str; 8] = [
    "fetch-page",
    "parse-page",
    "resize-image",
    "index-text",
    "store-page",
    "notify",
    "audit",
    "archive",
];

/// Writes documents without requests.
pub async fn load(world: &World, documents: impl IntoIterator<Item = Value>) {
    let (db, container) = world.names();
    let loaded = world.server().load(db, container, documents).await;
    loaded.expect("the documents are written");
}

/// One instance that has ended.
pub struct Past<'a> {
    pub id: &'a str,
    pub name: &'a str,
    pub created_at: u64,
    pub took_ms: u64,
    /// Why it has failed, if it has.
    pub error: Option<&'a str>,
}

impl Past<'_> {
    /// Its documents: the instance, and a history of two events.
    pub fn documents(&self) -> [Value; 2] {
        let ended = self.created_at + self.took_ms;
        let end = match self.error {
            Some(_) => json!({ "type": "OrchestrationFailed", "details": self.details() }),
            None => json!({ "type": "OrchestrationCompleted", "output": "done" }),
        };
        let started = json!({
            "type": "OrchestrationStarted", "name": self.name, "version": "1.0.0", "input": "{}", "parent_instance": null, "parent_id": null,
        });
        let events = vec![
            event(self.id, 1, None, self.created_at, started),
            event(self.id, 2, None, ended, end),
        ];
        let mut instance = instance(self.id, self.name, self.created_at, 2);
        instance["status"] = json!(if self.error.is_some() { "Failed" } else { "Completed" });
        instance["completedAt"] = json!(ended);
        instance["updatedAt"] = json!(ended);
        instance["output"] = json!(self.error.unwrap_or("done"));
        [instance, history(self.id, 0, "c0", "", events)]
    }

    fn details(&self) -> Value {
        let message = self.error.unwrap_or_default();
        json!({ "Application": { "kind": "OrchestrationFailed", "message": message, "retryable": false } })
    }
}

/// An instance that has completed, with so many events: activities of eight names that overlap, of which each 50th has failed.
pub fn long(id: &str, count: u64, began: u64) -> Vec<Value> {
    let mut events = vec![event(
        id,
        1,
        None,
        began,
        json!({ "type": "OrchestrationStarted", "name": "crawl", "version": "1.0.0", "input": "{}", "parent_instance": null, "parent_id": null }),
    )];
    let (mut at, mut next) = (began, 2);
    // Batches of eight that overlap: all are scheduled, then all end.
    while next + 15 < count {
        for (index, name) in (0..).zip(NAMES) {
            let scheduled =
                json!({ "type": "ActivityScheduled", "name": name, "input": format!("{{\"page\":{next}}}") });
            events.push(event(id, next + index, None, at, scheduled));
        }
        for index in 0..8 {
            at += PACE_MS;
            let source = next + index;
            let end = match source % 50 {
                0 => json!({ "type": "ActivityFailed", "details": { "Application": {
                    "kind": "ActivityFailed", "message": "the page is gone", "retryable": true } } }),
                _ => json!({ "type": "ActivityCompleted", "result": "\"done\"" }),
            };
            events.push(event(id, source + 8, Some(source), at, end));
        }
        next += 16;
    }
    while next < count {
        let updated = json!({ "type": "CustomStatusUpdated", "status": "crawling" });
        events.push(event(id, next, None, at, updated));
        next += 1;
    }
    let end = json!({ "type": "OrchestrationCompleted", "output": "\"done\"" });
    events.push(event(id, count, None, at, end));
    let mut chunks = Vec::new();
    for (index, part) in events.chunks(PER_DOCUMENT).enumerate() {
        let before = index
            .checked_sub(1)
            .map_or_else(String::new, |before| format!("c{before}"));
        chunks.push(history(
            id,
            index * PER_DOCUMENT,
            &format!("c{index}"),
            &before,
            part.to_vec(),
        ));
    }
    let mut instance = instance(id, "crawl", began, count);
    instance["head"] = json!(format!("c{}", chunks.len() - 1));
    instance["updatedAt"] = json!(at);
    instance["completedAt"] = json!(at);
    instance["status"] = json!("Completed");
    instance["output"] = json!("\"done\"");
    chunks.push(instance);
    chunks
}

fn instance(id: &str, name: &str, created_at: u64, events: u64) -> Value {
    json!({
        "id": "instance", "pk": id, "type": "instance", "sortKey": "2", "name": name, "version": "1.0.0", "createdAt": created_at,
        "updatedAt": created_at, "execution": 1, "status": "Running", "startedAt": created_at, "events": events, "eventBytes": 100 * events,
        "lastEventId": events, "head": "c0", "carried": 0, "executions": 1, "earlierEvents": 0, "customStatusVersion": 0, "kvRev": 0,
        "commits": ["c0"], "v": 1,
    })
}

fn history(id: &str, offset: usize, commit: &str, before: &str, events: Vec<Value>) -> Value {
    json!({
        "id": format!("h:1:{offset}:{commit}"), "pk": id, "type": "history", "sortKey": format!("1:{:020}:{offset:012}", 1), "execution": 1,
        "offset": offset, "commit": commit, "prev": before, "events": events, "v": 1,
    })
}

fn event(instance: &str, id: u64, source: Option<u64>, at: u64, kind: Value) -> Value {
    // duroxide reads it back: what it would not understand fails here.
    let kind: EventKind = serde_json::from_value(kind).expect("an event of duroxide");
    let mut event = Event::with_event_id(id, instance, 1, source, kind);
    event.timestamp_ms = at;
    serde_json::to_value(event).expect("JSON")
}
