//! A container, and its documents one at a time.
//!
//! Batches (`batch.rs`), queries of one logical partition (`query.rs`) and of all (`sweep.rs`) are further verbs of
//! the same [`Container`]. All go through `send.rs`.
//!
//! Invariant: all [`Container`]s of one client that name the same container share its consistency tokens and its ranges, so
//! what one has written the other reads.

use std::fmt;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{ETAG, HeaderMap, IF_MATCH};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::consistency::ConsistencyTokens;
use crate::observe::RequestKind;
use crate::partition_key::PartitionKey;
use crate::ranges::Range;
use crate::request::{Answer, Consistency, Request};
use crate::resource::{ContainerName, Subject, id_of};
use crate::retry::Retry;
use crate::send::Transport;
use crate::{Error, headers};

/// The largest document that the service stores.
pub const MAX_ITEM_BYTES: usize = 2 * 1024 * 1024;

/// The version of a document, which changes with each write.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
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

/// A container of documents.
#[derive(Clone, Debug)]
pub struct Container {
    transport: Arc<Transport>,
    shared: Arc<Shared>,
    within: Option<Instant>,
}

/// What all handles of one container share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) name: ContainerName,
    pub(crate) consistency: ConsistencyTokens,
    pub(crate) ranges: Mutex<Option<Arc<[Range]>>>,
}

impl Container {
    pub(crate) fn new(transport: Arc<Transport>, shared: Arc<Shared>) -> Container {
        Container {
            transport,
            shared,
            within: None,
        }
    }

    /// A cheap copy whose operations end by `deadline` at the latest.
    pub fn within(&self, deadline: Instant) -> Container {
        let within = Some(self.within.map_or(deadline, |limit| limit.min(deadline)));
        Container { within, ..self.clone() }
    }

    /// Gets ready for the first request, without sending any: reads the machine's root certificates. It blocks for some
    /// milliseconds, and the first request does it if nobody did.
    pub fn warm(&self) -> Result<(), Error> {
        self.transport.http().map(|_| ())
    }

    /// What this client has seen, in the header's own form.
    pub fn consistency_token(&self) -> Option<String> {
        self.shared.consistency.joined()
    }

    /// The same in at most `most` bytes: what was heard of last is kept, for handing on what was just written.
    pub fn recent_consistency_token(&self, most: usize) -> Option<String> {
        self.shared.consistency.recent(most)
    }

    /// Lets this client's reads see at least what another had seen. What is not a token is ignored with a warning.
    pub fn absorb_consistency_token(&self, token: &str) {
        self.shared.consistency.absorb(token);
    }

    /// Writes a new document; [`Error::Conflict`] if there is one of its id.
    pub async fn create<T: Serialize + ?Sized>(&self, pk: &PartitionKey, doc: &T, retry: Retry) -> Result<Etag, Error> {
        let body = document_body(doc, None)?;
        let mut request = self.write(RequestKind::Create, pk, retry)?;
        request.body = Some(body.clone());
        request.subject = Subject::Body {
            container: self.name(),
            partition: pk,
            body: &body,
        };
        self.etag_of(&request).await
    }

