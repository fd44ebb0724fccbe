//! The token issuer over HTTP: requests of bounded time and size, and its discovery document.

use serde::Deserialize;
use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

/// The time of one request.
const TIMEOUT: Duration = Duration::from_secs(3);
/// The largest document.
const MOST: usize = 256 * 1024;

/// See the module.
pub(crate) struct Issuer {
    /// Exactly as in the claim `iss` of its tokens.
    pub name: String,
    /// Made for the first request: not at the start of the program.
    http: OnceLock<reqwest::Client>,
}

/// What an issuer says of itself.
#[derive(Debug, Deserialize)]
pub(crate) struct Discovery {
    issuer: String,
    pub jwks_uri: String,
    pub authorization_endpoint: Option<String>,
    pub token_endpoint: Option<String>,
    pub end_session_endpoint: Option<String>,
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issuer")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Issuer {
    pub(crate) fn new(name: &str) -> Issuer {
        Issuer {
            name: name.to_owned(),
            http: OnceLock::new(),
        }
    }

    /// Its discovery document, if it is its own.
    pub(crate) async fn discover(&self) -> Result<Discovery, String> {
        let url = format!("{}/.well-known/openid-configuration", self.name.trim_end_matches('/'));
        let document = self.get(&url).await?;
        let found: Discovery = serde_json::from_slice(&document)
            .map_err(|error| format!("the discovery document cannot be used: {error}"))?;
        match found.issuer == self.name {
            true => Ok(found),
            false => Err("the discovery document is of another issuer".to_owned()),
        }
    }

    /// A document of the issuer.
    pub(crate) async fn get(&self, url: &str) -> Result<Vec<u8>, String> {
        let http = self.http()?;
        let mut answer = http.get(url).send().await.map_err(|error| error.to_string())?;
        if answer.status() != 200 {
            return Err(format!("{url} answers {}", answer.status()));
        }
        let mut body = Vec::new();
        while let Some(part) = answer.chunk().await.map_err(|error| error.to_string())? {
            body.extend_from_slice(&part);
            if body.len() > MOST {
                return Err(format!("{url} answers more than {MOST} bytes"));
            }
        }
        Ok(body)
    }

    fn http(&self) -> Result<&reqwest::Client, String> {
        if let Some(http) = self.http.get() {
            return Ok(http);
        }
        let made = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(TIMEOUT)
            .build()
            .map_err(|error| error.to_string())?;
        Ok(self.http.get_or_init(|| made))
    }
}
