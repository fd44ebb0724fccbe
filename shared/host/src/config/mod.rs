//! The configuration of a function: one typed struct, read from the environment once per cold start.
//!
//! `variables.rs` says what there is to set, `read.rs` checks what was set. All problems are told at once, each with
//! its variable and what to set, so that a deployment is mended in one go. No message repeats a key.

mod maintenance;
mod read;
mod variables;

use crate::notifier::Queues;
use crate::secret::SecretKey;
use cosmos::{Key, StaticKey};
use duroxide::providers::TagFilter;
use duroxide_cosmos::{CosmosConfig, Outbox};
use std::env;
use std::time::Duration;
use variables::Reader;

pub use duroxide_cosmos::Retention;
pub use maintenance::MaintenanceSettings;
pub use variables::{Problem, VARIABLES, Variable};

/// What a function is told by its environment.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the state is.
    pub cosmos: CosmosSettings,
    /// Where wakeups go.
    pub queues: Queues,
    /// The activities that this worker function serves.
    pub tags: TagFilter,
    /// The numbers.
    pub limits: Limits,
    /// The numbers of maintenance.
    pub maintenance: MaintenanceSettings,
    /// A level, or a list of `target=level`; [`log::init`](crate::log::init) takes it.
    pub log_level: String,
    /// The namespace of the metrics; without one, none are written.
    pub metrics_namespace: Option<String>,
}

/// Where the state is.
#[derive(Clone, Debug)]
pub struct CosmosSettings {
    /// The account's URI.
    pub endpoint: String,
    /// The account's key.
    pub key: KeySetting,
    /// The database's name.
    pub database: String,
    /// The container's name.
    pub container: String,
}

/// The account's key, or where it is kept. `Debug` does not show a key.
#[derive(Clone, Debug)]
pub enum KeySetting {
    /// The key itself.
    Plain(Key),
    /// A secret of Secrets Manager.
    Secret {
        /// Its ARN.
        arn: String,
    },
}

/// How many, how often and how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many wakeups are served at once.
    pub concurrency: usize,
    /// After how many attempts a turn or an activity is poison.
    pub max_attempts: u32,
    /// After how many attempts of maintenance a message to another instance becomes a dead letter.
    pub outbox_attempts: u32,
    /// How long dead letters are kept. Every function writes some.
    pub dead_letters_kept: Duration,
    /// How long a turn holds its instance, unless renewed. Code of an orchestration that computes or blocks for longer
    /// keeps tokio from renewing it: another may then run the turn too, and the first to commit wins.
    pub turn_lock: Duration,
    /// How long an activity holds its work item, unless renewed.
    pub work_lock: Duration,
    /// How long an environment owns a session, unless renewed.
    pub session_lock: Duration,
    /// A turn is begun only when this much of the invocation is left.
    pub turn_reserve: Duration,
    /// How long a cancelled activity may take to stop.
    pub cancel_grace: Duration,
    /// Kept back at the end of an invocation to commit or release.
    pub commit_reserve: Duration,
    /// How long notifying may take.
    pub notify_timeout: Duration,
    /// How far ahead a timer is notified.
    pub wakeup_reach: Duration,
}

/// Everything that is wrong with the environment.
#[derive(Debug, thiserror::Error)]
#[error("the environment variables cannot be used:{}", listed(problems))]
pub struct ConfigError {
    /// Each variable with what is wrong and what to set; never empty.
    pub problems: Vec<Problem>,
}

fn listed(problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("\n- {problem}")).collect()
}

impl Config {
    /// Reads the process's environment.
    ///
    /// # Errors
    /// With all that is missing or cannot be used.
    pub fn from_env() -> Result<Config, ConfigError> {
        // Text that is not Unicode fails its own check rather than being taken for absent.
        Self::from_variables(|name| env::var_os(name).map(|text| text.to_string_lossy().into_owned()))
    }

    /// Reads variables from anywhere.
    ///
    /// # Errors
    /// With all that is missing or cannot be used.
    pub fn from_variables(get: impl Fn(&str) -> Option<String>) -> Result<Config, ConfigError> {
        let mut reader = Reader::new(&get);
        let cosmos = CosmosSettings::read(&mut reader);
        let queues = read::queues(&mut reader);
        let tags = read::tags(&mut reader);
        let limits = Limits::read(&mut reader);
        let maintenance = read::maintenance(&mut reader, &limits);
        let log_level = read::log_level(&mut reader);
        let metrics_namespace = read::metrics_namespace(&mut reader);
        match cosmos {
            Some(cosmos) if reader.problems.is_empty() => Ok(Config {
                cosmos,
                queues,
                tags,
                limits,
                maintenance,
                log_level,
                metrics_namespace,
            }),
            _ => Err(ConfigError {
                problems: reader.problems,
            }),
        }
    }

    /// What the provider connects with. It sends nothing yet; a key that is a secret is read with the first request.
    pub fn cosmos_config(&self) -> CosmosConfig {
        let endpoint = self.cosmos.endpoint.as_str();
        let builder = match &self.cosmos.key {
            KeySetting::Plain(key) => CosmosConfig::builder(endpoint, StaticKey::new(key.clone())),
            KeySetting::Secret { arn } => CosmosConfig::builder(endpoint, SecretKey::new(arn)),
        };
        builder
            .database(&self.cosmos.database)
            .container(&self.cosmos.container)
            .outbox(Outbox {
                max_attempts: self.limits.outbox_attempts,
                ..Outbox::default()
            })
            .dead_letter_ttl(self.limits.dead_letters_kept)
            .build()
    }
}

impl Default for MaintenanceSettings {
    /// As the table of variables has them.
    fn default() -> MaintenanceSettings {
        read::maintenance(&mut Reader::new(&|_| None), &Limits::default())
    }
}

impl Limits {
    /// The shortest timeout of a function with these limits. A shorter one leaves too little time before the reserves to
    /// begin anything.
    pub fn least_timeout(&self) -> Duration {
        4 * self.turn_reserve.max(self.cancel_grace + self.commit_reserve)
    }

    /// Reads the numbers alone.
    ///
    /// # Errors
    /// With all that cannot be used.
    pub fn from_variables(get: impl Fn(&str) -> Option<String>) -> Result<Limits, ConfigError> {
        let mut reader = Reader::new(&get);
        let limits = Limits::read(&mut reader);
        match reader.problems {
            problems if problems.is_empty() => Ok(limits),
            problems => Err(ConfigError { problems }),
        }
    }
}

impl Default for Limits {
    /// As the table of variables has them.
    fn default() -> Limits {
        Limits::read(&mut Reader::new(&|_| None))
    }
}

#[cfg(test)]
mod tests;
