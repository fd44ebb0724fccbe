//! Histories from the API, as they are saved and replayed.

use super::answer::Failure;
use super::connection::Connection;
use super::filter::Filter;
use super::instance::ms_of;
use super::list::pages;
use super::transport::Refused;
use duroxide::{Event, EventKind};
use duroxide_lambda::replay::{FORMAT, Recording, SavedKey, VERSION};
use duroxide_lambda_api::types::time::rfc3339;
use duroxide_lambda_api::types::{History, Instance, ProblemType};
use futures::stream::{self, Stream, StreamExt as _};
use serde_json::value::RawValue;

/// How many histories are read side by side.
const SIDE_BY_SIDE: usize = 8;
/// How often a history is read again because the instance continued as new meanwhile.
const REREADS: u32 = 5;

/// What became of one instance.
#[derive(Debug)]
pub(super) enum Read {
    Recorded(Box<Recording>),
    /// It has no history yet, or is between two executions.
    NotBegun,
    /// It has ended or was deleted since it was listed.
    Gone,
    /// The API cannot read its history: with this instance and the reason.
    Unreadable(String, String),
}

/// The instances that match, and whether there are more than the limit. Without a status: those in flight.
pub(super) async fn in_flight(
    connection: &Connection,
    filter: &Filter,
    limit: Option<u32>,
) -> Result<(Vec<Instance>, bool), Failure> {
    let mut found: Vec<Instance> = Vec::new();
    let mut more = false;
    for query in filter.in_flight() {
        let left = match limit {
            Some(limit) => limit.saturating_sub(u32::try_from(found.len()).unwrap_or(u32::MAX)),
            None => u32::MAX,
        };
        // One more than wanted says whether there are more.
        let page = pages(connection, &query, None, left.saturating_add(1)).await?;
        more |= page.next_cursor.is_some();
        found.extend(page.instances);
    }
    // An instance that changes while the lists are read may be in two of them.
    found.sort_by(|a, b| {
        ms_of(&b.created_at)
            .cmp(&ms_of(&a.created_at))
            .then_with(|| a.instance.cmp(&b.instance))
    });
    found.dedup_by(|a, b| a.instance == b.instance);
    if let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok())
        && found.len() > limit
    {
        found.truncate(limit);
        more = true;
    }
    Ok((found, more))
}

/// Their histories, in the same order. `only_in_flight` leaves out what has ended meanwhile.
pub(super) fn histories<'a>(
    connection: &'a Connection,
    instances: Vec<Instance>,
    only_in_flight: bool,
) -> impl Stream<Item = Result<Read, Failure>> + 'a {
    stream::iter(instances)
        .map(move |instance| async move { history(connection, &instance, None, only_in_flight).await })
        .buffered(SIDE_BY_SIDE)
}

/// The history of an execution of an instance, by default of the current one.
pub(super) async fn history(
    connection: &Connection,
    instance: &Instance,
    execution: Option<u64>,
    only_in_flight: bool,
) -> Result<Read, Failure> {
    let id = &instance.instance;
    if instance.started_at.is_none() {
        return Ok(Read::NotBegun);
    }
    for _ in 0..REREADS {
        let history = match connection.history(id, execution).await {
            // Of this instance: a store that cannot be reached is another problem.
            Err(Refused::Problem {
                kind: Some(ProblemType::Internal),
                detail,
            }) => return Ok(Read::Unreadable(id.clone(), detail)),
            history => there(history)?,
        };
        let Some(history) = history else {
            return Ok(Read::Gone);
        };
        let Some(last) = history.events.last() else {
            return Ok(Read::NotBegun);
        };
        if only_in_flight && let Some(left_out) = ended(last.json()) {
            return Ok(left_out);
        }
        let keys = match history.execution {
            // There was none before.
            1 => Some(Vec::new()),
            of => {
                let Some(found) = there(connection.keys_at_start(id).await)? else {
                    return Ok(Read::Gone);
                };
                match found.execution == Some(of) {
                    true => Some(found.values),
                    // The store keeps them for the current execution only.
                    false if execution.is_some() => None,
                    false => continue,
                }
            }
        };
        let keys = keys.map(|keys| {
            let saved = |key: duroxide_lambda_api::types::KeyValue| SavedKey {
                set_at_ms: key.set_at.as_deref().map(ms_of).unwrap_or_default(),
                key: key.key,
                value: key.value,
            };
            keys.into_iter().map(saved).collect()
        });
        return recording(instance, history, keys, connection.now_ms())
            .map(|recording| Read::Recorded(Box::new(recording)));
    }
    Err(Failure::error(format!(
        "instance '{id}' continues as new faster than its history can be read: try again"
    )))
}

/// The answer, unless the instance or the execution is not there.
fn there<T>(answer: Result<T, Refused>) -> Result<Option<T>, Failure> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(Refused::Problem {
            kind: Some(ProblemType::NotFound),
            ..
        }) => Ok(None),
        Err(refused) => Err(refused.into()),
    }
}

/// Why a history with this last event is not in flight. An event that this release does not know is no end.
fn ended(last: &str) -> Option<Read> {
    let event: Event = serde_json::from_str(last).ok()?;
    match event.kind {
        EventKind::OrchestrationCompleted { .. } | EventKind::OrchestrationFailed { .. } => Some(Read::Gone),
        EventKind::OrchestrationContinuedAsNew { .. } => Some(Read::NotBegun),
        _ => None,
    }
}

fn recording(
    instance: &Instance,
    history: History,
    keys: Option<Vec<SavedKey>>,
    now_ms: u64,
) -> Result<Recording, Failure> {
    let raw = |json: &str| {
        RawValue::from_string(json.to_owned())
            .map_err(|error| Failure::error(format!("an event of '{}' is no JSON: {error}", instance.instance)))
    };
    // Of this execution: one that continued as new may have had another version before.
    let started = history.events.first().and_then(|first| {
        let event: Event = serde_json::from_str(first.json()).ok()?;
        match event.kind {
            EventKind::OrchestrationStarted { name, version, .. } => Some((name, version)),
            _ => None,
        }
    });
    let (orchestration, version) = started.unwrap_or_else(|| {
        let version = instance.version.clone().unwrap_or_default();
        (instance.orchestration.clone(), version)
    });
    Ok(Recording {
        format: FORMAT.to_owned(),
        v: VERSION,
        instance: instance.instance.clone(),
        execution: history.execution,
        orchestration,
        version,
        status: instance.status.name().to_owned(),
        saved_at: rfc3339(now_ms),
        keys,
        events: history
            .events
            .iter()
            .map(|event| raw(event.json()))
            .collect::<Result<_, _>>()?,
    })
}
