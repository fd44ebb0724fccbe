//! The server: owns the account and the ports of its listeners.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::expiry;
use crate::http_server::{BoundPort, HttpServer};
use crate::listener::Listener;
use crate::options::{ServerOptions, StartError};
use crate::service::Service;
use crate::storage::Recovered;
use crate::token::TokenIssuer;

/// None here: the strict checks refuse what is too large, in the service's words.
const BODY_LIMIT: usize = usize::MAX;

/// A strict Cosmos DB account on this machine. Dropping it closes all ports and connections.
pub struct CosmosServer {
    service: Arc<Service>,
    listener: Listener,
    /// One for each listener.
    ports: Mutex<Vec<HttpServer>>,
}

impl CosmosServer {
    /// Starts an account with one listener. The account is empty, or has what its data directory holds.
    ///
    /// Needs a Tokio runtime, and works as long as that runs.
    ///
    /// # Errors
    /// If the port or the data directory cannot be used.
    pub async fn start(options: ServerOptions) -> Result<CosmosServer, StartError> {
        // First the port: if it is taken, the data directory stays untouched.
        let port = bind(options.port).await?;
        let service = Service::start(&options).await?;
        let (listener, server) = serve(port, &service);
        Ok(CosmosServer {
            service,
            listener,
            ports: Mutex::new(vec![server]),
        })
    }

    /// The first listener.
    pub fn listener(&self) -> &Listener {
        &self.listener
    }

    /// What the data directory held at the start; `None` without one.
    pub fn recovered(&self) -> Option<Recovered> {
        self.service.recovered()
    }

    /// Issues the tokens of Entra ID that this account accepts beside its key.
    pub fn tokens(&self) -> &TokenIssuer {
        self.service.tokens()
    }

    /// Refuses the key from now on, as an account with `disableLocalAuth` does.
    pub fn disable_key(&self) {
        self.service.accept_tokens_only();
    }

    /// Deletes the documents that would have expired after this time. Documents that are written afterwards live their whole time.
    pub async fn expire_as_if(&self, later: Duration) {
        let later = u64::try_from(later.as_millis()).unwrap_or(u64::MAX);
        self.service.expire(expiry::now().saturating_add(later)).await;
    }

    /// Writes documents without requests: nothing is checked or counted, nothing expires, and a data directory does not keep them.
    /// For tests that need more documents than requests could write in their time.
    ///
    /// # Errors
    /// If there is no such container, or the emulator refuses a document.
    pub async fn load(
        &self,
        db: &str,
        container: &str,
        documents: impl IntoIterator<Item = serde_json::Value>,
    ) -> Result<(), StartError> {
        self.service.load(db, container, documents.into_iter()).await
    }

    /// Closes every listener, forces the data directory to the disk, and releases it for another server.
    ///
    /// A server that is dropped instead loses nothing, but releases its directory only when its last request has ended.
    ///
    /// # Errors
    /// If the data cannot be forced to the disk.
    pub async fn shutdown(self) -> std::io::Result<()> {
        let service = Arc::clone(&self.service);
        drop(self);
        service.close().await
    }

    /// Opens another listener of the same account, with faults, counters and a log of its own.
    ///
    /// # Errors
    /// If no port can be opened.
    pub async fn open_listener(&self) -> Result<Listener, StartError> {
        let (listener, server) = serve(bind(0).await?, &self.service);
        self.ports.lock().unwrap_or_else(PoisonError::into_inner).push(server);
        Ok(listener)
    }

    /// Splits a physical partition into two, as the service does when one grows, and waits until it is done.
    /// Its id is then gone (410/1002), and its two children are in the list of ranges.
    pub async fn split_partition(&self, db: &str, container: &str, partition_id: u32) {
        self.service.split(db, container, partition_id).await;
    }

    /// The ids of a container's physical partitions; none if there is no such container.
    pub async fn partition_ids(&self, db: &str, container: &str) -> Vec<u32> {
        self.service.partition_ids(db, container).await
    }

    /// Brings the lagging region up to date at once; without a lag it does nothing.
    pub async fn catch_up(&self) {
        self.service.catch_up().await;
    }
}

async fn bind(port: u16) -> Result<BoundPort, StartError> {
    HttpServer::bind(port).await.map_err(|source| StartError::Listen {
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        source,
    })
}

/// Serves the account at a port. The listener works as long as the server lives.
fn serve(port: BoundPort, service: &Arc<Service>) -> (Listener, HttpServer) {
    let listener = Listener::new(port.address(), port.switch(), Arc::clone(service));
    let handler = listener.clone();
    let server = port.serve(BODY_LIMIT, move |request| {
        let listener = handler.clone();
        async move { listener.serve(request).await }
    });
    (listener, server)
}
