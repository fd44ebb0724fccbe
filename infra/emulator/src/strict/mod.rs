//! Strict checks: requests that the service refuses are refused here, before the emulator sees them.
//!
//! Microsoft's emulator accepts more than the service does, so a test against it alone can pass and the same code fail in
//! production. The checks change no request. A new check goes into the file of its subject and is called from [`check`]:
//!
//! | file | subject |
//! |---|---|
//! | `ids` | which ids a document or a container may have |
//! | `key` | the partition key header, and the key in the document |
//! | `batch` | transactional batches |
//! | `patch` | a PATCH, alone or in a batch |
//! | `query` | the target of a query, and which clauses it may have there |
//! | `index` | the index policy, and which `ORDER BY` it allows |
//! | `index_tree`, `footprint` | the size and the index entries of a document, for its price |
//! | `scan` | queries over several partitions that no index serves |
//! | `definition` | the definition of a container |
//! | `ttl` | the time to live of documents and containers |
//! | `tokens` | the tokens of a query's text |

mod batch;
mod definition;
mod footprint;
mod ids;
mod index;
mod index_tree;
mod key;
mod patch;
mod query;
mod scan;
pub(crate) mod tokens;
mod ttl;

use serde_json::Value;

pub(crate) use batch::BatchPlan;
pub(crate) use footprint::{Footprint, TouchKind, Touched};
pub(crate) use index::IndexPolicy;
pub(crate) use index_tree::IndexTree;
pub(crate) use patch::Patch;
pub(crate) use query::PlanCache;
pub(crate) use scan::{Seek, conditional_query};
pub(crate) use ttl::lifetime;

use super::catalog::{Catalog, Container};
use super::emulator::Emulator;
use super::http::{Call, IS_QUERY, Refusal};
use super::kind::RequestKind;

/// The largest size of a request, a batch or a document.
pub(crate) const MAX_BYTES: usize = 2 * 1024 * 1024;

/// What the checks need besides the request.
pub(crate) struct Known<'a> {
    pub(crate) emulator: &'a Emulator,
    pub(crate) catalog: &'a Catalog,
    pub(crate) plans: &'a PlanCache,
    /// Whether writes are replicated to a lagging region.
    pub(crate) lagging: bool,
    /// Whether a query over several partitions may scan.
    pub(crate) allow_scans: bool,
}

/// What the checks found out about a request that passed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Checked {
    /// The number of operations of a batch.
    pub(crate) operations: usize,
    /// The number of documents that the request writes if it succeeds.
    pub(crate) documents: u64,
    /// How to send a batch to the emulator.
    pub(crate) batch: Option<BatchPlan>,
    /// The documents of the request that will expire.
    pub(crate) expiring: Vec<Expiring>,
    /// A PATCH of one document.
    pub(crate) patch: Option<Patch>,
    /// What a write does to each document, in the order of its operations.
    pub(crate) touched: Vec<Touched>,
    /// How an index serves a query over several partitions.
    pub(crate) seek: Option<Seek>,
}

/// A document that will expire.
#[derive(Clone, Debug)]
pub(crate) struct Expiring {
    /// Which operation of a batch writes it.
    pub(crate) operation: usize,
    pub(crate) id: String,
    /// In seconds after the write.
    pub(crate) lifetime: u64,
}

/// Refuses what the service refuses.
pub(crate) async fn check(known: &Known<'_>, call: &Call) -> Result<Checked, Refusal> {
    if call.body.len() > MAX_BYTES {
        return Err(Refusal::too_large("Request size is too large."));
    }
    match call.kind {
        RequestKind::PkRanges => Ok(Checked::default()),
        RequestKind::Metadata => {
            definition::check(call)?;
            Ok(Checked::default())
        }
        RequestKind::Query | RequestKind::CrossPartitionQuery => {
            let mut checked = Checked::default();
            if let Some(container) = known.catalog.container(known.emulator, call).await {
                if call.is_query() {
                    checked.seek = query::check(known, call, &container).await?;
                } else {
                    key::check_optional(call, &container)?;
                }
            }
            Ok(checked)
        }
        _ => match known.catalog.container(known.emulator, call).await {
            Some(container) => check_document(known, call, &container),
            // There is no such container: the emulator replies with 404.
            None => Ok(Checked::default()),
        },
    }
}

fn check_document(known: &Known<'_>, call: &Call, container: &Container) -> Result<Checked, Refusal> {
    if call.flag(IS_QUERY) {
        return Err(Refusal::bad_request(
            "A query must be sent with POST to the documents of a container.",
        ));
    }
    let keys = key::required(call, container)?;
    if call.kind == RequestKind::Batch {
        let (plan, expiring, touched) = batch::check(call, container, &keys, known.lagging)?;
        return Ok(Checked {
            touched,
            operations: plan.operations,
            documents: plan.documents,
            batch: Some(plan),
            expiring,
            ..Checked::default()
        });
    }
    if let Some(id) = call.document() {
        ids::check(id)?;
    }
    if call.kind == RequestKind::Patch {
        return Ok(Checked {
            documents: 1,
            patch: Some(check_patch(call, container)?),
            ..Checked::default()
        });
    }
    let mut expiring = Vec::new();
    let mut touched = Vec::new();
    if matches!(
        call.kind,
        RequestKind::Create | RequestKind::Replace | RequestKind::Upsert
    ) {
        if call.headers.contains_key("if-none-match") {
            return Err(Refusal::bad_request(
                "If-None-Match on a write is not supported by this test server.",
            ));
        }
        let document: Value = serde_json::from_slice(&call.body)
            .map_err(|error| Refusal::bad_request(format!("The document is not valid JSON: {error}")))?;
        ids::check_document(&document)?;
        key::check_document(container, &document, &keys)?;
        expiring.extend(ttl::expiring(container, &document, 0)?);
        touched.push(touch(call, Some((&document, container))));
    } else if call.kind == RequestKind::Delete {
        touched.push(touch(call, None));
    }
    Ok(Checked {
        documents: u64::from(call.kind.is_write()),
        expiring,
        touched,
        ..Checked::default()
    })
}

/// What a write of one document does.
fn touch(call: &Call, written: Option<(&Value, &Container)>) -> Touched {
    let of_document = written.and_then(|(document, _)| document["id"].as_str());
    Touched {
        kind: match call.kind {
            RequestKind::Create => TouchKind::Create,
            RequestKind::Upsert => TouchKind::Upsert,
            RequestKind::Delete => TouchKind::Delete,
            _ => TouchKind::Replace,
        },
        id: call.document().or(of_document).unwrap_or_default().to_owned(),
        written: written.map(|(document, container)| Footprint::of(document, &container.index_tree)),
    }
}

fn check_patch(call: &Call, container: &Container) -> Result<Patch, Refusal> {
    // The documentation has the first, some SDKs send the second.
    let kinds = ["application/json_patch+json", "application/json-patch+json"];
    let is_patch = |given: &str| kinds.iter().any(|kind| given.starts_with(kind));
    if !call.header("content-type").is_some_and(is_patch) {
        return Err(Refusal::bad_request(
            "The content type of a PATCH must be application/json_patch+json.",
        ));
    }
    let body: Value = serde_json::from_slice(&call.body)
        .map_err(|error| Refusal::bad_request(format!("The patch is not valid JSON: {error}")))?;
    Patch::parse(&body, container)
}
