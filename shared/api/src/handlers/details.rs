//! What is known of one instance besides its state.

use super::manage::found;
use super::{Answer, ok, page_length};
use crate::api::Api;
use crate::path::Segment;
use crate::query::Query;
use crate::refusal::Refusal;
use crate::types::time::rfc3339;
use crate::types::{ExecutionList, History, KeyValue, KeyValueList, Payload, ProblemType, Stats, Tree};
use crate::view;
use crate::wait::{self, Seen};
use axum::extract::{RawQuery, State};
use duroxide::Event;
use duroxide::providers::{KvEntry, Provider as _, ProviderAdmin as _};
use duroxide_cosmos::{HistoryAfter, Undone};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::value::to_raw_value;
use std::collections::HashSet;

/// The most items of a page, and how many without a limit.
const EVENTS: (usize, usize) = (200, 1000);
const EXECUTIONS: (usize, usize) = (20, 100);
const TREE: (usize, usize) = (50, 200);
const KEYS: (usize, usize) = (100, 1000);
/// The largest number that JSON's users agree on: the document says `int64`.
const MOST: u64 = i64::MAX as u64;
/// How many documents are read side by side.
const SIDE_BY_SIDE: usize = 8;

/// The events of an execution, in their order.
#[utoipa::path(get, path = "/v1/instances/{id}/history", tag = "instances", operation_id = "getHistory",
    params(
        ("id" = String, Path, description = "The instance"),
        ("execution" = Option<u64>, Query, description = "The execution; the current one by default", minimum = 1),
        ("after" = Option<u64>, Query, description = "`nextAfter` of the page before, or the id of the last event that is known", minimum = 0),
        ("undone" = Option<u64>, Query, description = "The number of a rewind: the events that it undid, instead", minimum = 1),
        ("limit" = Option<u64>, Query, description = "The most events; 200 by default", minimum = 1, maximum = 1000),
    ),
    responses(
        (status = 200, description = "A page; pages also end before they are too large", body = History),
        (status = 404, description = "There is no such instance or execution"),
    ))]
pub(crate) async fn history(State(api): State<Api>, Segment(id): Segment<2>, RawQuery(query): RawQuery) -> Answer {
    let query = Query::read(query.as_deref(), &["execution", "after", "undone", "limit"])?;
    if let Some(number) = query.number("undone", 1..=MOST)? {
        return undone(&api, id, number, &query).await;
    }
    let wanted = query.number("execution", 1..=MOST)?;
    let after = query.number("after", 0..=MOST)?.unwrap_or_default();
    let limit = query.limit(EVENTS.0, EVENTS.1)?;
    let summary = found(&api, &id).await?;
    let execution = wanted.unwrap_or(summary.execution);
    // A pending instance has no history, which is no mistake of the caller.
    let found = match summary.started_at {
        None if wanted.is_none() => Some(HistoryAfter::default()),
        None => None,
        Some(_) => api.store().history_after(&id, execution, after).await?,
    };
    let HistoryAfter { events, attempts } = found.ok_or_else(|| no_execution(&id, execution))?;
    let rest: Vec<Payload> = events.iter().map(event).collect::<Result<_, _>>()?;
    let length = page_length(&rest, limit, |event| event.json().len());
    let (page, is_last) = (&events[..length], length == events.len());
    let on_page = activities_of(page);
    let attempts = attempts
        .iter()
        .filter(|of| on_page.contains(&of.activity) || is_last && of.open.is_some());
    ok(&History {
        instance: id,
        execution,
        next_after: page.last().filter(|_| !is_last).map(|event| event.event_id),
        attempts: attempts.map(view::attempts).collect(),
        events: rest.into_iter().take(length).collect(),
        rewinds: summary.rewinds.last().map_or(0, |last| last.number),
        undone: None,
    })
}

