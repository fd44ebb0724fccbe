//! Connects to a deployment, with the environment variables that its functions have; or to a running local cloud, which
//! answers the same variables (without the key, if it uses an account).

use super::Common;
use super::answer::{Code, Failure, warn};
use crate::terminal::program;
use crate::terminal::table::Look;
use async_trait::async_trait;
use duroxide::Client;
use duroxide_cosmos::{Clock as _, CosmosProvider, SystemClock};
use duroxide_lambda::ConfigError;
use duroxide_lambda::notifier::Sqs;
use duroxide_lambda::{Config, Delayed, NotSent, Notifier};
use std::collections::BTreeMap;
use std::env;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use url::{Host, Url};

/// Where `up` listens by default.
const CLOUD: &str = "http://127.0.0.1:9400";
/// The variables of the functions' access, which a client replaces by its own if the local cloud uses an account.
const ACCESS: [&str; 4] = [KEY, "COSMOS_TENANT_ID", "COSMOS_CLIENT_ID", "COSMOS_CLIENT_SECRET_ARN"];
/// The variable that a local cloud omits if it uses an account.
const KEY: &str = "COSMOS_KEY";
/// A person's own access to the account.
const TOKEN: &str = "COSMOS_TOKEN";
/// The timeout of a request to the local cloud.
const CLOUD_TIMEOUT: Duration = Duration::from_secs(5);
/// The timeouts of a request to Cosmos DB, and of an operation with its retries: short, because a person waits.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(4);
const OPERATION_TIMEOUT: Duration = Duration::from_secs(8);

/// A connection to the store and the queues, and how to show answers.
pub(super) struct Connection {
    inner: duroxide_lambda::Connection,
    notifier: Arc<RecordingNotifier>,
    pub look: Look,
}

impl Connection {
    pub(super) async fn connect(common: &Common) -> Result<Connection, Failure> {
        let set = |name| env::var(name).ok().filter(|value| !value.trim().is_empty());
        let (config, sqs) = if common.cloud.is_none() && set("COSMOS_ENDPOINT").is_some() {
            let config = Config::from_env().map_err(|error| misconfigured(&error))?;
            let sqs = Sqs::new(config.queues.clone());
            (config, sqs)
        } else {
            let cloud = common.cloud.clone().or_else(|| set("LOCAL_CLOUD"));
            let mut variables = cloud_variables(cloud.as_deref().unwrap_or(CLOUD)).await?;
            if variables.contains_key("COSMOS_ENDPOINT") && !variables.contains_key(KEY) {
                let own = [KEY, TOKEN].into_iter().find_map(|name| Some((name, set(name)?)));
                let (name, value) = own.ok_or_else(|| {
                    Failure::error(
                        "this local cloud uses a Cosmos DB account and does not reveal its key: set COSMOS_KEY as for the \
                         cloud, or COSMOS_TOKEN to a token of your own",
                    )
                })?;
                variables.retain(|name, _| !ACCESS.contains(&name.as_str()));
                variables.insert(name.to_owned(), value);
            }
            let get = |name: &str| variables.get(name).cloned();
            let config = Config::from_variables(get)
                .map_err(|error| Failure::error(format!("the variables of the local cloud cannot be used: {error}")))?;
            let sqs = Sqs::from_variables(config.queues.clone(), get);
            (config, sqs)
        };
        let mut limits = config.limits.clone();
        let notifier = Arc::new(RecordingNotifier::new(sqs, limits.notify_timeout));
        // The notifier enforces the timeout itself, to record it as the reason.
        limits.notify_timeout += Duration::from_secs(1);
        let cosmos = config
            .cosmos_config()
            .into_builder()
            .request_timeout(REQUEST_TIMEOUT)
            .operation_timeout(OPERATION_TIMEOUT)
            .build();
        let inner = duroxide_lambda::Connection::new(cosmos, Arc::clone(&notifier) as Arc<dyn Notifier>, limits)
            .await
            .map_err(|error| Failure::error(error.to_string()))?;
        Ok(Connection {
            inner,
            notifier,
            look: Look::of_stdout(),
        })
    }

    pub(super) fn client(&self) -> &Client {
        self.inner.client()
    }

    pub(super) fn store(&self) -> &CosmosProvider {
        self.inner.store()
    }

    /// Sends a wakeup for an instance.
    pub(super) async fn notify(&self, instance: &str) {
        self.inner.notify(instance).await;
    }

    pub(super) fn now_ms(&self) -> u64 {
        SystemClock.now_ms()
    }

    /// Whether all wakeups so far were sent.
    pub(super) fn all_notified(&self) -> bool {
        self.notifier.failed().is_empty()
    }

