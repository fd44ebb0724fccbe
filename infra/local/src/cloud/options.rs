//! The options of a cloud, and why it may not start.

use crate::lambda::{InvokeError, LogSink};
use crate::sqs::Loss;
use cosmos_emulator::{ServerOptions, StartError};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The functions' names.
pub(super) const ORCHESTRATOR: &str = "orchestrator";
pub(super) const WORKER: &str = "worker";
pub(super) const MAINTENANCE: &str = "maintenance";
pub(super) const API: &str = "api";

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
    /// Workers of their own for activities with a tag: the binary by tag. Each has a queue of its own.
    pub tagged: BTreeMap<String, PathBuf>,
    /// Functions that start no process, by name, with the port of their Runtime API on `127.0.0.1` (0 takes any free one): somebody else
    /// starts the process, which attaches.
    pub attached: BTreeMap<String, u16>,
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

/// A function, as the options describe it.
pub(super) struct Described<'a> {
    pub(super) name: String,
    pub(super) binary: &'a Path,
    /// The tag whose activities it serves alone.
    pub(super) tag: Option<&'a str>,
}

impl CloudOptions {
    /// All functions of the cloud.
    pub(super) fn described(&self) -> Vec<Described<'_>> {
        let functions = &self.functions;
        let named = [
            (ORCHESTRATOR, Some(&functions.orchestrator)),
            (WORKER, Some(&functions.worker)),
            (MAINTENANCE, Some(&functions.maintenance)),
            (API, functions.api.as_ref()),
        ];
        let named = named.into_iter().filter_map(|(name, binary)| {
            Some(Described {
                name: name.to_owned(),
                binary: binary?,
                tag: None,
            })
        });
        let tagged = self.tagged.iter().map(|(tag, binary)| Described {
            name: tagged_worker(tag),
            binary,
            tag: Some(tag),
        });
        named.chain(tagged).collect()
    }

    /// Checks that all functions can be executed, and that those to attach to exist.
    pub(super) fn check(&self) -> Result<(), CloudError> {
        let all = self.described();
        for Described { name, binary, .. } in &all {
            check_binary(binary).map_err(|reason| CloudError::Binary {
                function: name.clone(),
                path: binary.display().to_string(),
                reason,
            })?;
        }
        let mut names = BTreeSet::new();
        if let Some(twice) = all.iter().find(|function| !names.insert(&function.name)) {
            return Err(CloudError::Twice {
                function: twice.name.clone(),
            });
        }
        let known = |name: &String| all.iter().any(|function| function.name == *name);
        match self.attached.keys().find(|name| !known(name)) {
            Some(unknown) => Err(CloudError::Unknown {
                function: unknown.clone(),
                known: all.into_iter().map(|function| function.name).collect(),
            }),
            None => Ok(()),
        }
    }
}

/// The name of the function and of the queue for the activities with a tag.
pub fn tagged_worker(tag: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    format!("{WORKER}-{}", tag.chars().map(plain).collect::<String>())
}

pub(super) fn check_binary(path: &Path) -> Result<(), String> {
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
            tagged: BTreeMap::new(),
            attached: BTreeMap::new(),
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
    /// The Runtime API of a function that somebody attaches a process to.
    Attached,
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Server::Aws => "SQS and Lambda",
            Server::Api => "the HTTP API",
            Server::Attached => "an attached function",
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
        function: String,
        /// The path of its binary.
        path: String,
        /// Why it cannot be used.
        reason: String,
    },
    /// Two tags differ only in signs that the name of a function cannot have.
    #[error("two tags would have the function {function}: give them names that differ in letters or digits")]
    Twice {
        /// The function.
        function: String,
    },
    /// There is no function of this name.
    #[error("there is no function {function}: there are {}", known.join(", "))]
    Unknown {
        /// The name.
        function: String,
        /// The names of the functions that exist.
        known: Vec<String>,
    },
    /// A function ended before it asked for an invocation.
    #[error("the function {function} does not start: {error}")]
    Function {
        /// The function.
        function: String,
        /// Why.
        error: InvokeError,
    },
}

/// Why a function was not replaced. It serves with its old binary.
#[derive(Debug, thiserror::Error)]
pub enum ReplaceError {
    /// There is no function of this name.
    #[error("there is no function {0}")]
    Unknown(String),
    /// The new binary does not exist or cannot be executed.
    #[error("{path}: {reason}")]
    Binary {
        /// The path of the binary.
        path: String,
        /// Why it cannot be used.
        reason: String,
    },
    /// A process of the new binary ended before it asked for an invocation.
    #[error(transparent)]
    Start(#[from] InvokeError),
}
