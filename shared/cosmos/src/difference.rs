//! How a container differs from its specification.
//!
//! Comparing decides nothing: `bootstrap.rs` refuses what cannot work and logs the rest.

use std::collections::BTreeSet;
use std::fmt;

use crate::spec::{ContainerDescription, ContainerSpec, IndexingPolicy, KEY_VERSION, Order};

/// The service adds the ETag to the excluded paths.
const ETAG: &str = "/\"_etag\"/?";

/// The prefix of what belongs to the partition key.
const PARTITION_KEY: &str = "partitionKey.";

/// One property of a container that differs from its specification.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The property, such as `defaultTtl`, as the service's container resource names it.
    pub what: &'static str,
    /// Its value.
    pub found: String,
    /// Its value in the specification.
    pub expected: String,
    /// Whether the container cannot be used at all. Other differences cost request units, storage or time.
    pub fatal: bool,
}

impl Difference {
    /// Whether an existing container can be changed in this property. A partition key and its version are fixed.
    pub fn is_changeable(&self) -> bool {
        !self.what.starts_with(PARTITION_KEY)
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}, expected {}", self.what, self.found, self.expected)
    }
}

impl ContainerSpec {
    /// Every property in which `found` differs from this, except name and throughput.
    pub fn differences(&self, found: &ContainerDescription) -> Vec<Difference> {
        let mut differences = Vec::new();
        let mut compare = |what, fatal, found: String, expected: String| {
            if found != expected {
                differences.push(Difference {
                    what,
                    found,
                    expected,
                    fatal,
                });
            }
        };
        let (found_key, key) = (found.partition_key_paths.join(", "), self.partition_key_path.clone());
        compare("partitionKey.paths", true, found_key, key);
        // A container of version 1 hashes the first 101 bytes only, and refuses longer keys.
        let version = found.partition_key_version.unwrap_or(1).to_string();
        compare("partitionKey.version", false, version, KEY_VERSION.to_string());
        let ttl = |seconds: Option<i32>| seconds.map_or("not set".to_owned(), |seconds| seconds.to_string());
        compare("defaultTtl", false, ttl(found.default_ttl), ttl(self.default_ttl));
        compare(
            "indexingPolicy.indexingMode",
            false,
            found.indexing_mode.clone(),
            "consistent".to_owned(),
        );
        let policies = (&found.indexing, &self.indexing);
        for (what, part) in PARTS {
            compare(what, false, part(policies.0), part(policies.1));
        }
        differences
    }
}

/// The name and the text of one list of an index policy.
type Part = (&'static str, fn(&IndexingPolicy) -> String);

/// The lists of an index policy; the order of their elements does not matter.
const PARTS: [Part; 3] = [
    ("indexingPolicy.includedPaths", |policy| listed(&policy.included)),
    ("indexingPolicy.excludedPaths", |policy| listed(&policy.excluded)),
    ("indexingPolicy.compositeIndexes", |policy| {
        let index = |index: &Vec<(String, Order)>| format!("{index:?}");
        listed(&policy.composite.iter().map(index).collect::<Vec<_>>())
    }),
];

fn listed(paths: &[String]) -> String {
    let paths: BTreeSet<&str> = paths.iter().map(String::as_str).filter(|path| *path != ETAG).collect();
    format!("[{}]", paths.into_iter().collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Throughput;
    use serde_json::{Value, json};

    fn spec() -> ContainerSpec {
        ContainerSpec {
            name: "c".into(),
            partition_key_path: "/pk".into(),
            indexing: IndexingPolicy {
                included: vec!["/a/?".into(), "/b/?".into()],
                excluded: vec!["/*".into()],
                composite: Vec::new(),
            },
            default_ttl: Some(-1),
            throughput: Throughput::Serverless,
        }
    }

    /// The differences of the specified container after `change`.
    fn changed(change: impl FnOnce(&mut Value)) -> Vec<Difference> {
        let mut container = serde_json::to_value(spec()).unwrap();
        change(&mut container);
        let found = serde_json::from_value(container).unwrap();
        spec().differences(&found)
    }

    #[test]
    fn what_the_service_adds_or_reorders_is_no_difference() {
        let same = changed(|container| {
            container["indexingPolicy"]["excludedPaths"] = json!([{"path": "/*"}, {"path": "/\"_etag\"/?"}]);
            container["indexingPolicy"]["includedPaths"] = json!([{"path": "/b/?"}, {"path": "/a/?"}]);
            container["_rid"] = json!("x");
        });
        assert_eq!(same, Vec::new());
    }

    /// A change of the container, and the difference that it makes.
    type Case = (fn(&mut Value), &'static str);

    #[test]
    fn each_difference_names_what_was_found_and_what_was_expected() {
        let cases: [Case; 7] = [
            (
                |container| container["partitionKey"]["paths"] = json!(["/other", "/deeper"]),
                "partitionKey.paths is /other, /deeper, expected /pk",
            ),
            (
                |container| container["partitionKey"]["version"] = Value::Null,
                "partitionKey.version is 1, expected 2",
            ),
            (
                |container| container["defaultTtl"] = Value::Null,
                "defaultTtl is not set, expected -1",
            ),
            (
                |container| container["indexingPolicy"]["indexingMode"] = json!("none"),
                "indexingPolicy.indexingMode is none, expected consistent",
            ),
            (
                |container| container["indexingPolicy"]["includedPaths"] = json!([{"path": "/a/?"}]),
                "indexingPolicy.includedPaths is [/a/?], expected [/a/?, /b/?]",
            ),
            (
                |container| container["indexingPolicy"]["excludedPaths"] = json!([{"path": "/*"}, {"path": "/c/*"}]),
                "indexingPolicy.excludedPaths is [/*, /c/*], expected [/*]",
            ),
            (
                |container| {
                    container["indexingPolicy"]["compositeIndexes"] = json!([[{"path": "/a"}, {"path": "/b"}]]);
                },
                "indexingPolicy.compositeIndexes is [[(\"/a\", Ascending), (\"/b\", Ascending)]], expected []",
            ),
        ];
        for (change, expected) in cases {
            let differences = changed(change);
            assert_eq!(
                differences.iter().map(Difference::to_string).collect::<Vec<_>>(),
                [expected]
            );
            let of_key = expected.starts_with("partitionKey.");
            assert_eq!(differences[0].is_changeable(), !of_key, "{expected}");
        }
    }
}
