//! Secrets of Secrets Manager: the account's key, and what an application of Entra ID proves its identity with.
//!
//! A secret is read when it is first needed, and again when its content is refused, so that functions pick up a rotated
//! one by themselves. Requests that wait for the same reading share one call and its outcome.
//!
//! Invariant: the secret's content leaves this module only as a type that does not show it; no error and no `Debug` has
//! it.

use crate::aws;
use async_trait::async_trait;
use aws_sdk_secretsmanager::Client;
use cosmos::{Certificate, ClientProof, Credential, CredentialSource, Error, Key, ProofSource, TokenError};
use serde::Deserialize;
use std::fmt;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::time::Instant;

/// A refusal this soon after a refresh does not read again: the secret is wrong, or its request was sent before.
const STRAGGLER: Duration = Duration::from_secs(1);

/// Finds the content in a secret's text, or says what the text is instead without repeating it.
type Parse<T> = fn(&str) -> Result<T, String>;

/// A secret that is read when needed, and what is in it.
struct Secret<T> {
    arn: String,
    client: OnceCell<Client>,
    parse: Parse<T>,
    /// What to store, for an error.
    wanted: &'static str,
    /// Locked while the secret is read.
    reading: tokio::sync::Mutex<()>,
    last: Mutex<Last<T>>,
}

/// The last reading.
#[derive(Clone)]
struct Last<T> {
    /// The number of finished readings.
    number: u64,
    outcome: Option<Result<T, SecretError>>,
    refreshed: Option<Instant>,
}

#[derive(Clone, Debug, thiserror::Error)]
enum SecretError {
    #[error(
        "the secret {arn} could not be read ({reason}); check that it exists in this region and that the function's \
         role may do secretsmanager:GetSecretValue on it, and kms:Decrypt on its key when it has its own"
    )]
    Unread {
        arn: String,
        reason: String,
        transient: bool,
    },
    #[error("the secret {arn} holds {problem}; {wanted}")]
    Unusable {
        arn: String,
        problem: String,
        wanted: &'static str,
    },
}

impl SecretError {
    fn is_transient(&self) -> bool {
        matches!(self, SecretError::Unread { transient: true, .. })
    }
}

impl<T: Clone + PartialEq> Secret<T> {
    fn new(client: Option<Client>, arn: String, parse: Parse<T>, wanted: &'static str) -> Secret<T> {
        Secret {
            arn,
            client: OnceCell::new_with(client),
            parse,
            wanted,
            reading: tokio::sync::Mutex::new(()),
            last: Mutex::new(Last {
                number: 0,
                outcome: None,
                refreshed: None,
            }),
        }
    }

    fn last(&self) -> MutexGuard<'_, Last<T>> {
        self.last.lock().expect("nothing panics while it holds the lock")
    }

    /// What the secret holds, as it was read last.
    async fn content(&self) -> Result<T, SecretError> {
        let last = self.last().clone();
        match last.outcome {
            Some(Ok(content)) => Ok(content),
            _ => self.read_after(last.number, false).await,
        }
    }

    /// What the secret holds now that `refused` is refused.
    async fn refresh(&self, refused: &T) -> Result<T, SecretError> {
        let last = self.last().clone();
        match (last.outcome, last.refreshed) {
            (Some(Ok(content)), _) if content != *refused => Ok(content),
            (Some(Ok(content)), Some(at)) if at.elapsed() < STRAGGLER => Ok(content),
            _ => self.read_after(last.number, true).await,
        }
    }

    /// The outcome of a reading that ends after `seen`: of another request, or our own.
    async fn read_after(&self, seen: u64, refresh: bool) -> Result<T, SecretError> {
        let _reading = self.reading.lock().await;
        let last = self.last().clone();
        if last.number != seen
            && let Some(outcome) = last.outcome
        {
            return outcome;
        }
        let outcome = self.read().await;
        let mut last = self.last();
        last.number += 1;
        last.refreshed = (refresh && outcome.is_ok()).then(Instant::now);
        last.outcome = Some(outcome.clone());
        outcome
    }

    async fn read(&self) -> Result<T, SecretError> {
        let client = self
            .client
            .get_or_init(|| async { Client::new(aws::shared().await) })
            .await;
        let answer = client.get_secret_value().secret_id(&self.arn).send().await;
        let secret = answer.map_err(|error| SecretError::Unread {
            arn: self.arn.clone(),
            reason: aws::reason(&error),
            transient: aws::is_transient(&error),
        })?;
        let content = match secret.secret_string() {
            Some(text) => (self.parse)(text),
            None => Err("binary data".to_owned()),
        };
        content.map_err(|problem| SecretError::Unusable {
            arn: self.arn.clone(),
            problem,
            wanted: self.wanted,
        })
    }

    fn debug(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(name)
            .field("arn", &self.arn)
            .field("content", &"…redacted")
            .finish()
    }
}

