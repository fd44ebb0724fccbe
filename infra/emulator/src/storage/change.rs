//! What one request changed, as it is stored.

use serde_json::Value;
use serde_json::value::RawValue;

/// One change. `key` is a partition key as [`canonical_key`] writes it.
#[derive(Debug)]
pub(crate) enum Change {
    Database {
        id: String,
        definition: Box<RawValue>,
    },
    DropDatabase {
        id: String,
    },
    /// A new container, or a new definition of an existing one, which keeps its `partitions`.
    Container {
        db: String,
        id: String,
        definition: Box<RawValue>,
        partitions: u32,
    },
    DropContainer {
        db: String,
        id: String,
    },
    Put {
        db: String,
        container: String,
        key: String,
        id: String,
        document: Box<RawValue>,
    },
    Delete {
        db: String,
        container: String,
        key: String,
        id: String,
    },
}

/// A partition key as one text, however its header was written: `[1]` and `[1.0]`, `["é"]` and `["\u00e9"]` are the same.
pub(crate) fn canonical_key(header: &str) -> Result<String, serde_json::Error> {
    let mut keys: Vec<Value> = serde_json::from_str(header)?;
    for key in &mut keys {
        if let Some(number) = key.as_f64() {
            // Zero has two signs, and the service knows only one zero.
            *key = Value::from(if number == 0.0 { 0.0 } else { number });
        }
    }
    serde_json::to_string(&keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_key_has_one_text_however_it_was_written() {
        for (left, right) in [
            ("[1]", "[ 1.0 ]"),
            ("[0]", "[-0.0]"),
            ("[\"é\"]", "[\"\\u00e9\"]"),
            ("[{}]", "[ { } ]"),
        ] {
            assert_eq!(canonical_key(left).unwrap(), canonical_key(right).unwrap());
        }
        for (left, right) in [("[1]", "[\"1\"]"), ("[null]", "[{}]"), ("[true]", "[false]")] {
            assert_ne!(canonical_key(left).unwrap(), canonical_key(right).unwrap());
        }
    }
}
