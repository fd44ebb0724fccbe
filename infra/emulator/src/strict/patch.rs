//! A PATCH of one document, alone or in a batch: what it may contain, and what it makes of a document.
//!
//! ```json
//! { "condition": "FROM c WHERE c.stock > 0",
//!   "operations": [{ "op": "incr", "path": "/stock", "value": -1 }] }
//! ```
//!
//! | operation | does |
//! |---|---|
//! | `add` | inserts before an element of an array (`-` appends); sets a property |
//! | `set` | replaces an element of an array (`-` appends); sets a property |
//! | `replace` | replaces what exists |
//! | `remove` | removes what exists |
//! | `incr` | adds to a number; a property that does not exist becomes the number |
//! | `move` | removes at `from` and adds at `path` |
//!
//! The parent of a path must exist. At most 10 operations. The id, the partition key and the properties of the service (`_ts`,
//! `_etag`, ...) cannot be changed; `ttl` can.

use serde::Deserialize;
use serde_json::{Map, Number, Value};

use super::Refusal;
use crate::catalog::Container;

const MAX_OPERATIONS: usize = 10;
const SYSTEM: [&str; 7] = ["id", "_rid", "_self", "_etag", "_ts", "_attachments", "_lsn"];

/// A PATCH that passed the checks.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Patch {
    #[serde(default)]
    pub(crate) condition: Option<String>,
    operations: Vec<Operation>,
}

#[derive(Clone, Debug, Deserialize)]
struct Operation {
    op: Kind,
    path: String,
    #[serde(default)]
    from: Option<String>,
    /// `null` is a value.
    #[serde(default, deserialize_with = "present")]
    value: Option<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Add,
    Set,
    Replace,
    Remove,
    Incr,
    Move,
}

fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl Patch {
    /// Reads and checks a patch.
    pub(crate) fn parse(body: &Value, container: &Container) -> Result<Patch, Refusal> {
        let patch: Patch = serde_json::from_value(body.clone())
            .map_err(|error| Refusal::bad_request(format!("The patch is invalid: {error}.")))?;
        if patch.operations.is_empty() {
            return Err(Refusal::bad_request("The patch has no operations."));
        }
        if patch.operations.len() > MAX_OPERATIONS {
            return Err(Refusal::bad_request(format!(
                "The number of patch operations can't exceed {MAX_OPERATIONS}."
            )));
        }
        for operation in &patch.operations {
            operation.check(container)?;
        }
        Ok(patch)
    }

    /// The document after the patch.
    pub(crate) fn apply(&self, document: &Value) -> Result<Value, Refusal> {
        let mut next = document.clone();
        for operation in &self.operations {
            operation.apply(&mut next)?;
        }
        Ok(next)
    }
}

impl Operation {
    fn check(&self, container: &Container) -> Result<(), Refusal> {
        check_path(&self.path, container)?;
        match (self.op, &self.value, &self.from) {
            (Kind::Move, None, Some(from)) => check_path(from, container),
            (Kind::Move, ..) => Err(Refusal::bad_request("A move needs 'from', and has no 'value'.")),
            (Kind::Remove, None, None) => Ok(()),
            (Kind::Incr, Some(Value::Number(_)), None) => Ok(()),
            (Kind::Incr, ..) => Err(Refusal::bad_request("An incr needs a number as its 'value'.")),
            (Kind::Add | Kind::Set | Kind::Replace, Some(_), None) => Ok(()),
            _ => Err(Refusal::bad_request(format!(
                "The operation on '{}' has a property that it may not have, or lacks its 'value'.",
                self.path
            ))),
        }
    }

    fn apply(&self, document: &mut Value) -> Result<(), Refusal> {
        let value = || self.value.clone().unwrap_or_default();
        match self.op {
            Kind::Add => put(document, &self.path, value(), true),
            Kind::Set => put(document, &self.path, value(), false),
            Kind::Replace => {
                *existing(document, &self.path)? = value();
                Ok(())
            }
            Kind::Remove => remove(document, &self.path).map(drop),
            Kind::Incr => increment(document, &self.path, &value()),
            Kind::Move => {
                let from = self.from.as_deref().unwrap_or_default();
                if self.path.strip_prefix(from).is_some_and(|rest| rest.starts_with('/')) {
                    return Err(Refusal::bad_request("A value cannot be moved into itself."));
                }
                let moved = remove(document, from)?;
                put(document, &self.path, moved, true)
            }
        }
    }
}

