//! Tokens of Entra ID for an application, fetched when needed and kept until near their end.
//!
//! ```text
//!   fresh ----> renewable ----> over                  by the injected clock, counted from before the exchange
//!   cached      one request renews,     all wait for
//!               the others go on        one exchange
//! ```
//!
//! - One exchange at a time: requests that wait for it share its outcome, also its failure. A failure is kept for a
//!   moment, so that a storm of requests does not become a storm of exchanges.
//! - A token that cannot be renewed is used until its end: Entra ID may be away for minutes without anybody noticing.
//! - A token that the account refuses is replaced once; one that was issued a moment ago is not, because another
//!   would be refused as well.
//! - A clock that was set back makes every token look fresh; so a token from the future is over.
//!
//! `entra_exchange.rs` has the exchange itself, `entra_error.rs` what to do when it fails. Where the proof comes from is
//! the caller's [`ProofSource`].

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use crate::clock::{Clock, SystemClock};
use crate::credential::{Credential, CredentialSource, Token};
use crate::endpoint;
use crate::entra_error::TokenError;
use crate::entra_exchange::{Application, Granted, ProofSource, exchange};
use crate::error::Error;
use crate::http::Http;

/// A token is renewed this long before its end, or a quarter of its life.
const RENEW_BEFORE: Duration = Duration::from_secs(300);
/// A token is not used for this long before its end, or a tenth of its life: a request takes time, and clocks differ.
const UNUSED_BEFORE: Duration = Duration::from_secs(30);
/// After a renewal that failed, the next is tried this much later.
const RENEW_AGAIN: Duration = Duration::from_secs(30);
/// For this long a failure answers all requests.
const FAILURE_KEPT: Duration = Duration::from_secs(1);
/// A refused token that is younger than this is not replaced.
const TOO_YOUNG: Duration = Duration::from_secs(10);

/// Which application of which tenant.
#[derive(Clone, Debug)]
pub struct EntraSettings {
    /// The address of Entra ID, by default that of the public cloud.
    pub authority: String,
    /// The tenant's id, or a domain of it.
    pub tenant: String,
    /// The application's (client) id.
    pub client: String,
}

impl EntraSettings {
    /// Entra ID of the public cloud.
    pub const PUBLIC_CLOUD: &str = "https://login.microsoftonline.com";

    /// An application in the public cloud.
    pub fn new(tenant: impl Into<String>, client: impl Into<String>) -> EntraSettings {
        EntraSettings {
            authority: Self::PUBLIC_CLOUD.to_owned(),
            tenant: tenant.into(),
            client: client.into(),
        }
    }

    /// Checks the address and the ids. The error says which is wrong, and does not repeat it: it may be a secret.
    pub fn check(&self) -> Result<(), TokenError> {
        self.application().map(drop)
    }

    fn application(&self) -> Result<Application, TokenError> {
        let refuse = |reason: String| Err(TokenError::Settings { reason });
        let authority = match endpoint::parse(&self.authority) {
            Ok(authority) => authority,
            Err(reason) => return refuse(format!("the authority is wrong: {reason}")),
        };
        let plain = |text: &str| {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
            !text.is_empty() && text.len() <= 255 && text.bytes().all(allowed) && !text.starts_with('.')
        };
        if !plain(&self.tenant) {
            return refuse("the tenant is neither an id nor a domain".to_owned());
        }
        if !plain(&self.client) {
            return refuse("the client is not an application's id".to_owned());
        }
        Ok(Application {
            authority,
            tenant: self.tenant.clone(),
            client: self.client.clone(),
        })
    }
}

/// A [`CredentialSource`] of tokens for one application.
pub struct EntraTokens {
    application: Application,
    proof: Arc<dyn ProofSource>,
    clock: Arc<dyn Clock>,
    http: Http,
    /// Locked during an exchange.
    exchanging: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Clone, Default)]
struct State {
    /// The number of finished exchanges.
    number: u64,
    issued: Option<Issued>,
    /// The last failure, and until when it answers all requests.
    failed: Option<(TokenError, u64)>,
    /// No renewal before this time.
    renew_from_ms: u64,
}

#[derive(Clone)]
struct Issued {
    token: Token,
    at_ms: u64,
    renew_ms: u64,
    over_ms: u64,
}

impl EntraTokens {
    /// Tokens for the application; sends nothing yet.
    pub fn new(settings: &EntraSettings, proof: Arc<dyn ProofSource>) -> Result<EntraTokens, TokenError> {
        let application = settings.application()?;
        Ok(EntraTokens {
            http: Http::new(application.authority.scheme() == "https"),
            application,
            proof,
            clock: Arc::new(SystemClock),
            exchanging: tokio::sync::Mutex::new(()),
            state: Mutex::default(),
        })
    }

