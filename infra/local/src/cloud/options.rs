//! The options of a cloud, and why it may not start.

use crate::lambda::{InvokeError, LogSink};
use crate::sqs::Loss;
use cosmos_emulator::{ServerOptions, StartError};
use std::fmt;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The options of a [`Cloud`](super::Cloud).
#[derive(Clone, Debug)]
pub struct CloudOptions {
    /// The port of the AWS endpoint on `127.0.0.1`; 0 takes any free one.
    pub port: u16,
    /// The port of the HTTP API's function URL on `127.0.0.1`; 0 takes any free one.
    pub api_port: u16,
    /// Where the state is.
    pub store: Store,
    /// The database's name.
    pub database: String,
    /// The container's name.
    pub container: String,
    /// The functions' binaries.
    pub functions: Functions,
    /// More environment variables for the functions; they override the cloud's own.
    pub variables: Vec<(String, String)>,
    /// The most environments of each function at once, except the HTTP API.
    pub concurrency: usize,
    /// The most environments of the HTTP API at once. A request that waits for the end of an instance keeps one busy.
    pub api_concurrency: usize,
    /// An invocation that takes longer is killed.
    pub timeout: Duration,
    /// An environment that is idle for this long is ended.
    pub idle: Duration,
    /// How long a received wakeup is hidden.
    pub visibility: Duration,
    /// A wakeup that was received this often goes to the dead-letter queue.
    pub max_receives: u32,
    /// The most wakeups in one invocation.
    pub batch_size: usize,
    /// How often maintenance runs.
    pub schedule: Duration,
    /// Wakeups to lose on purpose.
    pub loss: Option<Loss>,
    /// Freeze environments between invocations, as Lambda does.
    pub freeze: bool,
    /// A binary whose `main` begins with [`become_child`](crate::become_child), so that function processes are killed when
    /// this process ends in any way. Without it they are started directly.
    pub launcher: Option<PathBuf>,
    /// Takes the functions' log lines.
    pub logs: LogSink,
}

/// Where the state is.
#[derive(Clone, Debug)]
pub enum Store {
    /// In an embedded Cosmos DB emulator.
    Embedded(ServerOptions),
    /// In a Cosmos DB account, or in an emulator of another process.
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
    /// Recovers what crashes and lost wakeups leave behind.
    pub maintenance: PathBuf,
    /// The HTTP API, behind a function URL. Without it a cloud has none.
    pub api: Option<PathBuf>,
}

impl Functions {
    /// Checks that all can be executed.
    pub(super) fn check(&self) -> Result<(), CloudError> {
        let all = [
            ("orchestrator", &self.orchestrator),
            ("worker", &self.worker),
            ("maintenance", &self.maintenance),
        ];
        let api = self.api.as_ref().map(|path| ("api", path));
        for (function, path) in all.into_iter().chain(api) {
            check_binary(path).map_err(|reason| CloudError::Binary {
                function,
                path: path.display().to_string(),
                reason,
            })?;
        }
        Ok(())
    }
}

fn check_binary(path: &Path) -> Result<(), String> {
    let found = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !found.is_file() {
        return Err("it is not a file".to_owned());
    }
    if found.permissions().mode() & 0o111 == 0 {
        return Err("it is not executable".to_owned());
    }
    Ok(())
}

impl CloudOptions {
    /// A cloud of these functions on an embedded store, with free ports and a short schedule.
    pub fn of(functions: Functions) -> CloudOptions {
        CloudOptions {
            port: 0,
            api_port: 0,
            store: Store::Embedded(ServerOptions::default()),
            database: "duroxide".to_owned(),
            container: "workflows".to_owned(),
            functions,
            variables: Vec::new(),
            concurrency: 4,
            api_concurrency: 20,
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

/// A server of a cloud with a port of its own, besides the embedded Cosmos DB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// SQS and Lambda.
    Aws,
    /// The function URL of the HTTP API.
    Api,
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Server::Aws => "SQS and Lambda",
            Server::Api => "the HTTP API",
        })
    }
}

/// Why a cloud did not start. Nothing is left running.
#[derive(Debug, thiserror::Error)]
pub enum CloudError {
    /// A port is taken or not permitted.
    #[error("cannot listen on 127.0.0.1:{port} for {what}")]
    Listen {
        /// What it is for.
        what: Server,
        /// The port.
        port: u16,
        /// The system's error.
        source: std::io::Error,
    },
    /// The embedded Cosmos DB did not start.
    #[error("the embedded Cosmos DB does not start")]
    Cosmos(#[from] StartError),
    /// The store cannot be used.
    #[error("database and container cannot be created or verified at {endpoint}: {reason}")]
    Store {
        /// The account's URI.
        endpoint: String,
        /// Why.
        reason: String,
    },
    /// A binary does not exist or cannot be executed.
    #[error("the binary of the function {function} cannot be used: {path}: {reason}")]
    Binary {
        /// The function.
        function: &'static str,
        /// The path of its binary.
        path: String,
        /// Why it cannot be used.
        reason: String,
    },
    /// A function ended before it asked for an invocation.
    #[error("the function {function} does not start: {error}")]
    Function {
        /// The function.
        function: &'static str,
        /// Why.
        error: InvokeError,
    },
}
