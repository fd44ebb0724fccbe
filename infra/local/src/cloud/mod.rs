//! The cloud on one machine: a Cosmos DB, SQS, Lambda and a schedule, around the real function binaries.
//!
//! ```text
//!   clients ──> Cosmos DB <──────────── orchestrator, worker, maintenance (processes)
//!      │                                   ^        │ wakeups
//!      └── wakeups ──> SQS ── mapping ── invoke       v
//!                     ^                             │
//!                     └─────────────────────────────┘        schedule ── invoke ──> maintenance
//! ```
//!
//! Invariants: what is wrong is told before anything is left running; when a cloud is dropped or its process dies, so do
//! the functions. The store is the truth, so a cloud that is killed and started again on the same data goes on where it was:
//! its first act is a run of maintenance, which wakeups for all that was lost with the queues.

mod endpoint;
mod options;
mod status;
mod variables;

pub use options::{CloudError, CloudOptions, Functions, Store};
pub use status::{CloudStatus, FunctionStatus, QueueStatus};
pub(crate) use variables::{TURNS, WORKS};

use crate::lambda::{Function, FunctionSettings, Hands, Launcher, Spawner};
use crate::net;
use crate::sqs::{Mapping, MappingSettings, QueueSettings, Redrive, Sqs, SqsApi};
use bytes::Bytes;
use cosmos::{Clock, Key, StaticKey, SystemClock, Throughput};
use cosmos_emulator::http_server::HttpServer;
use cosmos_emulator::{CosmosServer, Listener};
use duroxide_cosmos::{CosmosConfig, CosmosProvider};
use duroxide_lambda::log::rfc3339;
use endpoint::Endpoint;
use serde_json::json;
use status::Inside;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;
use variables::{Account, DEAD};

/// How long making or verifying the container may take.
const BOOTSTRAP: Duration = Duration::from_secs(10);

/// See the module.
pub struct Cloud {
    inside: Arc<Inside>,
    variables: BTreeMap<String, String>,
    cosmos: Option<CosmosServer>,
    schedule: JoinHandle<()>,
    mappings: Vec<Mapping>,
    server: HttpServer,
}

impl Cloud {
    /// Starts everything, functions included: one environment of each, so that what is wrong with them is known.
    ///
    /// # Errors
    /// With what is wrong; nothing runs then.
    pub async fn start(options: CloudOptions) -> Result<Cloud, CloudError> {
        check_binaries(&options.functions)?;
        let bound = HttpServer::bind(options.port)
            .await
            .map_err(|source| CloudError::Listen {
                port: options.port,
                source,
            })?;
        let endpoint = format!("http://{}", bound.address());
        let (cosmos, account) = open_store(&options).await?;
        bootstrap(&options, &account).await?;
        let variables = variables::variables(&options, &account, &endpoint);
        let sqs = Arc::new(Sqs::new(queues(&options), options.loss));
        let functions = functions(&options, &variables);
        let inside = Arc::new(Inside { functions, sqs });
        // Served before the functions start: one may wakeup in its start.
        let api = Endpoint {
            sqs: SqsApi::new(Arc::clone(&inside.sqs), endpoint.clone()),
            inside: Arc::clone(&inside),
            variables: variables::handed_out(&options.store, &variables),
        };
        let server = net::serve(bound, Arc::new(api));
        warm_up(&inside).await?;
        Ok(Cloud {
            mappings: mappings(&options, &inside),
            schedule: tokio::spawn(schedule(Arc::clone(&inside), options.schedule)),
            inside,
            variables,
            cosmos,
            server,
        })
    }

    /// The AWS endpoint.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.server.address())
    }

    /// What a client, or a function that somebody starts by hand, needs in its environment.
    pub fn variables(&self) -> &BTreeMap<String, String> {
        &self.variables
    }

    /// The embedded Cosmos DB.
    pub fn cosmos(&self) -> Option<&CosmosServer> {
        self.cosmos.as_ref()
    }

    /// The functions' way to the embedded Cosmos DB, where their requests are counted.
    pub fn listener(&self) -> Option<&Listener> {
        self.cosmos.as_ref().map(CosmosServer::listener)
    }

    /// How it does.
    pub fn status(&self) -> CloudStatus {
        self.inside.status()
    }

    /// Kills the process that serves the function's next invocation, so long after that begins. Answers whether there is
    /// such a function.
    pub fn kill_next(&self, function: &str, after: Duration) -> bool {
        let function = self.inside.function(function);
        function.is_some_and(|function| {
            function.set_trap(after);
            true
        })
    }

    /// Stops feeding the functions, ends them, and forces what the embedded Cosmos DB keeps to the disk.
    ///
    /// # Errors
    /// When the disk refuses; what was committed is then with the operating system.
    pub async fn shutdown(mut self) -> std::io::Result<()> {
        self.mappings.clear();
        self.schedule.abort();
        let functions = self.inside.functions.values();
        futures::future::join_all(functions.map(|function| function.close())).await;
        match self.cosmos.take() {
            Some(cosmos) => cosmos.shutdown().await,
            None => Ok(()),
        }
    }
}

