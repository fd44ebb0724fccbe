//! One exchange with Entra ID: a proof of the application's identity for a token.
//!
//! ```text
//!   ProofSource --proof--> POST {authority}/{tenant}/oauth2/v2.0/token --> token, seconds
//!        ^                                   |
//!        \--- once, if the proof is refused -/   (a secret was rotated, an assertion is too old)
//! ```
//!
//! An attempt that failed transiently is repeated twice. The proof and the token never appear in an error: what Entra ID
//! says is quoted only without them.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use serde::Deserialize;
use tokio::time::{sleep, timeout};
use url::Url;
use url::form_urlencoded::Serializer;

use crate::clock::Clock;
use crate::credential::Token;
use crate::entra_certificate::Certificate;
use crate::entra_error::{Refusal, TokenError};
use crate::http::Http;

/// The resource for whose data plane the token is.
const SCOPE: &str = "https://cosmos.azure.com/.default";
const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
const ATTEMPTS: u32 = 3;
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(4);
const FIRST_WAIT: Duration = Duration::from_millis(200);
/// A longer wait is the caller's business: an invocation is short.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// What proves the application's identity. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub enum ClientProof {
    /// A client secret.
    Secret(String),
    /// A signed JSON web token of another identity provider, which the application trusts by a federated credential.
    Assertion(String),
    /// A certificate of the application, whose key signs an assertion for each exchange.
    Certificate(Certificate),
}

impl ClientProof {
    /// What is sent to the token endpoint.
    fn presented(&self, url: &Url, client: &str, clock: &dyn Clock) -> Result<Presented, TokenError> {
        Ok(match self {
            ClientProof::Secret(text) => Presented::Secret(text.clone()),
            ClientProof::Assertion(text) => Presented::Assertion(text.clone()),
            ClientProof::Certificate(certificate) => {
                Presented::Assertion(certificate.assertion(url.as_str(), client, clock.now_ms())?)
            }
        })
    }
}

/// A proof as it is sent.
enum Presented {
    Secret(String),
    Assertion(String),
}

impl fmt::Debug for ClientProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ClientProof::Secret(_) => "Secret(…redacted)",
            ClientProof::Assertion(_) => "Assertion(…redacted)",
            ClientProof::Certificate(_) => "Certificate(…redacted)",
        })
    }
}

/// Where the proof comes from. It is called once per token, so about once an hour.
#[async_trait]
pub trait ProofSource: Send + Sync + fmt::Debug {
    /// The proof for the next exchange.
    async fn proof(&self) -> Result<ClientProof, TokenError>;

    /// A replacement of `refused`, which Entra ID has refused. Returning the refused one means that there is no other.
    async fn refresh(&self, refused: &ClientProof) -> Result<ClientProof, TokenError> {
        let _ = refused;
        self.proof().await
    }
}

/// Which application of which tenant, and where Entra ID is.
#[derive(Clone, Debug)]
pub(crate) struct Application {
    pub(crate) authority: Url,
    pub(crate) tenant: String,
    pub(crate) client: String,
}

impl Application {
    /// The token endpoint.
    fn url(&self) -> Url {
        let mut url = self.authority.clone();
        url.set_path(&format!("{}/oauth2/v2.0/token", self.tenant));
        url
    }
}

/// A token and for how long it is valid, counted from before the request.
pub(crate) struct Granted {
    pub(crate) token: Token,
    pub(crate) lifetime: Duration,
}

/// Exchanges a proof for a token.
pub(crate) async fn exchange(
    http: &Http,
    application: &Application,
    source: &dyn ProofSource,
    clock: &dyn Clock,
) -> Result<Granted, TokenError> {
    let mut proof = source.proof().await?;
    let mut replaced = false;
    let mut failures = 0;
    loop {
        let presented = proof.presented(&application.url(), &application.client, clock)?;
        let error = match request(http, application, &presented).await {
            Ok(granted) => return Ok(granted),
            Err(error) => error,
        };
        match &error {
            TokenError::Refused { refusal, .. } if refusal.is_of_proof() && !replaced => {
                replaced = true;
                let other = source.refresh(&proof).await?;
                if other == proof {
                    return Err(error);
                }
                tracing::info!("Entra ID refused the proof of identity; its source returned another one");
                proof = other;
            }
            TokenError::Unavailable { retry_after, .. } => {
                failures += 1;
                let wait = retry_after.unwrap_or(FIRST_WAIT * failures);
                if failures >= ATTEMPTS || wait > LONGEST_WAIT {
                    return Err(error);
                }
                tracing::debug!(%error, ?wait, "asking Entra ID again");
                // Half fixed, half random: environments that started together do not ask together.
                sleep(wait.mul_f64(1.0 + fastrand::f64() * 0.5)).await;
            }
            _ => return Err(error),
        }
    }
}

