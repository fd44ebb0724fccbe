//! The one place that sends, and the one loop that repeats.
//!
//! ```text
//!   Request --sign--> attempt --classify (retry.rs)--> answer
//!               ^                    |   \-- failure (failure.rs)
//!               \---- wait, new date-/
//! ```
//!
//! Invariants: each attempt has its own signature; each attempt is observed; no wait and no attempt exceeds the
//! deadline; once an attempt of a write had an unknown outcome the operation never reports "nothing was written".
//!
//! Each operation is a span `cosmos_request` of level DEBUG: the operation and the container, and at its end status,
//! substatus, attempts, request units and duration. It never has document ids, partition keys or payloads.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tracing::field::Empty;
use tracing::{Instrument as _, Span};
use url::Url;

use crate::auth;
use crate::batch_failure;
use crate::clock::Clock;
use crate::config::ClientConfig;
use crate::credential::{Credential, CredentialSource};
use crate::error::Error;
use crate::failure::{failure, too_late};
use crate::headers;
use crate::http::Http;
use crate::observe::{Observed, Observer, RequestKind};
use crate::request::{Answer, Attempt, Consistency, Progress, Request};
use crate::retry::{Backoff, Class, Outcome, classify};
use crate::tally::Tally;

/// The version of the REST interface that this crate uses.
const API_VERSION: &str = "2020-07-15";
const JSON: &str = "application/json";

/// What all requests of a client share.
#[derive(Debug)]
pub(crate) struct Transport {
    http: Http,
    endpoint: Url,
    credential: Arc<dyn CredentialSource>,
    clock: Arc<dyn Clock>,
    observer: Option<Arc<dyn Observer>>,
    operation_timeout: Duration,
    request_timeout: Duration,
    consistency_patience: Duration,
}

/// The credential that replaced a refused one, at most one per operation.
#[derive(Debug, Default)]
struct Rotation {
    replacement: Option<Credential>,
    tried: bool,
}

impl Transport {
    pub(crate) fn new(config: ClientConfig) -> Transport {
        Transport {
            http: Http::new(config.endpoint.scheme() == "https"),
            endpoint: config.endpoint,
            credential: config.credential,
            clock: config.clock,
            observer: config.observer,
            operation_timeout: config.operation_timeout,
            request_timeout: config.request_timeout,
            consistency_patience: config.consistency_patience,
        }
    }

    /// Creates the HTTP clients, of the account and of the credential's source.
    pub(crate) fn warm(&self) -> Result<(), Error> {
        self.credential.warm();
        self.http.connections().map(drop)
    }

    /// The deadline of an operation that starts now.
    pub(crate) fn deadline(&self, within: Option<Instant>) -> Instant {
        let own = Instant::now() + self.operation_timeout;
        within.map_or(own, |limit| limit.min(own))
    }

    /// Sends until there is a final answer or the deadline comes. The attempts are counted in `tally`.
    pub(crate) async fn send(
        &self,
        request: &Request<'_>,
        deadline: Instant,
        tally: Option<&Tally>,
    ) -> Result<Answer, Error> {
        let span = tracing::debug_span!(
            "cosmos_request",
            operation = request.kind.name(),
            container = request.subject.container(),
            status = Empty,
            substatus = Empty,
            attempts = Empty,
            charge = Empty,
            duration_ms = Empty,
        );
        let started = Instant::now();
        let mut progress = Progress::default();
        let attempts = self.repeat(request, deadline, &mut progress);
        let result = attempts.instrument(span.clone()).await;
        record(&span, &result, &progress, started.elapsed());
        if let Some(tally) = tally {
            tally.add(progress.tallied);
        }
        result
    }

    async fn repeat(&self, request: &Request<'_>, deadline: Instant, progress: &mut Progress) -> Result<Answer, Error> {
        let mut backoff = Backoff::default();
        let mut rotation = Rotation::default();
        let mut behind_since = None;
        loop {
            let credential = self.credential_for(request, progress, &rotation, deadline).await?;
            let mut attempt = self.attempt(request, &credential, progress, deadline).await?;
            let class = classify(attempt.outcome);
            if class == Class::ReplicaBehind
                && behind_since.get_or_insert_with(Instant::now).elapsed() >= self.consistency_patience
            {
                forget(
                    request,
                    "no replica has reached the consistency token; reading without it",
                );
            }
            let is_final = matches!(class, Class::Success | Class::Final);
            if progress.without_tokens && is_final && !refuses_tokens(attempt.outcome) {
                forget(request, "the service refuses the consistency token; it is forgotten");
                attempt.answer.iter().for_each(|answer| learn(request, answer));
            }
            let wait = match class {
                Class::Success => match attempt.answer.take() {
                    Some(answer) => return Ok(answer),
                    None => None,
                },
                Class::CredentialRefused => self.rotate(&credential, &mut rotation, deadline).await,
                // Whether the tokens are to blame, the same request without them shows.
                Class::Final if refuses_tokens(attempt.outcome) && token_of(request, progress).is_some() => {
                    progress.without_tokens = true;
                    Some(Duration::ZERO)
                }
                _ => backoff.wait(class, request.kind, request.retry),
            };
            if let Some(wait) = wait.filter(|wait| Instant::now() + *wait < deadline) {
                let (outcome, trouble) = (attempt.outcome, &attempt.trouble);
                tracing::debug!(attempt = progress.attempts, ?outcome, trouble, ?wait, "sending again");
                progress.ambiguous |= class == Class::Unknown && request.kind.is_write();
                sleep(wait).await;
                // On a busy machine the wait may exceed the deadline: the last failure says more than a timeout.
                if Instant::now() < deadline {
                    continue;
                }
            }
            return Err(failure(request, attempt, class, progress, &self.endpoint));
        }
    }