    /// Warns of wakeups that were not sent. The command has succeeded nevertheless.
    pub(super) fn warn_of_unsent_wakeups(&self) {
        for reason in self.notifier.failed().iter() {
            warn(&format!(
                "warning: the message is stored, but the wakeup was not sent ({reason}); maintenance or the next wakeup will \
                 run it"
            ));
        }
    }
}

fn misconfigured(error: &ConfigError) -> Failure {
    Failure::error(format!(
        "{error}\nCOSMOS_ENDPOINT is set, so the environment must describe a deployment; to use a local cloud instead, unset \
         it or pass --cloud {CLOUD}"
    ))
}

/// The variables of a running local cloud.
async fn cloud_variables(cloud: &str) -> Result<BTreeMap<String, String>, Failure> {
    let base = address(cloud)?;
    let url = format!("{}/cloud/variables", base.as_str().trim_end_matches('/'));
    let http = reqwest::Client::builder()
        .no_proxy()
        .timeout(CLOUD_TIMEOUT)
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(|error| Failure::error(format!("the HTTP client cannot be created: {error}")))?;
    let answer = http.get(&url).send().await.map_err(|error| {
        let what = if error.is_timeout() { "answers in time" } else { "listens" };
        Failure::error(format!(
            "no local cloud {what} at {cloud}: start one with `{} up`, pass its address with --cloud or LOCAL_CLOUD, or set \
             COSMOS_ENDPOINT and the other variables of a deployment",
            program()
        ))
    })?;
    let unexpected = |what: String| {
        Failure::error(format!(
            "{cloud} is not a local cloud, or has another version ({what}): check --cloud and LOCAL_CLOUD"
        ))
    };
    if !answer.status().is_success() {
        return Err(unexpected(format!("/cloud/variables answers {}", answer.status())));
    }
    let body = answer.bytes().await.map_err(|error| unexpected(error.to_string()))?;
    // The error is not shown: it may quote a key.
    serde_json::from_slice(&body).map_err(|_| unexpected("/cloud/variables is not a JSON object of strings".to_owned()))
}

/// Parses the address of a local cloud. Its answer holds a key, so plain HTTP is for this machine only.
fn address(cloud: &str) -> Result<Url, Failure> {
    let usage = |why: &str| Failure::new(Code::Usage, format!("the address of the local cloud '{cloud}' {why}"));
    let url = Url::parse(cloud).map_err(|_| usage(&format!("is not a URL like {CLOUD}")))?;
    let here = match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    match url.scheme() {
        "http" if here => Ok(url),
        "https" if url.has_host() => Ok(url),
        "http" => Err(usage(
            "is on another machine, and its answer holds a key: use https or a tunnel",
        )),
        _ => Err(usage(&format!("is not an HTTP URL like {CLOUD}"))),
    }
}

/// A notifier that records which wakeups were not sent, for a warning at the end.
#[derive(Debug)]
struct RecordingNotifier {
    sqs: Sqs,
    limit: Duration,
    failed: Mutex<Vec<String>>,
}

impl RecordingNotifier {
    fn new(sqs: Sqs, limit: Duration) -> RecordingNotifier {
        RecordingNotifier {
            sqs,
            limit,
            failed: Mutex::default(),
        }
    }

    fn failed(&self) -> MutexGuard<'_, Vec<String>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Notifier for RecordingNotifier {
    async fn notify(&self, wakeups: &[Delayed]) -> Vec<NotSent> {
        let failed = match tokio::time::timeout(self.limit, self.sqs.notify(wakeups)).await {
            Ok(failed) => failed,
            Err(_) => {
                let reason = format!("the queue did not answer within {} ms", self.limit.as_millis());
                let not_sent = |delayed: &Delayed| NotSent {
                    wakeup: delayed.wakeup.clone(),
                    reason: reason.clone(),
                };
                wakeups.iter().map(not_sent).collect()
            }
        };
        self.failed()
            .extend(failed.iter().map(|not_sent| not_sent.reason.clone()));
        failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cloud_on_another_machine_needs_https() {
        for fine in [
            CLOUD,
            "http://localhost:1/",
            "http://[::1]:9400",
            "https://cloud.example/x",
        ] {
            assert!(address(fine).is_ok(), "{fine}");
        }
        for (wrong, why) in [
            ("http://10.0.0.1:9400", "on another machine"),
            ("http://localhost.example:9400", "on another machine"),
            ("127.0.0.1:9400", "not a URL"),
            ("ftp://127.0.0.1", "not an HTTP URL"),
            ("", "not a URL"),
        ] {
            let failure = address(wrong).unwrap_err();
            assert_eq!(failure.code, Code::Usage, "{wrong}");
            assert!(failure.message.contains(why), "{wrong}: {}", failure.message);
        }
    }
}
