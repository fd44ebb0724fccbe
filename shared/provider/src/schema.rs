//! The definition of the container: the source of truth for `connect` and for infrastructure code.
//!
//! Only what a query filters or orders by is indexed: indexing the payload would cost request units on every write.

use cosmos::{ContainerSpec, IndexingPolicy, Throughput};

/// Every document has the id of its instance (or, for an affinity session, of that session) under this path.
const PARTITION_KEY_PATH: &str = "/pk";

const INDEXED: [&str; 14] = [
    "/pk/?",
    "/type/?",
    "/queue/?",
    "/dueAt/?",
    "/sortKey/?",
    "/execution/?",
    "/status/?",
    "/parent/?",
    "/name/?",
    "/owner/?",
    "/session/?",
    "/tag/?",
    "/until/?",
    "/completedAt/?",
];

/// The container's definition: partition key, index policy, and TTL per item (receipts and dead letters use it).
pub fn container_spec(name: &str, throughput: Throughput) -> ContainerSpec {
    ContainerSpec {
        name: name.to_owned(),
        partition_key_path: PARTITION_KEY_PATH.to_owned(),
        indexing: IndexingPolicy {
            included: INDEXED.iter().map(|path| (*path).to_owned()).collect(),
            excluded: vec!["/*".to_owned()],
            composite: Vec::new(),
        },
        default_ttl: Some(-1),
        throughput,
    }
}
