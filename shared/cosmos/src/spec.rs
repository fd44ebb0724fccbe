//! The specification of a container: partition key, indexes, time to live, throughput.
//!
//! These types own the JSON of the service's container resource. `bootstrap.rs` sends them, `difference.rs` compares
//! them.

use reqwest::header::HeaderMap;
use serde::{Deserialize, Serialize, Serializer};

use crate::error::Error;
use crate::headers;

/// Version 2 hashes the whole partition key.
pub(crate) const KEY_VERSION: u32 = 2;

/// A container to create. It serializes to the service's container resource, which has no throughput; deployment
/// templates have the same text.
#[derive(Clone, Debug)]
pub struct ContainerSpec {
    /// Its name within the database.
    pub name: String,
    /// The path of the partition key in a document, such as `/pk`.
    pub partition_key_path: String,
    /// Which paths are indexed.
    pub indexing: IndexingPolicy,
    /// The time to live of documents in seconds: with `Some(-1)` each document may have its own `ttl`, with `None` none
    /// expires.
    pub default_ttl: Option<i32>,
    /// The throughput of the container.
    pub throughput: Throughput,
}

/// The throughput of a container, or of a whole database, in request units per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Throughput {
    /// Nothing is reserved: for serverless accounts, and for containers that share their database's throughput.
    Serverless,
    /// Always this much.
    Manual(u32),
    /// Up to this much, as needed.
    Autoscale(u32),
}

impl Throughput {
    pub(crate) fn write_to(self, map: &mut HeaderMap) -> Result<(), Error> {
        match self {
            Throughput::Serverless => Ok(()),
            Throughput::Manual(units) => headers::insert(map, headers::THROUGHPUT, &units.to_string()),
            Throughput::Autoscale(most) => {
                headers::insert(map, headers::AUTOSCALE, &format!("{{\"maxThroughput\":{most}}}"))
            }
        }
    }
}

/// Which paths are indexed. The service requires `/*` in one of the two lists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "wire::Policy", into = "wire::Policy")]
pub struct IndexingPolicy {
    /// Indexed paths, such as `/due/?`.
    pub included: Vec<String>,
    /// Paths that are not indexed, such as `/*`.
    pub excluded: Vec<String>,
    /// Indexes for ORDER BY on several properties.
    pub composite: Vec<Vec<(String, Order)>>,
}

impl Default for IndexingPolicy {
    /// The service's own default: everything is indexed.
    fn default() -> Self {
        IndexingPolicy {
            included: vec!["/*".to_owned()],
            excluded: Vec::new(),
            composite: Vec::new(),
        }
    }
}

/// The direction of one path of a composite index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Smallest first.
    Ascending,
    /// Greatest first.
    Descending,
}

/// A container as the service describes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "wire::Container")]
#[non_exhaustive]
pub struct ContainerDescription {
    /// Its name within the database.
    pub name: String,
    /// The paths of its partition key: several if it is hierarchical.
    pub partition_key_paths: Vec<String>,
    /// The version of the key's hash; `None` is version 1.
    pub partition_key_version: Option<u32>,
    /// `consistent`, or `none` for a container without any index.
    pub indexing_mode: String,
    /// Which paths are indexed.
    pub indexing: IndexingPolicy,
    /// The time to live of documents in seconds.
    pub default_ttl: Option<i32>,
}

impl ContainerSpec {
    /// The body of the request that creates it.
    pub(crate) fn body(&self) -> wire::Container {
        wire::Container {
            id: self.name.clone(),
            partition_key: wire::Key {
                paths: vec![self.partition_key_path.clone()],
                kind: "Hash".to_owned(),
                version: Some(KEY_VERSION),
            },
            indexing_policy: Some(self.indexing.clone().into()),
            default_ttl: self.default_ttl,
        }
    }
}

impl Serialize for ContainerSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.body().serialize(serializer)
    }
}

