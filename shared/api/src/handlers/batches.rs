//! Batches: one action on many instances.

use super::{Answer, answer, ok};
use crate::api::Api;
use crate::auth::Caller;
use crate::body::{Body, text_of};
use crate::idempotency::Key;
use crate::path::{Segment, Verbed};
use crate::query::Query;
use crate::refusal::Refusal;
use crate::types::time::parse_rfc3339;
use crate::types::{
    Batch, BatchFailureList, BatchFilter, BatchList, BatchRequest, BatchVerb, ProblemType, Status, StatusError,
};
use crate::view;
use axum::Extension;
use axum::extract::{RawQuery, State};
use duroxide_cosmos as store;
use duroxide_cosmos::{BatchAction, BatchCancelled, BatchCursor, BatchStarted, InstanceFilter, batch_id_of_key};
use http::{HeaderValue, StatusCode, header};

/// How many instances a batch handles in a second: by default, and at most.
const RATE: u32 = 20;
const MOST_RATE: u32 = 500;
const MOST_REASON: usize = 1024;
const MOST_NAME: usize = 512;
const MOST_VERSION: usize = 128;
/// The longest data of an event: it is a part of the batch.
const MOST_DATA: usize = 64 * 1024;
/// Why an instance was cancelled, if the request does not say it.
const NO_REASON: &str = "cancelled by a batch";
/// Batches and failures on one page: the default, and the most.
const LISTED: usize = 20;
const MOST_LISTED: usize = 100;
const FAILURES: usize = 100;
const MOST_FAILURES: usize = 1_000;

/// Begins a batch: one action on every instance that the filter finds, and that was accepted before.
///
/// It goes on by itself, in paced steps. `dryRun` says what would be done, and changes nothing. With `Idempotency-Key` a repeated request
/// has its effect once.
#[utoipa::path(post, path = "/v1/batches", tag = "batches", operation_id = "startBatch",
    params(("Idempotency-Key" = Option<String>, Header, description = "1 to 255 printable ASCII characters, such as a UUID", min_length = 1, max_length = 255)),
    request_body = BatchRequest,
    responses(
        (status = 202, description = "It is begun, or was begun by the same request before", body = Batch,
            headers(("Location" = String, description = "The path of the batch"))),
        (status = 422, description = "The key was used for another request"),
    ))]
pub(crate) async fn start(
    State(api): State<Api>,
    caller: Option<Extension<Caller>>,
    Key(key): Key,
    RawQuery(query): RawQuery,
    Body(request): Body<BatchRequest>,
) -> Answer {
    Query::read(query.as_deref(), &[])?;
    let wanted = store::BatchRequest {
        filter: filter_of(&request.filter)?,
        rate: rate_of(request.rate)?,
        dry_run: request.dry_run,
        by: caller.map(|Extension(caller)| caller.who),
        action: action_of(request)?,
    };
    let id = match &key {
        Some(key) => batch_id_of_key(key),
        None => api.parts.ids.unique(),
    };
    let repeated = match api.connection().start_batch(&id, &wanted).await? {
        BatchStarted::Accepted => false,
        BatchStarted::Repeated => true,
        BatchStarted::KeyReused => {
            let detail = "the same Idempotency-Key came with another request before: use a new key for each request";
            return Err(Refusal::new(ProblemType::KeyReused, detail));
        }
    };
    let found = api.store().batch(&id).await?.ok_or_else(|| no_batch(&id))?;
    let mut response = answer(
        StatusCode::ACCEPTED,
        &Batch {
            repeated,
            ..view::batch(&found)
        },
    )?;
    let location = HeaderValue::try_from(format!("/v1/batches/{id}")).map_err(|_| Refusal::internal())?;
    response.headers_mut().insert(header::LOCATION, location);
    Ok(response)
}

