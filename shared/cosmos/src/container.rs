//! A container, and its documents one at a time.
//!
//! Patches (`patch.rs`), batches (`batch.rs`), queries of one logical partition (`query.rs`) and of all (`sweep.rs`) are
//! further methods of the same [`Container`]. All go through `send.rs`.
//!
//! Invariant: all [`Container`]s of one client that name the same container share its consistency tokens and its
//! ranges, so each reads what another has written.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{ETAG, HeaderMap, IF_MATCH, IF_NONE_MATCH};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::consistency::ConsistencyTokens;
use crate::error::Error;
use crate::failure::protocol;
use crate::headers;
use crate::observe::RequestKind;
use crate::partition_key::PartitionKey;
use crate::ranges::RangeCache;
use crate::request::{Answer, Consistency, Request};
use crate::resource::{ContainerName, Subject, id_of};
use crate::retry::Retry;
use crate::send::Transport;
use crate::tally::Tally;

/// The largest document that the service stores.
pub const MAX_ITEM_BYTES: usize = 2 * 1024 * 1024;

const NOT_MODIFIED: u16 = 304;

/// The version of a document, which changes with each write.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Etag(String);

impl Etag {
    /// Takes an ETag as the service wrote it, quotes included.
    pub fn new(text: impl Into<String>) -> Etag {
        Etag(text.into())
    }

    /// The ETag as the service wrote it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Etag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A document that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found<T> {
    /// The document.
    pub doc: T,
    /// Its version.
    pub etag: Etag,
}

/// What a conditional read found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed<T> {
    /// The document is still the one whose ETag was given.
    Unchanged,
    /// Another version of it.
    Newer(Found<T>),
    /// There is no such document.
    Missing,
}

/// A container of documents.
#[derive(Clone, Debug)]
pub struct Container {
    transport: Arc<Transport>,
    shared: Arc<Shared>,
    within: Option<Instant>,
    tally: Option<Arc<Tally>>,
}

/// What all handles of one container share.
#[derive(Debug)]
pub(crate) struct Shared {
    name: ContainerName,
    consistency: ConsistencyTokens,
    ranges: RangeCache,
}

impl Shared {
    pub(crate) fn new(name: ContainerName) -> Shared {
        Shared {
            name,
            consistency: ConsistencyTokens::default(),
            ranges: RangeCache::default(),
        }
    }

    /// Forgets everything: a container that is created again has new ranges and new consistency tokens.
    pub(crate) fn forget(&self) {
        self.consistency.clear();
        self.ranges.clear();
    }
}

impl Container {
    pub(crate) fn new(transport: Arc<Transport>, shared: Arc<Shared>) -> Container {
        Container {
            transport,
            shared,
            within: None,
            tally: None,
        }
    }

    /// A cheap copy whose operations end by `deadline` at the latest.
    pub fn within(&self, deadline: Instant) -> Container {
        let within = Some(self.within.map_or(deadline, |limit| limit.min(deadline)));
        Container { within, ..self.clone() }
    }

    /// A cheap copy whose operations are counted there.
    pub fn tallied(&self, tally: &Arc<Tally>) -> Container {
        Container {
            tally: Some(Arc::clone(tally)),
            ..self.clone()
        }
    }

    /// Where its operations are counted.
    pub fn tally(&self) -> Option<&Arc<Tally>> {
        self.tally.as_ref()
    }

    /// Prepares the first request without sending any: reads the machine's root certificates, which blocks for some
    /// milliseconds. Without this call the first request does it.
    pub fn warm(&self) -> Result<(), Error> {
        self.transport.warm()
    }

    /// What this client has seen: the consistency tokens of all ranges, in the header's form.
    pub fn consistency_token(&self) -> Option<String> {
        self.shared.consistency.joined()
    }

    /// The same in at most `most` bytes, the most recent tokens first: enough to pass on what was just written.
    pub fn recent_consistency_token(&self, most: usize) -> Option<String> {
        self.shared.consistency.recent(most)
    }

    /// Makes this client's reads at least as fresh as those of the client that gave the token. Logs a warning about
    /// what is not a token, and ignores it.
    pub fn absorb_consistency_token(&self, token: &str) {
        self.shared.consistency.absorb(token);
    }

    /// Writes a new document; [`Error::Conflict`] if one with its id exists.
    pub async fn create<T: Serialize + ?Sized>(&self, pk: &PartitionKey, doc: &T, retry: Retry) -> Result<Etag, Error> {
        let body = document_body(doc, None)?;
        let subject = Subject::Body {
            container: self.name(),
            partition: pk,
            body: &body,
        };
        let request = Request {
            headers: write_headers(pk, None)?,
            body: Some(body.clone()),
            retry,
            consistency: Consistency::Learn(self.consistency()),
            ..Request::new(RequestKind::Create, Method::POST, self.name().documents(), subject)
        };
        etag_in(&request, &self.send(&request).await?)
    }