/// A page of the events that a rewind has undone.
async fn undone(api: &Api, id: String, number: u64, query: &Query) -> Answer {
    let after = query.number("after", 0..=MOST)?.unwrap_or_default();
    let limit = query.limit(EVENTS.0, EVENTS.1)?;
    if query.number("execution", 1..=MOST)?.is_some() {
        return Err(Refusal::invalid(
            "a rewind has its execution: leave out execution, or undone",
        ));
    }
    let summary = found(api, &id).await?;
    let Some(Undone { rewind, mut events }) = api.store().undone_history(&id, number).await? else {
        let detail = format!("instance '{id}' has no rewind {number}, or remembers it no more");
        return Err(Refusal::new(ProblemType::NotFound, detail));
    };
    events.retain(|event| event.event_id > after);
    let rest: Vec<Payload> = events.iter().map(event).collect::<Result<_, _>>()?;
    let length = page_length(&rest, limit, |event| event.json().len());
    ok(&History {
        instance: id,
        execution: rewind.execution,
        next_after: events[..length]
            .last()
            .filter(|_| length < events.len())
            .map(|event| event.event_id),
        attempts: Vec::new(),
        events: rest.into_iter().take(length).collect(),
        rewinds: summary.rewinds.last().map_or(0, |last| last.number),
        undone: Some(view::rewind(&rewind)),
    })
}

/// The ids of the activities that these events have scheduled or completed; and of other things, whose ids no activity has.
fn activities_of(events: &[Event]) -> HashSet<u64> {
    let ids = events
        .iter()
        .flat_map(|event| [Some(event.event_id), event.source_event_id]);
    ids.flatten().collect()
}

fn no_execution(id: &str, execution: u64) -> Refusal {
    let detail = format!("instance '{id}' has no execution {execution}; /executions lists those that are kept");
    Refusal::new(ProblemType::NotFound, detail)
}

fn event(event: &Event) -> Result<Payload, Refusal> {
    let json = to_raw_value(event).map_err(|error| {
        tracing::error!(%error, "an event cannot be written as JSON");
        Refusal::internal()
    })?;
    Ok(Payload::of_text(json.get()))
}

/// The instance and all that it has started, directly or not.
#[utoipa::path(get, path = "/v1/instances/{id}/tree", tag = "instances", operation_id = "getTree",
    params(
        ("id" = String, Path, description = "The instance"),
        ("after" = Option<String>, Query, description = "`nextAfter` of the page before"),
        ("limit" = Option<u64>, Query, description = "The most instances; 50 by default", minimum = 1, maximum = 200),
    ),
    responses(
        (status = 200, description = "A page", body = Tree),
        (status = 404, description = "There is no such instance"),
    ))]
pub(crate) async fn tree(State(api): State<Api>, Segment(id): Segment<2>, RawQuery(query): RawQuery) -> Answer {
    let query = Query::read(query.as_deref(), &["after", "limit"])?;
    let limit = query.limit(TREE.0, TREE.1)?;
    let root = found(&api, &id).await?;
    let mut ids = match root.started_at {
        None => Vec::new(),
        Some(_) => api.store().get_instance_tree(&id).await?.all_ids,
    };
    ids.retain(|other| *other != id);
    ids.sort_unstable();
    // The root is before every other.
    ids.insert(0, id.clone());
    let begin = match query.text("after") {
        None => 0,
        Some(after) if after == id => 1,
        Some(after) => 1 + ids[1..].partition_point(|other| other.as_str() <= after),
    };
    let rest = &ids[begin..];
    let page = &rest[..limit.min(rest.len())];
    let reads: Vec<_> = page.iter().map(|id| wait::read(&api, id, None)).collect();
    let seen: Vec<Seen> = stream::iter(reads).buffered(SIDE_BY_SIDE).try_collect().await?;
    let instances = seen.iter().filter_map(|seen| match seen {
        Seen::Changed(summary) => {
            let mut shown = view::instance(summary, false);
            // As in lists: a page of large outputs would be too large.
            (shown.output, shown.error) = (None, None);
            Some(shown)
        }
        // It was deleted meanwhile.
        Seen::Missing | Seen::Unchanged => None,
    });
    ok(&Tree {
        instances: instances.collect(),
        next_after: page.last().filter(|_| page.len() < rest.len()).cloned(),
        root: id,
    })
}

/// The keys that an instance has set; or, with `atStart`, those that its current execution found when it began.
#[utoipa::path(get, path = "/v1/instances/{id}/kv", tag = "instances", operation_id = "getKeyValues",
    params(
        ("id" = String, Path, description = "The instance"),
        ("after" = Option<String>, Query, description = "`nextAfter` of the page before"),
        ("limit" = Option<u64>, Query, description = "The most keys; 100 by default", minimum = 1, maximum = 1000),
        ("atStart" = Option<bool>, Query, description = "Keys as the current execution found them, instead of as they are"),
    ),
    responses(
        (status = 200, description = "A page, by key", body = KeyValueList),
        (status = 404, description = "There is no such instance"),
    ))]