fn check_path(path: &str, container: &Container) -> Result<(), Refusal> {
    let tokens = tokens(path)?;
    let is_system = SYSTEM.contains(&tokens[0].as_str());
    // A part of the partition key, or what contains it.
    let is_key = container
        .key_paths
        .iter()
        .any(|key| key.iter().zip(&tokens).all(|(a, b)| a == b));
    if is_system || is_key {
        return Err(Refusal::bad_request(format!("The path '{path}' cannot be patched.")));
    }
    Ok(())
}

/// The names of a path, without the escapes of RFC 6901.
fn tokens(path: &str) -> Result<Vec<String>, Refusal> {
    let names = path.strip_prefix('/').filter(|names| !names.is_empty());
    let names =
        names.ok_or_else(|| Refusal::bad_request(format!("The patch path '{path}' does not begin with '/'.")))?;
    Ok(names
        .split('/')
        .map(|name| name.replace("~1", "/").replace("~0", "~"))
        .collect())
}

/// What holds the last name of a path.
enum Parent<'d> {
    Object(&'d mut Map<String, Value>),
    Array(&'d mut Vec<Value>),
}

fn parent<'d>(document: &'d mut Value, path: &str) -> Result<(Parent<'d>, String), Refusal> {
    let mut names = tokens(path)?;
    let last = names.pop().unwrap_or_default();
    let mut at = document;
    for name in &names {
        at = match at {
            Value::Object(fields) => fields.get_mut(name),
            Value::Array(elements) => name.parse::<usize>().ok().and_then(|index| elements.get_mut(index)),
            _ => None,
        }
        .ok_or_else(|| missing(path))?;
    }
    match at {
        Value::Object(fields) => Ok((Parent::Object(fields), last)),
        Value::Array(elements) => Ok((Parent::Array(elements), last)),
        _ => Err(missing(path)),
    }
}

fn missing(path: &str) -> Refusal {
    Refusal::bad_request(format!("The patch path '{path}' does not exist in the document."))
}

fn existing<'d>(document: &'d mut Value, path: &str) -> Result<&'d mut Value, Refusal> {
    let (parent, name) = parent(document, path)?;
    let found = match parent {
        Parent::Object(fields) => fields.get_mut(&name),
        Parent::Array(elements) => name.parse::<usize>().ok().and_then(|index| elements.get_mut(index)),
    };
    found.ok_or_else(|| missing(path))
}

fn put(document: &mut Value, path: &str, value: Value, inserts: bool) -> Result<(), Refusal> {
    let (parent, name) = parent(document, path)?;
    let elements = match parent {
        Parent::Object(fields) => {
            fields.insert(name, value);
            return Ok(());
        }
        Parent::Array(elements) => elements,
    };
    let index = if name == "-" {
        elements.len()
    } else {
        name.parse().map_err(|_| missing(path))?
    };
    if index > elements.len() {
        return Err(missing(path));
    }
    if !inserts && index < elements.len() {
        elements[index] = value;
    } else {
        elements.insert(index, value);
    }
    Ok(())
}

fn remove(document: &mut Value, path: &str) -> Result<Value, Refusal> {
    let (parent, name) = parent(document, path)?;
    let removed = match parent {
        Parent::Object(fields) => fields.remove(&name),
        Parent::Array(elements) => {
            let index = name.parse::<usize>().ok().filter(|&index| index < elements.len());
            index.map(|index| elements.remove(index))
        }
    };
    removed.ok_or_else(|| missing(path))
}

