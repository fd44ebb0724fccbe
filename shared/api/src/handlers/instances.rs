//! Instances: one, and the list.

use super::explain::explain_all;
use super::{Answer, ok};
use crate::api::{Api, Invocation};
use crate::path::Segment;
use crate::query::Query;
use crate::refusal::Refusal;
use crate::types::{Instance, InstanceList, Status};
use crate::view;
use crate::wait::{self, Seen};
use axum::Extension;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use duroxide_cosmos::{InstanceFilter, InstanceSummary, SearchError};
use http::{HeaderMap, HeaderValue, StatusCode, header};

/// Instances on one page of the list: the default, and the most.
const LISTED: usize = 20;
const MOST_LISTED: usize = 200;
/// The most of a page that explains each of them: that takes two requests for each, and more for children.
const MOST_EXPLAINED: usize = 50;

/// One instance, from the moment that its start was accepted.
///
/// With `wait=N` the answer comes when the instance has ended, or with `If-None-Match` when it has changed, and after N seconds at
/// the latest.
#[utoipa::path(get, path = "/v1/instances/{id}", tag = "instances", operation_id = "getInstance",
    params(
        ("id" = String, Path, description = "The instance"),
        ("wait" = Option<u64>, Query, description = "Seconds to wait", minimum = 0, maximum = 25),
        ("raw" = Option<bool>, Query, description = "Input and output as strings with the exact text, whether or not it is JSON"),
        ("includeInput" = Option<bool>, Query, description = "Also the input, while it is pending"),
        ("If-None-Match" = Option<String>, Header, description = "The `ETag` of an earlier answer"),
    ),
    responses(
        (status = 200, description = "The instance", body = Instance, headers(("ETag" = String, description = "Changes with the instance"))),
        (status = 304, description = "It has not changed"),
        (status = 404, description = "There is no such instance"),
    ))]
pub(crate) async fn get(
    State(api): State<Api>,
    invocation: Option<Extension<Invocation>>,
    Segment(id): Segment<2>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Answer {
    let query = Query::read(query.as_deref(), &["wait", "raw", "includeInput"])?;
    let seconds = query.number("wait", 0..=wait::MAX_WAIT.as_secs())?;
    let (raw, with_input) = (query.flag("raw")?, query.flag("includeInput")?);
    let invocation = invocation.map(|Extension(invocation)| invocation).unwrap_or_default();
    let time = wait::allowed(seconds, &invocation);
    let known = known_version(&headers, raw);
    let (first, is_known) = match wait::read(&api, &id, known.as_deref()).await? {
        Seen::Missing => return Err(Refusal::no_instance(&id)),
        Seen::Changed(summary) => (Some(summary), false),
        Seen::Unchanged => (None, true),
    };
    let found = match (is_known, known) {
        (true, Some(known)) => changed(&api, &id, &known, time).await?,
        _ if headers.contains_key(header::IF_NONE_MATCH) => Found::of(first),
        _ => Found::of(wait::until(&api, &id, first, time, |summary| summary.status.is_finished()).await?),
    };
    match found {
        Found::Missing => Err(Refusal::no_instance(&id)),
        Found::Unchanged(etag) => Ok(not_modified(tag(&etag, raw)?)),
        Found::Instance(mut summary) => {
            if with_input && summary.started_at.is_none() {
                // The input of a pending instance is in another document.
                let whole = api.store().instance_summary(&id).await?;
                *summary = whole.ok_or_else(|| Refusal::no_instance(&id))?;
            }
            shown(&summary, raw)
        }
    }
}

enum Found {
    Missing,
    Unchanged(String),
    Instance(Box<InstanceSummary>),
}

impl Found {
    fn of(summary: Option<Box<InstanceSummary>>) -> Found {
        summary.map_or(Found::Missing, Found::Instance)
    }
}

/// Waits until an instance has another version than the one that the caller knows.
async fn changed(api: &Api, id: &str, known: &str, time: std::time::Duration) -> Result<Found, Refusal> {
    for pause in wait::pauses(time) {
        api.parts.timer.pause(pause).await;
        match wait::read(api, id, Some(known)).await? {
            Seen::Unchanged => {}
            Seen::Changed(summary) => return Ok(Found::Instance(summary)),
            Seen::Missing => return Ok(Found::Missing),
        }
    }
    Ok(Found::Unchanged(known.to_owned()))
}

/// Ends the ETag of the representation with `raw=true`.
const RAW: &str = "-raw";

/// The version in `If-None-Match`, if it is one of this representation. A list, `*` or another text is no version: the answer is
/// then the instance.
fn known_version(headers: &HeaderMap, raw: bool) -> Option<String> {
    let text = headers.get(header::IF_NONE_MATCH)?.to_str().ok()?.trim();
    let text = text.strip_prefix("W/").unwrap_or(text);
    let version = text.strip_prefix('"')?.strip_suffix('"')?;
    let version = match raw {
        true => version.strip_suffix(RAW)?,
        false => Some(version).filter(|version| !version.ends_with(RAW))?,
    };
    Some(format!("\"{version}\""))
}

/// The ETag of a representation.
fn tag(etag: &str, raw: bool) -> Result<HeaderValue, Refusal> {
    let version = etag.trim_matches('"');
    let tag = format!("\"{version}{}\"", if raw { RAW } else { "" });
    HeaderValue::try_from(tag).map_err(|_| Refusal::internal())
}

fn shown(summary: &InstanceSummary, raw: bool) -> Answer {
    let mut response = ok(&view::instance(summary, raw))?;
    response.headers_mut().insert(header::ETAG, tag(&summary.etag, raw)?);
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    Ok(response)
}

fn not_modified(etag: HeaderValue) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    response.headers_mut().insert(header::ETAG, etag);
    response
}

