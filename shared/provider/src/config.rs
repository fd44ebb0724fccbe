//! Where the container is, and the settings of the provider.

use crate::clock::{Ids, RandomIds};
use crate::error::ConnectError;
use cosmos::{Clock, CredentialSource, Key, Observer, StaticKey, SystemClock, Throughput};
use std::env;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How to reach the container, built by [`CosmosConfig::builder`] or [`CosmosConfig::from_env`].
#[derive(Clone)]
pub struct CosmosConfig {
    pub(crate) endpoint: String,
    pub(crate) credential: Arc<dyn CredentialSource>,
    pub(crate) database: String,
    pub(crate) container: String,
    pub(crate) throughput: Option<Throughput>,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) signing_clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) operation_timeout: Duration,
    pub(crate) request_timeout: Duration,
    pub(crate) sweep_interval: Duration,
    pub(crate) repair_after: Duration,
    pub(crate) outbox: Outbox,
    pub(crate) dead_letter_ttl: Duration,
    pub(crate) orphan_grace: Duration,
    pub(crate) prune_time: Duration,
    pub(crate) history_limit: u64,
    pub(crate) history_cache: u64,
}

/// The default of [`CosmosConfigBuilder::prune_time`].
const PRUNE_TIME: Duration = Duration::from_secs(60);
/// The default of [`CosmosConfigBuilder::history_limit`].
const HISTORY_LIMIT: u64 = 64 * 1024 * 1024;
/// The default of [`CosmosConfigBuilder::history_cache`].
const HISTORY_CACHE: u64 = 32 * 1024 * 1024;

/// How often, and how long apart, recovery retries an intent that its maker did not deliver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outbox {
    /// The wait after the first failure; each further failure doubles it (default 10 s).
    pub base: Duration,
    /// The longest wait (default 1 h).
    pub cap: Duration,
    /// After how many failures the intent becomes a dead letter (default 12: about three and a half hours).
    pub max_attempts: u32,
    /// How long one delivery may take (default 5 s), so that a target that does not respond leaves time for others.
    pub patience: Duration,
}

impl Default for Outbox {
    fn default() -> Self {
        Outbox {
            base: Duration::from_secs(10),
            cap: Duration::from_secs(3_600),
            max_attempts: 12,
            patience: Duration::from_secs(5),
        }
    }
}

impl Outbox {
    /// The wait after this many failures.
    pub(crate) fn wait_after(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        self.base.saturating_mul(1 << doublings).min(self.cap)
    }
}

impl fmt::Debug for CosmosConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CosmosConfig")
            .field("endpoint", &self.endpoint)
            .field("credential", &"(redacted)")
            .field("database", &self.database)
            .field("container", &self.container)
            .field("outbox", &self.outbox)
            .field("dead_letter_ttl", &self.dead_letter_ttl)
            .field("orphan_grace", &self.orphan_grace)
            .field("prune_time", &self.prune_time)
            .field("history_limit", &self.history_limit)
            .field("history_cache", &self.history_cache)
            .finish_non_exhaustive()
    }
}

impl CosmosConfig {
    /// A configuration with defaults, for a container in an account.
    pub fn builder(endpoint: impl Into<String>, credential: impl CredentialSource + 'static) -> CosmosConfigBuilder {
        CosmosConfigBuilder(CosmosConfig {
            endpoint: endpoint.into(),
            credential: Arc::new(credential),
            database: "duroxide".to_owned(),
            container: "workflows".to_owned(),
            throughput: None,
            observer: None,
            clock: Arc::new(SystemClock),
            signing_clock: Arc::new(SystemClock),
            ids: Arc::new(RandomIds),
            operation_timeout: Duration::from_secs(30),
            request_timeout: Duration::from_secs(10),
            sweep_interval: Duration::from_secs(1),
            repair_after: Duration::from_secs(10),
            outbox: Outbox::default(),
            dead_letter_ttl: Duration::from_secs(30 * 24 * 3_600),
            orphan_grace: Duration::from_secs(24 * 3_600),
            prune_time: PRUNE_TIME,
            history_limit: HISTORY_LIMIT,
            history_cache: HISTORY_CACHE,
        })
    }

    /// Reads `COSMOS_ENDPOINT`, `COSMOS_KEY`, `COSMOS_DATABASE` and `COSMOS_CONTAINER`.
    ///
    /// # Errors
    /// When a variable is missing or empty, or the key is not base64.
    pub fn from_env() -> Result<CosmosConfig, ConnectError> {
        Self::from_variables(|name| env::var(name).ok())
    }

    /// A builder that starts from this configuration.
    pub fn into_builder(self) -> CosmosConfigBuilder {
        CosmosConfigBuilder(self)
    }

    fn from_variables(get: impl Fn(&str) -> Option<String>) -> Result<CosmosConfig, ConnectError> {
        let need = |name: &'static str, hint: &'static str| {
            get(name)
                .filter(|value| !value.trim().is_empty())
                .ok_or(ConnectError::MissingVariable { name, hint })
        };
        let endpoint = need(
            "COSMOS_ENDPOINT",
            "the account's URI, like https://my-account.documents.azure.com",
        )?;
        let key = need(
            "COSMOS_KEY",
            "the account's primary or secondary key, as the portal shows it",
        )?;
        let database = need("COSMOS_DATABASE", "the name of the database, like duroxide")?;
        let container = need("COSMOS_CONTAINER", "the name of the container, like workflows")?;
        let key = Key::from_base64(key.trim())?;
        Ok(Self::builder(endpoint.trim(), StaticKey::new(key))
            .database(database)
            .container(container)
            .build())
    }
}

