//! What a document weighs: its size, and its entries in the indexes of its container. The price of a write follows from both
//! (`charge`).

use std::io::{self, Write};

use serde_json::Value;

use super::index_tree::{IndexTree, bytes_of_the_service};

/// The size and the index entries of one document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Footprint {
    /// Of its JSON, without what the service adds to it.
    pub(crate) bytes: usize,
    /// A number for each entry, sorted.
    entries: Vec<u64>,
}

impl Footprint {
    pub(crate) fn of(document: &Value, index: &IndexTree) -> Footprint {
        Footprint {
            bytes: length(document).saturating_sub(bytes_of_the_service(document)),
            entries: index.entries(document),
        }
    }

    pub(crate) fn entries(&self) -> usize {
        self.entries.len()
    }

    /// The number of entries that only one of the two has: those that replacing one document by the other removes or adds.
    pub(crate) fn difference(&self, other: &Footprint) -> usize {
        let (mut left, mut right) = (self.entries.iter().peekable(), other.entries.iter().peekable());
        let mut common = 0;
        while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
            common += usize::from(a == b);
            let (step_left, step_right) = (a <= b, b <= a);
            if step_left {
                left.next();
            }
            if step_right {
                right.next();
            }
        }
        self.entries.len() + other.entries.len() - 2 * common
    }
}

/// What an operation does to a document, as its price needs it.
#[derive(Clone, Debug)]
pub(crate) struct Touched {
    pub(crate) kind: TouchKind,
    pub(crate) id: String,
    /// The document that the operation writes.
    pub(crate) written: Option<Footprint>,
}

/// The kinds of operations, in batches and alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TouchKind {
    Read,
    Create,
    /// Also an upsert of a document that exists.
    Replace,
    Upsert,
    Delete,
}

/// The length of a value as JSON text.
fn length(value: &Value) -> usize {
    struct Counter(usize);
    impl Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    serde_json::to_writer(&mut counter, value).expect("a JSON value can be written, and counting does not fail");
    counter.0
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::index::IndexPolicy;
    use super::*;

    fn footprint(document: Value) -> Footprint {
        Footprint::of(&document, &IndexTree::of(&IndexPolicy::default()))
    }

    #[test]
    fn the_size_is_that_of_the_document_as_it_was_sent() {
        let sent = json!({ "id": "x", "a": "ü" });
        let mut stored = sent.clone();
        for (name, value) in [
            ("_rid", json!("r")),
            ("_ts", json!(1_700_000_000)),
            ("_etag", json!("\"e\"")),
        ] {
            stored[name] = value;
        }
        assert_eq!(footprint(sent.clone()).bytes, sent.to_string().len());
        assert_eq!(footprint(stored), footprint(sent));
    }

    #[test]
    fn the_difference_counts_entries_that_are_removed_or_added() {
        let old = footprint(json!({ "id": "x", "a": 1, "b": 2, "c": [1, 1] }));
        for (new, expected) in [
            (json!({ "id": "x", "a": 1, "b": 2, "c": [1, 1] }), 0),
            (json!({ "id": "x", "a": 1, "b": 3, "c": [1, 1] }), 2),
            (json!({ "id": "x", "a": 1, "c": [1, 1], "d": 5, "e": 6 }), 3),
            (json!({ "id": "x", "a": 1, "b": 2, "c": [1] }), 1),
            (json!({ "id": "x" }), 4),
        ] {
            assert_eq!(old.difference(&footprint(new.clone())), expected, "{new}");
            assert_eq!(footprint(new.clone()).difference(&old), expected, "{new}");
        }
    }
}
