//! The options of a server, and the errors of a start.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::storage::StorageError;

/// The default account key. It is public and protects nothing; decoded, it says so.
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
    /// Adds a second region that lags behind the write region; without it no read is ever stale.
    pub lag: Option<Lag>,
    /// A directory in which committed writes survive a restart; without it everything is in memory.
    pub data: Option<PathBuf>,
    /// Keep a record of every request, for [`Listener::log`](crate::Listener::log) and for pauses. The log grows with every
    /// request, so a server that runs for long should not keep one; it still counts requests.
    pub keep_log: bool,
    /// Answer queries over several partitions that no index serves. The service does, at a price that grows with everything that
    /// is stored; this server refuses them, unless this is set.
    pub allow_scans: bool,
    /// Count the documents that queries over several partitions examine ([`Counts::examined`](crate::Counts::examined)). Each such
    /// query is then executed twice.
    pub count_examined: bool,
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
            allow_scans: false,
            count_examined: false,
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
            .field("allow_scans", &self.allow_scans)
            .field("count_examined", &self.count_examined)
            .finish_non_exhaustive()
    }
}

/// How far the second region lags behind the write region.
///
/// A write becomes readable there between `min` and `max` after it was made. A `max` below twice `min` counts as twice `min`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lag {
    /// The least age of the data that a stale read sees.
    pub min: Duration,
    /// The greatest age of the data that a stale read sees.
    pub max: Duration,
    /// Seeds the random times between two updates of the lagging region.
    pub seed: u64,
}

/// Why a server or a listener did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The port is taken, or may not be used.
    #[error("cannot listen on {address}")]
    Listen {
        /// The requested address.
        address: SocketAddr,
        /// The system's error.
        source: std::io::Error,
    },
    /// The account key is not base64.
    #[error("the account key is not valid base64")]
    Key(#[from] base64::DecodeError),
    /// The emulator refused its configuration.
    #[error("the emulator did not start: {0}")]
    Emulator(String),
    /// The data directory cannot be used.
    #[error("the data directory cannot be used")]
    Data(#[from] StorageError),
    /// The contents of the data directory could not be loaded.
    #[error("cannot load '{what}' from the data directory: {message}")]
    Restore {
        /// The id of the database, container or document.
        what: String,
        /// The emulator's error.
        message: String,
    },
}