/// One batch: its progress, and what became of the instances.
#[utoipa::path(get, path = "/v1/batches/{id}", tag = "batches", operation_id = "getBatch",
    params(("id" = String, Path, description = "The batch")),
    responses((status = 200, description = "The batch", body = Batch), (status = 404, description = "There is no such batch")))]
pub(crate) async fn get(State(api): State<Api>, Segment(id): Segment<2>, RawQuery(query): RawQuery) -> Answer {
    Query::read(query.as_deref(), &[])?;
    let found = api.store().batch(&id).await?.ok_or_else(|| no_batch(&id))?;
    ok(&view::batch(&found))
}

/// Batches, newest first. They are kept for 30 days after their end.
#[utoipa::path(get, path = "/v1/batches", tag = "batches", operation_id = "listBatches",
    params(
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the page before"),
        ("limit" = Option<u64>, Query, description = "The most batches; 20 by default", minimum = 1, maximum = 100),
    ),
    responses((status = 200, description = "A page", body = BatchList)))]
pub(crate) async fn list(State(api): State<Api>, RawQuery(query): RawQuery) -> Answer {
    let query = Query::read(query.as_deref(), &["cursor", "limit"])?;
    let limit = u32::try_from(query.limit(LISTED, MOST_LISTED)?).unwrap_or(u32::MAX);
    let cursor = query.text("cursor").map(str::parse::<BatchCursor>).transpose();
    let cursor = cursor.map_err(|why| Refusal::invalid(format!("the parameter cursor cannot be used: {why}")))?;
    let page = api.store().batches(cursor, limit).await?;
    ok(&BatchList {
        batches: page.batches.iter().map(view::batch).collect(),
        next_cursor: page.next.map(|next| next.to_string()),
    })
}

/// The instances that failed in a batch, with their reasons. A page may have some more than `limit`.
#[utoipa::path(get, path = "/v1/batches/{id}/failures", tag = "batches", operation_id = "listBatchFailures",
    params(
        ("id" = String, Path, description = "The batch"),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the page before"),
        ("limit" = Option<u64>, Query, description = "About how many; 100 by default", minimum = 1, maximum = 1000),
    ),
    responses((status = 200, description = "A page", body = BatchFailureList), (status = 404, description = "There is no such batch")))]
pub(crate) async fn failures(State(api): State<Api>, Segment(id): Segment<2>, RawQuery(query): RawQuery) -> Answer {
    let query = Query::read(query.as_deref(), &["cursor", "limit"])?;
    let limit = query.limit(FAILURES, MOST_FAILURES)?;
    let from = query.number("cursor", 0..=u64::MAX)?.unwrap_or(0);
    let page = api.store().batch_failures(&id, from, limit).await?;
    let page = page.ok_or_else(|| no_batch(&id))?;
    ok(&BatchFailureList {
        failures: page.failures.into_iter().map(view::batch_failure).collect(),
        next_cursor: page.next.map(|next| next.to_string()),
    })
}

/// A POST to a batch, with a verb.
pub(crate) async fn verb(State(api): State<Api>, Verbed { id, verb }: Verbed<2>, RawQuery(query): RawQuery) -> Answer {
    Query::read(query.as_deref(), &[])?;
    match verb.as_str() {
        "cancel" => cancel(&api, &id).await,
        _ => Err(Refusal::new(ProblemType::NoSuchRoute, "the verb of a batch is cancel")),
    }
}

/// Cancels a batch: it stops after the instances that it is just handling. What it has done stays done.
#[utoipa::path(post, path = "/v1/batches/{id}:cancel", tag = "batches", operation_id = "cancelBatch",
    params(("id" = String, Path, description = "The batch")),
    responses(
        (status = 202, description = "It stops", body = Batch),
        (status = 404, description = "There is no such batch"),
        (status = 409, description = "It has ended"),
    ))]
