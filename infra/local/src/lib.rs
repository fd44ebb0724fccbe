//! The local cloud: what the product needs from Azure, on one machine, for tests and development.
//!
//! Today that is one thing, a strict Cosmos DB ([`cosmos`]): Microsoft's in-memory emulator behind a real
//! HTTP server that refuses what the service refuses, counts what it is asked, and fails on demand.
//!
//! ```no_run
//! # async fn example() -> Result<(), local::StartError> {
//! let server = local::CosmosServer::start(local::ServerOptions::default()).await?;
//! println!("{} {}", server.door().endpoint(), server.door().key());
//! # Ok(())
//! # }
//! ```

pub mod cosmos;

pub use cosmos::{
    CosmosServer, Counts, CrashPoint, Door, Faults, Hold, Lag, Recovered, Refusing, RequestKind, RequestRecord,
    ServerOptions, StartError, StorageError, sequential_rounds,
};
