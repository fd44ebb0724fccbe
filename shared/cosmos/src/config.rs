//! The configuration of a client.
//!
//! Invariant: the endpoint of a [`ClientConfig`] is HTTPS, or plain HTTP to this machine (`endpoint.rs`). TLS
//! verification has no switch.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use url::Url;

use crate::clock::{Clock, SystemClock};
use crate::credential::CredentialSource;
use crate::endpoint;
use crate::error::Error;
use crate::observe::Observer;

/// Endpoint, credential and time limits of a [`CosmosClient`](crate::CosmosClient).
pub struct ClientConfig {
    pub(crate) endpoint: Url,
    pub(crate) credential: Arc<dyn CredentialSource>,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) operation_timeout: Duration,
    pub(crate) request_timeout: Duration,
    pub(crate) consistency_patience: Duration,
}

impl ClientConfig {
    /// An account's endpoint, `https://name.documents.azure.com:443/`, and the source of its key or token.
    pub fn new(endpoint: &str, credential: impl CredentialSource + 'static) -> Result<ClientConfig, Error> {
        Ok(ClientConfig {
            endpoint: endpoint::parse(endpoint).map_err(|reason| Error::InvalidEndpoint { reason })?,
            credential: Arc::new(credential),
            observer: None,
            clock: Arc::new(SystemClock),
            operation_timeout: Duration::from_secs(30),
            request_timeout: Duration::from_secs(10),
            consistency_patience: Duration::from_secs(5),
        })
    }

    /// Who receives a report of every attempt.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// The clock that dates the signatures.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The time limit of one operation with all its retries (30 s). Each page of a query is one operation.
    pub fn operation_timeout(mut self, limit: Duration) -> Self {
        self.operation_timeout = limit;
        self
    }

    /// The time limit of one attempt (10 s).
    pub fn request_timeout(mut self, limit: Duration) -> Self {
        self.request_timeout = limit;
        self
    }

    /// How long a read waits for a replica that has reached this client's consistency token (5 s). Then the client
    /// forgets the token: after a failover that lost writes no replica ever reaches it. The read is then as fresh as
    /// that of a new client.
    pub fn consistency_patience(mut self, limit: Duration) -> Self {
        self.consistency_patience = limit;
        self
    }
}

impl fmt::Debug for ClientConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The source is the caller's type, and its `Debug` might show the key or token.
        f.debug_struct("ClientConfig")
            .field("endpoint", &self.endpoint.as_str())
            .field("credential", &"…redacted")
            .field("operation_timeout", &self.operation_timeout)
            .field("request_timeout", &self.request_timeout)
            .field("consistency_patience", &self.consistency_patience)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credential::StaticKey;
    use crate::key::Key;

    fn config(endpoint: &str) -> Result<ClientConfig, Error> {
        ClientConfig::new(endpoint, StaticKey::new(Key::from_base64("c2VjcmV0LWtleQ==").unwrap()))
    }

    #[test]
    fn https_is_accepted_anywhere_and_http_only_on_this_machine() {
        for good in [
            "https://name.documents.azure.com:443/",
            "https://name.documents.azure.com",
            "https://10.0.0.1:8081",
            "http://127.0.0.1:8081",
            "http://127.9.9.9/",
            "http://[::1]:8081/",
            "http://localhost:8081/",
            "http://LOCALHOST",
        ] {
            assert!(config(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn an_endpoint_that_would_leak_or_mislead_is_refused() {
        for (bad, why) in [
            ("http://name.documents.azure.com/", "plain http"),
            ("http://10.0.0.1:8081/", "plain http"),
            ("http://localhost.example.com/", "plain http"),
            ("http://127.0.0.1.example.com/", "plain http"),
            ("https://host/dbs/x", "path"),
            ("https://host/?a=b", "path, query"),
            ("https://user:pw@host/", "user name"),
            ("ftp://host/", "neither"),
            ("name.documents.azure.com", "not a URL"),
            ("", "not a URL"),
        ] {
            let message = config(bad).unwrap_err().to_string();
            assert!(message.contains(why), "{bad}: {message}");
        }
    }

    #[test]
    fn a_pasted_connection_string_is_refused_without_repeating_its_key() {
        let error = config("AccountEndpoint=https://n.documents.azure.com:443/;AccountKey=c2VjcmV0;").unwrap_err();
        assert!(error.to_string().contains("connection string"), "{error}");
        assert!(!format!("{error:?} {error}").contains("c2VjcmV0"));
    }

    #[test]
    fn debug_shows_the_endpoint_but_no_key() {
        let shown = format!("{:?}", config("https://name.documents.azure.com").unwrap());
        assert!(
            shown.contains("name.documents.azure.com") && shown.contains("redacted"),
            "{shown}"
        );
        assert!(!shown.contains("c2VjcmV0"));
    }
}
