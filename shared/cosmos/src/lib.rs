//! Azure Cosmos DB over REST: signing, documents, transactional batches, queries, one retry loop.
//!
//! ```text
//!   CosmosClient --> Container --> documents (container.rs), patch.rs, batch.rs, query.rs, sweep.rs
//!        |                              |
//!   bootstrap.rs                     Request
//!        \------------> send.rs <-------/        the one place that sends; one span per operation
//!                        |   \-- retry.rs        what an outcome means, how long to wait
//!                     auth.rs \- failure.rs      the Error of an operation that failed
//!                        |
//!                 credential.rs                  the account's key, or a token
//!                        \-- entra.rs            fetches tokens of Entra ID, and keeps them until near their end
//! ```
//!
//! The crate does not interpret what it stores. It guarantees:
//!
//! - An operation ends by its deadline, with all its retries.
//! - A write whose outcome is unknown is repeated only if the caller declared it [`Retry::Idempotent`], and the error
//!   says so ([`Error::Ambiguous`], [`Error::after_ambiguity`]).
//! - TLS is always verified; plain HTTP goes to this machine only; keys and tokens are never shown.
//!
//! The modules are declared below in layers, the lowest first: a module uses only layers above its own declaration
//! (`tests/layers.rs`).

// Basic types, and state without I/O.
mod clock;
mod consistency;
mod error;
mod observe;
mod ranges;
mod tally;

// Values, headers, and the decision to repeat.
mod endpoint;
mod headers;
mod http;
mod key;
mod partition_key;
mod retry;

// What authorizes a request.
mod credential;

// Why Entra ID gives no token.
mod entra_error;

// A certificate as proof of identity.
mod entra_certificate;

// One request for a token.
mod entra_exchange;

// Tokens of Entra ID.
mod entra;

// What requests and answers consist of.
mod batch_failure;
mod config;
mod resource;
mod spec;
mod walk;

// A request, and its signature.
mod auth;
mod difference;
mod request;

// The error of a request.
mod failure;

// The loop that sends.
mod send;

// A container and its documents.
mod container;

// Further operations of a container, and the client of an account.
mod batch;
mod client;
mod patch;
mod query;
mod range_list;

// Operations on all partitions, and on containers themselves.
mod bootstrap;
mod sweep;

pub use batch::{Batch, BatchResult, MAX_BATCH_OPERATIONS, MAX_REQUEST_BYTES};
pub use bootstrap::{Described, Ensured};
pub use client::CosmosClient;
pub use clock::{Clock, SystemClock};
pub use config::ClientConfig;
pub use container::{Changed, Container, Etag, Found, MAX_ITEM_BYTES};
pub use credential::{Credential, CredentialSource, StaticKey, StaticToken, Token};
pub use difference::Difference;
pub use entra::{EntraSettings, EntraTokens};
pub use entra_certificate::Certificate;
pub use entra_error::{Refusal, TokenError};
pub use entra_exchange::{ClientProof, ProofSource};
pub use error::{BoxedError, Context, Error};
pub use key::Key;
pub use observe::{Observed, Observer, RequestKind};
pub use partition_key::{MAX_PARTITION_KEY_BYTES, PartitionKey};
pub use patch::Patch;
pub use query::{Page, PageOptions, Query};
pub use retry::Retry;
pub use spec::{ContainerDescription, ContainerSpec, IndexingPolicy, Order, Throughput};
pub use sweep::{Sweep, SweepCursor};
pub use tally::{Tallied, Tally};

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
