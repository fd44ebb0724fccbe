//! Makes the [`Error`] of an operation that has ended badly: the one place where a status becomes an error.
//!
//! Invariant: when an earlier attempt of a write had an unknown outcome, a failure that would otherwise say "nothing
//! was written" becomes [`Error::Ambiguous`].

use serde::Deserialize;

use crate::error::Context;
use crate::observe::RequestKind;
use crate::request::{Answer, Attempt, Request};
use crate::retry::Verdict;
use crate::send::{Progress, Transport};
use crate::{Error, headers};

/// What usually is the matter when a document's partition key is not where the service looks for it.
const WRONG_KEY_PATH: &str =
    "does the container have another partition key path than the one that documents are written with?";

fn with_hint(mut context: Context, hint: &str) -> Context {
    context.detail = format!("{}; {hint}", context.detail);
    context
}

impl Transport {
    /// The error for the last attempt.
    pub(crate) fn failure(
        &self,
        request: &Request<'_>,
        attempt: Attempt,
        verdict: Verdict,
        progress: &Progress,
    ) -> Error {
        let mut context = self.context(request, progress, attempt.trouble);
        if let Some(answer) = &attempt.answer {
            context.status = Some(answer.status);
            context.substatus = headers::text(&answer.headers, &headers::SUBSTATUS).and_then(|text| text.parse().ok());
            context.detail = service_message(answer);
        }
        let write = request.kind.is_write();
        let context = Box::new(context);
        match verdict {
            Verdict::Unknown if write => Error::Ambiguous { context },
            Verdict::KeyRefused | Verdict::Final | Verdict::Success => {
                self.final_error(request, attempt.answer, attempt.date, context)
            }
            _ if write && progress.ambiguous => Error::Ambiguous { context },
            Verdict::Throttled(retry_after) => Error::Throttled { retry_after, context },
            Verdict::NotSent => Error::Unreachable {
                endpoint: self.endpoint().to_string(),
                context,
            },
            Verdict::ReplicaBehind => Error::ReplicaBehind { context },
            Verdict::RangeGone => Error::RangeGone { context },
            Verdict::Unknown if context.status.is_none() => Error::Timeout { context },
            Verdict::Unknown | Verdict::Unavailable | Verdict::Collided | Verdict::RegionMoved => {
                Error::Unavailable { context }
            }
        }
    }

    /// The error when not even an attempt could be made any more.
    pub(crate) fn too_late(&self, request: &Request<'_>, progress: &Progress, detail: &str) -> Error {
        let context = Box::new(self.context(request, progress, detail.to_owned()));
        if progress.ambiguous {
            Error::Ambiguous { context }
        } else {
            Error::Timeout { context }
        }
    }

    /// The error for an answer of success that lacks what it must have.
    pub(crate) fn protocol(&self, request: &Request<'_>, answer: &Answer, problem: &str) -> Error {
        let mut context = self.context(request, &Progress::default(), String::new());
        context.status = Some(answer.status);
        context.attempts = 1;
        Error::Protocol {
            problem: problem.to_owned(),
            context: Box::new(context),
        }
    }

    fn context(&self, request: &Request<'_>, progress: &Progress, detail: String) -> Context {
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

    fn final_error(&self, request: &Request<'_>, answer: Option<Answer>, here: String, context: Box<Context>) -> Error {
        if let Some(failed) = answer.as_ref().and_then(|answer| answer.failed.as_ref()) {
            let operation = failed.describe(request.body.as_deref().unwrap_or_default());
            return Error::BatchFailed {
                index: failed.index,
                status: failed.status,
                operation,
                context,
            };
        }
        let skewed = context.detail.contains("not valid at the current time");
        match (context.status.unwrap_or(0), context.substatus.unwrap_or(0)) {
            (401 | 403, _) if skewed => {
                let date = answer
                    .as_ref()
                    .and_then(|answer| headers::text(&answer.headers, &reqwest::header::DATE));
                Error::ClockSkew {
                    here,
                    there: date.unwrap_or("unknown").to_owned(),
                    context,
                }
            }
            (401, _) => Error::Unauthorized {
                endpoint: self.endpoint().to_string(),
                context,
            },
            (403, 1014) => Error::PartitionFull { context },
            (403, _) => Error::Forbidden { context },
            (404, 1003) => Error::ContainerMissing { context },
            (404, _) if addresses_container(request) => Error::ContainerMissing { context },
            (404, _) => Error::NotFound { context },
            (409, _) => Error::Conflict { context },
            (412, _) => Error::PreconditionFailed { context },
            (400, 1001) => Error::BadRequest {
                context: Box::new(with_hint(*context, WRONG_KEY_PATH)),
            },
            _ => Error::BadRequest { context },
        }
    }
}

/// Whether a 404 can only mean that the container, or its database, is missing.
fn addresses_container(request: &Request<'_>) -> bool {
    use RequestKind::*;
    match request.kind {
        Create | Upsert | Batch | Query | RangeQuery | Ranges => true,
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
        RequestKind::Upsert => "upsert",
        RequestKind::Delete => "delete",
        RequestKind::Batch => "write a batch to",
        RequestKind::Ranges => "list the physical ranges of",
        RequestKind::Metadata if request.method == reqwest::Method::POST => "create",
        RequestKind::Metadata => "read",
    }
}

/// What the service said, on one line and not endless.
fn service_message(answer: &Answer) -> String {
    #[derive(Deserialize)]
    struct Said {
        message: String,
    }
    let message = match serde_json::from_slice::<Said>(&answer.body) {
        Ok(said) => said.message,
        Err(_) if answer.failed.is_some() => String::new(),
        Err(_) => String::from_utf8_lossy(&answer.body).into_owned(),
    };
    let words: Vec<&str> = message.split_whitespace().collect();
    words.join(" ").chars().take(400).collect()
}
