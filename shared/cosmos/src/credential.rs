//! What authorizes a request, and where it comes from: the account's key, or a bearer token of Entra ID.
//!
//! Both may be replaced while the process lives (a rotation, an expiry), so the client never stores one: `send.rs`
//! reads a [`CredentialSource`] before each attempt, and calls [`refresh`](CredentialSource::refresh) when the service
//! refuses the credential.
//!
//! Invariant: only `auth.rs` sees what a credential contains; `Debug` and errors never show it.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::error::Error;
use crate::key::Key;

/// What authorizes one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// The account's key, which signs each request.
    Key(Key),
    /// A token of Entra ID, which is sent with each request.
    Token(Token),
}

impl Credential {
    pub(crate) fn kind(&self) -> CredentialKind {
        match self {
            Credential::Key(_) => CredentialKind::Key,
            Credential::Token(_) => CredentialKind::Token,
        }
    }
}

/// Which credential an attempt used, for logs and errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CredentialKind {
    Key,
    Token,
}

impl CredentialKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            CredentialKind::Key => "key",
            CredentialKind::Token => "token",
        }
    }
}

/// A bearer token of Entra ID for the data plane of Cosmos DB.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Arc<str>);

impl Token {
    /// Checks that the text can be a token: three parts of base64url, separated by dots. The error does not repeat it.
    pub fn new(text: &str) -> Result<Token, Error> {
        let text = text.trim();
        let refuse = |reason| Err(Error::InvalidToken { reason });
        if text.is_empty() {
            return refuse("it is empty");
        }
        let parts: Vec<&str> = text.split('.').collect();
        let plain = |part: &&str| {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
            !part.is_empty() && part.bytes().all(allowed)
        };
        if parts.len() != 3 || !parts.iter().all(plain) {
            return refuse("it is not a JSON web token (three parts of letters and digits, separated by dots)");
        }
        Ok(Token(text.into()))
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…redacted)")
    }
}

/// Where the client gets its credential.
#[async_trait]
pub trait CredentialSource: Send + Sync + fmt::Debug {
    /// The credential to use. Called before every attempt, so an implementation that fetches should cache.
    async fn credential(&self) -> Result<Credential, Error>;

    /// A replacement of `refused`, which the service has refused with 401. Later calls of
    /// [`credential`](Self::credential) should return the same. Returning the refused one means that there is no other.
    async fn refresh(&self, refused: &Credential) -> Result<Credential, Error> {
        let _ = refused;
        self.credential().await
    }

    /// Prepares what takes long and sends nothing, such as an HTTP client of its own. It may block.
    fn warm(&self) {}
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
impl CredentialSource for StaticKey {
    async fn credential(&self) -> Result<Credential, Error> {
        Ok(Credential::Key(self.0.clone()))
    }
}

/// A token that is never replaced: for programs that a person runs, with a token that the person got.
#[derive(Clone, Debug)]
pub struct StaticToken(Token);

impl StaticToken {
    /// A source that always returns `token`.
    pub fn new(token: Token) -> StaticToken {
        StaticToken(token)
    }
}

#[async_trait]
impl CredentialSource for StaticToken {
    async fn credential(&self) -> Result<Credential, Error> {
        Ok(Credential::Token(self.0.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "eyJoZWFkIjoxfQ.eyJib2R5IjoyfQ.c2lnbmF0dXJl";

    #[test]
    fn debug_never_shows_a_key_or_a_token() {
        let key = StaticKey::new(Key::from_base64("c2VjcmV0LWtleQ==").unwrap());
        assert_eq!(format!("{key:?}"), "StaticKey(Key(…redacted))");
        let token = Token::new(TOKEN).unwrap();
        let credential = Credential::Token(token.clone());
        let shown = format!("{:?} {credential:?}", StaticToken::new(token));
        assert_eq!(shown, "StaticToken(Token(…redacted)) Token(Token(…redacted))");
    }

    #[test]
    fn a_text_that_is_no_token_is_refused_without_repeating_it() {
        assert!(Token::new(&format!(" {TOKEN}\n")).is_ok());
        for bad in [
            "",
            "  ",
            "hush",
            "hush.hush",
            "hush..hush",
            "Bearer hush.a.b",
            "hush.a.b.c",
            "{\"hush\":1}",
        ] {
            let error = Token::new(bad).unwrap_err();
            assert!(matches!(error, Error::InvalidToken { .. }), "{bad}");
            assert!(!format!("{error} {error:?}").contains("hush"), "{error}");
        }
    }
}
