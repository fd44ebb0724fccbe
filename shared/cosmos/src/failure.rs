//! Makes the [`Error`] of an operation that failed: the one place where a status becomes an error.
//!
//! Invariant: when an earlier attempt of a write had an unknown outcome, a failure that would otherwise say "nothing
//! was written" becomes [`Error::Ambiguous`].

use serde::Deserialize;
use url::Url;

use crate::credential::CredentialKind;
use crate::error::{Context, Error};
use crate::headers;
use crate::observe::RequestKind;
use crate::request::{Answer, Attempt, Progress, Request};
use crate::retry::Class;

/// The usual cause of 400/1001, which the service does not name.
const WRONG_KEY_PATH: &str =
    "does the container have another partition key path than the one that documents are written with?";

/// The error for the last attempt of an operation.
pub(crate) fn failure(
    request: &Request<'_>,
    attempt: Attempt,
    class: Class,
    progress: &Progress,
    endpoint: &Url,
) -> Error {
    let mut context = context(request, progress, attempt.trouble.clone());
    if let Some(answer) = &attempt.answer {
        context.status = Some(answer.status);
        context.substatus = headers::number(&answer.headers, &headers::SUBSTATUS);
        context.detail = service_message(answer);
    }
    let write = request.kind.is_write();
    let context = Box::new(context);
    match class {
        Class::Unknown if write => Error::Ambiguous { context },
        Class::CredentialRefused | Class::Final | Class::Success => final_error(request, attempt, endpoint, context),
        _ if write && progress.ambiguous => Error::Ambiguous { context },
        Class::Throttled(retry_after) => Error::Throttled { retry_after, context },
        Class::NotSent => Error::Unreachable {
            endpoint: endpoint.to_string(),
            context,
        },
        Class::ReplicaBehind => Error::ReplicaBehind { context },
        Class::RangeGone => Error::RangeGone { context },
        Class::Unknown if context.status.is_none() => Error::Timeout { context },
        Class::Unknown | Class::Unavailable | Class::Collided | Class::RegionMoved => Error::Unavailable { context },
    }
}

/// The error when the time limit ends before another attempt.
pub(crate) fn too_late(request: &Request<'_>, progress: &Progress, detail: &str) -> Error {
    let context = Box::new(context(request, progress, detail.to_owned()));
    if progress.ambiguous {
        Error::Ambiguous { context }
    } else {
        Error::Timeout { context }
    }
}

/// The error for an answer of success that lacks a documented part.
pub(crate) fn protocol(request: &Request<'_>, answer: &Answer, problem: &str) -> Error {
    let mut context = context(request, &Progress::default(), String::new());
    context.status = Some(answer.status);
    context.attempts = 1;
    Error::Protocol {
        problem: problem.to_owned(),
        context: Box::new(context),
    }
}

fn context(request: &Request<'_>, progress: &Progress, detail: String) -> Context {
    Context {
        operation: operation(request),
        target: request.subject.describe(),
        status: None,
        substatus: None,
        attempts: progress.attempts,
        after_ambiguity: progress.ambiguous,
        detail,
    }
}

fn final_error(request: &Request<'_>, attempt: Attempt, endpoint: &Url, mut context: Box<Context>) -> Error {
    let answer = attempt.answer;
    if let Some(failed) = answer.as_ref().and_then(|answer| answer.failed.as_ref()) {
        let operation = failed.describe(request.body.as_deref().unwrap_or_default());
        return Error::BatchFailed {
            index: failed.index,
            status: failed.status,
            operation,
            context,
        };
    }
    // The service refuses a date that is far off with 401 or 403, and only its message says so.
    let skewed = context.detail.contains("not valid at the current time");
    match (context.status.unwrap_or(0), context.substatus.unwrap_or(0)) {
        (401 | 403, _) if skewed => {
            let date = answer
                .as_ref()
                .and_then(|answer| headers::text(&answer.headers, &reqwest::header::DATE));
            Error::ClockSkew {
                here: attempt.date,
                there: date.unwrap_or("unknown").to_owned(),
                context,
            }
        }
        (401, _) if attempt.credential == CredentialKind::Token => Error::TokenRefused {
            endpoint: endpoint.to_string(),
            context,
        },
        (401, _) => Error::Unauthorized {
            endpoint: endpoint.to_string(),
            context,
        },
        (403, 1014) => Error::PartitionFull { context },
        (403, 5300) => Error::NotByToken { context },
        (403, _) => Error::Forbidden { context },
        (404, 1003) => Error::ContainerMissing { context },
        (404, _) if addresses_container(request) => Error::ContainerMissing { context },
        (404, _) => Error::NotFound { context },
        (409, _) => Error::Conflict { context },
        (412, _) => Error::PreconditionFailed { context },
        (status, substatus) => {
            if (status, substatus) == (400, 1001) {
                context.detail = format!("{}; {WRONG_KEY_PATH}", context.detail);
            }
            Error::BadRequest { context }
        }
    }
}

/// Whether a 404 can only mean that the container, or its database, is missing.
fn addresses_container(request: &Request<'_>) -> bool {
    use RequestKind::*;
    match request.kind {
        Create | Batch | Query | RangeQuery | Ranges => true,
        Metadata => request.method == reqwest::Method::POST,
        _ => false,
    }
}

fn operation(request: &Request<'_>) -> &'static str {
    match request.kind {
        RequestKind::Read => "read",
        RequestKind::Query | RequestKind::RangeQuery => "query",
        RequestKind::Create => "create",
        RequestKind::Replace => "replace",
        RequestKind::Patch => "patch",
        RequestKind::Delete => "delete",
        RequestKind::Batch => "write a batch to",
        RequestKind::Ranges => "list the physical ranges of",
        RequestKind::Metadata if request.method == reqwest::Method::POST => "create",
        RequestKind::Metadata => "read",
    }
}

/// The service's message, on one line and at most 400 characters.
fn service_message(answer: &Answer) -> String {
    #[derive(Deserialize)]
    struct Explained {
        message: String,
    }
    let message = match serde_json::from_slice::<Explained>(&answer.body) {
        Ok(explained) => explained.message,
        Err(_) if answer.failed.is_some() => String::new(),
        Err(_) => String::from_utf8_lossy(&answer.body).into_owned(),
    };
    let words: Vec<&str> = message.split_whitespace().collect();
    words.join(" ").chars().take(400).collect()
}