/// Instances, newest first.
///
/// A page may be short, even empty, and still continue: go on while there is a `nextCursor`.
#[utoipa::path(get, path = "/v1/instances", tag = "instances", operation_id = "listInstances",
    params(
        ("status" = Option<String>, Query, description = "Only `Pending`, `Running`, `Blocked`, `Paused`, `Completed`, `Failed`, `Cancelled` or `ContinuedAsNew`"),
        ("name" = Option<String>, Query, description = "Only of this orchestration"),
        ("version" = Option<String>, Query, description = "Only of this version"),
        ("prefix" = Option<String>, Query, description = "Only with ids that begin so"),
        ("tag" = Option<Vec<String>>, Query, description = "Only with this tag, as `key:value`; may repeat"),
        ("createdFrom" = Option<String>, Query, description = "Only accepted at this time or later, RFC 3339"),
        ("createdTo" = Option<String>, Query, description = "Only accepted at this time or before, RFC 3339"),
        ("endedFrom" = Option<String>, Query, description = "Only ended at this time or later, RFC 3339"),
        ("endedTo" = Option<String>, Query, description = "Only ended at this time or before, RFC 3339"),
        ("parent" = Option<String>, Query, description = "Only started by this instance"),
        ("attention" = Option<bool>, Query, description = "Only those that need attention: blocked, overdue, with a blocked activity or a dead letter, or failed within 24 hours (or since `endedFrom`)"),
        ("explain" = Option<bool>, Query, description = "Each with a sentence why it is where it is; then a page has at most 50"),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the page before, with the same filters"),
        ("limit" = Option<u64>, Query, description = "The most instances; 20 by default", minimum = 1, maximum = 200),
    ),
    responses((status = 200, description = "A page", body = InstanceList)))]
pub(crate) async fn list(State(api): State<Api>, RawQuery(query): RawQuery) -> Answer {
    const KNOWN: [&str; 14] = [
        "status",
        "name",
        "version",
        "prefix",
        "tag*",
        "createdFrom",
        "createdTo",
        "endedFrom",
        "endedTo",
        "parent",
        "attention",
        "explain",
        "cursor",
        "limit",
    ];
    let query = Query::read(query.as_deref(), &KNOWN)?;
    let text = |name: &str| query.text(name).map(str::to_owned);
    let filter = InstanceFilter {
        status: query.parsed::<Status>("status")?.map(view::wanted),
        name: text("name"),
        version: text("version"),
        prefix: text("prefix"),
        tags: query.all("tag").map(tag_filter).collect::<Result<_, _>>()?,
        created_from: query.moment("createdFrom")?,
        created_to: query.moment("createdTo")?,
        completed_from: query.moment("endedFrom")?,
        completed_to: query.moment("endedTo")?,
        parent: text("parent"),
        needs_attention: query.flag("attention")?,
    };
    let explained = query.flag("explain")?;
    let limit = query.limit(LISTED, if explained { MOST_EXPLAINED } else { MOST_LISTED })?;
    let page = api.store().search(&filter, query.text("cursor"), limit).await;
    let page = page.map_err(|error| match error {
        SearchError::Store(error) => error.into(),
        other => Refusal::invalid(other.to_string()),
    })?;
    let mut list = view::page(page);
    if explained {
        explain_all(&api, &mut list.instances).await?;
    }
    ok(&list)
}

/// A tag as `key:value`; keys have no colon.
fn tag_filter(text: &str) -> Result<(String, String), Refusal> {
    let tag = text
        .split_once(':')
        .filter(|(key, value)| !key.is_empty() && !value.is_empty());
    let tag = tag.map(|(key, value)| (key.to_owned(), value.to_owned()));
    tag.ok_or_else(|| Refusal::invalid("the parameter tag is like customer:ada"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(value: &str, raw: bool) -> Option<String> {
        let headers = HeaderMap::from_iter([(header::IF_NONE_MATCH, value.parse().unwrap())]);
        known_version(&headers, raw)
    }

    #[test]
    fn the_etag_of_an_answer_is_known_again_for_the_same_representation() {
        for raw in [false, true] {
            let sent = tag("\"00000-1\"", raw).unwrap();
            let sent = sent.to_str().unwrap();
            assert_eq!(version(sent, raw).as_deref(), Some("\"00000-1\""));
            assert_eq!(version(&format!("W/{sent}"), raw).as_deref(), Some("\"00000-1\""));
            assert_eq!(version(sent, !raw), None, "it is another representation");
        }
        for other in ["*", "x", "\"a", ""] {
            assert_eq!(version(other, false), None, "{other}");
        }
    }

    #[test]
    fn a_tag_has_a_key_and_a_value() {
        assert_eq!(tag_filter("a:b:c").unwrap(), ("a".to_owned(), "b:c".to_owned()));
        for wrong in ["", "a", "a:", ":b"] {
            assert!(tag_filter(wrong).is_err(), "{wrong}");
        }
    }
}