pub(crate) async fn key_values(State(api): State<Api>, Segment(id): Segment<2>, RawQuery(query): RawQuery) -> Answer {
    let query = Query::read(query.as_deref(), &["after", "limit", "atStart"])?;
    let limit = query.limit(KEYS.0, KEYS.1)?;
    let at_start = query.flag("atStart")?;
    found(&api, &id).await?;
    let after = query.text("after").unwrap_or_default();
    let (execution, mut rest) = match at_start {
        true => keys_at_start(&api, &id).await?,
        false => (None, keys_now(&api, &id).await?),
    };
    rest.retain(|value| after.is_empty() || value.key.as_str() > after);
    rest.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    let length = page_length(&rest, limit, |value| value.key.len() + value.value.len());
    let is_whole = length == rest.len();
    rest.truncate(length);
    ok(&KeyValueList {
        next_after: rest.last().filter(|_| !is_whole).map(|last| last.key.clone()),
        values: rest,
        execution,
    })
}

async fn keys_now(api: &Api, id: &str) -> Result<Vec<KeyValue>, Refusal> {
    let values = api.store().get_kv_all_values(id).await?.into_iter();
    let shown = |(key, value)| KeyValue {
        key,
        value,
        set_at: None,
    };
    Ok(values.map(shown).collect())
}

async fn keys_at_start(api: &Api, id: &str) -> Result<(Option<u64>, Vec<KeyValue>), Refusal> {
    let Some(found) = api.store().keys_at_start(id).await? else {
        return Ok((None, Vec::new()));
    };
    let shown = |(key, entry): (String, KvEntry)| KeyValue {
        key,
        value: entry.value,
        set_at: Some(rfc3339(entry.last_updated_at_ms)),
    };
    Ok((Some(found.execution), found.keys.into_iter().map(shown).collect()))
}

/// The executions of an instance that are kept.
#[utoipa::path(get, path = "/v1/instances/{id}/executions", tag = "instances", operation_id = "listExecutions",
    params(
        ("id" = String, Path, description = "The instance"),
        ("after" = Option<u64>, Query, description = "`nextAfter` of the page before", minimum = 0),
        ("limit" = Option<u64>, Query, description = "The most executions; 20 by default", minimum = 1, maximum = 100),
    ),
    responses(
        (status = 200, description = "A page, the oldest first", body = ExecutionList),
        (status = 404, description = "There is no such instance"),
    ))]
pub(crate) async fn executions(State(api): State<Api>, Segment(id): Segment<2>, RawQuery(query): RawQuery) -> Answer {
    let query = Query::read(query.as_deref(), &["after", "limit"])?;
    let after = query.number("after", 0..=MOST)?.unwrap_or_default();
    let limit = query.limit(EXECUTIONS.0, EXECUTIONS.1)?;
    if found(&api, &id).await?.started_at.is_none() {
        return ok(&ExecutionList::default());
    }
    let mut rest = api.store().list_executions(&id).await?;
    rest.retain(|execution| *execution > after);
    rest.sort_unstable();
    let page = &rest[..limit.min(rest.len())];
    let store = api.store();
    let reads: Vec<_> = page
        .iter()
        .map(|execution| store.get_execution_info(&id, *execution))
        .collect();
    let infos: Vec<_> = stream::iter(reads).buffered(SIDE_BY_SIDE).try_collect().await?;
    ok(&ExecutionList {
        executions: infos.iter().map(view::execution).collect(),
        next_after: page.last().filter(|_| page.len() < rest.len()).copied(),
    })
}

/// The sizes of an instance.
#[utoipa::path(get, path = "/v1/instances/{id}/stats", tag = "instances", operation_id = "getStats",
    params(("id" = String, Path, description = "The instance")),
    responses(
        (status = 200, description = "The sizes", body = Stats),
        (status = 404, description = "There is no such instance"),
    ))]
pub(crate) async fn stats(State(api): State<Api>, Segment(id): Segment<2>, RawQuery(query): RawQuery) -> Answer {
    Query::read(query.as_deref(), &[])?;
    found(&api, &id).await?;
    let stats = api.store().get_instance_stats(&id).await?;
    ok(&stats.map_or_else(Stats::default, |stats| Stats {
        events: stats.history_event_count,
        history_bytes: stats.history_size_bytes,
        carried_messages: stats.queue_pending_count,
        keys: stats.kv_user_key_count,
        key_bytes: stats.kv_total_value_bytes,
    }))
}
