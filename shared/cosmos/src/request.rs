//! One operation as `send.rs` sends it, and how each of its attempts ended. Plain data.

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::HeaderMap;

use crate::batch_failure::Failed;
use crate::consistency::ConsistencyTokens;
use crate::credential::CredentialKind;
use crate::observe::RequestKind;
use crate::resource::{Resource, Subject};
use crate::retry::{Outcome, Retry};
use crate::tally::Tallied;

/// One operation.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) kind: RequestKind,
    pub(crate) method: Method,
    pub(crate) resource: Resource,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Bytes>,
    pub(crate) retry: Retry,
    pub(crate) subject: Subject<'a>,
    pub(crate) consistency: Consistency<'a>,
}

impl<'a> Request<'a> {
    /// A request without headers, body and consistency tokens, which may be repeated.
    pub(crate) fn new(kind: RequestKind, method: Method, resource: Resource, subject: Subject<'a>) -> Request<'a> {
        Request {
            kind,
            method,
            resource,
            headers: HeaderMap::new(),
            body: None,
            retry: Retry::Idempotent,
            subject,
            consistency: Consistency::Unused,
        }
    }
}

/// How a request uses the consistency tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Consistency<'a> {
    /// It neither sends nor receives any.
    Unused,
    /// It sends none, and the client keeps the answer's token: writes.
    Learn(&'a ConsistencyTokens),
    /// It sends the tokens of all ranges.
    Full(&'a ConsistencyTokens),
    /// It sends the token of one range.
    Range(&'a ConsistencyTokens, &'a str),
}

/// A complete answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The operation that made a batch fail.
    pub(crate) failed: Option<Failed>,
}

/// How one attempt ended.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) outcome: Outcome,
    pub(crate) answer: Option<Answer>,
    /// Why there is no answer.
    pub(crate) trouble: String,
    /// The date that was signed.
    pub(crate) date: String,
    pub(crate) credential: CredentialKind,
}

/// What the attempts of an operation add up to.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) attempts: u32,
    /// An attempt of a write had an unknown outcome.
    pub(crate) ambiguous: bool,
    /// The service refused an attempt that had consistency tokens: the next ones send none.
    pub(crate) without_tokens: bool,
    /// Request units.
    pub(crate) charge: f64,
    /// What was sent and received.
    pub(crate) tallied: Tallied,
}
