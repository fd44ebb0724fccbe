//! A connection from outside of the functions: for programs and command lines that start, watch and repair workflows.
//!
//! What a function has in its environment, such a program may have from elsewhere (another process, a file), so the
//! parts can be given one by one. Its neighbours are `function.rs`, whose [`client`](crate::client) takes everything
//! from the environment, and `notifying.rs`, by which what is queued is notified for.

use crate::config::Limits;
use crate::environment::Parts;
use crate::metrics::Metrics;
use crate::notifier::{Delayed, NotSent, Notifier};
use crate::wakeup::{Wakeup, recent_consistency_token};
use duroxide::Client;
use duroxide_cosmos::{ConnectError, CosmosConfig, CosmosProvider, Ids as _, RandomIds};
use std::fmt;
use std::sync::Arc;

/// A duroxide client whose requests are notified for, and the store beneath it.
///
/// ```no_run
/// use duroxide_lambda::notifier::Sqs;
/// use duroxide_lambda::{Config, Connection, Error};
/// use std::collections::BTreeMap;
/// use std::sync::Arc;
///
/// # async fn example(variables: BTreeMap<String, String>) -> Result<(), Error> {
/// let get = |name: &str| variables.get(name).cloned();
/// let config = Config::from_variables(get)?;
/// let notifier = Arc::new(Sqs::from_variables(config.queues.clone(), get));
/// let connection = Connection::new(config.cosmos_config(), notifier, config.limits).await?;
/// connection.client().start_orchestration("order-7", "fulfil-order", "{}").await?;
/// println!("{} dead letters", connection.store().dead_letter_count().await?);
/// # Ok(())
/// # }
/// ```
pub struct Connection {
    client: Client,
    store: Arc<CosmosProvider>,
    parts: Parts,
}

impl Connection {
    /// Connects with what is given. It sends nothing yet, unless the configuration says that the container be created.
    ///
    /// # Errors
    /// When the endpoint or the key cannot be used.
    pub async fn new(
        cosmos: CosmosConfig,
        notifier: Arc<dyn Notifier>,
        limits: Limits,
    ) -> Result<Connection, ConnectError> {
        let store = Arc::new(CosmosProvider::connect(cosmos).await?);
        let metrics = Arc::new(Metrics::new(None));
        let parts = Parts::of(Arc::clone(&store), notifier, metrics, limits, RandomIds.unique());
        Ok(Connection {
            client: Client::new(Arc::new(parts.notifying())),
            store,
            parts,
        })
    }

    /// The client: it starts, raises, cancels and wakeups for it, and it manages.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The store: dead letters, repair, and all that duroxide's client does not offer.
    pub fn store(&self) -> &Arc<CosmosProvider> {
        &self.store
    }

    /// Wakeups for the next turn of an instance, for who queued something past the client (a redriven dead letter). Answers
    /// what was not taken: maintenance finds its target later.
    pub async fn notify(&self, instance: &str) -> Vec<NotSent> {
        let mut wakeup = Wakeup::turn(instance);
        wakeup.consistency_token = recent_consistency_token(&self.store);
        self.parts.notifier().notify(vec![Delayed::now(wakeup)]).await
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("notifier", &self.parts.notifier)
            .finish_non_exhaustive()
    }
}
