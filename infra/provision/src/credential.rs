//! What authorizes the requests to the account: its key, or a token of Entra ID. Both come from the environment only, because other users
//! of a machine can see arguments.

use cosmos::{Key, Token};

/// A key or a token.
pub enum Credential {
    /// The account's key, which may create databases and containers.
    Key(Key),
    /// A token of Entra ID, which may not.
    Token(Token),
}

/// Why the environment has no credential.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum CredentialError {
    #[error("COSMOS_KEY is set and COSMOS_TOKEN is set: keep one")]
    Both,
    #[error(
        "COSMOS_KEY is not set and COSMOS_TOKEN is not set: to verify, set COSMOS_TOKEN to the output of \
         `az account get-access-token --resource https://cosmos.azure.com --query accessToken --output tsv`; to \
         create, set COSMOS_KEY to the primary or secondary key of the account"
    )]
    Neither,
    #[error("COSMOS_KEY cannot be used")]
    Key(#[source] cosmos::Error),
    #[error("COSMOS_TOKEN cannot be used")]
    Token(#[source] cosmos::Error),
}

impl Credential {
    /// The credential of these variables. `get` reads a variable.
    pub fn from_variables(get: impl Fn(&str) -> Option<String>) -> Result<Credential, CredentialError> {
        let set = |name: &str| get(name).filter(|text| !text.trim().is_empty());
        match (set("COSMOS_KEY"), set("COSMOS_TOKEN")) {
            (Some(_), Some(_)) => Err(CredentialError::Both),
            (Some(key), None) => Key::from_base64(&key)
                .map(Credential::Key)
                .map_err(CredentialError::Key),
            (None, Some(token)) => Token::new(&token)
                .map(Credential::Token)
                .map_err(CredentialError::Token),
            (None, None) => Err(CredentialError::Neither),
        }
    }

    /// Whether it may create databases and containers.
    pub fn may_create(&self) -> bool {
        matches!(self, Credential::Key(_))
    }
}
