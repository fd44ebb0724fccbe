//! The environment variables of functions and clients. They are all that differs from a deployment.

use super::options::{CloudOptions, Store, tagged_worker};
use crate::aws::{REGION, queue_url};
use std::collections::BTreeMap;

/// The queue that wakes the orchestrator function.
pub(crate) const ORCHESTRATOR_QUEUE: &str = "orchestrator";
/// The queue that wakes the worker function.
pub(crate) const WORKER_QUEUE: &str = "worker";
/// The queue of wakeups that were received as often as allowed.
pub(crate) const DEAD_LETTER_QUEUE: &str = "dead-letters";

const KEY: &str = "COSMOS_KEY";

/// A Cosmos DB account.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub(crate) endpoint: String,
    pub(crate) key: String,
}

/// The variables of a cloud's functions, by name.
pub(crate) fn variables(options: &CloudOptions, account: &Account, endpoint: &str) -> BTreeMap<String, String> {
    let schedule = options.schedule.as_secs().max(1).to_string();
    let own = [
        ("COSMOS_ENDPOINT", account.endpoint.clone()),
        (KEY, account.key.clone()),
        ("COSMOS_DATABASE", options.database.clone()),
        ("COSMOS_CONTAINER", options.container.clone()),
        ("ORCHESTRATOR_QUEUE_URL", queue_url(endpoint, ORCHESTRATOR_QUEUE)),
        ("WORKER_QUEUE_URL", queue_url(endpoint, WORKER_QUEUE)),
        ("AWS_ENDPOINT_URL", endpoint.to_owned()),
        ("AWS_REGION", REGION.to_owned()),
        ("AWS_DEFAULT_REGION", REGION.to_owned()),
        // Never checked, but the SDK does not send without credentials.
        ("AWS_ACCESS_KEY_ID", "local".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "local".to_owned()),
        ("AWS_SESSION_TOKEN", "local".to_owned()),
        // Shorter than in a deployment: a person waits for the recovery from a crash.
        ("DUROXIDE_TURN_LOCK_SECONDS", "10".to_owned()),
        ("DUROXIDE_WORK_LOCK_SECONDS", "15".to_owned()),
        ("DUROXIDE_SESSION_LOCK_SECONDS", "15".to_owned()),
        ("MAINTENANCE_OVERDUE_SECONDS", "5".to_owned()),
        ("MAINTENANCE_PERIOD_SECONDS", schedule),
        // The function URL is on the loopback interface, and refuses foreign web pages.
        ("DUROXIDE_API_AUTH", "none".to_owned()),
        // Nothing here reads metrics.
        ("METRICS_NAMESPACE", String::new()),
        ("LOG_LEVEL", "info".to_owned()),
    ];
    let own = own.into_iter().map(|(name, value)| (name.to_owned(), value));
    let own = own.chain(tagged_queues(options, endpoint));
    own.chain(options.variables.iter().cloned()).collect()
}

/// The queues of tags that have a worker of their own.
fn tagged_queues(options: &CloudOptions, endpoint: &str) -> Option<(String, String)> {
    let urls: BTreeMap<&str, String> = options
        .tagged
        .keys()
        .map(|tag| (tag.as_str(), queue_url(endpoint, &tagged_worker(tag))))
        .collect();
    let urls = (!urls.is_empty()).then(|| serde_json::json!(urls).to_string());
    urls.map(|urls| ("WORKER_TAG_QUEUE_URLS".to_owned(), urls))
}

/// The variables that the endpoint shows to anybody on this machine: without the key of an account.
pub(crate) fn public(store: &Store, variables: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut public = variables.clone();
    if matches!(store, Store::Account { .. }) {
        public.remove(KEY);
    }
    public
}