pub(crate) async fn cancel(api: &Api, id: &str) -> Answer {
    match api.connection().cancel_batch(id).await? {
        BatchCancelled::Accepted(batch) => answer(StatusCode::ACCEPTED, &view::batch(&batch)),
        BatchCancelled::Ended(batch) => Err(Refusal::new(
            ProblemType::WrongState,
            format!("batch '{id}' has ended ({})", batch.state.name()),
        )),
        BatchCancelled::NotFound => Err(no_batch(id)),
    }
}

fn no_batch(id: &str) -> Refusal {
    Refusal::new(
        ProblemType::NotFound,
        format!("there is no batch '{id}': batches are kept for 30 days after their end"),
    )
}

fn filter_of(filter: &BatchFilter) -> Result<InstanceFilter, Refusal> {
    let moment = |name: &str, text: &Option<String>| {
        let wrong = || Refusal::invalid(format!("filter.{name} is a time like 2026-01-31T12:00:00Z"));
        text.as_deref()
            .map(|text| parse_rfc3339(text).ok_or_else(wrong))
            .transpose()
    };
    let text = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let wanted = InstanceFilter {
        status: filter.status.map(view::wanted),
        name: text(&filter.name),
        version: text(&filter.version),
        prefix: text(&filter.prefix),
        tags: filter.tags.clone().into_iter().collect(),
        created_from: moment("createdFrom", &filter.created_from)?,
        created_to: moment("createdTo", &filter.created_to)?,
        completed_from: moment("endedFrom", &filter.ended_from)?,
        completed_to: moment("endedTo", &filter.ended_to)?,
        parent: text(&filter.parent),
        needs_attention: false,
    };
    if filter.status == Some(Status::Unknown) {
        return Err(Refusal::invalid(format!("filter.status cannot be used: {StatusError}")));
    }
    match (wanted == InstanceFilter::default(), filter.all) {
        (true, false) => Err(Refusal::invalid(
            "the filter has no condition: name one, or say all: true to mean every instance",
        )),
        (false, true) => Err(Refusal::invalid("all: true has no other condition beside it")),
        _ => Ok(wanted),
    }
}

fn rate_of(rate: Option<u32>) -> Result<u32, Refusal> {
    let rate = rate.unwrap_or(RATE);
    match (1..=MOST_RATE).contains(&rate) {
        true => Ok(rate),
        false => Err(Refusal::invalid(format!(
            "rate is a whole number from 1 to {MOST_RATE}"
        ))),
    }
}

