//! The time to live: the container's `defaultTtl`, and the `ttl` of a document.
//!
//! | container | document without `ttl` | `ttl: -1` | `ttl: 60` |
//! |---|---|---|---|
//! | no `defaultTtl` | lives | lives | lives |
//! | `defaultTtl: -1` | lives | lives | 60 s |
//! | `defaultTtl: 3600` | 3,600 s | lives | 60 s |
//!
//! The seconds count from the last write. `null` is the same as no value. If the container has no `defaultTtl`, a document's
//! `ttl` is an ordinary property with any value.

use serde_json::Value;

use super::{Expiring, Refusal};
use crate::catalog::Container;

const MAX_SECONDS: i64 = i32::MAX as i64;

/// How many seconds a document lives; `None` is for ever.
pub(crate) fn lifetime(container: &Container, document: &Value) -> Result<Option<u64>, Refusal> {
    let Some(default) = container.default_ttl else {
        return Ok(None);
    };
    let seconds = match document.get("ttl") {
        None | Some(Value::Null) => default,
        Some(own) => seconds(own).ok_or_else(|| {
            Refusal::bad_request(format!(
                "The input ttl '{own}' is invalid. Ensure to provide a nonzero positive (less than or equal to \
                 '{MAX_SECONDS}') or -1 ('never expire') integer."
            ))
        })?,
    };
    Ok(u64::try_from(seconds).ok())
}

/// Refuses an invalid `ttl`; returns the expiry of a document that will expire.
pub(super) fn expiring(container: &Container, document: &Value, operation: usize) -> Result<Option<Expiring>, Refusal> {
    Ok(lifetime(container, document)?.map(|lifetime| Expiring {
        operation,
        id: document["id"].as_str().unwrap_or_default().to_owned(),
        lifetime,
    }))
}

/// Refuses a container with an invalid `defaultTtl`.
pub(super) fn check_default(definition: &Value) -> Result<(), Refusal> {
    match definition.get("defaultTtl") {
        None | Some(Value::Null) => Ok(()),
        Some(default) if seconds(default).is_some() => Ok(()),
        Some(default) => Err(Refusal::bad_request(format!(
            "The value '{default}' specified for the property 'defaultTtl' is invalid: it must be a nonzero positive \
             integer, or -1."
        ))),
    }
}

fn seconds(value: &Value) -> Option<i64> {
    value
        .as_i64()
        .filter(|&seconds| seconds == -1 || (1..=MAX_SECONDS).contains(&seconds))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::strict::IndexPolicy;

    fn lifetime_of(default_ttl: Option<i64>, document: Value) -> Option<Option<u64>> {
        let container = Container {
            key_paths: Vec::new(),
            index: IndexPolicy::default(),
            index_tree: Default::default(),
            default_ttl,
        };
        lifetime(&container, &document).ok()
    }

    #[test]
    fn the_container_decides_whether_documents_expire_and_the_document_when() {
        for (default, document, expected) in [
            (None, json!({ "ttl": 60 }), None),
            (None, json!({ "ttl": "whatever" }), None),
            (Some(-1), json!({}), None),
            (Some(-1), json!({ "ttl": null }), None),
            (Some(-1), json!({ "ttl": -1 }), None),
            (Some(-1), json!({ "ttl": 60 }), Some(60)),
            (Some(3600), json!({}), Some(3600)),
            (Some(3600), json!({ "ttl": null }), Some(3600)),
            (Some(3600), json!({ "ttl": -1 }), None),
            (Some(3600), json!({ "ttl": 2147483647 }), Some(2147483647)),
        ] {
            assert_eq!(
                lifetime_of(default, document.clone()),
                Some(expected),
                "{default:?} {document}"
            );
        }
    }

    #[test]
    fn an_invalid_time_to_live_is_refused() {
        for ttl in [
            json!(0),
            json!(-2),
            json!("60"),
            json!(1.5),
            json!(60.0),
            json!(2147483648_i64),
            json!([]),
            json!(true),
        ] {
            assert_eq!(lifetime_of(Some(-1), json!({ "ttl": ttl })), None, "{ttl}");
            assert!(check_default(&json!({ "defaultTtl": ttl })).is_err(), "{ttl}");
        }
        for ttl in [json!(-1), json!(1), Value::Null] {
            assert!(check_default(&json!({ "defaultTtl": ttl })).is_ok(), "{ttl}");
        }
    }
}
