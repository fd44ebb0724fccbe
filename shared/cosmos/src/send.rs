//! The one place that sends, and the one loop that sends again.
//!
//! ```text
//!   Request --sign--> attempt --judge (retry.rs)--> answer
//!               ^                    |  \-- failure (failure.rs)
//!               \---- wait, new date-/
//! ```
//!
//! Invariants: each attempt is signed anew; each attempt is observed; no wait and no attempt reaches beyond the
//! deadline; once an attempt of a write had an unknown outcome the operation never again reports "nothing happened".

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use url::Url;

use crate::auth::{self, Signable};
use crate::batch_failure;
use crate::clock::Clock;
use crate::config::ClientConfig;
use crate::http::Http;
use crate::key::{Key, KeySource};
use crate::observe::{Observed, Observer, RequestKind};
use crate::request::{Answer, Attempt, Consistency, Request};
use crate::retry::{Backoff, Outcome, Verdict, judge};
use crate::{Error, headers};

/// The version of the REST interface that this crate speaks.
const API_VERSION: &str = "2020-07-15";
const JSON: &str = "application/json";

/// Everything that all requests share.
#[derive(Debug)]
pub(crate) struct Transport {
    http: Http,
    endpoint: Url,
    key: Arc<dyn KeySource>,
    clock: Arc<dyn Clock>,
    observer: Option<Arc<dyn Observer>>,
    operation_timeout: Duration,
    request_timeout: Duration,
    consistency_patience: Duration,
}

/// What the loop remembers between attempts.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) attempts: u32,
    pub(crate) ambiguous: bool,
    rotated: Option<Key>,
    asked_for_key: bool,
}

impl Transport {
    pub(crate) fn new(config: ClientConfig) -> Transport {
        Transport {
            http: Http::new(config.connect_timeout, config.endpoint.scheme() == "https"),
            endpoint: config.endpoint,
            key: config.key,
            clock: config.clock,
            observer: config.observer,
            operation_timeout: config.operation_timeout,
            request_timeout: config.request_timeout,
            consistency_patience: config.consistency_patience,
        }
    }

    pub(crate) fn http(&self) -> Result<&reqwest::Client, Error> {
        self.http.client()
    }

    /// When an operation that starts now must have ended.
    pub(crate) fn deadline(&self, within: Option<Instant>) -> Instant {
        let own = Instant::now() + self.operation_timeout;
        within.map_or(own, |limit| limit.min(own))
    }

    pub(crate) fn endpoint(&self) -> &Url {
        &self.endpoint
    }

    /// Sends until there is a final answer or the deadline comes.
    pub(crate) async fn send(&self, request: &Request<'_>, deadline: Instant) -> Result<Answer, Error> {
        let mut backoff = Backoff::default();
        let mut progress = Progress::default();
        let mut behind_since = None;
        loop {
            let key = self.key_for(request, &progress, deadline).await?;
            progress.attempts += 1;
            let mut attempt = self.attempt(request, &key, progress.attempts, deadline).await?;
            let verdict = judge(attempt.outcome);
            if verdict == Verdict::ReplicaBehind
                && behind_since.get_or_insert_with(Instant::now).elapsed() >= self.consistency_patience
            {
                forget(request);
            }
            let wait = match verdict {
                Verdict::Success => match attempt.answer.take() {
                    Some(answer) => return Ok(answer),
                    None => None,
                },
                Verdict::KeyRefused => self.rotate(&key, &mut progress, deadline).await,
                _ => backoff.wait(verdict, request.kind, request.retry),
            };
            match wait {
                Some(wait) if Instant::now() + wait < deadline => {
                    tracing::debug!(
                        kind = ?request.kind, outcome = ?attempt.outcome, trouble = attempt.trouble,
                        attempt = progress.attempts, ?wait, "sending again"
                    );
                    progress.ambiguous |= verdict == Verdict::Unknown && request.kind.is_write();
                    sleep(wait).await;
                }
                _ => return Err(self.failure(request, attempt, verdict, &progress)),
            }
        }
    }

    /// The key for the next attempt: the rotated one, once there is one, else the source's.
    async fn key_for(&self, request: &Request<'_>, progress: &Progress, deadline: Instant) -> Result<Key, Error> {
        if Instant::now() >= deadline {
            return Err(self.too_late(request, progress, "the time limit was over before sending"));
        }
        if let Some(key) = &progress.rotated {
            return Ok(key.clone());
        }
        match timeout_at(deadline, self.key.key()).await {
            Ok(Ok(key)) => Ok(key),
            Ok(Err(error)) if progress.ambiguous => Err(self.too_late(request, progress, &error.to_string())),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(self.too_late(request, progress, "the key source did not answer")),
        }
    }