    /// The clock that decides when a token is near its end.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> EntraTokens {
        self.clock = clock;
        self
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic cannot leave it half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn token(&self) -> Result<Token, TokenError> {
        let (now, state) = (self.clock.now_ms(), self.state().clone());
        let Some(issued) = state.issued.filter(|issued| issued.is_usable(now)) else {
            return self.exchange_after(state.number).await;
        };
        if now < issued.renew_ms.max(state.renew_from_ms) {
            return Ok(issued.token);
        }
        // One request renews; the others go on with a token that is still good.
        let Ok(_exchanging) = self.exchanging.try_lock() else {
            return Ok(issued.token);
        };
        match self.exchange().await {
            Ok(token) => Ok(token),
            Err(error) => {
                tracing::warn!(%error, "the token of Entra ID was not renewed; the old one is used until its end");
                let mut state = self.state();
                state.renew_from_ms = now + millis(RENEW_AGAIN);
                Ok(issued.token)
            }
        }
    }

    /// The outcome of an exchange that ends after `seen`: of another request, or our own.
    async fn exchange_after(&self, seen: u64) -> Result<Token, TokenError> {
        let _exchanging = self.exchanging.lock().await;
        let (now, state) = (self.clock.now_ms(), self.state().clone());
        if state.number != seen
            && let Some(issued) = state.issued.filter(|issued| issued.is_usable(now))
        {
            return Ok(issued.token);
        }
        if let Some((error, until)) = state.failed
            && (state.number != seen || now < until)
        {
            return Err(error);
        }
        let outcome = self.exchange().await;
        if let Err(error) = &outcome {
            let mut state = self.state();
            state.failed = Some((error.clone(), self.clock.now_ms() + millis(kept(error))));
        }
        outcome
    }

    /// One exchange. The caller holds the lock.
    async fn exchange(&self) -> Result<Token, TokenError> {
        let at_ms = self.clock.now_ms();
        let outcome = exchange(&self.http, &self.application, &*self.proof, &*self.clock).await;
        let mut state = self.state();
        state.number += 1;
        let granted = outcome?;
        tracing::debug!(lifetime_s = granted.lifetime.as_secs(), "Entra ID issued a token");
        let issued = Issued::new(granted, at_ms);
        let token = issued.token.clone();
        (state.issued, state.failed, state.renew_from_ms) = (Some(issued), None, 0);
        Ok(token)
    }

    async fn replace(&self, refused: &Token) -> Result<Token, TokenError> {
        let (now, state) = (self.clock.now_ms(), self.state().clone());
        match state.issued {
            Some(issued) if issued.token == *refused => {
                if now.saturating_sub(issued.at_ms) < millis(TOO_YOUNG) && now >= issued.at_ms {
                    return Ok(issued.token);
                }
                {
                    let mut state = self.state();
                    let same = state.issued.as_ref().is_some_and(|issued| issued.token == *refused);
                    if same {
                        state.issued = None;
                    }
                }
                self.exchange_after(state.number).await
            }
            _ => self.token().await,
        }
    }
}

impl Issued {
    fn new(granted: Granted, at_ms: u64) -> Issued {
        let life = granted.lifetime;
        Issued {
            token: granted.token,
            at_ms,
            renew_ms: at_ms + millis(life - RENEW_BEFORE.min(life / 4)),
            over_ms: at_ms + millis(life - UNUSED_BEFORE.min(life / 10)),
        }
    }

    fn is_usable(&self, now: u64) -> bool {
        (self.at_ms..self.over_ms).contains(&now)
    }
}

/// How long a failure answers all requests.
fn kept(error: &TokenError) -> Duration {
    match error {
        TokenError::Unavailable {
            retry_after: Some(after),
            ..
        } => (*after).clamp(FAILURE_KEPT, RENEW_AGAIN),
        _ => FAILURE_KEPT,
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX / 4)
}

#[async_trait]
impl CredentialSource for EntraTokens {
    async fn credential(&self) -> Result<Credential, Error> {
        self.token().await.map(Credential::Token).map_err(Error::from)
    }

    async fn refresh(&self, refused: &Credential) -> Result<Credential, Error> {
        let token = match refused {
            Credential::Token(token) => self.replace(token).await,
            Credential::Key(_) => self.token().await,
        };
        token.map(Credential::Token).map_err(Error::from)
    }

    fn warm(&self) {
        // The first exchange reports the failure.
        self.http.connections().map(drop).unwrap_or_default();
    }
}

impl From<TokenError> for Error {
    fn from(error: TokenError) -> Error {
        match error.is_transient() {
            true => Error::credential_unavailable(error),
            false => Error::credential_source(error),
        }
    }
}

impl fmt::Debug for EntraTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntraTokens")
            .field("tenant", &self.application.tenant)
            .field("client", &self.application.client)
            .field("proof", &self.proof)
            .field("token", &"…redacted")
            .finish_non_exhaustive()
    }
}
