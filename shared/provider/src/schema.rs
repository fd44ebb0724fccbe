//! The container that the provider expects: the one source of truth for bootstrap and for infrastructure code.
//!
//! Only what a query filters or orders by is indexed; everything else is payload, and indexing it would be paid on
//! every write.

use cosmos::{ContainerSpec, IndexingPolicy, Throughput};

/// Every document carries the id of its instance (or, for a session, of that session) under this path.
pub const PARTITION_KEY_PATH: &str = "/pk";

const INDEXED: [&str; 15] = [
    "/pk/?",
    "/type/?",
    "/queue/?",
    "/dueAt/?",
    "/sortKey/?",
    "/slot/?",
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

/// The container's definition: partition key, index policy, and per-item TTL switched on (receipts use it).
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
