//! The value of a document's partition key.
//!
//! Invariants: a value of this type is within the service's limit, so no request fails late for its size. Its header
//! form is pure ASCII, which the service requires.

use std::fmt::Write as _;

use crate::error::Error;

/// The longest partition key value that the service accepts.
pub const MAX_PARTITION_KEY_BYTES: usize = 2_048;

/// The value of a document's partition key: a string of 1 to [`MAX_PARTITION_KEY_BYTES`] bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PartitionKey(String);

impl PartitionKey {
    /// Accepts a value of 1 to [`MAX_PARTITION_KEY_BYTES`] bytes.
    pub fn new(value: &str) -> Result<PartitionKey, Error> {
        if value.is_empty() || value.len() > MAX_PARTITION_KEY_BYTES {
            return Err(Error::InvalidPartitionKey {
                bytes: value.len(),
                limit: MAX_PARTITION_KEY_BYTES,
            });
        }
        Ok(PartitionKey(value.to_owned()))
    }

    /// The value itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The value of the `x-ms-documentdb-partitionkey` header: a JSON array in pure ASCII.
    pub fn header(&self) -> String {
        let mut out = String::with_capacity(self.0.len() + 4);
        out.push_str("[\"");
        for unit in self.0.encode_utf16() {
            match unit {
                0x22 => out.push_str("\\\""),
                0x5c => out.push_str("\\\\"),
                0x20..=0x7e => out.push(unit as u8 as char),
                other => write!(out, "\\u{other:04x}").expect("writing to a String cannot fail"),
            }
        }
        out.push_str("\"]");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_escapes_what_a_header_cannot_carry() {
        for (value, header) in [
            ("plain-1:2._", r#"["plain-1:2._"]"#),
            ("a\"b", r#"["a\"b"]"#),
            ("a\\b", r#"["a\\b"]"#),
            ("line\nbreak\u{7f}", r#"["line\u000abreak\u007f"]"#),
            ("日本", r#"["\u65e5\u672c"]"#),
            ("🦀", r#"["\ud83e\udd80"]"#),
            ("é /?#", r#"["\u00e9 /?#"]"#),
        ] {
            let key = PartitionKey::new(value).unwrap();
            assert_eq!(key.header(), header);
            assert!(key.header().is_ascii());
            let back: [String; 1] = serde_json::from_str(&key.header()).unwrap();
            assert_eq!(back[0], value);
        }
    }

    #[test]
    fn a_value_over_the_limit_is_refused_with_its_length() {
        assert!(PartitionKey::new(&"x".repeat(2_048)).is_ok());
        let message = PartitionKey::new(&"é".repeat(1_025)).unwrap_err().to_string();
        assert!(message.contains("2050") && message.contains("2048"), "{message}");
        assert!(PartitionKey::new("").is_err());
    }
}
