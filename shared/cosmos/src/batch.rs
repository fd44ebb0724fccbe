//! The transactional batch: all of its operations or none, within one logical partition.
//!
//! Each document is serialised once, when it is added, so [`Batch::bytes`] is exact and a caller can stop adding in
//! time. A batch over the limits is refused before anything is sent, and never split.
//!
//! `batch_failure.rs` reads the answer of a batch that failed, for the loop in `send.rs`.

use bytes::Bytes;
use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::container::{Container, Etag, check_size, write_headers};
use crate::error::Error;
use crate::failure::protocol;
use crate::headers;
use crate::observe::RequestKind;
use crate::partition_key::PartitionKey;
use crate::request::{Consistency, Request};
use crate::resource::Subject;
use crate::retry::Retry;

/// The most operations that a batch may have.
pub const MAX_BATCH_OPERATIONS: usize = 100;
/// The largest body that the service accepts.
pub const MAX_REQUEST_BYTES: usize = 2_097_152;

/// Operations that are applied together or not at all.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Each operation as it will be sent.
    operations: Vec<String>,
    bytes: usize,
}

/// One operation's result.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchResult {
    /// The operation's own status: 200, 201 or 204.
    #[serde(rename = "statusCode")]
    pub status: u16,
    /// The ETag of the document as it is now.
    #[serde(default, rename = "eTag")]
    pub etag: Option<Etag>,
    /// The document, of an operation that reads it. The service may leave it out: have another way to read it.
    #[serde(default)]
    pub resource_body: Option<Box<RawValue>>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Operation<'a> {
    operation_type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    if_match: Option<Etag>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_body: Option<Box<RawValue>>,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Creates a document that must not exist. `id` is the document's own, for error messages.
    pub fn create<T: Serialize + ?Sized>(&mut self, id: &str, doc: &T) -> Result<&mut Self, Error> {
        self.add(Operation {
            operation_type: "Create",
            resource_body: Some(serialise(id, doc)?),
            ..Operation::default()
        })
    }

    /// Creates a document, or replaces it if it exists. `id` is the document's own, for error messages.
    pub fn upsert<T: Serialize + ?Sized>(&mut self, id: &str, doc: &T) -> Result<&mut Self, Error> {
        self.add(Operation {
            operation_type: "Upsert",
            resource_body: Some(serialise(id, doc)?),
            ..Operation::default()
        })
    }

    /// Replaces a document that must exist and, if given, still have the ETag `if_match`.
    pub fn replace<T: Serialize + ?Sized>(
        &mut self,
        id: &str,
        doc: &T,
        if_match: Option<Etag>,
    ) -> Result<&mut Self, Error> {
        self.add(Operation {
            operation_type: "Replace",
            id: Some(id),
            if_match,
            resource_body: Some(serialise(id, doc)?),
        })
    }

    /// Reads a document that must exist, as it is when the other operations are applied.
    pub fn read(&mut self, id: &str) -> Result<&mut Self, Error> {
        self.add(Operation {
            operation_type: "Read",
            id: Some(id),
            ..Operation::default()
        })
    }

    /// Deletes a document that must exist and, if given, still have the ETag `if_match`.
    pub fn delete(&mut self, id: &str, if_match: Option<Etag>) -> Result<&mut Self, Error> {
        self.add(Operation {
            operation_type: "Delete",
            id: Some(id),
            if_match,
            resource_body: None,
        })
    }

    /// How many operations it has.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether it has no operations.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// The size of the body as it will be sent.
    pub fn bytes(&self) -> usize {
        // Two brackets, and a comma between operations.
        self.bytes + 2 + self.operations.len().saturating_sub(1)
    }

    fn add(&mut self, operation: Operation<'_>) -> Result<&mut Self, Error> {
        let text = serde_json::to_string(&operation).map_err(|source| Error::Encode {
            what: "an operation of a batch".to_owned(),
            source,
        })?;
        self.bytes += text.len();
        self.operations.push(text);
        Ok(self)
    }

    fn body(&self) -> Bytes {
        let mut body = String::with_capacity(self.bytes());
        body.push('[');
        for (index, operation) in self.operations.iter().enumerate() {
            if index > 0 {
                body.push(',');
            }
            body.push_str(operation);
        }
        body.push(']');
        Bytes::from(body)
    }
}

