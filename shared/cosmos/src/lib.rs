//! Azure Cosmos DB over raw REST: signing, documents, transactional batch, queries, one retry loop.
//!
//! ```text
//!   CosmosClient --> Container --> documents (container.rs), batch.rs, query.rs, sweep.rs
//!        |                              |
//!   bootstrap.rs                     Request
//!        \------------> send.rs <-------/        the one place that sends
//!                        |   \-- retry.rs        what an outcome means, how long to wait
//!                     auth.rs \- failure.rs      the Error of an operation that failed
//! ```
//!
//! The crate knows nothing of what it stores. Its promises:
//!
//! - An operation ends by its deadline, with all its retries.
//! - A write whose outcome is unknown is sent again only if the caller declared it [`Retry::Idempotent`]; and the
//!   caller learns of it ([`Error::Ambiguous`], [`Error::after_ambiguity`]).
//! - TLS is always verified; plain HTTP goes to this machine only; key material is never shown.

mod auth;
mod batch;
mod batch_failure;
mod bootstrap;
mod client;
mod clock;
mod config;
mod consistency;
mod container;
mod difference;
mod error;
mod failure;
mod headers;
mod http;
mod key;
mod observe;
mod partition_key;
mod query;
mod ranges;
mod request;
mod resource;
mod retry;
mod send;
mod spec;
mod sweep;
mod walk;

pub use batch::{Batch, BatchResult, MAX_BATCH_OPERATIONS, MAX_REQUEST_BYTES};
pub use bootstrap::Ensured;
pub use client::CosmosClient;
pub use clock::{Clock, SystemClock};
pub use config::ClientConfig;
pub use container::{Container, Etag, Found, MAX_ITEM_BYTES};
pub use difference::Difference;
pub use error::{BoxedError, Context, Error};
pub use key::{Key, KeySource, StaticKey};
pub use observe::{Observed, Observer, RequestKind};
pub use partition_key::{MAX_PARTITION_KEY_BYTES, PartitionKey};
pub use query::{Page, PageOptions, Query};
pub use retry::Retry;
pub use spec::{ContainerDescription, ContainerSpec, IndexingPolicy, Order, Throughput};
pub use sweep::{Sweep, SweepCursor};
