//! The client of one account: a connection pool, and what is known of each container.
//!
//! Creating one sends nothing. Clones are cheap and share everything.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::config::ClientConfig;
use crate::container::{Container, Shared};
use crate::resource::ContainerName;
use crate::send::Transport;

/// A client of one Cosmos DB account.
#[derive(Clone, Debug)]
pub struct CosmosClient {
    transport: Arc<Transport>,
    containers: Arc<Mutex<HashMap<ContainerName, Arc<Shared>>>>,
}

impl CosmosClient {
    /// Creates a client; sends nothing.
    pub fn new(config: ClientConfig) -> CosmosClient {
        CosmosClient {
            transport: Arc::new(Transport::new(config)),
            containers: Arc::default(),
        }
    }

    /// A container, whether it exists or not.
    pub fn container(&self, database: &str, container: &str) -> Container {
        let shared = self.shared(&ContainerName::new(database, container));
        Container::new(Arc::clone(&self.transport), shared)
    }

    pub(crate) fn shared(&self, name: &ContainerName) -> Arc<Shared> {
        let mut known = self.containers.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = known
            .entry(name.clone())
            .or_insert_with(|| Arc::new(Shared::new(name.clone())));
        Arc::clone(shared)
    }

    pub(crate) fn transport(&self) -> &Transport {
        &self.transport
    }
}
