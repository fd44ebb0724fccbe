//! The keys of the token issuer: fetched once, kept, and fetched again when they are old or when a token names an unknown key.
//!
//! Anybody can send tokens with invented key ids, so an unknown one leads to at most one fetch in [`UNKNOWN_MS`]. One fetch
//! runs at a time; the others wait for it. When the issuer does not answer, the old keys stay valid for a day.

use super::issuer::Issuer;
use super::jwt::{Key, Rejected};
use cosmos::Clock;
use std::fmt;
use std::sync::Arc;
use tokio::sync::Mutex;

/// Keys that are older are fetched again.
const OLD_MS: u64 = 60 * 60 * 1000;
/// Keys that are older are not used.
const TOO_OLD_MS: u64 = 24 * 60 * 60 * 1000;
/// The shortest time between two fetches, except after the first failure.
const UNKNOWN_MS: u64 = 30 * 1000;

/// See the module.
pub(crate) struct Keys {
    issuer: Arc<Issuer>,
    jwks_url: Option<String>,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    keys: Vec<Key>,
    fetched_ms: Option<u64>,
    tried_ms: Option<u64>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys")
            .field("issuer", &self.issuer)
            .finish_non_exhaustive()
    }
}

/// What to do about a key that a token names. Pure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    /// It is known, and new enough.
    Use,
    /// Fetch the keys first.
    Fetch,
    /// It is not known, and the keys were fetched a moment ago.
    Refuse,
    /// There are no keys, and the issuer did not answer a moment ago.
    Wait,
}

fn plan(is_known: bool, fetched_ms: Option<u64>, tried_ms: Option<u64>, now_ms: u64) -> Plan {
    let age = |since: u64| now_ms.saturating_sub(since);
    let may_try = tried_ms.is_none_or(|tried| age(tried) >= UNKNOWN_MS);
    match fetched_ms {
        Some(fetched) if is_known && age(fetched) < OLD_MS => Plan::Use,
        _ if may_try => Plan::Fetch,
        Some(fetched) if age(fetched) >= TOO_OLD_MS => Plan::Wait,
        Some(_) if is_known => Plan::Use,
        Some(_) => Plan::Refuse,
        None => Plan::Wait,
    }
}

impl Keys {
    pub(crate) fn new(issuer: Arc<Issuer>, jwks_url: Option<String>, clock: Arc<dyn Clock>) -> Keys {
        Keys {
            issuer,
            jwks_url,
            clock,
            state: Mutex::default(),
        }
    }

    /// The key with this id.
    pub(crate) async fn key(&self, kid: &str) -> Result<Key, Rejected> {
        let mut state = self.state.lock().await;
        let now_ms = self.clock.now_ms();
        let is_known = state.find(kid).is_some();
        match plan(is_known, state.fetched_ms, state.tried_ms, now_ms) {
            Plan::Use => {}
            Plan::Refuse => return Err(Rejected::UnknownKey),
            Plan::Wait => return Err(Rejected::NoKeys),
            Plan::Fetch => {
                state.tried_ms = Some(now_ms);
                match self.fetch().await {
                    Ok(keys) => {
                        state.keys = keys;
                        state.fetched_ms = Some(now_ms);
                    }
                    Err(error) => {
                        tracing::warn!(
                            error,
                            issuer = self.issuer.name,
                            "the keys of the issuer cannot be read"
                        );
                    }
                }
            }
        }
        let is_usable = state
            .fetched_ms
            .is_some_and(|fetched| now_ms.saturating_sub(fetched) < TOO_OLD_MS);
        if !is_usable {
            return Err(Rejected::NoKeys);
        }
        state.find(kid).ok_or(Rejected::UnknownKey)
    }

    async fn fetch(&self) -> Result<Vec<Key>, String> {
        let url = match &self.jwks_url {
            Some(url) => url.clone(),
            None => self.discover().await?,
        };
        let set = self.issuer.get(&url).await?;
        Key::of_set(&set).ok_or_else(|| "the answer is not a set of keys".to_owned())
    }

    /// The address of the keys, from the issuer's discovery document.
    async fn discover(&self) -> Result<String, String> {
        let found = self.issuer.discover().await?;
        // Whoever can change an answer over plain HTTP could choose the keys.
        let is_safe = found.jwks_uri.starts_with("https://") || self.issuer.name.starts_with("http://");
        is_safe
            .then_some(found.jwks_uri)
            .ok_or_else(|| "the address of the keys is not https".to_owned())
    }
}

impl State {
    fn find(&self, kid: &str) -> Option<Key> {
        self.keys.iter().find(|key| key.kid == kid).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_fetched_when_they_are_old_or_unknown_but_not_often() {
        const NOW: u64 = 1_000_000_000;
        let ago = |ms: u64| Some(NOW - ms);
        for (is_known, fetched, tried, expected) in [
            (false, None, None, Plan::Fetch),
            (false, None, ago(1_000), Plan::Wait),
            (false, None, ago(UNKNOWN_MS), Plan::Fetch),
            (true, ago(1_000), ago(1_000), Plan::Use),
            (false, ago(1_000), ago(1_000), Plan::Refuse),
            (false, ago(UNKNOWN_MS), ago(UNKNOWN_MS), Plan::Fetch),
            (false, ago(UNKNOWN_MS), ago(UNKNOWN_MS - 1), Plan::Refuse),
            (true, ago(OLD_MS), ago(OLD_MS), Plan::Fetch),
            (true, ago(OLD_MS), ago(1_000), Plan::Use),
            (true, ago(TOO_OLD_MS), ago(1_000), Plan::Wait),
            (true, ago(TOO_OLD_MS), ago(UNKNOWN_MS), Plan::Fetch),
        ] {
            assert_eq!(
                plan(is_known, fetched, tried, NOW),
                expected,
                "{is_known} {fetched:?} {tried:?}"
            );
        }
    }
}
