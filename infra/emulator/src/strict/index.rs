//! A container's index policy, and which `ORDER BY` it allows.
//!
//! Of the included and excluded paths that cover a property, the most precise one decides; `/a/?` is more precise than `/a/*`.
//! `id` and `_ts` are always indexed.

use serde::Deserialize;
use serde_json::Value;

use super::Refusal;

/// The part of an index policy that queries are checked against.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct IndexPolicy {
    indexing_mode: Option<String>,
    included_paths: Vec<IndexPath>,
    excluded_paths: Vec<IndexPath>,
    composite_indexes: Vec<Vec<CompositePath>>,
}

#[derive(Clone, Debug, Deserialize)]
struct IndexPath {
    path: String,
}

#[derive(Clone, Debug, Deserialize)]
struct CompositePath {
    path: String,
    #[serde(default)]
    order: Option<String>,
}

/// One item of an ORDER BY: the names that lead to the property, and the direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OrderItem {
    pub(crate) path: Vec<String>,
    pub(crate) descending: bool,
}

impl IndexPolicy {
    /// Reads the policy of a new container, as strictly as the service.
    pub(super) fn parse(policy: &Value) -> Result<Self, Refusal> {
        let policy: Self = serde_json::from_value(policy.clone())
            .map_err(|error| Refusal::bad_request(format!("The indexing policy is invalid: {error}")))?;
        let paths = || {
            policy
                .included_paths
                .iter()
                .chain(&policy.excluded_paths)
                .map(|entry| entry.path.as_str())
        };
        if let Some(path) =
            paths().find(|path| !path.starts_with('/') || !(path.ends_with("/?") || path.ends_with("/*")))
        {
            return Err(Refusal::bad_request(format!(
                "The indexing path '{path}' could not be accepted: it must end in '/?' or '/*'."
            )));
        }
        if !policy.is_off() && paths().next().is_some() && !paths().any(|path| path == "/*") {
            return Err(Refusal::bad_request(
                "The special mandatory indexing path \"/*\" is not provided in any of the path type sets.",
            ));
        }
        let composite_paths = || policy.composite_indexes.iter().flatten();
        if let Some(entry) = composite_paths().find(|entry| entry.path.ends_with("/?") || entry.path.ends_with("/*")) {
            return Err(Refusal::bad_request(format!(
                "The composite path '{}' may not end in '/?' or '/*'.",
                entry.path
            )));
        }
        if policy.composite_indexes.iter().any(|index| index.len() < 2) {
            return Err(Refusal::bad_request("A composite index needs two paths or more."));
        }
        Ok(policy)
    }

    /// Refuses an ORDER BY that no index serves.
    pub(super) fn check_order(&self, order: &[OrderItem]) -> Result<(), Refusal> {
        match order {
            [] => Ok(()),
            [item] if self.indexes(&item.path) => Ok(()),
            [_] => Err(Refusal::bad_request(
                "The index path corresponding to the specified order-by item is excluded.",
            )),
            _ if self.composite_indexes.iter().any(|index| serves(index, order)) => Ok(()),
            _ => Err(Refusal::bad_request(
                "The order by query does not have a corresponding composite index that it can be served from.",
            )),
        }
    }

    /// Whether a composite index begins with some of the `equal` paths and continues with `range`.
    pub(super) fn seeks(&self, equal: &[&[String]], range: &[String]) -> bool {
        self.composite_indexes.iter().any(|index| {
            let paths: Vec<Vec<String>> = index.iter().map(|entry| names(&entry.path)).collect();
            let leading = paths.iter().take_while(|path| equal.contains(&path.as_slice())).count();
            leading > 0 && paths.get(leading).is_some_and(|path| path == range)
        })
    }

    /// Whether nothing is indexed at all.
    pub(super) fn is_off(&self) -> bool {
        let mode = self.indexing_mode.as_deref();
        mode.is_some_and(|mode| mode.eq_ignore_ascii_case("none"))
    }

    /// Whether the policy names no path, and so indexes everything.
    pub(super) fn is_default(&self) -> bool {
        self.included_paths.is_empty() && self.excluded_paths.is_empty()
    }

    /// The names in each included path, with `?` or `*` at the end.
    pub(super) fn included(&self) -> impl Iterator<Item = Vec<String>> {
        self.included_paths.iter().map(|entry| names(&entry.path))
    }

    /// The names in each excluded path, with `?` or `*` at the end.
    pub(super) fn excluded(&self) -> impl Iterator<Item = Vec<String>> {
        self.excluded_paths.iter().map(|entry| names(&entry.path))
    }