/// The action, if every parameter belongs to it.
fn action_of(request: BatchRequest) -> Result<BatchAction, Refusal> {
    let given = [
        ("reason", request.reason.is_some()),
        ("children", request.children.is_some()),
        ("event", request.event.is_some()),
        ("data", request.data.is_some()),
        ("dataText", request.data_text.is_some()),
        ("force", request.force.is_some()),
        ("inPlace", request.in_place.is_some()),
        ("alone", request.alone.is_some()),
        ("discardResults", request.discard_results.is_some()),
        ("version", request.version.is_some()),
    ];
    let (name, own): (&str, &[&str]) = match request.action {
        BatchVerb::Cancel => ("cancel", &["reason"]),
        BatchVerb::Pause => ("pause", &["reason", "children"]),
        BatchVerb::Resume => ("resume", &["children"]),
        BatchVerb::Raise => ("raise", &["event", "data", "dataText"]),
        BatchVerb::Delete => ("delete", &["force"]),
        BatchVerb::Rewind => ("rewind", &["reason", "alone", "discardResults"]),
        BatchVerb::Restart => ("restart", &["inPlace", "alone", "version"]),
    };
    if let Some((wrong, _)) = given.iter().find(|(name, is_given)| *is_given && !own.contains(name)) {
        return Err(Refusal::invalid(format!(
            "{wrong} does not belong to the action {name}"
        )));
    }
    let check = |what: &str, text: Option<&str>, most: usize| match text.is_none_or(|text| text.len() <= most) {
        true => Ok(()),
        false => Err(Refusal::invalid(format!("{what} has at most {most} bytes"))),
    };
    check("reason", request.reason.as_deref(), MOST_REASON)?;
    check("version", request.version.as_deref(), MOST_VERSION)?;
    check("event", request.event.as_deref(), MOST_NAME)?;
    let children = request.children.unwrap_or_default();
    Ok(match request.action {
        BatchVerb::Cancel => BatchAction::Cancel {
            reason: request.reason.unwrap_or_else(|| NO_REASON.to_owned()),
        },
        BatchVerb::Pause => BatchAction::Pause {
            reason: request.reason,
            children,
        },
        BatchVerb::Resume => BatchAction::Resume { children },
        BatchVerb::Raise => {
            let event = request.event.filter(|event| !event.is_empty());
            let event = event.ok_or_else(|| Refusal::invalid("the action raise needs the name of an event"))?;
            let data = text_of("data", request.data, request.data_text)?;
            check("data", Some(&data), MOST_DATA)?;
            BatchAction::Raise { event, data }
        }
        BatchVerb::Delete => BatchAction::Delete {
            force: request.force.unwrap_or_default(),
        },
        BatchVerb::Rewind => BatchAction::Rewind {
            reason: request.reason,
            alone: request.alone.unwrap_or_default(),
            discard_results: request.discard_results.unwrap_or_default(),
        },
        BatchVerb::Restart => {
            let in_place = request.in_place.unwrap_or_default();
            let alone = request.alone.unwrap_or_default();
            if alone && !in_place {
                return Err(Refusal::invalid(
                    "alone belongs to inPlace: a new instance is nobody's child",
                ));
            }
            BatchAction::Restart {
                in_place,
                alone,
                version: request.version,
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn request(body: Value) -> BatchRequest {
        serde_json::from_value(body).unwrap()
    }

    #[test]
    fn a_filter_without_a_condition_must_say_so() {
        let filter = |filter: Value| filter_of(&request(json!({ "filter": filter, "action": "cancel" })).filter);
        for wrong in [
            json!({}),
            json!({ "name": "" }),
            json!({ "all": true, "name": "x" }),
            json!({ "createdTo": "soon" }),
        ] {
            assert!(filter(wrong.clone()).is_err(), "{wrong}");
        }
        assert_eq!(filter(json!({ "all": true })).unwrap(), InstanceFilter::default());
        let version = filter(json!({ "version": "1.2.0", "status": "Running" })).unwrap();
        assert_eq!(version.version.as_deref(), Some("1.2.0"));
        assert!(serde_json::from_value::<BatchFilter>(json!({ "versions": "1" })).is_err());
    }

    #[test]
    fn parameters_belong_to_their_action() {
        let all = json!({ "all": true });
        for (action, parameters, is_right) in [
            ("cancel", json!({ "reason": "x" }), true),
            ("cancel", json!({ "children": true }), false),
            ("pause", json!({ "reason": "x", "children": true }), true),
            ("resume", json!({ "reason": "x" }), false),
            ("raise", json!({ "event": "go", "data": { "a": 1 } }), true),
            ("raise", json!({}), false),
            ("raise", json!({ "event": "go", "data": 1, "dataText": "1" }), false),
            ("delete", json!({ "force": true }), true),
            ("delete", json!({ "event": "go" }), false),
            (
                "restart",
                json!({ "inPlace": true, "alone": true, "version": "2.0.0" }),
                true,
            ),
            (
                "rewind",
                json!({ "reason": "x", "alone": true, "discardResults": true }),
                true,
            ),
            ("rewind", json!({ "inPlace": true }), false),
            ("restart", json!({ "alone": true }), false),
        ] {
            let mut body = parameters.clone();
            body["filter"] = all.clone();
            body["action"] = json!(action);
            assert_eq!(action_of(request(body)).is_ok(), is_right, "{action} {parameters}");
        }
        assert!(rate_of(Some(0)).is_err() && rate_of(Some(501)).is_err());
        assert_eq!(rate_of(None).unwrap(), RATE);
    }
}
