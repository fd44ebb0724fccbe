//! Transactional batches: what they may contain, and how the emulator has to be told.
//!
//! The emulator takes `ifMatch: "*"` for an ETag, and lets an upsert with `ifMatch` create what is missing. Such a
//! batch is put in other words ([`BatchPlan::body`]): without the star, and with a replace for the upsert, whose
//! 404 is then turned into the 412 that the service answers.

use std::collections::HashSet;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Mortal, Refusal, ids, key, ttl};
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
    /// How many of them write a document.
    pub(crate) documents: u64,
    /// The batch in other words, where the emulator needs them.
    pub(crate) body: Option<Bytes>,
    /// Operations whose 404 means 412.
    conditional_upserts: Vec<usize>,
}

impl BatchPlan {
    /// Puts the emulator's answer in the words of the service.
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

/// Checks a batch; gives how to put it to the emulator, and which of its documents will expire.
pub(super) fn check(
    call: &Call,
    container: &Container,
    keys: &[Value],
    lagging: bool,
) -> Result<(BatchPlan, Vec<Mortal>), Refusal> {
    for (name, value) in REQUIRED_HEADERS {
        if !call.header(name).is_some_and(|given| given.eq_ignore_ascii_case(value)) {
            return Err(Refusal::bad_request(format!(
                "A transactional batch needs the header '{name}: {value}'."
            )));
        }
    }
    let mut operations: Vec<Value> = serde_json::from_slice(&call.body)
        .map_err(|error| Refusal::bad_request(format!("The batch is no JSON array: {error}")))?;
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
    };
    let mut reworded = false;
    let mut written = HashSet::new();
    let mut mortals = Vec::new();
    for (index, operation) in operations.iter_mut().enumerate() {
        let of_operation = |refusal: Refusal| Refusal {
            message: format!("Operation {index}: {}", refusal.message),
            ..refusal
        };
        let id = check_operation(operation, container, keys).map_err(of_operation)?;
        if operation["operationType"] == "Read" {
            continue;
        }
        plan.documents += 1;
        if let Some(document) = operation.get("resourceBody") {
            mortals.extend(ttl::mortal(container, document, index).map_err(of_operation)?);
        }
        if !written.insert(id) && lagging {
            // The emulator would show the first of the two writes in the lagging region, for ever.
            return Err(Refusal::bad_request(
                "A batch that writes one document twice is not supported by this test server when it has a lag.",
            ));
        }
        match reword(operation) {
            Rewording::None => {}
            Rewording::Star => reworded = true,
            Rewording::ConditionalUpsert => {
                reworded = true;
                plan.conditional_upserts.push(index);
            }
        }
    }
    if reworded {
        plan.body = Some(Bytes::from(Value::Array(operations).to_string()));
    }
    Ok((plan, mortals))
}

/// Checks one operation, and gives the id it is about.
fn check_operation(operation: &Value, container: &Container, keys: &[Value]) -> Result<String, Refusal> {
    let kind = operation
        .get("operationType")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let has_body = match kind {
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

/// What was changed in an operation.
enum Rewording {
    None,
    Star,
    ConditionalUpsert,
}

/// Puts an operation in other words if the emulator would misread it.
fn reword(operation: &mut Value) -> Rewording {
    let Some(fields) = operation.as_object_mut() else {
        return Rewording::None;
    };
    let Some(etag) = fields.get("ifMatch").and_then(Value::as_str) else {
        return Rewording::None;
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
        return Rewording::ConditionalUpsert;
    }
    if is_any { Rewording::Star } else { Rewording::None }
}