impl Drop for Cloud {
    fn drop(&mut self) {
        // Whoever holds a function keeps its processes alive: neither the schedule nor an invocation under way may.
        self.schedule.abort();
        for function in self.inside.functions.values() {
            function.end();
        }
    }
}

fn check_binaries(functions: &Functions) -> Result<(), CloudError> {
    let all = [
        ("orchestrator", &functions.orchestrator),
        ("worker", &functions.worker),
        ("maintenance", &functions.maintenance),
    ];
    for (function, path) in all {
        if let Err(reason) = check_binary(path) {
            return Err(CloudError::Binary {
                function,
                path: path.display().to_string(),
                reason,
            });
        }
    }
    Ok(())
}

fn check_binary(path: &Path) -> Result<(), String> {
    let found = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !found.is_file() {
        return Err("it is no file".to_owned());
    }
    if found.permissions().mode() & 0o111 == 0 {
        return Err("it may not be executed".to_owned());
    }
    Ok(())
}

async fn open_store(options: &CloudOptions) -> Result<(Option<CosmosServer>, Account), CloudError> {
    match &options.store {
        Store::Account { endpoint, key } => {
            let account = Account {
                endpoint: endpoint.clone(),
                key: key.clone(),
            };
            Ok((None, account))
        }
        Store::Embedded(server) => {
            let server = CosmosServer::start(server.clone()).await?;
            let account = Account {
                endpoint: server.listener().endpoint(),
                key: server.listener().key(),
            };
            Ok((Some(server), account))
        }
    }
}

/// Makes database and container, or verifies them.
async fn bootstrap(options: &CloudOptions, account: &Account) -> Result<(), CloudError> {
    let failed = |reason: String| CloudError::Store {
        endpoint: account.endpoint.clone(),
        reason,
    };
    let key = Key::from_base64(&account.key).map_err(|error| failed(error.to_string()))?;
    let config = CosmosConfig::builder(&account.endpoint, StaticKey::new(key))
        .database(&options.database)
        .container(&options.container)
        .create_with(Throughput::Serverless)
        // Somebody sits and waits: an account that is not there should be told soon.
        .operation_timeout(BOOTSTRAP)
        .build();
    let connected = CosmosProvider::connect(config).await;
    connected.map(drop).map_err(|error| failed(error.to_string()))
}

fn queues(options: &CloudOptions) -> Vec<QueueSettings> {
    let queue = |name: &str, redrive: Option<Redrive>| QueueSettings {
        name: name.to_owned(),
        visibility: options.visibility,
        redrive,
    };
    let redrive = Redrive {
        dead_letters: DEAD.to_owned(),
        max_receives: options.max_receives,
    };
    vec![
        queue(TURNS, Some(redrive.clone())),
        queue(WORKS, Some(redrive)),
        queue(DEAD, None),
    ]
}

fn functions(options: &CloudOptions, variables: &BTreeMap<String, String>) -> BTreeMap<&'static str, Arc<Function>> {
    let hands = Hands {
        spawner: Spawner::start(),
        launcher: options.launcher.clone().map_or(Launcher::Direct, Launcher::Binary),
        logs: options.logs.clone(),
        freeze: options.freeze,
    };
    let function = |name: &'static str, binary: &Path, concurrency: usize| {
        let settings = FunctionSettings {
            name: name.to_owned(),
            binary: binary.to_owned(),
            variables: variables.clone().into_iter().collect(),
            timeout: options.timeout,
            concurrency,
            idle: options.idle,
        };
        (name, Function::new(settings, hands.clone()))
    };
    BTreeMap::from([
        function("orchestrator", &options.functions.orchestrator, options.concurrency),
        function("worker", &options.functions.worker, options.concurrency),
        function("maintenance", &options.functions.maintenance, 1),
    ])
}

async fn warm_up(inside: &Inside) -> Result<(), CloudError> {
    for (name, function) in &inside.functions {
        if let Err(error) = function.warm_up().await {
            futures::future::join_all(inside.functions.values().map(|function| function.close())).await;
            return Err(CloudError::Function { function: name, error });
        }
    }
    Ok(())
}

fn mappings(options: &CloudOptions, inside: &Inside) -> Vec<Mapping> {
    let mapping = |queue: &str, function: &str| {
        let settings = MappingSettings {
            queue: queue.to_owned(),
            batch_size: options.batch_size,
        };
        let function = inside.function(function)?;
        Some(Mapping::start(&settings, &inside.sqs, function))
    };
    [mapping(TURNS, "orchestrator"), mapping(WORKS, "worker")]
        .into_iter()
        .flatten()
        .collect()
}

/// Invokes maintenance at once, and then once a period; a run that takes longer than that is not doubled.
async fn schedule(inside: Arc<Inside>, period: Duration) {
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while let Some(function) = inside.function("maintenance") {
        ticks.tick().await;
        let event = json!({
            "version": "0",
            "source": "aws.events",
            "detail-type": "Scheduled Event",
            "time": rfc3339(SystemClock.now_ms()),
            "detail": {},
        });
        // A run that fails is told by the function, and made up for with the next tick.
        let run = function.invoke(Bytes::from(event.to_string())).await;
        run.map(drop).unwrap_or_default();
    }
}
