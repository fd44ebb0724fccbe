//! Transactional batches: what they may contain, and how they are sent to the emulator.
//!
//! The emulator compares `ifMatch: "*"` with the ETag, and lets an upsert with `ifMatch` create a missing document. Such a batch is
//! rewritten ([`BatchPlan::body`]): without the star, and with a replace instead of the upsert. The 404 of that replace becomes
//! the 412 of the service.

use std::collections::HashSet;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Expiring, Footprint, Patch, Refusal, TouchKind, Touched, ids, key, ttl};
use crate::catalog::Container;
use crate::http::{Call, Reply};

const MAX_OPERATIONS: usize = 100;
const REQUIRED_HEADERS: [(&str, &str); 2] = [
    ("x-ms-cosmos-batch-atomic", "true"),
    ("x-ms-cosmos-batch-continue-on-error", "false"),
];

/// A batch that may go to the emulator.
#[derive(Clone, Debug)]
pub(crate) struct BatchPlan {
    pub(crate) operations: usize,
    /// The number of operations that write a document.
    pub(crate) documents: u64,
    /// The rewritten batch, if the emulator needs one.
    pub(crate) body: Option<Bytes>,
    /// Operations whose 404 becomes a 412.
    conditional_upserts: Vec<usize>,
    /// Whether an operation is a patch: then the batch is rewritten when it is carried out.
    pub(crate) patches: bool,
}

impl BatchPlan {
    /// Turns the emulator's reply into that of the service.
    pub(crate) fn restore(&self, mut reply: Reply) -> Reply {
        if self.conditional_upserts.is_empty() {
            return reply;
        }
        if let Ok(mut results) = serde_json::from_slice::<Vec<Value>>(&reply.body) {
            for &index in &self.conditional_upserts {
                if let Some(result) = results.get_mut(index).filter(|result| result["statusCode"] == 404) {
                    result["statusCode"] = json!(412);
                }
            }
            reply.body = Bytes::from(Value::Array(results).to_string());
        }
        reply
    }
}

/// Checks a batch; returns how to send it to the emulator, which of its documents will expire, and what it does to each.
pub(super) fn check(
    call: &Call,
    container: &Container,
    keys: &[Value],
    lagging: bool,
) -> Result<(BatchPlan, Vec<Expiring>, Vec<Touched>), Refusal> {
    for (name, value) in REQUIRED_HEADERS {
        if !call.header(name).is_some_and(|given| given.eq_ignore_ascii_case(value)) {
            return Err(Refusal::bad_request(format!(
                "A transactional batch needs the header '{name}: {value}'."
            )));
        }
    }
    let mut operations: Vec<Value> = serde_json::from_slice(&call.body)
        .map_err(|error| Refusal::bad_request(format!("The batch is not a JSON array: {error}")))?;
    if operations.is_empty() {
        return Err(Refusal::bad_request("The batch has no operations."));
    }
    if operations.len() > MAX_OPERATIONS {
        return Err(Refusal::bad_request(
            "Batch request has more operations than what is supported (100).",
        ));
    }
    let mut plan = BatchPlan {
        operations: operations.len(),
        documents: 0,
        body: None,
        conditional_upserts: Vec::new(),
        patches: false,
    };
    let mut rewritten = false;
    let mut written = HashSet::new();
    let mut expiring = Vec::new();
    let mut touched = Vec::with_capacity(operations.len());
    for (index, operation) in operations.iter_mut().enumerate() {
        let of_operation = |refusal: Refusal| Refusal {
            message: format!("Operation {index}: {}", refusal.message),
            ..refusal
        };
        let id = check_operation(operation, container, keys).map_err(of_operation)?;
        touched.push(touch(operation, &id, container));
        if operation["operationType"] == "Read" {
            continue;
        }
        plan.documents += 1;
        let is_patch = operation["operationType"] == "Patch";
        plan.patches |= is_patch;
        if let Some(document) = operation.get("resourceBody").filter(|_| !is_patch) {
            expiring.extend(ttl::expiring(container, document, index).map_err(of_operation)?);
        }
        if !written.insert(id) && lagging {
            // The emulator would show only the first of the two writes in the lagging region.
            return Err(Refusal::bad_request(
                "A batch that writes one document twice is not supported by this test server when it has a lag.",
            ));
        }
        match rewrite(operation) {
            Rewrite::None => {}
            Rewrite::Star => rewritten = true,
            Rewrite::ConditionalUpsert => {
                rewritten = true;
                plan.conditional_upserts.push(index);
            }
        }
    }
    if rewritten {
        plan.body = Some(Bytes::from(Value::Array(operations).to_string()));
    }
    Ok((plan, expiring, touched))
}

/// What an operation does to its document. A patch is a replace when its batch is carried out.
fn touch(operation: &Value, id: &str, container: &Container) -> Touched {
    let kind = match operation["operationType"].as_str() {
        Some("Read") => TouchKind::Read,
        Some("Create") => TouchKind::Create,
        Some("Upsert") => TouchKind::Upsert,
        Some("Delete") => TouchKind::Delete,
        _ => TouchKind::Replace,
    };
    let written = operation
        .get("resourceBody")
        .filter(|document| document["id"].is_string());
    Touched {
        kind,
        id: id.to_owned(),
        written: written.map(|document| Footprint::of(document, &container.index_tree)),
    }
}

/// Checks one operation; returns the id of its document.
fn check_operation(operation: &Value, container: &Container, keys: &[Value]) -> Result<String, Refusal> {
    let kind = operation
        .get("operationType")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let has_body = match kind {
        "Patch" => {
            Patch::parse(&operation["resourceBody"], container)?;
            false
        }
        "Create" | "Upsert" | "Replace" => true,
        "Read" | "Delete" => false,
        _ => {
            return Err(Refusal::bad_request(format!(
                "The operation type '{kind}' is not supported."
            )));
        }
    };
    let id = operation.get("id").and_then(Value::as_str);
    if let Some(id) = id {
        ids::check(id)?;
    }
    if has_body {
        let document = operation
            .get("resourceBody")
            .ok_or_else(|| Refusal::bad_request("The resourceBody is missing."))?;
        ids::check_document(document)?;
        key::check_document(container, document, keys)?;
        let of_document = document.get("id").and_then(Value::as_str);
        if id.is_some() && id != of_document {
            return Err(Refusal::bad_request(
                "The id of the operation is not the id of its document.",
            ));
        }
        if kind == "Replace" && id.is_none() {
            return Err(Refusal::bad_request("The id is missing."));
        }
        return Ok(of_document.unwrap_or_default().to_owned());
    }
    id.map(str::to_owned)
        .ok_or_else(|| Refusal::bad_request("The id is missing."))
}

/// How an operation was rewritten.
enum Rewrite {
    None,
    Star,
    ConditionalUpsert,
}

/// Rewrites an operation that the emulator would misread.
fn rewrite(operation: &mut Value) -> Rewrite {
    let Some(fields) = operation.as_object_mut() else {
        return Rewrite::None;
    };
    let Some(etag) = fields.get("ifMatch").and_then(Value::as_str) else {
        return Rewrite::None;
    };
    let is_any = etag == "*";
    if is_any {
        fields.remove("ifMatch");
    }
    if fields.get("operationType").is_some_and(|kind| kind == "Upsert") {
        let id = fields
            .get("resourceBody")
            .and_then(|document| document.get("id"))
            .cloned();
        fields.insert("id".to_owned(), id.unwrap_or_default());
        fields.insert("operationType".to_owned(), json!("Replace"));
        return Rewrite::ConditionalUpsert;
    }
    if is_any { Rewrite::Star } else { Rewrite::None }
}