/// The service's JSON.
pub(crate) mod wire {
    use super::*;

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(crate) struct Container {
        pub(crate) id: String,
        pub(crate) partition_key: Key,
        pub(crate) indexing_policy: Option<Policy>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub(crate) default_ttl: Option<i32>,
    }

    #[derive(Serialize, Deserialize)]
    pub(crate) struct Key {
        pub(crate) paths: Vec<String>,
        #[serde(default)]
        pub(crate) kind: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub(crate) version: Option<u32>,
    }

    #[derive(Clone, Serialize, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    pub(crate) struct Policy {
        indexing_mode: String,
        automatic: bool,
        included_paths: Vec<Path>,
        excluded_paths: Vec<Path>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        composite_indexes: Vec<Vec<Ordered>>,
    }

    impl Default for Policy {
        fn default() -> Self {
            Policy {
                indexing_mode: "consistent".to_owned(),
                automatic: true,
                included_paths: Vec::new(),
                excluded_paths: Vec::new(),
                composite_indexes: Vec::new(),
            }
        }
    }

    #[derive(Clone, Serialize, Deserialize)]
    struct Path {
        path: String,
    }

    #[derive(Clone, Serialize, Deserialize)]
    struct Ordered {
        path: String,
        #[serde(default = "ascending")]
        order: Order,
    }

    fn ascending() -> Order {
        Order::Ascending
    }

    impl From<IndexingPolicy> for Policy {
        fn from(policy: IndexingPolicy) -> Policy {
            let paths = |paths: Vec<String>| paths.into_iter().map(|path| Path { path }).collect();
            let ordered = |(path, order)| Ordered { path, order };
            Policy {
                included_paths: paths(policy.included),
                excluded_paths: paths(policy.excluded),
                composite_indexes: policy
                    .composite
                    .into_iter()
                    .map(|index| index.into_iter().map(ordered).collect())
                    .collect(),
                ..Policy::default()
            }
        }
    }

    impl From<Policy> for IndexingPolicy {
        fn from(policy: Policy) -> IndexingPolicy {
            let paths = |paths: Vec<Path>| paths.into_iter().map(|path| path.path).collect();
            let ordered = |path: Ordered| (path.path, path.order);
            IndexingPolicy {
                included: paths(policy.included_paths),
                excluded: paths(policy.excluded_paths),
                composite: policy
                    .composite_indexes
                    .into_iter()
                    .map(|index| index.into_iter().map(ordered).collect())
                    .collect(),
            }
        }
    }

    impl From<Container> for ContainerDescription {
        fn from(container: Container) -> ContainerDescription {
            let policy = container
                .indexing_policy
                .unwrap_or_else(|| IndexingPolicy::default().into());
            ContainerDescription {
                name: container.id,
                partition_key_paths: container.partition_key.paths,
                partition_key_version: container.partition_key.version,
                indexing_mode: policy.indexing_mode.to_lowercase(),
                indexing: policy.into(),
                default_ttl: container.default_ttl,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn policy() -> IndexingPolicy {
        IndexingPolicy {
            included: vec!["/due/?".into()],
            excluded: vec!["/*".into()],
            composite: vec![vec![("/a".into(), Order::Ascending), ("/b".into(), Order::Descending)]],
        }
    }

    #[test]
    fn the_container_has_the_form_that_the_service_documents() {
        let spec = ContainerSpec {
            name: "c".into(),
            partition_key_path: "/pk".into(),
            indexing: policy(),
            default_ttl: Some(-1),
            throughput: Throughput::Serverless,
        };
        assert_eq!(
            serde_json::to_value(&spec).unwrap(),
            json!({
                "id": "c",
                "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2},
                "indexingPolicy": {
                    "indexingMode": "consistent",
                    "automatic": true,
                    "includedPaths": [{"path": "/due/?"}],
                    "excludedPaths": [{"path": "/*"}],
                    "compositeIndexes": [[{"path": "/a", "order": "ascending"}, {"path": "/b", "order": "descending"}]],
                },
                "defaultTtl": -1,
            })
        );
    }
}
