//! Tokens of Entra ID, as far as a test needs them: the account trusts one issuer, which is this server itself.
//!
//! A token is a JSON web token signed by HMAC-SHA256 with a secret that follows from the account's key, so a test that
//! plays Entra ID can issue tokens with [`TokenIssuer`]. The server checks signature, audience and times, and refuses with
//! 401. A token may not change databases, containers or throughput (403/5300), as in the service.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use hyper::{Method, StatusCode};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::http::{Call, Refusal};
use crate::kind::RequestKind;

/// The audience of a token for Cosmos DB.
const AUDIENCE: &str = "https://cosmos.azure.com";

/// Issues tokens that an account accepts. Clones share the same secret.
#[derive(Clone)]
pub struct TokenIssuer {
    key: Arc<[u8]>,
    /// Tokens of earlier generations are revoked.
    generation: Arc<AtomicU64>,
}

impl std::fmt::Debug for TokenIssuer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenIssuer").finish_non_exhaustive()
    }
}

/// What a token says. The times are seconds since 1970.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct TokenClaims {
    /// The resource that the token is for.
    pub aud: String,
    /// Not valid before.
    pub nbf: u64,
    /// Not valid from this time on.
    pub exp: u64,
    /// The principal.
    pub oid: String,
    /// Makes each token different.
    pub jti: u64,
}

impl TokenIssuer {
    pub(crate) fn new(key: &[u8]) -> TokenIssuer {
        TokenIssuer {
            key: key.into(),
            generation: Arc::default(),
        }
    }

    /// A token that is valid from now on, for this long.
    pub fn issue(&self, lifetime: Duration) -> String {
        let now = seconds(now());
        self.issue_with(&TokenClaims {
            aud: AUDIENCE.to_owned(),
            nbf: now,
            exp: now + lifetime.as_secs(),
            oid: "a-principal-of-the-tests".to_owned(),
            jti: fastrand::u64(..),
        })
    }

    /// A token that says this.
    pub fn issue_with(&self, claims: &TokenClaims) -> String {
        let claims = serde_json::to_vec(claims).expect("claims are JSON");
        let head = URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256","typ":"JWT"}"#);
        let signed = format!("{head}.{}", URL_SAFE_NO_PAD.encode(claims));
        let signature = URL_SAFE_NO_PAD.encode(self.mac(&signed).finalize().into_bytes());
        format!("{signed}.{signature}")
    }

    /// Makes the account refuse every token that was issued so far.
    pub fn revoke_all(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
    }

    fn mac(&self, signed: &str) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("HMAC takes a key of any length");
        let generation = self.generation.load(Ordering::SeqCst);
        mac.update(format!("token {generation} {signed}").as_bytes());
        mac
    }

    /// Refuses a token of another issuer, for another audience, or at the wrong time.
    pub(crate) fn check(&self, token: &str) -> Result<(), Refusal> {
        let invalid = |what: &str| {
            let message = format!("The input authorization token can't serve the request. {what}");
            Refusal::new(StatusCode::UNAUTHORIZED, message)
        };
        let (signed, signature) = token
            .rsplit_once('.')
            .ok_or_else(|| invalid("It is not a JSON web token."))?;
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap_or_default();
        self.mac(signed)
            .verify_slice(&signature)
            .map_err(|_| invalid("The issuer of the token is not trusted, or the token was revoked."))?;
        let body = signed.split_once('.').map(|(_, body)| body).unwrap_or_default();
        let claims = URL_SAFE_NO_PAD.decode(body).unwrap_or_default();
        let claims: TokenClaims =
            serde_json::from_slice(&claims).map_err(|_| invalid("The claims of the token cannot be read."))?;
        if claims.aud.trim_end_matches('/') != AUDIENCE {
            return Err(invalid("The audience of the token is not Cosmos DB."));
        }
        let now = seconds(now());
        if now < claims.nbf {
            return Err(invalid("The token is not valid yet."));
        }
        if now >= claims.exp {
            return Err(invalid("The token has expired."));
        }
        Ok(())
    }
}

/// Refuses what no role of the data plane allows.
pub(crate) fn check_allowed(call: &Call) -> Result<(), Refusal> {
    let manages = call.kind == RequestKind::Metadata && call.method != Method::GET && call.segments.len() < 5;
    if manages || call.segments.first().is_some_and(|first| first == "offers") {
        let message = format!(
            "The given request [{} {}] cannot be authorized by AAD token in data plane.",
            call.method, call.path
        );
        return Err(Refusal::new(StatusCode::FORBIDDEN, message).with_substatus(5300));
    }
    Ok(())
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the service's own clock, which a client cannot inject"
)]
fn now() -> SystemTime {
    SystemTime::now()
}
