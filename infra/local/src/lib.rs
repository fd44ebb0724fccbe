//! The local cloud: what the product needs from Azure and AWS, on one machine, for tests and development.
//!
//! | module | what it is |
//! |---|---|
//! | [`cosmos`] | a strict Cosmos DB: Microsoft's in-memory emulator behind a real HTTP server that refuses what the service refuses, counts what it is asked, and fails on demand |
//! | [`cloud`] | that, and SQS, Lambda and a schedule around the real function binaries |
//! | [`lambda`], [`sqs`] | the parts of it |
//! | [`client`] | the command line that starts, tells and watches workflows, here or in a deployment |
//!
//! ```no_run
//! # async fn example() -> Result<(), local::StartError> {
//! let server = local::CosmosServer::start(local::ServerOptions::default()).await?;
//! println!("{} {}", server.door().endpoint(), server.door().key());
//! # Ok(())
//! # }
//! ```

pub mod binaries;
pub mod cli;
pub mod client;
pub mod cloud;
pub mod cosmos;
mod demo;
pub mod lambda;
mod net;
pub mod sqs;

pub use crate::cosmos::{
    CosmosServer, Counts, CrashPoint, Door, Faults, Hold, Lag, Recovered, Refusing, RequestKind, RequestRecord,
    ServerOptions, StartError, StorageError, sequential_rounds,
};
pub use cloud::{Cloud, CloudError, CloudOptions, CloudStatus, Functions, Store};
pub use lambda::become_child;
