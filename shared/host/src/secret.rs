//! The Cosmos key from Secrets Manager.
//!
//! The key is read with the first request of an environment, and again when the account refuses it, so that functions
//! pick up a rotated key by themselves. Requests that wait for the same reading share one call and its outcome.
//!
//! Invariant: the secret's content leaves this module only as a [`Key`]; no error and no `Debug` shows it.

use crate::aws;
use async_trait::async_trait;
use aws_sdk_secretsmanager::Client;
use cosmos::{Error, Key, KeySource};
use serde::Deserialize;
use std::fmt;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::time::Instant;

/// A refusal this soon after a refresh belongs to a request that was signed before it.
const STRAGGLER: Duration = Duration::from_secs(1);

/// Reads the Cosmos key from a secret: the base64 key itself, or a JSON object with the field `key`.
pub struct SecretKey {
    arn: String,
    client: OnceCell<Client>,
    /// Locked while the secret is read.
    reading: tokio::sync::Mutex<()>,
    last: Mutex<Last>,
}

/// The last reading.
#[derive(Clone, Default)]
struct Last {
    /// The number of finished readings.
    number: u64,
    outcome: Option<Result<Key, SecretError>>,
    refreshed: Option<Instant>,
}

#[derive(Clone, Debug, thiserror::Error)]
enum SecretError {
    #[error(
        "the secret {arn} could not be read ({reason}); check that it exists in this region and that the function's \
         role may do secretsmanager:GetSecretValue on it, and kms:Decrypt on its key when it has its own"
    )]
    Unread { arn: String, reason: String },
    #[error(
        "the secret {arn} holds {problem}; store the account's key as text: the base64 key itself or a JSON object \
         with the field `key`"
    )]
    Unusable { arn: String, problem: String },
}

impl SecretKey {
    /// A source that makes its client from the environment with the first request for the key.
    pub fn new(arn: impl Into<String>) -> SecretKey {
        Self::with(OnceCell::new(), arn.into())
    }

    /// A source that uses this client.
    #[cfg(any(test, feature = "testing"))]
    pub fn with_client(client: Client, arn: impl Into<String>) -> SecretKey {
        Self::with(OnceCell::new_with(Some(client)), arn.into())
    }

    fn with(client: OnceCell<Client>, arn: String) -> SecretKey {
        SecretKey {
            arn,
            client,
            reading: tokio::sync::Mutex::new(()),
            last: Mutex::default(),
        }
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().expect("nothing panics while it holds the lock")
    }

    /// The outcome of a reading that ends after `seen`: of another request, or our own.
    async fn read_after(&self, seen: u64, refresh: bool) -> Result<Key, Error> {
        let _reading = self.reading.lock().await;
        let last = self.last().clone();
        if last.number != seen
            && let Some(outcome) = last.outcome
        {
            return outcome.map_err(Error::key_source);
        }
        let outcome = self.read().await;
        let mut last = self.last();
        last.number += 1;
        last.refreshed = (refresh && outcome.is_ok()).then(Instant::now);
        last.outcome = Some(outcome.clone());
        outcome.map_err(Error::key_source)
    }

    async fn read(&self) -> Result<Key, SecretError> {
        let client = self
            .client
            .get_or_init(|| async { Client::new(aws::shared().await) })
            .await;
        let answer = client.get_secret_value().secret_id(&self.arn).send().await;
        let secret = answer.map_err(|error| SecretError::Unread {
            arn: self.arn.clone(),
            reason: aws::reason(&error),
        })?;
        let key = match secret.secret_string() {
            Some(text) => key_in(text),
            None => Err("binary data".to_owned()),
        };
        key.map_err(|problem| SecretError::Unusable {
            arn: self.arn.clone(),
            problem,
        })
    }
}

#[async_trait]
impl KeySource for SecretKey {
    async fn key(&self) -> Result<Key, Error> {
        let last = self.last().clone();
        match last.outcome {
            Some(Ok(key)) => Ok(key),
            _ => self.read_after(last.number, false).await,
        }
    }

    async fn refresh(&self) -> Result<Key, Error> {
        let last = self.last().clone();
        match (last.outcome, last.refreshed) {
            (Some(Ok(key)), Some(at)) if at.elapsed() < STRAGGLER => Ok(key),
            _ => self.read_after(last.number, true).await,
        }
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretKey")
            .field("arn", &self.arn)
            .field("key", &"…redacted")
            .finish()
    }
}

#[derive(Deserialize)]
struct Fields {
    key: String,
}

/// The key in a secret's text, or what is wrong with the text without repeating it: the parsers' own errors quote it.
fn key_in(text: &str) -> Result<Key, String> {
    let text = text.trim();
    let fields: Fields;
    let base64 = if text.starts_with('{') {
        fields = serde_json::from_str(text).map_err(|_| "JSON without a text in the field `key`".to_owned())?;
        &fields.key
    } else {
        text
    };
    Key::from_base64(base64).map_err(|error| match error {
        Error::InvalidKey { reason } => format!("a text that is not a key ({reason})"),
        other => other.to_string(),
    })
}

#[cfg(test)]
mod tests;
