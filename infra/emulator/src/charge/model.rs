//! The price of an operation in request units: an estimate, from what is published and recorded.
//!
//! | price | source |
//! |---|---|
//! | a read and an unindexed write by size | Microsoft's table of sizes from 1 KB to 2 MB ("Understand request unit consumption"); between two sizes a straight line |
//! | 0.19 for each index entry | recorded creates (6.29, 6.67, 7.05) differ by multiples of it; with 4.95 it gives the published 5.5 for a few properties |
//! | a replace is a delete and a create, without the entries that stay | published as about twice an insert; recorded 11.05 |
//! | a delete costs what creating the document costs | recorded: 6.67 for both |
//! | a query: 2.23, and 0.03 for each document of 1 KB | recorded: 2.26 for one document |
//! | a document that a query examines and does not return: 0.01 for each KB | published: 4,060 for 61,000 examined documents with 400 MB together |
//! | a write that fails (404, 409, 412): 1.24 | assumed |

use crate::strict::Footprint;

/// Sizes in KB with the price of a point read and of a write without index entries.
const BY_SIZE: [(f64, f64, f64); 12] = [
    (1.0, 1.00, 4.95),
    (2.0, 1.04, 6.29),
    (4.0, 1.14, 6.67),
    (8.0, 1.33, 7.04),
    (16.0, 1.67, 9.52),
    (32.0, 2.19, 11.23),
    (64.0, 4.76, 22.67),
    (128.0, 9.95, 48.19),
    (256.0, 20.28, 98.29),
    (512.0, 40.95, 184.57),
    (1_024.0, 145.90, 625.00),
    (2_048.0, 291.80, 1_250.00),
];
const INDEX_ENTRY: f64 = 0.19;
const QUERY: f64 = 2.23;
const EXAMINED_KB: f64 = 0.01;
const RETURNED_KB: f64 = 0.02;
const FAILED_WRITE: f64 = 1.24;
/// A point read that finds nothing.
const NOT_FOUND: f64 = 1.0;
const KB: f64 = 1_024.0;

/// A point read of a document of this size; `None` if there is no such document.
pub(crate) fn read(bytes: Option<usize>) -> f64 {
    bytes.map_or(NOT_FOUND, |bytes| by_size(bytes, |(_, read, _)| read))
}

pub(crate) fn create(new: &Footprint) -> f64 {
    write(new.bytes) + INDEX_ENTRY * new.entries() as f64
}

pub(crate) fn replace(old: &Footprint, new: &Footprint) -> f64 {
    write(old.bytes) + write(new.bytes) + INDEX_ENTRY * old.difference(new) as f64
}

pub(crate) fn delete(old: &Footprint) -> f64 {
    create(old)
}

/// A write that fails with 404, 409 or 412.
pub(crate) fn failed_write() -> f64 {
    FAILED_WRITE
}

/// What one page of a query did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueryPage {
    /// The number of physical partitions that executed it.
    pub(crate) partitions: usize,
    /// The number of results, and their size together.
    pub(crate) returned: usize,
    pub(crate) bytes: usize,
    /// The number of documents that the index found, if it is known.
    pub(crate) examined: usize,
}

/// One page of a query. A result counts at least 1 KB, and a document that is examined only counts 1 KB.
pub(crate) fn query(page: QueryPage) -> f64 {
    let returned = (page.bytes as f64 / KB).max(page.returned as f64);
    let examined = page.examined.saturating_sub(page.returned) as f64;
    QUERY * page.partitions as f64 + (EXAMINED_KB + RETURNED_KB) * returned + EXAMINED_KB * examined
}

fn write(bytes: usize) -> f64 {
    by_size(bytes, |(_, _, write)| write)
}

/// The price of a size, on the straight line between the two published sizes around it. Less than 1 KB counts as 1 KB.
fn by_size(bytes: usize, price: fn((f64, f64, f64)) -> f64) -> f64 {
    let size = (bytes as f64 / KB).max(1.0);
    let above = BY_SIZE.partition_point(|row| row.0 < size).clamp(1, BY_SIZE.len() - 1);
    let (low, high) = (BY_SIZE[above - 1], BY_SIZE[above]);
    let share = (size - low.0) / (high.0 - low.0);
    price(low) + share * (price(high) - price(low))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::strict::{IndexPolicy, IndexTree};

    /// A document of this size with so many properties besides its id and its payload, which is not indexed.
    fn document(bytes: usize, properties: usize, seed: usize) -> Footprint {
        let mut document = json!({ "id": "x", "payload": "" });
        for property in 0..properties {
            document[format!("p{property}")] = json!(seed + property);
        }
        let missing = bytes - document.to_string().len();
        document["payload"] = Value::from("x".repeat(missing));
        let policy: IndexPolicy = serde_json::from_value(
            json!({ "includedPaths": [{ "path": "/*" }], "excludedPaths": [{ "path": "/payload/?" }] }),
        )
        .unwrap();
        Footprint::of(&document, &IndexTree::of(&policy))
    }

    #[track_caller]
    fn is(price: f64, expected: f64) {
        assert!((price - expected).abs() < 0.01, "{price} instead of {expected}");
    }

    #[test]
    fn a_point_read_costs_one_unit_for_1_kb_and_about_8_for_100_kb() {
        is(read(Some(0)), 1.0);
        is(read(Some(1_024)), 1.0);
        is(read(Some(3 * 1_024)), 1.09);
        is(read(Some(100 * 1_024)), 7.68);
        is(read(Some(2 << 20)), 291.8);
        is(read(None), 1.0);
    }

    #[test]
    fn a_create_of_1_kb_costs_5_to_6_units_by_its_indexed_paths() {
        is(create(&document(1_024, 0, 0)), 4.95);
        is(create(&document(1_024, 3, 0)), 5.52);
        is(create(&document(1_024, 5, 0)), 5.90);
        is(create(&document(1_024, 9, 0)), 6.66);
        is(create(&document(100 * 1_024, 3, 0)), 37.59);
    }

    #[test]
    fn a_delete_costs_as_much_as_the_create() {
        let document = document(1_024, 9, 0);
        is(delete(&document), create(&document));
    }

    #[test]
    fn a_replace_costs_two_writes_and_the_entries_that_change() {
        let old = document(1_024, 9, 0);
        is(replace(&old, &old), 9.90);
        // Three properties get other values: three entries go, three come.
        is(replace(&document(1_024, 3, 0), &document(1_024, 3, 9)), 11.04);
        is(replace(&old, &document(2_048, 9, 0)), 4.95 + 6.29);
    }

    #[test]
    fn a_query_costs_its_partitions_its_results_and_what_it_examines() {
        let one = QueryPage {
            partitions: 1,
            ..QueryPage::default()
        };
        is(query(one), 2.23);
        let page = |returned, bytes| QueryPage { returned, bytes, ..one };
        is(query(page(1, 300)), 2.26);
        is(query(page(100, 100 * 1_024)), 5.23);
        is(query(page(1, 100 * 1_024)), 5.23);
        is(query(QueryPage { partitions: 4, ..one }), 8.92);
        is(
            query(QueryPage {
                examined: 1_000,
                ..page(10, 1_000)
            }),
            2.23 + 0.3 + 9.9,
        );
    }
}
