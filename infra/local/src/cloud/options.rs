//! What a cloud is started with, and why it may not start.

use crate::lambda::{InvokeError, LogSink};
use crate::sqs::Loss;
use cosmos_emulator::{ServerOptions, StartError};
use std::path::PathBuf;
use std::time::Duration;

/// How to start a [`Cloud`](super::Cloud).
#[derive(Clone, Debug)]
pub struct CloudOptions {
    /// The port of the AWS endpoint on `127.0.0.1`; 0 takes any free one.
    pub port: u16,
    /// Where the state is.
    pub store: Store,
    /// The database's name.
    pub database: String,
    /// The container's name.
    pub container: String,
    /// The functions' binaries.
    pub functions: Functions,
    /// More environment variables for the functions; they win over the cloud's own.
    pub variables: Vec<(String, String)>,
    /// The most environments of each function at once.
    pub concurrency: usize,
    /// An invocation that takes longer is killed.
    pub timeout: Duration,
    /// An environment that was idle for so long is ended.
    pub idle: Duration,
    /// How long a received wakeup is hidden.
    pub visibility: Duration,
    /// A wakeup that was received more often goes to the dead-letter queue.
    pub max_receives: u32,
    /// The most wakeups of one invocation.
    pub batch_size: usize,
    /// How often maintenance runs.
    pub schedule: Duration,
    /// Wakeups to lose on purpose.
    pub loss: Option<Loss>,
    /// Freeze environments between invocations, as Lambda does.
    pub freeze: bool,
    /// A binary whose `main` begins with [`become_child`](crate::become_child), so that functions die with this process
    /// whatever ends it. Without one they are started directly.
    pub launcher: Option<PathBuf>,
    /// Where the functions' lines go.
    pub logs: LogSink,
}

/// Where the state is.
#[derive(Clone, Debug)]
pub enum Store {
    /// In a strict Cosmos DB of this process.
    Embedded(ServerOptions),
    /// In an account, or in an emulator somewhere else.
    Account {
        /// Its URI.
        endpoint: String,
        /// Its key, in base64.
        key: String,
    },
}

/// The functions' binaries, as they would be deployed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Functions {
    /// Runs turns.
    pub orchestrator: PathBuf,
    /// Runs activities.
    pub worker: PathBuf,
    /// Repairs.
    pub maintenance: PathBuf,
}

impl CloudOptions {
    /// A cloud of these functions on an embedded store, with free ports and quick repairs.
    pub fn of(functions: Functions) -> CloudOptions {
        CloudOptions {
            port: 0,
            store: Store::Embedded(ServerOptions::default()),
            database: "duroxide".to_owned(),
            container: "workflows".to_owned(),
            functions,
            variables: Vec::new(),
            concurrency: 4,
            timeout: Duration::from_secs(30),
            idle: Duration::from_secs(60),
            visibility: Duration::from_secs(35),
            max_receives: 15,
            batch_size: 10,
            schedule: Duration::from_secs(5),
            loss: None,
            freeze: true,
            launcher: None,
            logs: LogSink::none(),
        }
    }
}

/// Why a cloud did not start. Nothing of it runs then.
#[derive(Debug, thiserror::Error)]
pub enum CloudError {
    /// The port is taken, or may not be used.
    #[error("cannot listen on 127.0.0.1:{port} for SQS and Lambda")]
    Listen {
        /// The port that was asked for.
        port: u16,
        /// What the system said.
        source: std::io::Error,
    },
    /// The embedded Cosmos DB did not start.
    #[error("the embedded Cosmos DB does not start")]
    Cosmos(#[from] StartError),
    /// The store cannot be used.
    #[error("database and container cannot be made or verified at {endpoint}: {reason}")]
    Store {
        /// The account's URI.
        endpoint: String,
        /// What is wrong.
        reason: String,
    },
    /// There is no such binary.
    #[error("the binary of the function {function} cannot be used: {path}: {reason}")]
    Binary {
        /// Which function.
        function: &'static str,
        /// Where it was looked for.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A function does not get as far as asking for work.
    #[error("the function {function} does not start: {error}")]
    Function {
        /// Which.
        function: &'static str,
        /// What happened.
        error: InvokeError,
    },
}