    /// The credential for the next attempt: the replacement of a refused one, else the source's.
    async fn credential_for(
        &self,
        request: &Request<'_>,
        progress: &Progress,
        rotation: &Rotation,
        deadline: Instant,
    ) -> Result<Credential, Error> {
        if Instant::now() >= deadline {
            return Err(too_late(request, progress, "the time limit was over before sending"));
        }
        if let Some(replacement) = &rotation.replacement {
            return Ok(replacement.clone());
        }
        match timeout_at(deadline, self.credential.credential()).await {
            Ok(Ok(credential)) => Ok(credential),
            Ok(Err(error)) if progress.ambiguous => Err(too_late(request, progress, &error.to_string())),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(too_late(
                request,
                progress,
                "the source of the key or token did not answer",
            )),
        }
    }

    /// Fetches a new credential, once per operation. `Some(0)` means that there is one.
    async fn rotate(&self, refused: &Credential, rotation: &mut Rotation, deadline: Instant) -> Option<Duration> {
        if std::mem::replace(&mut rotation.tried, true) {
            return None;
        }
        let kind = refused.kind().name();
        match timeout_at(deadline, self.credential.refresh(refused)).await {
            Ok(Ok(replacement)) if replacement != *refused => {
                tracing::info!("the account refused the {kind}; its source returned another one");
                rotation.replacement = Some(replacement);
                Some(Duration::ZERO)
            }
            Ok(Err(error)) => {
                // The caller gets the refusal itself, which says what to check.
                tracing::warn!(%error, "the account refused the {kind}; its source returned no other");
                None
            }
            _ => None,
        }
    }

    async fn attempt(
        &self,
        request: &Request<'_>,
        credential: &Credential,
        progress: &mut Progress,
        deadline: Instant,
    ) -> Result<Attempt, Error> {
        progress.attempts += 1;
        let connections = self.http.connections()?;
        let started = Instant::now();
        let date = auth::http_date(self.clock.now_ms());
        let signed = self.signed(request, credential, &date, token_of(request, progress))?;
        let limit = self.request_timeout.min(deadline.saturating_duration_since(started));
        let (outcome, answer, trouble) = match timeout(limit, exchange(&connections.client, request.kind, signed)).await
        {
            Ok(Ok((outcome, answer))) => (outcome, Some(answer), String::new()),
            Ok(Err(error)) if error.is_connect() || error.is_builder() => (Outcome::NotSent, None, chain(&error)),
            Ok(Err(error)) => (Outcome::Lost, None, chain(&error)),
            Err(_) => (
                Outcome::Lost,
                None,
                format!("no answer from {} within {} ms", self.endpoint, limit.as_millis()),
            ),
        };
        match outcome {
            Outcome::Answer { .. } => self.http.answered(&connections),
            Outcome::Lost => self.http.lost(&connections),
            Outcome::NotSent => {}
        }
        let charge = self.report(request, progress.attempts, started.elapsed(), answer.as_ref());
        progress.charge += charge;
        if !matches!(outcome, Outcome::NotSent) {
            let (sent, received) = (
                bytes_of(request),
                answer.as_ref().map_or(0, |answer| answer.body.len() as u64),
            );
            progress.tallied.add(charge, sent, received);
        }
        // A replica that is behind returns the token that it was sent: nothing to learn.
        if let Some(answer) = answer.as_ref().filter(|_| classify(outcome) != Class::ReplicaBehind) {
            learn(request, answer);
        }
        Ok(Attempt {
            outcome,
            answer,
            trouble,
            date,
            credential: credential.kind(),
        })
    }