    /// Reads a document, or `None` if there is none.
    pub async fn read<T: DeserializeOwned>(&self, pk: &PartitionKey, id: &str) -> Result<Option<Found<T>>, Error> {
        let mut map = HeaderMap::new();
        headers::insert(&mut map, headers::PARTITION_KEY, &pk.header())?;
        let request = Request {
            kind: RequestKind::Read,
            method: Method::GET,
            resource: self.name().document(id)?,
            headers: map,
            body: None,
            retry: Retry::Idempotent,
            subject: Subject::Document {
                container: self.name(),
                partition: pk,
                id,
            },
            consistency: Consistency::Full(self.consistency()),
        };
        let answer = match self.send(&request).await {
            Ok(answer) => answer,
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let etag = self.etag_in(&request, &answer)?;
        let doc = serde_json::from_slice(&answer.body).map_err(|source| Error::Decode {
            what: request.subject.describe(),
            source,
        })?;
        Ok(Some(Found { doc, etag }))
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
        let mut request = self.write(RequestKind::Replace, pk, retry)?;
        request.method = Method::PUT;
        request.resource = self.name().document(id)?;
        request.body = Some(document_body(doc, Some(id))?);
        request.subject = Subject::Document {
            container: self.name(),
            partition: pk,
            id,
        };
        only_if(&mut request.headers, if_match)?;
        self.etag_of(&request).await
    }

    /// Writes a document, whether it exists or not. With `if_match` an existing one must have that ETag.
    pub async fn upsert<T: Serialize + ?Sized>(
        &self,
        pk: &PartitionKey,
        doc: &T,
        if_match: Option<&Etag>,
        retry: Retry,
    ) -> Result<Etag, Error> {
        let body = document_body(doc, None)?;
        let mut request = self.write(RequestKind::Upsert, pk, retry)?;
        headers::flag(&mut request.headers, headers::IS_UPSERT, "True");
        request.body = Some(body.clone());
        request.subject = Subject::Body {
            container: self.name(),
            partition: pk,
            body: &body,
        };
        only_if(&mut request.headers, if_match)?;
        self.etag_of(&request).await
    }

    /// Deletes a document that exists and, if given, still has the ETag `if_match`.
    pub async fn delete(
        &self,
        pk: &PartitionKey,
        id: &str,
        if_match: Option<&Etag>,
        retry: Retry,
    ) -> Result<(), Error> {
        let mut request = self.write(RequestKind::Delete, pk, retry)?;
        request.method = Method::DELETE;
        request.resource = self.name().document(id)?;
        request.subject = Subject::Document {
            container: self.name(),
            partition: pk,
            id,
        };
        only_if(&mut request.headers, if_match)?;
        self.send(&request).await.map(drop)
    }

    pub(crate) fn name(&self) -> &ContainerName {
        &self.shared.name
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(crate) fn consistency(&self) -> &ConsistencyTokens {
        &self.shared.consistency
    }

    pub(crate) fn transport(&self) -> &Transport {
        &self.transport
    }

    /// When an operation that starts now must have ended.
    pub(crate) fn deadline(&self) -> Instant {
        self.transport.deadline(self.within)
    }

    pub(crate) async fn send(&self, request: &Request<'_>) -> Result<Answer, Error> {
        let result = self.transport.send(request, self.deadline()).await;
        if let Err(Error::ContainerMissing { .. }) = &result {
            // A container that is created again has new ranges and new consistency tokens.
            self.shared.forget();
        }
        result
    }

    fn write<'a>(&'a self, kind: RequestKind, pk: &'a PartitionKey, retry: Retry) -> Result<Request<'a>, Error> {
        let mut map = HeaderMap::new();
        headers::insert(&mut map, headers::PARTITION_KEY, &pk.header())?;
        headers::flag(&mut map, headers::PREFER, "return=minimal");
        Ok(Request {
            kind,
            method: Method::POST,
            resource: self.name().documents(),
            headers: map,
            body: None,
            retry,
            subject: Subject::Partition {
                container: self.name(),
                partition: pk,
            },
            consistency: Consistency::Learn(self.consistency()),
        })
    }

    async fn etag_of(&self, request: &Request<'_>) -> Result<Etag, Error> {
        let answer = self.send(request).await?;
        self.etag_in(request, &answer)
    }

    fn etag_in(&self, request: &Request<'_>, answer: &Answer) -> Result<Etag, Error> {
        match headers::text(&answer.headers, &ETAG) {
            Some(etag) => Ok(Etag::new(etag)),
            None => Err(self.transport.protocol(request, answer, "it has no ETag")),
        }
    }
}

impl Shared {
    pub(crate) fn forget(&self) {
        self.consistency.clear();
        self.drop_ranges();
    }
}

fn only_if(map: &mut HeaderMap, if_match: Option<&Etag>) -> Result<(), Error> {
    match if_match {
        Some(etag) => headers::insert(map, IF_MATCH, etag.as_str()),
        None => Ok(()),
    }
}

fn document_body<T: Serialize + ?Sized>(doc: &T, id: Option<&str>) -> Result<Bytes, Error> {
    let body = serde_json::to_vec(doc).map_err(|source| {
        let what = id.map_or_else(|| "a document".to_owned(), |id| format!("document `{id}`"));
        Error::Encode { what, source }
    })?;
    if body.len() > MAX_ITEM_BYTES {
        let id = id.map(str::to_owned).or_else(|| id_of(&body)).unwrap_or_default();
        return Err(Error::ItemTooLarge {
            id,
            bytes: body.len(),
            limit: MAX_ITEM_BYTES,
        });
    }
    Ok(Bytes::from(body))
}
