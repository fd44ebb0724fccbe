//! What a server is started with, and why it may not start.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::storage::StorageError;

/// The key of a server that is given none. It protects nothing, and says so.
pub const DEFAULT_KEY: &str =
    "dGhlIGtleSBvZiB0aGUgdGVzdCBzZXJ2ZXIsIHdoaWNoIGlzIG5vIHNlY3JldDogaXQgb3BlbnMgbm90aGluZw==";

/// How to start a [`CosmosServer`](crate::CosmosServer).
#[derive(Clone)]
pub struct ServerOptions {
    /// The port of the first listener on `127.0.0.1`; 0 takes any free one.
    pub port: u16,
    /// The account key, in base64.
    pub key: String,
    /// How many physical partitions a new container gets.
    pub partitions: u32,
    /// A second region that follows with a delay; without it no read is ever stale.
    pub lag: Option<Lag>,
    /// A directory in which what was committed survives a restart; without it everything is in memory.
    pub data: Option<PathBuf>,
    /// Keep a record of every request, for [`Listener::log`](crate::Listener::log) and for holds. It grows with every request: a
    /// server that is to stay up does without, and still counts them.
    pub keep_log: bool,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            port: 0,
            key: DEFAULT_KEY.to_owned(),
            partitions: 4,
            lag: None,
            data: None,
            keep_log: true,
        }
    }
}

impl fmt::Debug for ServerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerOptions")
            .field("port", &self.port)
            .field("partitions", &self.partitions)
            .field("lag", &self.lag)
            .field("data", &self.data)
            .field("keep_log", &self.keep_log)
            .finish_non_exhaustive()
    }
}

/// How far the second region lags behind the write region.
///
/// A write becomes readable there no sooner than `min` and no later than `max` after it was made. `max` below
/// twice `min` is taken as twice `min`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lag {
    /// The least age of what a stale read sees.
    pub min: Duration,
    /// The greatest age of what a stale read sees.
    pub max: Duration,
    /// Decides the times between catching up.
    pub seed: u64,
}

/// Why a server or a listener did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The port is taken, or may not be used.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address that was asked for.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The account key is no base64.
    #[error("the account key is not valid base64")]
    Key(#[from] base64::DecodeError),
    /// The emulator refused its configuration.
    #[error("the emulator did not start: {0}")]
    Emulator(String),
    /// The data directory cannot be used.
    #[error("the data directory cannot be used")]
    Data(#[from] StorageError),
    /// What the data directory holds could not be brought back.
    #[error("'{what}' of the data directory could not be brought back: {message}")]
    Restore {
        /// The id of the database, container or document.
        what: String,
        /// What the emulator said.
        message: String,
    },
}