    fn signed(
        &self,
        request: &Request<'_>,
        credential: &Credential,
        date: &str,
        token: Option<String>,
    ) -> Result<reqwest::Request, Error> {
        let resource = &request.resource;
        let mut url = self.endpoint.clone();
        url.set_path(&resource.path);
        let mut signed = reqwest::Request::new(request.method.clone(), url);
        let map = signed.headers_mut();
        headers::insert(
            map,
            AUTHORIZATION,
            &auth::authorization(credential, request.method.as_str(), resource, date),
        )?;
        headers::insert(map, headers::DATE, date)?;
        headers::flag(map, headers::VERSION, API_VERSION);
        headers::flag(map, ACCEPT, JSON);
        headers::flag(map, USER_AGENT, concat!("cosmos-rest/", env!("CARGO_PKG_VERSION")));
        if request.body.is_some() {
            headers::flag(map, CONTENT_TYPE, JSON);
        }
        if let Some(token) = token {
            headers::insert(map, headers::CONSISTENCY_TOKEN, &token)?;
        }
        for (name, value) in &request.headers {
            map.insert(name, value.clone());
        }
        *signed.body_mut() = request.body.clone().map(reqwest::Body::from);
        Ok(signed)
    }

    /// Reports an attempt to the observer, and returns its charge.
    fn report(&self, request: &Request<'_>, attempt: u32, duration: Duration, answer: Option<&Answer>) -> f64 {
        let charge = answer
            .and_then(|answer| headers::number(&answer.headers, &headers::CHARGE))
            .unwrap_or(0.0);
        if let Some(observer) = &self.observer {
            observer.observed(&Observed {
                kind: request.kind,
                status: answer.map(|answer| answer.status),
                substatus: answer.and_then(|answer| headers::number(&answer.headers, &headers::SUBSTATUS)),
                duration,
                request_bytes: bytes_of(request),
                response_bytes: answer.map_or(0, |answer| answer.body.len() as u64),
                charge,
                attempt,
            });
        }
        charge
    }
}

fn bytes_of(request: &Request<'_>) -> u64 {
    request.body.as_ref().map_or(0, |body| body.len() as u64)
}

/// Adds to the span how the operation ended.
fn record(span: &Span, result: &Result<Answer, Error>, progress: &Progress, duration: Duration) {
    if span.is_disabled() {
        return;
    }
    let (status, substatus) = match result {
        Ok(answer) => (Some(answer.status), None),
        Err(error) => error
            .context()
            .map_or((None, None), |about| (about.status, about.substatus)),
    };
    span.record("status", status);
    span.record("substatus", substatus);
    span.record("attempts", progress.attempts);
    span.record("charge", progress.charge);
    span.record("duration_ms", duration.as_secs_f64() * 1_000.0);
}

async fn exchange(
    http: &reqwest::Client,
    kind: RequestKind,
    signed: reqwest::Request,
) -> reqwest::Result<(Outcome, Answer)> {
    let response = http.execute(signed).await?;
    let status = response.status().as_u16();
    let headers = response.headers().clone();
    let body = response.bytes().await?;
    let substatus = headers::number(&headers, &headers::SUBSTATUS).unwrap_or(0);
    let retry_after = headers::retry_after(&headers);
    // A failed batch is a 207 with the status inside.
    let failed = match (kind, status) {
        (RequestKind::Batch, 200 | 207) => batch_failure::failed(&body),
        _ => None,
    };
    let outcome = match &failed {
        Some(failed) => Outcome::Answer {
            status: failed.as_answer(),
            substatus: failed.substatus,
            retry_after: failed.retry_after.or(retry_after),
        },
        None => Outcome::Answer {
            status,
            substatus,
            retry_after,
        },
    };
    Ok((
        outcome,
        Answer {
            status,
            headers,
            body,
            failed,
        },
    ))
}

fn learn(request: &Request<'_>, answer: &Answer) {
    let tokens = match request.consistency {
        Consistency::Unused => return,
        Consistency::Learn(tokens) | Consistency::Full(tokens) | Consistency::Range(tokens, _) => tokens,
    };
    if let Some(token) = headers::text(&answer.headers, &headers::CONSISTENCY_TOKEN) {
        tokens.learn(token);
    }
}

/// The consistency tokens that the next attempt sends.
fn token_of(request: &Request<'_>, progress: &Progress) -> Option<String> {
    match request.consistency {
        _ if progress.without_tokens => None,
        Consistency::Unused | Consistency::Learn(_) => None,
        Consistency::Full(tokens) => tokens.joined(),
        Consistency::Range(tokens, range) => tokens.of_range(range),
    }
}

/// Whether an answer may mean that a consistency token is not one, or that the tokens are too long for a header.
fn refuses_tokens(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Answer { status: 400 | 431, .. })
}

/// Forgets the tokens of a request: they name writes that were lost, or are no tokens of this container.
fn forget(request: &Request<'_>, why: &str) {
    match request.consistency {
        Consistency::Unused | Consistency::Learn(_) => return,
        Consistency::Full(tokens) => tokens.clear(),
        Consistency::Range(tokens, range) => tokens.forget(range),
    }
    // The span has these fields too, but not at the default level.
    let (operation, container) = (request.kind.name(), request.subject.container());
    tracing::warn!(operation, container, "{why}");
}

/// An error with all its causes, because the outermost only says "error sending request".
fn chain(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