/// The Cosmos key from a secret: the base64 key itself, or a JSON object with the field `key`.
pub struct SecretKey(Secret<Key>);

impl SecretKey {
    /// A source that makes its client from the environment with the first request for the key.
    pub fn new(arn: impl Into<String>) -> SecretKey {
        Self::with(None, arn.into())
    }

    /// A source that uses this client.
    #[cfg(any(test, feature = "internals"))]
    pub fn with_client(client: Client, arn: impl Into<String>) -> SecretKey {
        Self::with(Some(client), arn.into())
    }

    fn with(client: Option<Client>, arn: String) -> SecretKey {
        const WANTED: &str =
            "store the account's key as text: the base64 key itself or a JSON object with the field `key`";
        SecretKey(Secret::new(client, arn, key_in, WANTED))
    }
}

#[async_trait]
impl CredentialSource for SecretKey {
    async fn credential(&self) -> Result<Credential, Error> {
        self.0.content().await.map(Credential::Key).map_err(unavailable)
    }

    async fn refresh(&self, refused: &Credential) -> Result<Credential, Error> {
        let Credential::Key(refused) = refused else {
            return self.credential().await;
        };
        self.0.refresh(refused).await.map(Credential::Key).map_err(unavailable)
    }
}

fn unavailable(error: SecretError) -> Error {
    match error.is_transient() {
        true => Error::credential_unavailable(error),
        false => Error::credential_source(error),
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.debug("SecretKey", f)
    }
}

/// What an application of Entra ID proves its identity with: a client secret, by itself or in the field `clientSecret` of a
/// JSON object; or a certificate and its private key, in PEM.
pub struct SecretProof(Secret<ClientProof>);

impl SecretProof {
    /// A source that makes its client from the environment with the first request for a token.
    pub fn new(arn: impl Into<String>) -> SecretProof {
        Self::with(None, arn.into())
    }

    /// A source that uses this client.
    #[cfg(test)]
    fn with_client(client: Client, arn: impl Into<String>) -> SecretProof {
        Self::with(Some(client), arn.into())
    }

    fn with(client: Option<Client>, arn: String) -> SecretProof {
        const WANTED: &str = "store the value of the application's client secret as text or in the field `clientSecret` \
             of a JSON object, or its certificate and private key in PEM";
        SecretProof(Secret::new(client, arn, proof_in, WANTED))
    }
}

#[async_trait]
impl ProofSource for SecretProof {
    async fn proof(&self) -> Result<ClientProof, TokenError> {
        self.0.content().await.map_err(no_proof)
    }

    async fn refresh(&self, refused: &ClientProof) -> Result<ClientProof, TokenError> {
        self.0.refresh(refused).await.map_err(no_proof)
    }
}

fn no_proof(error: SecretError) -> TokenError {
    TokenError::proof(error.to_string(), error.is_transient())
}

impl fmt::Debug for SecretProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.debug("SecretProof", f)
    }
}

/// The parsers' own errors quote the text, so they are not passed on.
fn key_in(text: &str) -> Result<Key, String> {
    #[derive(Deserialize)]
    struct Fields {
        key: String,
    }
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

fn proof_in(text: &str) -> Result<ClientProof, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Fields {
        client_secret: String,
    }
    let mut text = text.trim().to_owned();
    if text.starts_with('{') {
        let fields: Fields =
            serde_json::from_str(&text).map_err(|_| "JSON without a text in the field `clientSecret`".to_owned())?;
        text = fields.client_secret.trim().to_owned();
    }
    if text.starts_with("-----BEGIN ") {
        return Certificate::from_pem(&text)
            .map(ClientProof::Certificate)
            .map_err(|error| match error {
                TokenError::Settings { reason } => format!("a certificate that cannot be used ({reason})"),
                other => other.to_string(),
            });
    }
    match text {
        text if text.is_empty() => Err("an empty text".to_owned()),
        text if text.contains(char::is_whitespace) => Err("a text with spaces or line breaks".to_owned()),
        text => Ok(ClientProof::Secret(text)),
    }
}

#[cfg(test)]
mod tests;