impl Container {
    /// Applies all operations of `batch`, or none. An empty batch sends nothing.
    pub async fn batch(&self, pk: &PartitionKey, batch: &Batch, retry: Retry) -> Result<Vec<BatchResult>, Error> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        if batch.len() > MAX_BATCH_OPERATIONS || batch.bytes() > MAX_REQUEST_BYTES {
            return Err(Error::BatchTooLarge {
                partition: pk.as_str().to_owned(),
                operations: batch.len(),
                bytes: batch.bytes(),
                max_operations: MAX_BATCH_OPERATIONS,
                max_bytes: MAX_REQUEST_BYTES,
            });
        }
        let mut map = write_headers(pk, None)?;
        headers::flag(&mut map, headers::IS_BATCH, "True");
        headers::flag(&mut map, headers::BATCH_ATOMIC, "True");
        headers::flag(&mut map, headers::BATCH_CONTINUE, "False");
        let subject = Subject::Partition {
            container: self.name(),
            partition: pk,
        };
        let request = Request {
            headers: map,
            body: Some(batch.body()),
            retry,
            consistency: Consistency::Learn(self.consistency()),
            ..Request::new(RequestKind::Batch, Method::POST, self.name().documents(), subject)
        };
        let answer = self.send(&request).await?;
        let results: Vec<BatchResult> = serde_json::from_slice(&answer.body).map_err(|source| Error::Decode {
            what: "the result of a batch".to_owned(),
            source,
        })?;
        if results.len() != batch.len() {
            let problem = format!("{} results for {} operations", results.len(), batch.len());
            return Err(protocol(&request, &answer, &problem));
        }
        Ok(results)
    }
}

fn serialise<T: Serialize + ?Sized>(id: &str, doc: &T) -> Result<Box<RawValue>, Error> {
    let body = serde_json::value::to_raw_value(doc).map_err(|source| Error::Encode {
        what: format!("document `{id}`"),
        source,
    })?;
    check_size(|| id.to_owned(), body.get().len())?;
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::MAX_ITEM_BYTES;
    use serde_json::json;

    #[test]
    fn the_size_is_exactly_that_of_the_body() {
        let mut batch = Batch::new();
        assert_eq!(batch.bytes(), batch.body().len());
        batch.create("a", &json!({"id": "a", "text": "日本"})).unwrap();
        assert_eq!(batch.bytes(), batch.body().len());
        let etag = Etag::new("\"1\"");
        batch
            .replace("b", &json!({"id": "b"}), Some(etag))
            .unwrap()
            .delete("c", None)
            .unwrap()
            .read("d")
            .unwrap();
        assert_eq!(batch.bytes(), batch.body().len());
        assert_eq!(batch.len(), 4);
        let sent: serde_json::Value = serde_json::from_slice(&batch.body()).unwrap();
        assert_eq!(
            sent,
            json!([
                {"operationType": "Create", "resourceBody": {"id": "a", "text": "日本"}},
                {"operationType": "Replace", "id": "b", "ifMatch": "\"1\"", "resourceBody": {"id": "b"}},
                {"operationType": "Delete", "id": "c"},
                {"operationType": "Read", "id": "d"},
            ])
        );
    }

    #[test]
    fn a_document_over_the_limit_is_refused_when_it_is_added() {
        let mut batch = Batch::new();
        let error = batch
            .create("big", &json!({"id": "big", "x": "x".repeat(MAX_ITEM_BYTES)}))
            .unwrap_err();
        assert!(
            matches!(error, Error::ItemTooLarge { ref id, .. } if id == "big"),
            "{error}"
        );
        assert!(batch.is_empty());
    }
}
