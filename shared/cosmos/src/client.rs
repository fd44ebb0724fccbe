//! The client of one account: a connection pool, and what is known of each container.
//!
//! Making one sends nothing. It is cheap to clone, and all clones share pool and knowledge.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::config::ClientConfig;
use crate::consistency::ConsistencyTokens;
use crate::container::{Container, Shared};
use crate::resource::ContainerName;
use crate::send::Transport;

/// A client of one Cosmos DB account.
#[derive(Clone, Debug)]
pub struct CosmosClient {
    transport: Arc<Transport>,
    containers: Arc<Mutex<Containers>>,
}

/// By the names of database and container.
type Containers = HashMap<(String, String), Arc<Shared>>;

impl CosmosClient {
    /// Makes a client; sends nothing.
    pub fn new(config: ClientConfig) -> CosmosClient {
        CosmosClient {
            transport: Arc::new(Transport::new(config)),
            containers: Arc::default(),
        }
    }

    /// A container, whether it exists or not.
    pub fn container(&self, database: &str, container: &str) -> Container {
        Container::new(Arc::clone(&self.transport), self.shared(database, container))
    }

    pub(crate) fn shared(&self, database: &str, container: &str) -> Arc<Shared> {
        let mut known = self.containers.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = known
            .entry((database.to_owned(), container.to_owned()))
            .or_insert_with(|| {
                Arc::new(Shared {
                    name: ContainerName {
                        database: database.to_owned(),
                        container: container.to_owned(),
                    },
                    consistency: ConsistencyTokens::default(),
                    ranges: Mutex::default(),
                })
            });
        Arc::clone(entry)
    }

    pub(crate) fn transport(&self) -> &Transport {
        &self.transport
    }
}
