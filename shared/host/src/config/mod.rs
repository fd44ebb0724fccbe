//! The configuration of a function: one typed struct, read from the environment once per cold start.
//!
//! `variables.rs` lists the variables, `read.rs` and `credential.rs` check their values. An error lists all problems at once, each with its
//! variable and what to set, so that a deployment is corrected in one go. No message repeats a key or a token.

mod activities;
mod api;
mod credential;
mod maintenance;
mod read;
mod variables;

use crate::notifier::Queues;
use duroxide::providers::TagFilter;
use duroxide_cosmos::{CosmosConfig, Outbox};
use std::env;
use std::time::Duration;
use variables::Reader;

pub(crate) use activities::LEAST_TIME;
pub use activities::{ActivityLimit, ActivityLimitError, ActivityLimits, OnActivityGivenUp};
pub use api::{ApiAuth, ApiRole, ApiRoleError, ApiSettings, JwtSettings};
pub use credential::{CredentialSetting, ProofSetting};
pub use duroxide_cosmos::Retention;
pub use maintenance::MaintenanceSettings;
pub use variables::{Problem, VARIABLES, Variable};

/// The settings of a function.
#[derive(Clone, Debug)]
pub struct Config {
    /// The Cosmos DB container.
    pub cosmos: CosmosSettings,
    /// The queues of the wakeups.
    pub queues: Queues,
    /// The tags of the activities that this worker function serves.
    pub tags: TagFilter,
    /// Limits and times.
    pub limits: Limits,
    /// The settings of maintenance.
    pub maintenance: MaintenanceSettings,
    /// A level, or a list of `target=level`; [`log::init`](crate::log::init) takes it.
    pub log_level: String,
    /// The namespace of the metrics; without one, no metrics are written.
    pub metrics_namespace: Option<String>,
    /// The settings of the HTTP API.
    pub api: ApiSettings,
}

/// The Cosmos DB container.
#[derive(Clone, Debug)]
pub struct CosmosSettings {
    /// The account's URI.
    pub endpoint: String,
    /// How the account authorizes the functions.
    pub credential: CredentialSetting,
    /// The database's name.
    pub database: String,
    /// The container's name.
    pub container: String,
}

/// Limits and times of the functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The number of wakeups that are served at once.
    pub concurrency: usize,
    /// After this many attempts a turn or an activity is given up.
    pub max_attempts: u32,
    /// The limits of single activities.
    pub activities: ActivityLimits,
    /// What becomes of an activity that is given up.
    pub on_activity_given_up: OnActivityGivenUp,
    /// After this many attempts of maintenance a message to another instance becomes a dead letter.
    pub outbox_attempts: u32,
    /// How long dead letters are kept. Every function writes them.
    pub dead_letters_kept: Duration,
    /// How long messages of an instance that does not exist wait for its start before they become dead letters.
    pub orphan_grace: Duration,
    /// What becomes of an instance whose code does not do what its history says.
    pub on_nondeterminism: OnDefect,
    /// What becomes of an instance whose code panics.
    pub on_panic: OnDefect,
    /// How long an instance or activity that no function registers stays blocked before it is given up.
    pub unknown_kept: Duration,
    /// How people call this build.
    pub build: Option<String>,
    /// How many bytes the history of one execution may have.
    pub history_bytes: u64,
    /// How many bytes of histories a process keeps.
    pub history_cache: u64,
    /// The lock of a turn on its instance, unless renewed. An orchestration that computes or blocks for longer keeps tokio
    /// from renewing it: another function may then run the turn too, and the first to commit wins.
    pub turn_lock: Duration,
    /// The lock of an activity on its work item, unless renewed.
    pub work_lock: Duration,
    /// How long an environment owns an affinity session, unless renewed.
    pub session_lock: Duration,
    /// A turn begins only when this much of the invocation is left.
    pub turn_reserve: Duration,
    /// The time that a cancelled activity has to stop.
    pub cancel_grace: Duration,
    /// Reserved at the end of an invocation to commit or release.
    pub commit_reserve: Duration,
    /// The time limit for sending wakeups.
    pub notify_timeout: Duration,
    /// Timers that are due within this time get a delayed wakeup; maintenance wakes later ones.
    pub wakeup_reach: Duration,
}

/// What becomes of an instance whose code has a defect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDefect {
    /// It is blocked, untouched, until another build goes on with it.
    #[default]
    Block,
    /// It fails, as duroxide decides.
    Fail,
}

/// All problems of the environment variables.
#[derive(Debug, thiserror::Error)]
#[error("the environment variables cannot be used:{}", listed(problems))]
pub struct ConfigError {
    /// Each variable with its problem and what to set; never empty.
    pub problems: Vec<Problem>,
}

fn listed(problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("\n- {problem}")).collect()
}

impl Config {
    /// Reads the process's environment.
    ///
    /// # Errors
    /// With every variable that is missing or cannot be used.
    pub fn from_env() -> Result<Config, ConfigError> {
        // A text that is not Unicode fails its own check instead of counting as not set.
        Self::from_variables(|name| env::var_os(name).map(|text| text.to_string_lossy().into_owned()))
    }

    /// Reads variables from anywhere.
    ///
    /// # Errors
    /// With every variable that is missing or cannot be used.
    pub fn from_variables(get: impl Fn(&str) -> Option<String>) -> Result<Config, ConfigError> {
        let mut reader = Reader::new(&get);
        let cosmos = CosmosSettings::read(&mut reader);
        let queues = read::queues(&mut reader);
        let tags = read::tags(&mut reader);
        let limits = Limits::read(&mut reader);
        let maintenance = read::maintenance(&mut reader, &limits);
        let log_level = read::log_level(&mut reader);
        let metrics_namespace = read::metrics_namespace(&mut reader);
        let api = ApiSettings::read(&mut reader);
        match cosmos {
            Some(cosmos) if reader.problems.is_empty() => Ok(Config {
                cosmos,
                queues,
                tags,
                limits,
                maintenance,
                log_level,
                metrics_namespace,
                api,
            }),
            _ => Err(ConfigError {
                problems: reader.problems,
            }),
        }
    }

    /// The configuration of the provider. A secret is read, and a token fetched, with the first request.
    pub fn cosmos_config(&self) -> CosmosConfig {
        CosmosConfig::builder(&self.cosmos.endpoint, self.cosmos.credential.source())
            .database(&self.cosmos.database)
            .container(&self.cosmos.container)
            .outbox(Outbox {
                max_attempts: self.limits.outbox_attempts,
                ..Outbox::default()
            })
            .dead_letter_ttl(self.limits.dead_letters_kept)
            .orphan_grace(self.limits.orphan_grace)
            .history_limit(self.limits.history_bytes)
            .history_cache(self.limits.history_cache)
            .build()
    }
}

impl Default for MaintenanceSettings {
    /// The defaults of the table of variables.
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

    /// Reads only these.
    ///
    /// # Errors
    /// With every variable that cannot be used.
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
    /// The defaults of the table of variables.
    fn default() -> Limits {
        Limits::read(&mut Reader::new(&|_| None))
    }
}

#[cfg(test)]
mod tests;
