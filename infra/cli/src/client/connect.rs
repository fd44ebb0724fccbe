//! Whom to talk to: a deployment, by the environment variables that its functions have; or a running local cloud, which
//! is asked for the same variables, but for the key of an account that is not the cloud's own.

use super::Common;
use super::answer::{Code, Fail, warn};
use async_trait::async_trait;
use duroxide::Client;
use duroxide_cosmos::{Clock as _, CosmosProvider, SystemClock};
use duroxide_lambda::NotSent;
use duroxide_lambda::config::ConfigError;
use duroxide_lambda::notifier::Sqs;
use duroxide_lambda::{Config, Connection, Delayed, Notifier};
use local_cloud::term::table::Look;
use std::collections::BTreeMap;
use std::env;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use url::{Host, Url};

/// Where `duroxide-lambda up` listens unless told otherwise.
const CLOUD: &str = "http://127.0.0.1:9400";
/// What a cloud does not say when its account is not its own.
const KEY: &str = "COSMOS_KEY";
/// How long the cloud may take to answer.
const CLOUD_TIMEOUT: Duration = Duration::from_secs(5);
/// How long one request to Cosmos may take, and one operation with its retries: somebody sits and waits.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(4);
const OPERATION_TIMEOUT: Duration = Duration::from_secs(8);

/// A connection, and how to show what comes by it.
pub(super) struct Session {
    connection: Connection,
    heard: Arc<Heard>,
    pub look: Look,
}

impl Session {
    pub(super) async fn connect(common: &Common) -> Result<Session, Fail> {
        let set = |name| env::var(name).ok().filter(|value| !value.trim().is_empty());
        let (config, sqs) = if common.cloud.is_none() && set("COSMOS_ENDPOINT").is_some() {
            let config = Config::from_env().map_err(|error| misconfigured(&error))?;
            let sqs = Sqs::new(config.queues.clone());
            (config, sqs)
        } else {
            let cloud = common.cloud.clone().or_else(|| set("LOCAL_CLOUD"));
            let mut variables = ask(cloud.as_deref().unwrap_or(CLOUD)).await?;
            if variables.contains_key("COSMOS_ENDPOINT") && !variables.contains_key(KEY) {
                let key = set(KEY).ok_or_else(|| {
                    Fail::error(
                        "this local cloud uses an account whose key it does not hand out: set COSMOS_KEY, as it was set \
                         for the cloud",
                    )
                })?;
                variables.insert(KEY.to_owned(), key);
            }
            let get = |name: &str| variables.get(name).cloned();
            let config = Config::from_variables(get)
                .map_err(|error| Fail::error(format!("the local cloud's own variables: {error}")))?;
            let sqs = Sqs::from_variables(config.queues.clone(), get);
            (config, sqs)
        };
        let mut limits = config.limits.clone();
        let heard = Arc::new(Heard::new(sqs, limits.notify_timeout));
        // The notifier keeps the time itself, and says so.
        limits.notify_timeout += Duration::from_secs(1);
        let cosmos = config
            .cosmos_config()
            .into_builder()
            .request_timeout(REQUEST_TIMEOUT)
            .operation_timeout(OPERATION_TIMEOUT)
            .build();
        let notifier = Arc::clone(&heard) as Arc<dyn Notifier>;
        let connection = Connection::new(cosmos, notifier, limits)
            .await
            .map_err(|error| Fail::error(error.to_string()))?;
        Ok(Session {
            connection,
            heard,
            look: Look::of_stdout(),
        })
    }

    pub(super) fn client(&self) -> &Client {
        self.connection.client()
    }

    pub(super) fn store(&self) -> &CosmosProvider {
        self.connection.store()
    }

    /// Wakeups for an instance. What is not taken is told with the rest.
    pub(super) async fn notify(&self, instance: &str) {
        self.connection.notify(instance).await;
    }

    pub(super) fn now_ms(&self) -> u64 {
        SystemClock.now_ms()
    }

    /// Whether all wakeups so far were taken.
    pub(super) fn all_notified(&self) -> bool {
        self.heard.failed().is_empty()
    }

    /// Tells which wakeups were not taken. The command has succeeded all the same.
    pub(super) fn tell_wakeups(&self) {
        for reason in self.heard.failed().iter() {
            warn(&format!(
                "warning: it is queued, but the function could not be notified ({reason}); maintenance will find it, or its \
                 next wakeup"
            ));
        }
    }
}

fn misconfigured(error: &ConfigError) -> Fail {
    Fail::error(format!(
        "{error}\nCOSMOS_ENDPOINT is set, so the connection is read from the environment; to reach a local cloud instead, \
         unset it or give --cloud {CLOUD}"
    ))
}

/// The variables of a running local cloud.
async fn ask(cloud: &str) -> Result<BTreeMap<String, String>, Fail> {
    let base = address(cloud)?;
    let url = format!("{}/cloud/variables", base.as_str().trim_end_matches('/'));
    let http = reqwest::Client::builder()
        .no_proxy()
        .timeout(CLOUD_TIMEOUT)
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(|error| Fail::error(format!("no HTTP client can be made: {error}")))?;
    let answer = http.get(&url).send().await.map_err(|error| {
        let what = if error.is_timeout() {
            "answers in time"
        } else {
            "listens"
        };
        Fail::error(format!(
            "no local cloud {what} at {cloud}: start one with `cargo run -- up`, say where it is with --cloud or \
             LOCAL_CLOUD, or set COSMOS_ENDPOINT and the other variables of a deployment"
        ))
    })?;
    let odd = |what: String| {
        Fail::error(format!(
            "what listens at {cloud} is not a local cloud, or one of another version ({what}): check --cloud and LOCAL_CLOUD"
        ))
    };
    if !answer.status().is_success() {
        return Err(odd(format!("/cloud/variables answers {}", answer.status())));
    }
    let body = answer.bytes().await.map_err(|error| odd(error.to_string()))?;
    // The error is not repeated: it may quote a key.
    serde_json::from_slice(&body)
        .map_err(|_| odd("/cloud/variables is not a JSON object from names to texts".to_owned()))
}

/// The address of a cloud. It hands out a key, so it is spoken to without encryption on this machine only.
fn address(cloud: &str) -> Result<Url, Fail> {
    let usage = |why: &str| Fail::new(Code::Usage, format!("the local cloud's address '{cloud}' {why}"));
    let url = Url::parse(cloud).map_err(|_| usage(&format!("is not a URL: set it like {CLOUD}")))?;
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
            "is on another machine, and it hands out a key: use https, or a tunnel",
        )),
        _ => Err(usage(&format!("is not one of HTTP: set it like {CLOUD}"))),
    }
}

/// A notifier that remembers what was not taken, to be told at the end.
#[derive(Debug)]
struct Heard {
    sqs: Sqs,
    limit: Duration,
    failed: Mutex<Vec<String>>,
}

impl Heard {
    fn new(sqs: Sqs, limit: Duration) -> Heard {
        Heard {
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
impl Notifier for Heard {
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
    fn a_cloud_is_on_this_machine_or_encrypted() {
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
            ("ftp://127.0.0.1", "not one of HTTP"),
            ("", "not a URL"),
        ] {
            let fail = address(wrong).unwrap_err();
            assert_eq!(fail.code, Code::Usage, "{wrong}");
            assert!(fail.message.contains(why), "{wrong}: {}", fail.message);
        }
    }
}