    /// Asks for a new key, once per operation. A wait of zero means that there is one.
    async fn rotate(&self, refused: &Key, progress: &mut Progress, deadline: Instant) -> Option<Duration> {
        if std::mem::replace(&mut progress.asked_for_key, true) {
            return None;
        }
        match timeout_at(deadline, self.key.refresh()).await {
            Ok(Ok(key)) if key != *refused => {
                tracing::info!("the account key was refused, and its source gave another");
                progress.rotated = Some(key);
                Some(Duration::ZERO)
            }
            Ok(Err(error)) => {
                // The caller gets the refusal itself, which says what to check.
                tracing::warn!(%error, "the account key was refused, and its source gave no other");
                None
            }
            _ => None,
        }
    }

    async fn attempt(
        &self,
        request: &Request<'_>,
        key: &Key,
        number: u32,
        deadline: Instant,
    ) -> Result<Attempt, Error> {
        let http = self.http()?;
        let started = Instant::now();
        let date = auth::http_date(self.clock.now_ms());
        let signed = self.signed(request, key, &date)?;
        let limit = self.request_timeout.min(deadline.saturating_duration_since(started));
        let (outcome, answer, trouble) = match timeout(limit, exchange(http, request.kind, signed)).await {
            Ok(Ok((outcome, answer))) => (outcome, Some(answer), String::new()),
            Ok(Err(error)) if error.is_connect() || error.is_builder() => (Outcome::NotSent, None, chain(&error)),
            Ok(Err(error)) => (Outcome::Lost, None, chain(&error)),
            Err(_) => (
                Outcome::Lost,
                None,
                format!("no answer from {} within {} ms", self.endpoint(), limit.as_millis()),
            ),
        };
        self.report(request, number, started.elapsed(), answer.as_ref());
        // A replica that is behind echoes what it was asked for: nothing to learn.
        if let Some(answer) = answer.as_ref().filter(|_| judge(outcome) != Verdict::ReplicaBehind) {
            learn(request, answer);
        }
        Ok(Attempt {
            outcome,
            answer,
            trouble,
            date,
        })
    }

    fn signed(&self, request: &Request<'_>, key: &Key, date: &str) -> Result<reqwest::Request, Error> {
        let resource = &request.resource;
        let what = Signable {
            verb: request.method.as_str(),
            resource_type: resource.kind,
            link: &resource.link,
        };
        let mut url = self.endpoint.clone();
        url.set_path(&resource.path);
        let mut signed = reqwest::Request::new(request.method.clone(), url);
        let map = signed.headers_mut();
        headers::insert(map, AUTHORIZATION, &auth::authorization(key, what, date))?;
        headers::insert(map, headers::DATE, date)?;
        headers::flag(map, headers::VERSION, API_VERSION);
        headers::flag(map, ACCEPT, JSON);
        headers::flag(map, USER_AGENT, concat!("cosmos-rest/", env!("CARGO_PKG_VERSION")));
        if request.body.is_some() {
            headers::flag(map, CONTENT_TYPE, JSON);
        }
        let token = match request.consistency {
            Consistency::Apart | Consistency::Learn(_) => None,
            Consistency::Full(tokens) => tokens.joined(),
            Consistency::Range(tokens, range) => tokens.of_range(range),
        };
        if let Some(token) = token {
            headers::insert(map, headers::CONSISTENCY_TOKEN, &token)?;
        }
        for (name, value) in &request.headers {
            map.insert(name, value.clone());
        }
        *signed.body_mut() = request.body.clone().map(reqwest::Body::from);
        Ok(signed)
    }

    fn report(&self, request: &Request<'_>, attempt: u32, duration: Duration, answer: Option<&Answer>) {
        let Some(observer) = &self.observer else {
            return;
        };
        let header = |name| answer.and_then(|answer| headers::text(&answer.headers, name));
        observer.observed(&Observed {
            kind: request.kind,
            status: answer.map(|answer| answer.status),
            substatus: header(&headers::SUBSTATUS).and_then(|text| text.parse().ok()),
            duration,
            request_bytes: request.body.as_ref().map_or(0, |body| body.len() as u64),
            response_bytes: answer.map_or(0, |answer| answer.body.len() as u64),
            charge: header(&headers::CHARGE)
                .and_then(|text| text.parse().ok())
                .unwrap_or(0.0),
            attempt,
        });
    }
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
    let substatus = headers::text(&headers, &headers::SUBSTATUS)
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    let retry_after = headers::retry_after(&headers);
    // A batch tells of its failure inside a 207.
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
        Consistency::Apart => return,
        Consistency::Learn(tokens) | Consistency::Full(tokens) | Consistency::Range(tokens, _) => tokens,
    };
    if let Some(token) = headers::text(&answer.headers, &headers::CONSISTENCY_TOKEN) {
        tokens.absorb(token);
    }
}

/// No replica has met the token for long: it names writes that are lost, and the next attempt goes without it.
fn forget(request: &Request<'_>) {
    match request.consistency {
        Consistency::Apart | Consistency::Learn(_) => return,
        Consistency::Full(tokens) => tokens.clear(),
        Consistency::Range(tokens, range) => tokens.forget(range),
    }
    tracing::warn!(kind = ?request.kind, "no replica has met the consistency token for long: reading without it");
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