fn increment(document: &mut Value, path: &str, by: &Value) -> Result<(), Refusal> {
    let (parent, name) = parent(document, path)?;
    let target = match parent {
        Parent::Object(fields) => match fields.get_mut(&name) {
            Some(target) => target,
            None => {
                fields.insert(name, by.clone());
                return Ok(());
            }
        },
        Parent::Array(elements) => {
            let index = name.parse::<usize>().ok();
            index
                .and_then(|index| elements.get_mut(index))
                .ok_or_else(|| missing(path))?
        }
    };
    let not_a_number = || Refusal::bad_request(format!("The value at '{path}' is not a number."));
    let sum = match (target.as_i64(), by.as_i64()) {
        (Some(old), Some(by)) => old.checked_add(by).map(Number::from),
        _ => None,
    };
    let sum = match sum {
        Some(sum) => sum,
        None => {
            let old = target.as_f64().ok_or_else(not_a_number)?;
            Number::from_f64(old + by.as_f64().unwrap_or_default()).ok_or_else(not_a_number)?
        }
    };
    *target = Value::Number(sum);
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::strict::IndexPolicy;

    fn container() -> Container {
        Container {
            key_paths: vec![vec!["pk".to_owned(), "a".to_owned()]],
            index: IndexPolicy::default(),
            index_tree: Default::default(),
            default_ttl: None,
        }
    }

    fn patched(document: Value, operations: Value) -> Result<Value, String> {
        let patch =
            Patch::parse(&json!({ "operations": operations }), &container()).map_err(|refusal| refusal.message)?;
        patch.apply(&document).map_err(|refusal| refusal.message)
    }

    #[test]
    fn each_operation_does_what_the_service_does() {
        let document = json!({ "n": 1, "list": [1, 2], "inner": { "x": 1 }, "a/b": 1 });
        for (operation, path, expected) in [
            (
                json!({ "op": "add", "path": "/new", "value": null }),
                "/new",
                json!(null),
            ),
            (
                json!({ "op": "add", "path": "/list/1", "value": 9 }),
                "/list",
                json!([1, 9, 2]),
            ),
            (
                json!({ "op": "add", "path": "/list/-", "value": 9 }),
                "/list",
                json!([1, 2, 9]),
            ),
            (
                json!({ "op": "set", "path": "/list/1", "value": 9 }),
                "/list",
                json!([1, 9]),
            ),
            (
                json!({ "op": "set", "path": "/inner/y", "value": 2 }),
                "/inner",
                json!({ "x": 1, "y": 2 }),
            ),
            (
                json!({ "op": "replace", "path": "/n", "value": "two" }),
                "/n",
                json!("two"),
            ),
            (json!({ "op": "remove", "path": "/list/0" }), "/list", json!([2])),
            (json!({ "op": "remove", "path": "/a~1b" }), "/a~1b", Value::Null),
            (json!({ "op": "incr", "path": "/n", "value": -3 }), "/n", json!(-2)),
            (json!({ "op": "incr", "path": "/n", "value": 0.5 }), "/n", json!(1.5)),
            (json!({ "op": "incr", "path": "/m", "value": 4 }), "/m", json!(4)),
            (
                json!({ "op": "move", "from": "/inner/x", "path": "/n" }),
                "/n",
                json!(1),
            ),
        ] {
            let after = patched(document.clone(), json!([operation])).unwrap();
            assert_eq!(
                after.pointer(path).cloned().unwrap_or_default(),
                expected,
                "{operation}"
            );
        }
    }

    #[test]
    fn what_the_service_refuses_is_refused_and_says_why() {
        let document = json!({ "n": "x", "list": [1], "pk": { "a": 1, "b": 2 } });
        for (operation, why) in [
            (
                json!({ "op": "replace", "path": "/missing", "value": 1 }),
                "does not exist",
            ),
            (json!({ "op": "remove", "path": "/missing" }), "does not exist"),
            (
                json!({ "op": "set", "path": "/missing/inner", "value": 1 }),
                "does not exist",
            ),
            (json!({ "op": "add", "path": "/list/5", "value": 1 }), "does not exist"),
            (json!({ "op": "incr", "path": "/n", "value": 1 }), "not a number"),
            (json!({ "op": "incr", "path": "/n", "value": "1" }), "needs a number"),
            (json!({ "op": "set", "path": "/n" }), "lacks its 'value'"),
            (
                json!({ "op": "set", "path": "n", "value": 1 }),
                "does not begin with '/'",
            ),
            (json!({ "op": "set", "path": "/id", "value": "x" }), "cannot be patched"),
            (
                json!({ "op": "set", "path": "/_etag", "value": "x" }),
                "cannot be patched",
            ),
            (json!({ "op": "set", "path": "/pk", "value": {} }), "cannot be patched"),
            (json!({ "op": "remove", "path": "/pk/a" }), "cannot be patched"),
            (json!({ "op": "move", "path": "/x" }), "needs 'from'"),
            (
                json!({ "op": "move", "from": "/list", "path": "/list/0" }),
                "into itself",
            ),
            (json!({ "op": "copy", "path": "/x", "value": 1 }), "unknown variant"),
        ] {
            let refused = patched(document.clone(), json!([operation])).expect_err("refused");
            assert!(refused.contains(why), "{operation}: {refused}");
        }
        assert!(patched(document.clone(), json!([{ "op": "set", "path": "/pk/b", "value": 1 }])).is_ok());
        let eleven: Vec<Value> = (0..11)
            .map(|n| json!({ "op": "set", "path": format!("/p{n}"), "value": n }))
            .collect();
        assert!(
            patched(document.clone(), json!(eleven))
                .expect_err("too many")
                .contains("10")
        );
        assert!(patched(document.clone(), json!(eleven[..10])).is_ok());
        assert!(patched(document, json!([])).is_err());
    }
}