    /// Reads a document, or `None` if it does not exist.
    pub async fn read<T: DeserializeOwned>(&self, pk: &PartitionKey, id: &str) -> Result<Option<Found<T>>, Error> {
        let request = Request {
            headers: partition_headers(pk)?,
            consistency: Consistency::Full(self.consistency()),
            ..self.of_document(RequestKind::Read, Method::GET, pk, id)?
        };
        let answer = match self.send(&request).await {
            Ok(answer) => answer,
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        found_in(&request, &answer).map(Some)
    }

    /// Reads a document unless it still has this ETag.
    pub async fn read_if_changed<T: DeserializeOwned>(
        &self,
        pk: &PartitionKey,
        id: &str,
        seen: &Etag,
    ) -> Result<Changed<T>, Error> {
        let mut map = partition_headers(pk)?;
        headers::insert(&mut map, IF_NONE_MATCH, seen.as_str())?;
        let request = Request {
            headers: map,
            consistency: Consistency::Full(self.consistency()),
            ..self.of_document(RequestKind::Read, Method::GET, pk, id)?
        };
        match self.send(&request).await {
            Ok(answer) if answer.status == NOT_MODIFIED => Ok(Changed::Unchanged),
            Ok(answer) => found_in(&request, &answer).map(Changed::Newer),
            Err(Error::NotFound { .. }) => Ok(Changed::Missing),
            Err(error) => Err(error),
        }
    }

    /// Replaces a document that exists and, if given, still has the ETag `if_match`.
    pub async fn replace<T: Serialize + ?Sized>(
        &self,
        pk: &PartitionKey,
        id: &str,
        doc: &T,
        if_match: Option<&Etag>,
        retry: Retry,
    ) -> Result<Etag, Error> {
        let request = Request {
            headers: write_headers(pk, if_match)?,
            body: Some(document_body(doc, Some(id))?),
            retry,
            consistency: Consistency::Learn(self.consistency()),
            ..self.of_document(RequestKind::Replace, Method::PUT, pk, id)?
        };
        etag_in(&request, &self.send(&request).await?)
    }

    /// Deletes a document that exists and, if given, still has the ETag `if_match`.
    pub async fn delete(
        &self,
        pk: &PartitionKey,
        id: &str,
        if_match: Option<&Etag>,
        retry: Retry,
    ) -> Result<(), Error> {
        let request = Request {
            headers: write_headers(pk, if_match)?,
            retry,
            consistency: Consistency::Learn(self.consistency()),
            ..self.of_document(RequestKind::Delete, Method::DELETE, pk, id)?
        };
        self.send(&request).await.map(drop)
    }

    pub(crate) fn name(&self) -> &ContainerName {
        &self.shared.name
    }

    pub(crate) fn consistency(&self) -> &ConsistencyTokens {
        &self.shared.consistency
    }

    pub(crate) fn range_cache(&self) -> &RangeCache {
        &self.shared.ranges
    }

    /// The deadline of an operation that starts now.
    pub(crate) fn deadline(&self) -> Instant {
        self.transport.deadline(self.within)
    }

    pub(crate) async fn send(&self, request: &Request<'_>) -> Result<Answer, Error> {
        let result = self
            .transport
            .send(request, self.deadline(), self.tally.as_deref())
            .await;
        if let Err(Error::ContainerMissing { .. }) = &result {
            self.shared.forget();
        }
        result
    }

    pub(crate) fn of_document<'a>(
        &'a self,
        kind: RequestKind,
        method: Method,
        partition: &'a PartitionKey,
        id: &'a str,
    ) -> Result<Request<'a>, Error> {
        let container = self.name();
        let subject = Subject::Document {
            container,
            partition,
            id,
        };
        Ok(Request::new(kind, method, container.document(id)?, subject))
    }
}

/// The header that sends a request to one logical partition.
pub(crate) fn partition_headers(pk: &PartitionKey) -> Result<HeaderMap, Error> {
    let mut map = HeaderMap::new();
    headers::insert(&mut map, headers::PARTITION_KEY, &pk.header())?;
    Ok(map)
}

/// The headers of a write, whose answer needs no document.
pub(crate) fn write_headers(pk: &PartitionKey, if_match: Option<&Etag>) -> Result<HeaderMap, Error> {
    let mut map = partition_headers(pk)?;
    headers::flag(&mut map, headers::PREFER, "return=minimal");
    if let Some(etag) = if_match {
        headers::insert(&mut map, IF_MATCH, etag.as_str())?;
    }
    Ok(map)
}

/// Refuses a document that the service would not store.
pub(crate) fn check_size(id: impl FnOnce() -> String, bytes: usize) -> Result<(), Error> {
    if bytes <= MAX_ITEM_BYTES {
        return Ok(());
    }
    Err(Error::ItemTooLarge {
        id: id(),
        bytes,
        limit: MAX_ITEM_BYTES,
    })
}

/// The document of an answer, in its version.
pub(crate) fn found_in<T: DeserializeOwned>(request: &Request<'_>, answer: &Answer) -> Result<Found<T>, Error> {
    let etag = etag_in(request, answer)?;
    let doc = serde_json::from_slice(&answer.body).map_err(|source| Error::Decode {
        what: request.subject.describe(),
        source,
    })?;
    Ok(Found { doc, etag })
}

fn etag_in(request: &Request<'_>, answer: &Answer) -> Result<Etag, Error> {
    match headers::text(&answer.headers, &ETAG) {
        Some(etag) => Ok(Etag::new(etag)),
        None => Err(protocol(request, answer, "it has no ETag")),
    }
}

pub(crate) fn document_body<T: Serialize + ?Sized>(doc: &T, id: Option<&str>) -> Result<Bytes, Error> {
    let body = serde_json::to_vec(doc).map_err(|source| {
        let what = id.map_or_else(|| "a document".to_owned(), |id| format!("document `{id}`"));
        Error::Encode { what, source }
    })?;
    let id = || id.map(str::to_owned).or_else(|| id_of(&body)).unwrap_or_default();
    check_size(id, body.len())?;
    Ok(Bytes::from(body))
}
