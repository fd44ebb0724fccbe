//! The account key, and where it comes from.
//!
//! A key may be rotated while the process lives, so the client never stores one: `send.rs` reads a [`KeySource`]
//! before each attempt, and calls [`refresh`](KeySource::refresh) when the service refuses the signature.
//!
//! Invariant: only `auth.rs` sees key material; `Debug` and errors never show it.

use std::fmt;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::error::Error;

/// An account key, decoded.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(Vec<u8>);

impl Key {
    /// Decodes a key as the Azure portal shows it.
    pub fn from_base64(text: &str) -> Result<Key, Error> {
        let text = text.trim();
        if text.is_empty() {
            return Err(Error::InvalidKey { reason: "it is empty" });
        }
        // The decoder's own error quotes a byte of the key.
        let bytes = STANDARD.decode(text).map_err(|_| Error::InvalidKey {
            reason: "it is not base64",
        })?;
        Ok(Key(bytes))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…redacted)")
    }
}

/// Where the client gets the account key.
#[async_trait]
pub trait KeySource: Send + Sync + fmt::Debug {
    /// The key to sign with. Called before every attempt, so an implementation that fetches should cache.
    async fn key(&self) -> Result<Key, Error>;

    /// Fetches the key again, because the service refused the current one. Later calls of [`key`](Self::key) should
    /// return the same.
    async fn refresh(&self) -> Result<Key, Error> {
        self.key().await
    }
}

/// A key that never changes while the process lives.
#[derive(Clone, Debug)]
pub struct StaticKey(Key);

impl StaticKey {
    /// A source that always returns `key`.
    pub fn new(key: Key) -> StaticKey {
        StaticKey(key)
    }
}

#[async_trait]
impl KeySource for StaticKey {
    async fn key(&self) -> Result<Key, Error> {
        Ok(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_never_shows_the_key() {
        let key = Key::from_base64("c2VjcmV0LWtleQ==").unwrap();
        assert_eq!(format!("{key:?}"), "Key(…redacted)");
        assert_eq!(format!("{:?}", StaticKey::new(key)), "StaticKey(Key(…redacted))");
    }

    #[test]
    fn a_bad_key_is_refused_without_repeating_it() {
        for bad in ["", "   ", "not/base64!", "c2VjcmV0LWtleQ"] {
            let error = Key::from_base64(bad).unwrap_err();
            assert!(matches!(error, Error::InvalidKey { .. }), "{bad}");
            let shown = format!("{error} {error:?}");
            assert!(bad.trim().is_empty() || !shown.contains(bad), "{shown}");
        }
    }

    #[test]
    fn space_around_a_pasted_key_is_ignored() {
        let plain = Key::from_base64("c2VjcmV0LWtleQ==").unwrap();
        assert_eq!(Key::from_base64(" c2VjcmV0LWtleQ==\n").unwrap(), plain);
    }
}