    /// The paths of each composite index.
    pub(super) fn composites(&self) -> Vec<Vec<Vec<String>>> {
        let paths = |index: &Vec<CompositePath>| index.iter().map(|entry| names(&entry.path)).collect();
        self.composite_indexes.iter().map(paths).collect()
    }

    /// Whether a property has a range index.
    pub(super) fn indexes(&self, path: &[String]) -> bool {
        if matches!(path, [name] if name == "id" || name == "_ts") {
            return true;
        }
        let best = |entries: &[IndexPath]| entries.iter().filter_map(|entry| precision(&entry.path, path)).max();
        match (best(&self.included_paths), best(&self.excluded_paths)) {
            (Some(included), Some(excluded)) => included > excluded,
            (Some(_), None) => true,
            // A policy that names no path at all indexes everything.
            (None, None) => self.is_default(),
            (None, Some(_)) => false,
        }
    }
}

/// How precisely a policy's path covers a property; `None` if it does not.
fn precision(pattern: &str, path: &[String]) -> Option<usize> {
    let mut names = names(pattern);
    let last = names.pop()?;
    let covers = names.len() <= path.len() && names.iter().zip(path).all(|(a, b)| a == b);
    match last.as_str() {
        "?" if covers && names.len() == path.len() => Some(2 * names.len() + 1),
        "*" if covers => Some(2 * names.len()),
        _ => None,
    }
}

/// Whether a composite index serves an order: the same paths, in the same directions or all in the opposite ones.
fn serves(index: &[CompositePath], order: &[OrderItem]) -> bool {
    let is_descending = |entry: &CompositePath| {
        entry
            .order
            .as_deref()
            .is_some_and(|order| order.eq_ignore_ascii_case("descending"))
    };
    index.len() == order.len()
        && index
            .iter()
            .zip(order)
            .all(|(entry, item)| names(&entry.path) == item.path)
        && (index
            .iter()
            .zip(order)
            .all(|(entry, item)| is_descending(entry) == item.descending)
            || index
                .iter()
                .zip(order)
                .all(|(entry, item)| is_descending(entry) != item.descending))
}

fn names(path: &str) -> Vec<String> {
    path.split('/')
        .filter(|name| !name.is_empty())
        .map(|name| name.trim_matches('"').to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn order(items: &[&str]) -> Vec<OrderItem> {
        items
            .iter()
            .map(|item| {
                let (path, descending) = item.strip_prefix('-').map_or((*item, false), |path| (path, true));
                OrderItem {
                    path: names(path),
                    descending,
                }
            })
            .collect()
    }

    #[test]
    fn the_most_precise_path_decides_whether_a_property_can_be_ordered_by() {
        let policy = IndexPolicy::parse(&json!({
            "includedPaths": [{ "path": "/due/?" }, { "path": "/tree/*" }],
            "excludedPaths": [{ "path": "/*" }, { "path": "/tree/leaf/?" }],
        }))
        .unwrap();
        for path in ["due", "tree/a/b", "tree", "id", "_ts"] {
            assert!(policy.check_order(&order(&[path])).is_ok(), "{path}");
        }
        for path in ["other", "due/inner", "tree/leaf"] {
            assert!(policy.check_order(&order(&[path])).is_err(), "{path}");
        }
    }

    #[test]
    fn an_order_by_two_properties_needs_a_composite_index_of_exactly_these() {
        let policy = IndexPolicy::parse(&json!({
            "includedPaths": [{ "path": "/*" }],
            "compositeIndexes": [[{ "path": "/a", "order": "ascending" }, { "path": "/b", "order": "descending" }]],
        }))
        .unwrap();
        for items in [["a", "-b"], ["-a", "b"]] {
            assert!(policy.check_order(&order(&items)).is_ok(), "{items:?}");
        }
        for items in [["a", "b"], ["b", "a"], ["-a", "-b"], ["a", "c"]] {
            assert!(policy.check_order(&order(&items)).is_err(), "{items:?}");
        }
        assert!(policy.check_order(&order(&["a", "-b", "c"])).is_err());
    }

    #[test]
    fn a_policy_must_include_or_exclude_the_root() {
        assert!(IndexPolicy::parse(&json!({ "includedPaths": [{ "path": "/a/?" }] })).is_err());
        assert!(IndexPolicy::parse(&json!({ "includedPaths": [{ "path": "/a" }, { "path": "/*" }] })).is_err());
        assert!(IndexPolicy::parse(&json!({ "indexingMode": "consistent" })).is_ok());
    }
}
