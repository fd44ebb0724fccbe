//! The partition key header, and the key in the document, which must be the same.

use serde_json::Value;

use super::Refusal;
use crate::catalog::Container;
use crate::http::{Call, PARTITION_KEY};

const MAX_KEY_BYTES: usize = 2048;

/// The key of a request that must have one.
pub(super) fn required(call: &Call, container: &Container) -> Result<Vec<Value>, Refusal> {
    check_optional(call, container)?.ok_or_else(|| {
        Refusal::bad_request(format!(
            "The header '{PARTITION_KEY}' must be given for an operation in a partitioned container."
        ))
    })
}

/// The key of a request, if it has one. A malformed key is refused.
pub(super) fn check_optional(call: &Call, container: &Container) -> Result<Option<Vec<Value>>, Refusal> {
    let Some(header) = call.headers.get(PARTITION_KEY) else {
        return Ok(None);
    };
    let invalid = |what: &str| Refusal::bad_request(format!("The partition key supplied in {PARTITION_KEY} {what}."));
    let text = header.to_str().map_err(|_| invalid("is not pure ASCII"))?;
    let keys: Vec<Value> = serde_json::from_str(text).map_err(|_| invalid("is not a JSON array"))?;
    if keys.len() != container.key_paths.len() {
        let message = format!(
            "has {} components, but the container is partitioned by {}",
            keys.len(),
            container.key_paths.len()
        );
        return Err(invalid(&message).with_substatus(1001));
    }
    for key in &keys {
        match key {
            Value::String(text) if text.len() > MAX_KEY_BYTES => {
                return Err(invalid("is longer than 2048 bytes"));
            }
            Value::Array(_) => return Err(invalid("contains an array")),
            // The empty object stands for a document without the property.
            Value::Object(fields) if !fields.is_empty() => {
                return Err(invalid("contains an object"));
            }
            _ => {}
        }
    }
    Ok(Some(keys))
}

/// Refuses a document whose key differs from the header.
pub(super) fn check_document(container: &Container, document: &Value, keys: &[Value]) -> Result<(), Refusal> {
    let agrees = container
        .keys_of(document)
        .into_iter()
        .zip(keys)
        .all(|(found, key)| match found {
            Some(found) => is_same(found, key),
            None => key.is_object(),
        });
    if agrees {
        return Ok(());
    }
    Err(
        Refusal::bad_request("PartitionKey extracted from document doesn't match the one specified in the header.")
            .with_substatus(1001),
    )
}

/// Whether two keys are the same to the service, which has one type of number.
fn is_same(left: &Value, right: &Value) -> bool {
    match (left.as_f64(), right.as_f64()) {
        (Some(left), Some(right)) => left == right,
        _ => left == right,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use hyper::header::{HeaderMap, HeaderValue};
    use serde_json::json;

    use super::*;
    use crate::strict::IndexPolicy;

    fn container() -> Container {
        Container {
            key_paths: vec![vec!["a".to_owned(), "b".to_owned()]],
            index: IndexPolicy::default(),
            index_tree: Default::default(),
            default_ttl: None,
        }
    }

    fn keys(header: &[u8]) -> Result<Option<Vec<Value>>, Refusal> {
        let mut headers = HeaderMap::new();
        headers.insert(PARTITION_KEY, HeaderValue::from_bytes(header).unwrap());
        let call = Call::new(hyper::Method::GET, "/dbs/d/colls/c/docs/x", headers, Bytes::new());
        check_optional(&call, &container())
    }

    #[test]
    fn the_header_is_an_ascii_json_array_of_one_plain_value() {
        let long = format!("[\"{}\"]", "x".repeat(2048));
        for header in ["[\"x\"]", "[1]", "[null]", "[true]", "[{}]", "[\"\\u00e9\"]", &long] {
            assert!(keys(header.as_bytes()).is_ok(), "{header}");
        }
        let too_long = format!("[\"{}\"]", "x".repeat(2049));
        for header in [
            "x",
            "\"x\"",
            "[]",
            "[\"x\",\"y\"]",
            "[[1]]",
            "[{\"a\":1}]",
            "[\"é\"]",
            &too_long,
        ] {
            assert!(keys(header.as_bytes()).is_err(), "{header}");
        }
    }

    #[test]
    fn a_document_must_have_the_key_of_the_header() {
        let check = |document: Value, key: Value| check_document(&container(), &document, &[key]).is_ok();
        assert!(check(json!({ "a": { "b": "x" } }), json!("x")));
        assert!(check(json!({ "a": { "b": 1.0 } }), json!(1)));
        assert!(check(json!({ "a": {} }), json!({})));
        assert!(!check(json!({ "a": { "b": "x" } }), json!("y")));
        assert!(!check(json!({ "b": "x" }), json!("x")));
        assert!(!check(json!({ "a": { "b": "1" } }), json!(1)));
    }
}
