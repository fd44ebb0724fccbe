//! A PATCH: changes of single fields of one document, whose answer is the whole document after them.
//!
//! It replaces a read and a replace where the caller knows the version but not the content. It always has `If-Match`: a
//! repeated attempt then applies nothing twice (`incr` included), and a document that has changed since stays untouched.
//! After a lost answer the repetition fails with [`Error::PreconditionFailed`] and
//! [`after_ambiguity`](Error::after_ambiguity): the caller reads the document, and knows its own change by a marker that
//! the patch has set.

use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, IF_MATCH};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::container::{Container, Etag, Found, document_body, found_in, partition_headers};
use crate::error::Error;
use crate::headers;
use crate::observe::RequestKind;
use crate::partition_key::PartitionKey;
use crate::request::{Consistency, Request};
use crate::retry::Retry;

const CONTENT: &str = "application/json_patch+json";

/// Changes of single fields, in order; the service takes at most 10. A field is named by its path, such as `/stock`; its
/// parent must exist.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Patch {
    operations: Vec<Operation>,
}

#[derive(Clone, Debug, Serialize)]
struct Operation {
    op: &'static str,
    path: &'static str,
    value: Value,
}

impl Patch {
    /// No changes.
    pub fn new() -> Patch {
        Patch::default()
    }

    /// Gives a field this value, whether it exists or not.
    #[must_use]
    pub fn set(self, path: &'static str, value: impl Into<Value>) -> Patch {
        self.with("set", path, value.into())
    }

    /// Adds to a number. A field that does not exist gets this value.
    #[must_use]
    pub fn increment(self, path: &'static str, by: i64) -> Patch {
        self.with("incr", path, by.into())
    }

    fn with(mut self, op: &'static str, path: &'static str, value: Value) -> Patch {
        self.operations.push(Operation { op, path, value });
        self
    }
}

impl Container {
    /// Changes a document that still has the ETag `if_match`. Returns it as it is after the change.
    pub async fn patch<T: DeserializeOwned>(
        &self,
        pk: &PartitionKey,
        id: &str,
        patch: &Patch,
        if_match: &Etag,
        retry: Retry,
    ) -> Result<Found<T>, Error> {
        // Without `Prefer: return=minimal`: the answer carries the document.
        let mut map = partition_headers(pk)?;
        headers::insert(&mut map, IF_MATCH, if_match.as_str())?;
        headers::flag(&mut map, CONTENT_TYPE, CONTENT);
        let request = Request {
            headers: map,
            body: Some(document_body(patch, Some(id))?),
            retry,
            consistency: Consistency::Learn(self.consistency()),
            ..self.of_document(RequestKind::Patch, Method::PATCH, pk, id)?
        };
        found_in(&request, &self.send(&request).await?)
    }
}
