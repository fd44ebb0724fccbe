//! How a person signs in to the dashboard: the issuer's addresses, read from its discovery document, kept for an hour.
//!
//! The page and its settings are for everybody, so anybody can ask for them: the issuer is asked at most once in [`PAUSE_MS`], and one
//! request at a time. When it does not answer, the old addresses stay in use.

use super::issuer::{Discovery, Issuer};
use crate::types::SignIn;
use cosmos::Clock;
use std::fmt;
use std::sync::Arc;
use tokio::sync::Mutex;
use url::{Host, Url};

/// Addresses that are older are read again.
const OLD_MS: u64 = 60 * 60 * 1000;
/// The shortest time between two requests.
const PAUSE_MS: u64 = 30 * 1000;

/// See the module.
pub(crate) struct SignInPage {
    issuer: Arc<Issuer>,
    client_id: String,
    scope: String,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    found: Option<(u64, SignIn)>,
    tried_ms: Option<u64>,
}

/// The issuer does not say how to sign in; the log has the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unknown;

impl fmt::Debug for SignInPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignInPage")
            .field("issuer", &self.issuer)
            .field("client_id", &self.client_id)
            .finish_non_exhaustive()
    }
}

impl SignInPage {
    pub(crate) fn new(issuer: Arc<Issuer>, client_id: String, scope: String, clock: Arc<dyn Clock>) -> SignInPage {
        SignInPage {
            issuer,
            client_id,
            scope,
            clock,
            state: Mutex::default(),
        }
    }

    pub(crate) async fn known(&self) -> Result<SignIn, Unknown> {
        let mut state = self.state.lock().await;
        let now_ms = self.clock.now_ms();
        let read_ms = state.found.as_ref().map(|(read_ms, _)| *read_ms);
        if must_read(read_ms, state.tried_ms, now_ms) {
            state.tried_ms = Some(now_ms);
            match self.read().await {
                Ok(found) => state.found = Some((now_ms, found)),
                Err(error) => {
                    tracing::warn!(
                        error,
                        issuer = self.issuer.name,
                        "the issuer does not say how to sign in"
                    );
                }
            }
        }
        let found = state.found.as_ref().map(|(_, found)| found.clone());
        found.ok_or(Unknown)
    }

    async fn read(&self) -> Result<SignIn, String> {
        let found = self.issuer.discover().await?;
        self.of(found)
    }

    fn of(&self, found: Discovery) -> Result<SignIn, String> {
        let safe = |name: &str, url: Option<String>| {
            let url = url.ok_or_else(|| format!("the discovery document has no {name}"))?;
            match origin_of(&url) {
                Some(_) => Ok(url),
                None => Err(format!("the {name} is not https")),
            }
        };
        Ok(SignIn {
            issuer: self.issuer.name.clone(),
            client_id: self.client_id.clone(),
            scope: self.scope.clone(),
            authorization_endpoint: safe("authorization_endpoint", found.authorization_endpoint)?,
            token_endpoint: safe("token_endpoint", found.token_endpoint)?,
            end_session_endpoint: found.end_session_endpoint.filter(|url| origin_of(url).is_some()),
        })
    }

    /// The origins that the page connects to.
    pub(crate) async fn origins(&self) -> Vec<String> {
        let known = self.known().await.ok();
        let urls = [Some(self.issuer.name.clone()), known.map(|known| known.token_endpoint)];
        let mut origins: Vec<String> = urls.into_iter().flatten().filter_map(|url| origin_of(&url)).collect();
        origins.dedup();
        origins
    }
}

fn must_read(read_ms: Option<u64>, tried_ms: Option<u64>, now_ms: u64) -> bool {
    let is_past = |since: Option<u64>, time: u64| since.is_none_or(|since| now_ms.saturating_sub(since) >= time);
    is_past(read_ms, OLD_MS) && is_past(tried_ms, PAUSE_MS)
}

/// The origin of an address that a token may be sent to: https, or this machine. It can be written in a content security policy.
fn origin_of(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    let is_here = match url.host()? {
        Host::Domain(name) => name == "localhost",
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    };
    let is_safe = url.scheme() == "https" || (url.scheme() == "http" && is_here);
    let origin = url.origin().ascii_serialization();
    let is_source = origin
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || ":/.-_[]".contains(c));
    (is_safe && is_source && url.username().is_empty()).then_some(origin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_issuer_is_asked_when_its_addresses_are_old_but_not_often() {
        const NOW: u64 = 1_000_000_000;
        let ago = |ms: u64| Some(NOW - ms);
        for (read, tried, expected) in [
            (None, None, true),
            (None, ago(PAUSE_MS - 1), false),
            (None, ago(PAUSE_MS), true),
            (ago(1_000), ago(1_000), false),
            (ago(OLD_MS), ago(OLD_MS), true),
            (ago(OLD_MS), ago(PAUSE_MS - 1), false),
        ] {
            assert_eq!(must_read(read, tried, NOW), expected, "{read:?} {tried:?}");
        }
    }

    #[test]
    fn a_token_is_sent_only_by_https_or_within_this_machine() {
        for (url, origin) in [
            (
                "https://login.example.com/t/v2.0/token",
                Some("https://login.example.com"),
            ),
            (
                "https://login.example.com:8443/token",
                Some("https://login.example.com:8443"),
            ),
            ("http://127.0.0.1:9000/token", Some("http://127.0.0.1:9000")),
            ("http://[::1]:9000/token", Some("http://[::1]:9000")),
            ("http://localhost/token", Some("http://localhost")),
            ("http://login.example.com/token", None),
            ("https://a@login.example.com/token", None),
            ("https://a;script-src/token", None),
            ("data:text/html,x", None),
            ("/token", None),
        ] {
            assert_eq!(origin_of(url).as_deref(), origin, "{url}");
        }
    }
}
