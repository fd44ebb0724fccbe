//! The index policy as a tree, for the entries that a document has in the indexes.
//!
//! Walking the tree beside the document skips what no path includes: a large payload that is not indexed costs nothing. `index`
//! answers the same question for one path of a query.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

use super::index::IndexPolicy;

/// Part of every document and of every price.
const OF_THE_SERVICE: [&str; 6] = ["id", "_rid", "_self", "_etag", "_attachments", "_ts"];
/// The name of all elements of an array in a path.
const ELEMENTS: &str = "[]";

/// Which paths of a document are indexed.
#[derive(Debug, Default)]
pub(crate) struct IndexTree {
    root: Node,
    /// The paths of each composite index.
    composite: Vec<Vec<Vec<String>>>,
}

#[derive(Debug, Default)]
struct Node {
    children: HashMap<String, Node>,
    /// Whether `/path/?` is included.
    exact: Option<bool>,
    /// Whether `/path/*` is included.
    below: Option<bool>,
}

impl IndexTree {
    pub(crate) fn of(policy: &IndexPolicy) -> IndexTree {
        let mut tree = IndexTree::default();
        if policy.is_off() {
            return tree;
        }
        // A policy without any path indexes everything.
        tree.root.below = policy.is_default().then_some(true);
        // An excluded path wins over the same path included.
        policy.included().for_each(|path| tree.root.set(&path, true));
        policy.excluded().for_each(|path| tree.root.set(&path, false));
        tree.composite = policy.composites();
        tree
    }

    /// One number for each entry that a document has: the same path with the same value has the same number.
    pub(crate) fn entries(&self, document: &Value) -> Vec<u64> {
        let mut entries = Vec::new();
        let everything = self.root.below.unwrap_or(false);
        for (name, value) in document.as_object().into_iter().flatten() {
            if !OF_THE_SERVICE.contains(&name.as_str()) {
                descend(Some(&self.root), everything, (0, name), value, &mut entries);
            }
        }
        for (number, paths) in self.composite.iter().enumerate() {
            let values: Option<Vec<&Value>> = paths.iter().map(|path| at(document, path)).collect();
            if let Some(values) = values {
                let texts = values.iter().map(|value| value.to_string());
                entries.push(hash(&(number, texts.collect::<Vec<_>>())));
            }
        }
        entries.sort_unstable();
        entries
    }
}

impl Node {
    fn set(&mut self, path: &[String], included: bool) {
        let [names @ .., last] = path else { return };
        let node = names
            .iter()
            .fold(self, |node, name| node.children.entry(name.clone()).or_default());
        match last.as_str() {
            "?" => node.exact = Some(included),
            _ => node.below = Some(included),
        }
    }
}

/// The size of what the service adds to a document, as far as the document has it.
pub(super) fn bytes_of_the_service(document: &Value) -> usize {
    let added = OF_THE_SERVICE.iter().filter(|name| **name != "id");
    added
        // Quotes, a colon and a comma.
        .filter_map(|name| Some(document.get(name)?.to_string().len() + name.len() + 4))
        .sum()
}

fn descend(parent: Option<&Node>, inherited: bool, name: (u64, &str), value: &Value, entries: &mut Vec<u64>) {
    let node = parent.and_then(|parent| parent.children.get(name.1));
    let below = node.and_then(|node| node.below).unwrap_or(inherited);
    if node.is_none() && !below {
        return;
    }
    let path = hash(&name);
    match value {
        Value::Object(fields) => fields
            .iter()
            .for_each(|(name, value)| descend(node, below, (path, name), value, entries)),
        Value::Array(items) => items
            .iter()
            .for_each(|value| descend(node, below, (path, ELEMENTS), value, entries)),
        _ if node.and_then(|node| node.exact).unwrap_or(below) => entries.push(hash(&(path, value.to_string()))),
        _ => {}
    }
}

fn at<'d>(document: &'d Value, path: &[String]) -> Option<&'d Value> {
    path.iter().try_fold(document, |value, name| value.get(name))
}

fn hash(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn count(policy: Value, document: Value) -> usize {
        IndexTree::of(&serde_json::from_value(policy).unwrap())
            .entries(&document)
            .len()
    }

    #[test]
    fn a_document_has_an_entry_for_each_value_under_an_included_path() {
        let document =
            json!({ "id": "x", "_ts": 1, "a": 1, "b": { "c": "x", "d": [1, 2, { "e": null }] }, "f": [], "g": {} });
        for (policy, expected) in [
            (json!({}), 5),
            (
                json!({ "includedPaths": [{ "path": "/*" }], "excludedPaths": [{ "path": "/\"_etag\"/?" }] }),
                5,
            ),
            (
                json!({ "includedPaths": [{ "path": "/*" }], "excludedPaths": [{ "path": "/b/d/*" }] }),
                2,
            ),
            (
                json!({ "includedPaths": [{ "path": "/a/?" }, { "path": "/b/d/[]/?" }], "excludedPaths": [{ "path": "/*" }] }),
                3,
            ),
            (
                json!({ "includedPaths": [{ "path": "/b/?" }, { "path": "/z/?" }], "excludedPaths": [{ "path": "/*" }] }),
                0,
            ),
            (
                json!({ "includedPaths": [{ "path": "/b/*" }], "excludedPaths": [{ "path": "/*" }, { "path": "/b/c/?" }] }),
                3,
            ),
            (
                json!({ "indexingMode": "none", "includedPaths": [{ "path": "/*" }] }),
                0,
            ),
        ] {
            assert_eq!(count(policy.clone(), document.clone()), expected, "{policy}");
        }
    }

    #[test]
    fn a_composite_index_has_an_entry_for_a_document_with_all_its_paths() {
        let policy = json!({
            "includedPaths": [{ "path": "/a/?" }],
            "excludedPaths": [{ "path": "/*" }],
            "compositeIndexes": [[{ "path": "/a" }, { "path": "/b/c" }], [{ "path": "/a" }, { "path": "/z" }]],
        });
        assert_eq!(count(policy.clone(), json!({ "a": 1, "b": { "c": 2 } })), 2);
        assert_eq!(count(policy, json!({ "a": 1 })), 1);
    }
}
