//! The account key. `credential.rs` says where it comes from.
//!
//! Invariant: only `auth.rs` sees key material; `Debug` and errors never show it.

use std::fmt;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_never_shows_the_key() {
        let key = Key::from_base64("c2VjcmV0LWtleQ==").unwrap();
        assert_eq!(format!("{key:?}"), "Key(…redacted)");
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
