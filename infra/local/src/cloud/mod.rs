//! The cloud on one machine: a Cosmos DB, SQS, Lambda and a schedule, around the real function binaries.
//!
//! ```text
//!   clients ──> Cosmos DB <──────────── orchestrator, worker, maintenance (processes)
//!      │                                   ^        │
//!      └── wakeups ──> SQS ── mapping ── invoke     │ wakeups
//!                       ^                           │
//!                       └───────────────────────────┘        schedule ── invoke ──> maintenance
//!
//!   HTTP clients ──> function URL ── invoke ──> api (processes)
//! ```
//!
//! | module | role |
//! |---|---|
//! | `options` | what a cloud is started with, and why it may not start |
//! | `store` | opens the embedded Cosmos DB; creates or verifies the container |
//! | `wiring` | queues, functions, mappings and the schedule |
//! | `endpoint`, `status` | the HTTP endpoint; counts of functions and queues |
//! | `variables` | the environment variables of functions and clients |
//!
//! Invariants: a cloud that does not start leaves nothing running. Function processes are killed when the cloud is dropped or
//! its process ends. State is in Cosmos DB only: a cloud that is killed and started again on the same data continues, because
//! it begins with a maintenance run, which sends the wakeups that were lost with the queues.

mod endpoint;
mod options;
mod status;
mod store;
mod variables;
mod wiring;

pub use options::{CloudError, CloudOptions, Functions, ReplaceError, Server, Store, tagged_worker};
pub use status::{CloudStatus, FunctionStatus, QueueStatus};
pub(crate) use variables::{ORCHESTRATOR_QUEUE, WORKER_QUEUE};

use crate::function_url::{self, FunctionUrl};
use crate::mapping::Mapping;
use crate::net;
use crate::sqs::{Sqs, SqsApi};
use cosmos_emulator::http_server::{BoundPort, HttpServer};
use cosmos_emulator::{CosmosServer, Listener};
use endpoint::Endpoint;
use status::Services;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// See the module.
pub struct Cloud {
    services: Arc<Services>,
    variables: BTreeMap<String, String>,
    cosmos: Option<CosmosServer>,
    schedule: JoinHandle<()>,
    mappings: Vec<Mapping>,
    server: HttpServer,
    api: Option<HttpServer>,
}

impl Cloud {
    /// Starts everything, with one environment of each function, so that a broken function is known at once.
    ///
    /// # Errors
    /// When any part does not start. Nothing is left running then.
    pub async fn start(options: CloudOptions) -> Result<Cloud, CloudError> {
        options.check()?;
        let bound = bind(Server::Aws, options.port).await?;
        let api_port = match &options.functions.api {
            Some(_) => Some(bind(Server::Api, options.api_port).await?),
            None => None,
        };
        let endpoint = format!("http://{}", bound.address());
        let (cosmos, account) = store::open(&options).await?;
        store::provision(&options, &account).await?;
        let variables = variables::variables(&options, &account, &endpoint);
        let services = Arc::new(Services {
            functions: wiring::functions(&options, &variables).await?,
            sqs: Arc::new(Sqs::new(wiring::queues(&options), options.loss)),
        });
        // Served before the functions start: a function may send a wakeup during its start.
        let api = Endpoint {
            sqs: SqsApi::new(Arc::clone(&services.sqs), endpoint.clone()),
            services: Arc::clone(&services),
            variables: variables::public(&options.store, &variables),
        };
        let server = net::serve(bound, Arc::new(api));
        wiring::warm_up(&services).await?;
        let api = api_port.zip(services.function(options::API)).map(|(port, function)| {
            let url = FunctionUrl::new(Arc::clone(function), port.address().to_string());
            net::serve_up_to(function_url::LARGEST_BODY, port, Arc::new(url))
        });
        Ok(Cloud {
            mappings: wiring::mappings(&options, &services),
            schedule: tokio::spawn(wiring::schedule(Arc::clone(&services), options.schedule)),
            services,
            variables,
            cosmos,
            server,
            api,
        })
    }

    /// The AWS endpoint.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.server.address())
    }

    /// The address of the HTTP API.
    pub fn api(&self) -> Option<String> {
        let server = self.api.as_ref()?;
        Some(format!("http://{}", server.address()))
    }

    /// The environment variables of a client, or of a function that somebody starts by hand.
    pub fn variables(&self) -> &BTreeMap<String, String> {
        &self.variables
    }

    /// The embedded Cosmos DB.
    pub fn cosmos(&self) -> Option<&CosmosServer> {
        self.cosmos.as_ref()
    }

    /// The listener of the embedded Cosmos DB that counts the functions' requests.
    pub fn listener(&self) -> Option<&Listener> {
        self.cosmos.as_ref().map(CosmosServer::listener)
    }

    /// Counts and current state of functions and queues.
    pub fn status(&self) -> CloudStatus {
        self.services.status()
    }

    /// Kills the process that serves the function's next invocation, this long after that begins. Returns false for an
    /// unknown function.
    pub fn kill_next(&self, function: &str, after: Duration) -> bool {
        let function = self.services.function(function);
        function.is_some_and(|function| {
            function.kill_next(after);
            true
        })
    }

    /// Serves the function's invocations with this binary from now on, once a process of it has started.
    ///
    /// Invocations under way end on the old binary, or are killed at their timeout. Of a function that somebody attaches a process to, nothing
    /// is started.
    ///
    /// # Errors
    /// When the new binary does not start. The function serves with its old binary then.
    pub async fn replace(&self, function: &str, binary: &Path) -> Result<(), ReplaceError> {
        let Some(function) = self.services.function(function) else {
            return Err(ReplaceError::Unknown(function.to_owned()));
        };
        options::check_binary(binary).map_err(|reason| ReplaceError::Binary {
            path: binary.display().to_string(),
            reason,
        })?;
        Ok(function.replace(binary.to_owned()).await?)
    }

    /// The environment variables of a process that attaches to this function; `None` if the function starts its processes itself.
    pub fn attachment(&self, function: &str) -> Option<BTreeMap<String, String>> {
        let function = self.services.function(function)?;
        let mut variables = function.attached()?.variables();
        variables.extend(function.settings().variables.iter().cloned());
        Some(variables)
    }

    /// Stops the mappings and the schedule, ends the functions, and forces the data of the embedded Cosmos DB to disk.
    ///
    /// # Errors
    /// When the disk refuses. Committed data has been passed to the operating system nevertheless.
    pub async fn shutdown(mut self) -> std::io::Result<()> {
        self.mappings.clear();
        self.schedule.abort();
        self.services.close().await;
        match self.cosmos.take() {
            Some(cosmos) => cosmos.shutdown().await,
            None => Ok(()),
        }
    }
}

async fn bind(what: Server, port: u16) -> Result<BoundPort, CloudError> {
    let bound = HttpServer::bind(port).await;
    bound.map_err(|source| CloudError::Listen { what, port, source })
}

impl Drop for Cloud {
    fn drop(&mut self) {
        // A reference to a function keeps its processes alive; the schedule and a running invocation have one.
        self.schedule.abort();
        for function in self.services.functions.values() {
            function.end();
        }
    }
}
