//! A connection for programs outside of the functions: command lines and services that start and manage workflows.
//!
//! A function reads its settings from its environment. Such a program may have them from elsewhere (another process, a
//! file), so it passes the parts. Its neighbours are `function.rs`, whose [`client`](crate::client) takes everything from
//! the environment, and `notifying_provider.rs`, which sends a wakeup after each request.

use crate::config::{Limits, MaintenanceSettings};
use crate::environment::Parts;
use crate::metrics::Metrics;
use crate::notifier::{Delayed, NotSent, Notifier};
use crate::notifying_provider::NotifyingProvider;
use crate::wakeup::{Wakeup, recent_consistency_token};
use duroxide::Client;
use duroxide::providers::{Provider, ProviderError};
use duroxide_cosmos::{
    BatchCancelled, BatchRequest, BatchStarted, ConnectError, CosmosConfig, CosmosProvider, EventRequest,
    ExplainSettings, Explanation, Ids as _, PauseResult, Raised, RandomIds, RestartRequest, Restarted, RewindRequest,
    RewindResult, StartRequest, Started,
};
use std::fmt;
use std::sync::Arc;

/// A duroxide client that wakes the functions after each request, and the store beneath it.
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
    notifying: Arc<NotifyingProvider>,
    store: Arc<CosmosProvider>,
    pub(crate) parts: Parts,
}

impl Connection {
    /// Connects with these parts. It sends no request yet, unless the configuration creates the container.
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
        Ok(Connection::of(store, parts))
    }

    /// A connection of these parts.
    pub(crate) fn of(store: Arc<CosmosProvider>, parts: Parts) -> Connection {
        let notifying = Arc::new(parts.notifying());
        Connection {
            client: Client::new(Arc::clone(&notifying) as Arc<dyn Provider>),
            notifying,
            store,
            parts,
        }
    }

    /// The client: it starts, raises and cancels, which wakes the functions, and it manages (list, delete, prune).
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The store: dead letters, and everything else that duroxide's client does not offer.
    pub fn store(&self) -> &Arc<CosmosProvider> {
        &self.store
    }

    /// Starts an instance, if its id is free, and wakes the functions. A wakeup that cannot be sent is no error: maintenance finds
    /// the instance.
    ///
    /// # Errors
    /// As [`CosmosProvider::start`].
    pub async fn start(&self, request: StartRequest<'_>) -> Result<Started, ProviderError> {
        self.notifying.start(request).await
    }

    /// Raises an event, or puts it into a queue, if the instance is there and has not ended, and wakes the functions.
    ///
    /// # Errors
    /// As [`CosmosProvider::raise`].
    pub async fn raise(&self, request: EventRequest<'_>) -> Result<Raised, ProviderError> {
        self.notifying.raise(request).await
    }

    /// Why an instance is where it is, and what to do, by the settings of this deployment as far as this process has them; `None` when
    /// there is none. The limits that a worker sets in its code are known to that worker alone.
    ///
    /// # Errors
    /// As [`CosmosProvider::explain`].
    pub async fn explain(
        &self,
        instance: &str,
        maintenance: &MaintenanceSettings,
    ) -> Result<Option<Explanation>, ProviderError> {
        let (limits, queues) = (&self.parts.limits, self.parts.notifier.queues());
        let attempts = limits.activities.iter();
        let settings = ExplainSettings {
            max_attempts: limits.max_attempts,
            activity_attempts: attempts
                .filter_map(|(name, limit)| Some((name.to_owned(), limit.attempts?)))
                .collect(),
            wakeup_reach: limits.wakeup_reach,
            overdue: maintenance.overdue,
            period: maintenance.period,
            stuck: maintenance.stuck(),
            tag_queues: Some(
                queues
                    .iter()
                    .filter_map(|queue| queue.tag().map(str::to_owned))
                    .collect(),
            ),
        };
        self.store.explain(instance, &settings).await
    }

    /// Pauses an instance, with its descendants if `children`. Nothing of it begins until it is resumed.
    ///
    /// # Errors
    /// As [`CosmosProvider::pause`].
    pub async fn pause(
        &self,
        instance: &str,
        reason: Option<&str>,
        children: bool,
    ) -> Result<PauseResult, ProviderError> {
        self.notifying.pause(instance, reason, children).await
    }

    /// Resumes an instance, with its descendants if `children`, and wakes the functions for everything that waits. A wakeup that
    /// cannot be sent is no error: maintenance finds its target.
    ///
    /// # Errors
    /// As [`CosmosProvider::resume`].
    pub async fn resume(&self, instance: &str, children: bool) -> Result<PauseResult, ProviderError> {
        self.notifying.resume(instance, children).await
    }

    /// Starts a new instance with the input of another one, and wakes the functions.
    ///
    /// # Errors
    /// As [`CosmosProvider::restart_as_new`].
    pub async fn restart_as_new(&self, request: RestartRequest<'_>, new_id: &str) -> Result<Restarted, ProviderError> {
        self.notifying.restart_as_new(request, new_id).await
    }

    /// Begins the next execution of an instance that has ended, and wakes the functions.
    ///
    /// # Errors
    /// As [`CosmosProvider::restart_in_place`].
    pub async fn restart_in_place(&self, request: RestartRequest<'_>, alone: bool) -> Result<Restarted, ProviderError> {
        self.notifying.restart_in_place(request, alone).await
    }

    /// Begins a batch, and wakes the function that takes its first step.
    ///
    /// # Errors
    /// As [`CosmosProvider::start_batch`].
    pub async fn start_batch(&self, id: &str, request: &BatchRequest) -> Result<BatchStarted, ProviderError> {
        self.notifying.start_batch(id, request).await
    }

    /// Cancels a batch.
    ///
    /// # Errors
    /// As [`CosmosProvider::cancel_batch`].
    pub async fn cancel_batch(&self, id: &str) -> Result<BatchCancelled, ProviderError> {
        self.notifying.cancel_batch(id).await
    }

    /// Rewinds an instance that has failed, and wakes the functions for what runs again. A wakeup that cannot be sent is no error:
    /// maintenance finds its target.
    ///
    /// # Errors
    /// As [`CosmosProvider::rewind`].
    pub async fn rewind(&self, request: &RewindRequest<'_>) -> Result<RewindResult, ProviderError> {
        self.notifying.rewind(request).await
    }

    /// Wakes an instance, after something was queued past the client (a redriven dead letter). Returns the wakeup if it was
    /// not sent: maintenance finds the instance later.
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