async fn request(http: &Http, application: &Application, proof: &Presented) -> Result<Granted, TokenError> {
    let unavailable = |reason: String| TokenError::Unavailable {
        authority: application.authority.to_string(),
        reason,
        retry_after: None,
    };
    let client = http
        .connections()
        .map(|connections| connections.client)
        .map_err(|error| unavailable(error.to_string()))?;
    let mut request = reqwest::Request::new(reqwest::Method::POST, application.url());
    let form = HeaderValue::from_static("application/x-www-form-urlencoded");
    request.headers_mut().insert(CONTENT_TYPE, form);
    *request.body_mut() = Some(body(application, proof).into());
    let answer = async {
        let response = client.execute(request).await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = response.bytes().await?;
        reqwest::Result::Ok((status, headers, body))
    };
    let (status, headers, body) = match timeout(ATTEMPT_TIMEOUT, answer).await {
        Ok(Ok(answer)) => answer,
        // The error names the address, never the body.
        Ok(Err(error)) => return Err(unavailable(chain(&error))),
        Err(_) => return Err(unavailable(format!("no answer within {} s", ATTEMPT_TIMEOUT.as_secs()))),
    };
    if status == 200 {
        return granted(application, &body);
    }
    let seconds = headers
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.parse().ok());
    Err(refused(
        application,
        proof,
        (status, &body),
        seconds.map(Duration::from_secs),
    ))
}

fn body(application: &Application, proof: &Presented) -> String {
    let mut form = Serializer::new(String::new());
    form.append_pair("grant_type", "client_credentials")
        .append_pair("client_id", &application.client)
        .append_pair("scope", SCOPE);
    match proof {
        Presented::Secret(secret) => form.append_pair("client_secret", secret),
        Presented::Assertion(assertion) => form
            .append_pair("client_assertion_type", ASSERTION_TYPE)
            .append_pair("client_assertion", assertion),
    };
    form.finish()
}

fn granted(application: &Application, body: &[u8]) -> Result<Granted, TokenError> {
    #[derive(Deserialize)]
    struct Answer {
        access_token: String,
        expires_in: u64,
    }
    let protocol = |problem: &str| TokenError::Protocol {
        authority: application.authority.to_string(),
        problem: problem.to_owned(),
    };
    // The parser's own error may quote the token.
    let answer: Answer = serde_json::from_slice(body)
        .map_err(|_| protocol("it has no text `access_token` or no number `expires_in`"))?;
    let token = Token::new(&answer.access_token).map_err(|_| protocol("its `access_token` is not a JSON web token"))?;
    Ok(Granted {
        token,
        lifetime: Duration::from_secs(answer.expires_in),
    })
}

fn refused(
    application: &Application,
    proof: &Presented,
    (status, body): (u16, &[u8]),
    retry_after: Option<Duration>,
) -> TokenError {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Answer {
        error: String,
        error_description: String,
        error_codes: Vec<u64>,
    }
    let answer: Answer = serde_json::from_slice(body).unwrap_or_default();
    // Trace and correlation ids follow on further lines; they would make each occurrence look different.
    let said = answer.error_description.lines().next().unwrap_or_default();
    let (Presented::Secret(secret) | Presented::Assertion(secret)) = proof;
    let detail: String = match said.contains(secret) {
        true => String::new(),
        false => said.chars().take(400).collect(),
    };
    if matches!(status, 408 | 429 | 500..=599) || answer.error == "temporarily_unavailable" {
        return TokenError::Unavailable {
            authority: application.authority.to_string(),
            reason: format!("status {status} {detail}").trim_end().to_owned(),
            retry_after,
        };
    }
    if answer.error.is_empty() {
        return TokenError::Protocol {
            authority: application.authority.to_string(),
            problem: format!("status {status} without an OAuth error"),
        };
    }
    TokenError::Refused {
        refusal: Refusal::of(&answer.error_codes),
        tenant: application.tenant.clone(),
        client: application.client.clone(),
        detail,
    }
}

/// An error with all its causes, because the outermost only says "error sending request".
fn chain(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
