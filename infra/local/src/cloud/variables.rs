//! The environment variables of the functions, and of whoever wants to be a client: all that differs from a deployment.

use super::options::{CloudOptions, Store};
use crate::sqs::{REGION, url};
use std::collections::BTreeMap;

/// The queue that wakes the orchestrator function.
pub(crate) const TURNS: &str = "orchestrator";
/// The queue that wakes the worker function.
pub(crate) const WORKS: &str = "worker";
/// Where wakeups go that were received too often.
pub(crate) const DEAD: &str = "dead-letters";

const KEY: &str = "COSMOS_KEY";

/// Where the store is.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub(crate) endpoint: String,
    pub(crate) key: String,
}

/// Name and value.
pub(crate) fn variables(options: &CloudOptions, account: &Account, endpoint: &str) -> BTreeMap<String, String> {
    let schedule = options.schedule.as_secs().max(1).to_string();
    let own = [
        ("COSMOS_ENDPOINT", account.endpoint.clone()),
        (KEY, account.key.clone()),
        ("COSMOS_DATABASE", options.database.clone()),
        ("COSMOS_CONTAINER", options.container.clone()),
        ("ORCHESTRATOR_QUEUE_URL", url(endpoint, TURNS)),
        ("WORKER_QUEUE_URL", url(endpoint, WORKS)),
        ("AWS_ENDPOINT_URL", endpoint.to_owned()),
        ("AWS_REGION", REGION.to_owned()),
        ("AWS_DEFAULT_REGION", REGION.to_owned()),
        // Nobody checks them, and the SDK does not send without.
        ("AWS_ACCESS_KEY_ID", "local".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "local".to_owned()),
        ("AWS_SESSION_TOKEN", "local".to_owned()),
        // A person waits: what a crash leaves behind is taken up sooner than in a deployment.
        ("DUROXIDE_TURN_LOCK_SECONDS", "10".to_owned()),
        ("DUROXIDE_WORK_LOCK_SECONDS", "15".to_owned()),
        ("DUROXIDE_SESSION_LOCK_SECONDS", "15".to_owned()),
        ("MAINTENANCE_OVERDUE_SECONDS", "5".to_owned()),
        ("MAINTENANCE_PERIOD_SECONDS", schedule),
        // There is no CloudWatch to read them.
        ("METRICS_NAMESPACE", String::new()),
        ("LOG_LEVEL", "info".to_owned()),
    ];
    let own = own.into_iter().map(|(name, value)| (name.to_owned(), value));
    own.chain(options.variables.iter().cloned()).collect()
}

/// What whoever asks the cloud is told. The key of an account is not ours to hand out: who may use it has it.
pub(crate) fn handed_out(store: &Store, variables: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut told = variables.clone();
    if matches!(store, Store::Account { .. }) {
        told.remove(KEY);
    }
    told
}