/// Builds a [`CosmosConfig`].
#[derive(Clone, Debug)]
pub struct CosmosConfigBuilder(CosmosConfig);

impl CosmosConfigBuilder {
    /// The database (default `duroxide`).
    pub fn database(mut self, name: impl Into<String>) -> Self {
        self.0.database = name.into();
        self
    }

    /// The container (default `workflows`).
    pub fn container(mut self, name: impl Into<String>) -> Self {
        self.0.container = name.into();
        self
    }

    /// Creates the database and the container, with this throughput, when they do not exist. Without it, connecting
    /// sends no request, and the first operation fails if the container is missing.
    pub fn create_with(mut self, throughput: Throughput) -> Self {
        self.0.throughput = Some(throughput);
        self
    }

    /// Observes every request (metrics, tests).
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.0.observer = Some(observer);
        self
    }

    /// The clock of locks, visibility and timestamps.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.0.clock = clock;
        self
    }

    /// The clock that signs requests: the service refuses one that is 15 minutes off.
    pub fn signing_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.0.signing_clock = clock;
        self
    }

    /// The source of commit ids and lock tokens.
    pub fn ids(mut self, ids: Arc<dyn Ids>) -> Self {
        self.0.ids = ids;
        self
    }

    /// How long one operation may take, with all its retries (default 30 s).
    pub fn operation_timeout(mut self, timeout: Duration) -> Self {
        self.0.operation_timeout = timeout;
        self
    }

    /// How long one attempt may take (default 10 s).
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.0.request_timeout = timeout;
        self
    }

    /// How often a polling fetch searches for work of other processes (default 1 s).
    pub fn sweep_interval(mut self, interval: Duration) -> Self {
        self.0.sweep_interval = interval;
        self
    }

    /// How old an intent or a staged commit must be before other processes recover it (default 10 s).
    pub fn repair_after(mut self, age: Duration) -> Self {
        self.0.repair_after = age;
        self
    }

    /// How intents are retried, and when they are given up.
    pub fn outbox(mut self, outbox: Outbox) -> Self {
        self.0.outbox = outbox;
        self
    }

    /// How long a dead letter is kept (default 30 days; at least a second).
    pub fn dead_letter_ttl(mut self, ttl: Duration) -> Self {
        self.0.dead_letter_ttl = ttl;
        self
    }

    /// How long messages of an instance that does not exist wait for its start, before they become dead letters (default
    /// 24 h).
    pub fn orphan_grace(mut self, grace: Duration) -> Self {
        self.0.orphan_grace = grace;
        self
    }

    /// How long one call that prunes executions may take (default 60 s), also one of many instances. Its error says how much
    /// is deleted, and another call continues. Retention has the time of its maintenance run instead.
    pub fn prune_time(mut self, time: Duration) -> Self {
        self.0.prune_time = time;
        self
    }

    /// How many bytes the history of one execution may have (default 64 MiB). A turn that would load a larger one is given
    /// up: the orchestration fails, with an error that names the size. A process needs several times as much memory for
    /// each turn that it runs at once.
    pub fn history_limit(mut self, bytes: u64) -> Self {
        self.0.history_limit = bytes;
        self
    }

    /// How many bytes of histories are kept of instances that this process has served (default 32 MiB), so that their next
    /// turns read only what is new. 0 keeps none.
    pub fn history_cache(mut self, bytes: u64) -> Self {
        self.0.history_cache = bytes;
        self
    }

    /// The configuration.
    pub fn build(self) -> CosmosConfig {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(pairs: &[(&str, &str)]) -> Result<CosmosConfig, ConnectError> {
        CosmosConfig::from_variables(|name| {
            pairs
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        })
    }

    const ALL: [(&str, &str); 4] = [
        ("COSMOS_ENDPOINT", "https://x.documents.azure.com"),
        ("COSMOS_KEY", "c2VjcmV0LXNlY3JldA=="),
        ("COSMOS_DATABASE", "db"),
        ("COSMOS_CONTAINER", "c"),
    ];

    #[test]
    fn the_error_names_each_missing_or_empty_variable() {
        for (index, (name, _)) in ALL.iter().enumerate() {
            let mut some = ALL.to_vec();
            some[index].1 = " ";
            let error = from(&some).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("is not set"), "{error}");
        }
    }

    #[test]
    fn a_key_that_is_not_base64_is_refused_and_not_shown() {
        let mut some = ALL.to_vec();
        some[1].1 = "not*base64*at*all";
        let error = from(&some).unwrap_err().to_string();
        assert!(error.contains("base64") && !error.contains("not*base64"), "{error}");
    }

    #[test]
    fn waits_double_up_to_the_cap_and_never_overflow() {
        let outbox = Outbox::default();
        let waits = [1, 2, 3, 9, 10, 12, u32::MAX].map(|failures| outbox.wait_after(failures).as_secs());
        assert_eq!(waits, [10, 20, 40, 2_560, 3_600, 3_600, 3_600]);
    }

    #[test]
    fn the_key_does_not_show_in_debug() {
        let shown = format!("{:?}", from(&ALL).unwrap());
        assert!(!shown.contains("c2VjcmV0") && shown.contains("redacted"), "{shown}");
    }
}
