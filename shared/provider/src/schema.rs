//! The definition of the container: the source of truth for `connect` and for infrastructure code.
//!
//! Only what a query filters or orders by is indexed: indexing the payload would cost request units on every write.
//!
//! A query over all partitions runs every few seconds, or at each maintenance run. Its price must not grow with what is stored, so
//! each one begins with an equality and continues with a range or an order in the same composite index, or uses one path alone.
//! The strict server of the tests refuses any other (its module `strict::scan` has the rules).
//!
//! | composite index | serves |
//! |---|---|
//! | `lane`, `dueAt` | the sweep for turns, and for what needs recovery |
//! | `queue`, `dueAt` | the sweep for work items; the passes of recovery; how many messages and work items are due |
//! | `queue`, `type`, `dueAt` | the outbox |
//! | `queue`, `type`, `sortKey` | the oldest intent; the list of dead letters |
//! | `queue`, `givenUp.cause`, `sortKey` | the list of dead letters of one kind |
//! | `type`, `until` | claims that are live; affinity sessions that have expired |
//! | `type`, `completedAt` | instances that retention deletes |
//! | `type`, `executions` | instances that retention prunes |
//! | `type`, `createdAt`, `pk` | a search without a filter, or with one that has no index of its own |
//! | `type`, `status`, `createdAt`, `pk` | a search by status |
//! | `type`, `cancelled`, `createdAt`, `pk` | a search for cancelled instances, which duroxide calls failed |
//! | `type`, `blocked.listed`, `createdAt`, `pk` | a search for blocked instances |
//! | `type`, `paused.listed`, `createdAt`, `pk` | a search for paused instances |
//! | `type`, `name`, `createdAt`, `pk` and `type`, `startName`, `createdAt`, `pk` | a search by name: what has begun, and what is pending |
//! | `type`, `name`, `status`, `createdAt`, `pk` | a search by name and status |
//! | `type`, `name`, `version`, `createdAt`, `pk` | a search by name and version |
//! | `type`, `parent`, `createdAt`, `pk` | a search by parent |
//!
//! A search orders by acceptance; the id decides between those of one millisecond, so that a position in the order is unique.
//! Instances with a tag are found by `tags` alone, and those whose id has a prefix by `pk` and `executions`, which only they have: an
//! index of `type` and `pk` would have an entry for every document.
//! What is blocked is found by `blocked.since` alone, and what is paused by `paused.listed`: only what is blocked or paused has it.
//! What is due in a window of time, whatever its queue, is found by `dueAt` alone: only what waits has one. So is everything that a
//! maintenance run may have to do (`maintain::look`).

use cosmos::{ContainerSpec, IndexingPolicy, Order, Throughput};

/// Every document has the id of its instance (or, for an affinity session, of that session) under this path.
const PARTITION_KEY_PATH: &str = "/pk";

const INDEXED: [&str; 26] = [
    "/pk/?",
    "/type/?",
    "/queue/?",
    "/lane/?",
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
    "/executions/?",
    "/timer/?",
    "/givenUp/cause/?",
    "/blocked/since/?",
    "/blocked/listed/?",
    "/paused/listed/?",
    "/createdAt/?",
    "/cancelled/?",
    "/startName/?",
    "/version/?",
    "/tags/[]/?",
];

/// All in ascending order; the service reads them backwards as well.
const COMPOSITE: [&[&str]; 18] = [
    &["/lane", "/dueAt"],
    &["/queue", "/dueAt"],
    &["/queue", "/type", "/dueAt"],
    &["/queue", "/type", "/sortKey"],
    &["/queue", "/givenUp/cause", "/sortKey"],
    &["/type", "/until"],
    &["/type", "/completedAt"],
    &["/type", "/executions"],
    &["/type", "/createdAt", "/pk"],
    &["/type", "/status", "/createdAt", "/pk"],
    &["/type", "/cancelled", "/createdAt", "/pk"],
    &["/type", "/blocked/listed", "/createdAt", "/pk"],
    &["/type", "/paused/listed", "/createdAt", "/pk"],
    &["/type", "/name", "/createdAt", "/pk"],
    &["/type", "/startName", "/createdAt", "/pk"],
    &["/type", "/name", "/status", "/createdAt", "/pk"],
    &["/type", "/name", "/version", "/createdAt", "/pk"],
    &["/type", "/parent", "/createdAt", "/pk"],
];

/// The container's definition: partition key, index policy, and TTL per item (receipts and dead letters use it).
pub fn container_spec(name: &str, throughput: Throughput) -> ContainerSpec {
    ContainerSpec {
        name: name.to_owned(),
        partition_key_path: PARTITION_KEY_PATH.to_owned(),
        indexing: IndexingPolicy {
            included: INDEXED.iter().map(|path| (*path).to_owned()).collect(),
            excluded: vec!["/*".to_owned()],
            composite: COMPOSITE.iter().map(|paths| ascending(paths)).collect(),
        },
        default_ttl: Some(-1),
        throughput,
    }
}

fn ascending(paths: &[&str]) -> Vec<(String, Order)> {
    paths
        .iter()
        .map(|path| ((*path).to_owned(), Order::Ascending))
        .collect()
}
