//! How the functions are authorized by the store: exactly one of four ways, each with its variables.
//!
//! | way | variables |
//! |---|---|
//! | an application of Entra ID, proved by the function's AWS role | `COSMOS_TENANT_ID`, `COSMOS_CLIENT_ID` |
//! | the same, proved by a secret in Secrets Manager | and `COSMOS_CLIENT_SECRET_ARN` |
//! | the account's key in Secrets Manager | `COSMOS_KEY_SECRET_ARN` |
//! | for development and for people: the key, or a token | `COSMOS_KEY`; `COSMOS_TOKEN` |
//!
//! No message repeats a value: a likely mistake is a secret in the wrong variable.

use super::variables::Reader;
use crate::secret::{SecretKey, SecretProof};
use crate::web_identity::WebIdentity;
use async_trait::async_trait;
use cosmos::{
    Credential, CredentialSource, EntraSettings, EntraTokens, Error, Key, ProofSource, StaticKey, StaticToken, Token,
};
use std::sync::Arc;

/// How the functions are authorized by the store. `Debug` shows neither key nor token.
#[derive(Clone, Debug)]
pub enum CredentialSetting {
    /// The account's key itself.
    Key(Key),
    /// The account's key, in a secret of Secrets Manager.
    KeySecret {
        /// Its ARN.
        arn: String,
    },
    /// A token of Entra ID itself.
    Token(Token),
    /// Tokens of Entra ID for an application.
    Entra {
        /// The application.
        settings: EntraSettings,
        /// How it proves its identity.
        proof: ProofSetting,
    },
}

/// How an application of Entra ID proves its identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProofSetting {
    /// By the AWS role of the function.
    WebIdentity,
    /// By a secret of Secrets Manager.
    Secret {
        /// Its ARN.
        arn: String,
    },
}

impl CredentialSetting {
    /// The source for the client. It sends nothing before the first request.
    pub(super) fn source(&self) -> Source {
        Source(match self {
            CredentialSetting::Key(key) => Arc::new(StaticKey::new(key.clone())),
            CredentialSetting::KeySecret { arn } => Arc::new(SecretKey::new(arn)),
            CredentialSetting::Token(token) => Arc::new(StaticToken::new(token.clone())),
            CredentialSetting::Entra { settings, proof } => {
                let proof: Arc<dyn ProofSource> = match proof {
                    ProofSetting::WebIdentity => Arc::new(WebIdentity::new()),
                    ProofSetting::Secret { arn } => Arc::new(SecretProof::new(arn)),
                };
                match EntraTokens::new(settings, proof) {
                    Ok(tokens) => Arc::new(tokens),
                    // Reading the configuration has checked them; a program may have built its own.
                    Err(error) => Arc::new(Unusable(error)),
                }
            }
        })
    }
}

/// A source whose kind is known at run time.
#[derive(Debug)]
pub(super) struct Source(Arc<dyn CredentialSource>);

#[async_trait]
impl CredentialSource for Source {
    async fn credential(&self) -> Result<Credential, Error> {
        self.0.credential().await
    }

    async fn refresh(&self, refused: &Credential) -> Result<Credential, Error> {
        self.0.refresh(refused).await
    }

    fn warm(&self) {
        self.0.warm();
    }
}

/// Settings that cannot be used: every request says why.
#[derive(Debug)]
struct Unusable(cosmos::TokenError);

#[async_trait]
impl CredentialSource for Unusable {
    async fn credential(&self) -> Result<Credential, Error> {
        Err(self.0.clone().into())
    }
}

/// `None` when there is none, or more than one, which is a problem.
pub(super) fn read(reader: &mut Reader<'_>) -> Option<CredentialSetting> {
    let key = reader.optional("COSMOS_KEY");
    let key_arn = reader.optional("COSMOS_KEY_SECRET_ARN");
    let token = reader.optional("COSMOS_TOKEN");
    let application = [
        ("COSMOS_TENANT_ID", reader.optional("COSMOS_TENANT_ID")),
        ("COSMOS_CLIENT_ID", reader.optional("COSMOS_CLIENT_ID")),
        ("COSMOS_CLIENT_SECRET_ARN", reader.optional("COSMOS_CLIENT_SECRET_ARN")),
    ];
    let authority = reader.text("COSMOS_AUTHORITY");
    let of_application = application.iter().find(|(_, value)| value.is_some());
    let ways = [
        key.is_some().then_some("COSMOS_KEY"),
        key_arn.is_some().then_some("COSMOS_KEY_SECRET_ARN"),
        token.is_some().then_some("COSMOS_TOKEN"),
        of_application.map(|(name, _)| *name),
    ];
    let set: Vec<&'static str> = ways.into_iter().flatten().collect();
    if let [first, second, ..] = set[..] {
        reader.problem(
            first,
            format!(
                "is set and {second} is set: keep one way, in production COSMOS_TENANT_ID and COSMOS_CLIENT_ID, or \
                 COSMOS_KEY_SECRET_ARN"
            ),
        );
        return None;
    }
    match (key, key_arn, token, of_application.is_some()) {
        (Some(text), ..) => match Key::from_base64(&text) {
            Ok(key) => return Some(CredentialSetting::Key(key)),
            Err(error) => reader.problem("COSMOS_KEY", format!("is wrong: {error}")),
        },
        (_, Some(arn), ..) => {
            let arn = secret_arn(reader, "COSMOS_KEY_SECRET_ARN", arn)?;
            return Some(CredentialSetting::KeySecret { arn });
        }
        (_, _, Some(text), _) => match Token::new(&text) {
            Ok(token) => return Some(CredentialSetting::Token(token)),
            Err(error) => reader.problem("COSMOS_TOKEN", format!("is wrong: {error}")),
        },
        (.., true) => {
            let [(_, tenant), (_, client), (_, secret)] = application;
            return entra(reader, authority, tenant, client, secret);
        }
        (None, None, None, false) => reader.problem(
            "COSMOS_KEY_SECRET_ARN",
            "is not set and COSMOS_KEY is not set: set COSMOS_TENANT_ID and COSMOS_CLIENT_ID to an application of Entra \
             ID that may use the account; or set COSMOS_KEY_SECRET_ARN to the ARN of the secret that holds the account's \
             key; for development, set COSMOS_KEY to the key itself or COSMOS_TOKEN to a token",
        ),
    }
    None
}

fn entra(
    reader: &mut Reader<'_>,
    authority: String,
    tenant: Option<String>,
    client: Option<String>,
    secret: Option<String>,
) -> Option<CredentialSetting> {
    let missing = [("COSMOS_TENANT_ID", &tenant), ("COSMOS_CLIENT_ID", &client)];
    for (name, _) in missing.iter().filter(|(_, value)| value.is_none()) {
        reader.problem(
            name,
            "is not set, and the other variables of the application are: set COSMOS_TENANT_ID and COSMOS_CLIENT_ID",
        );
    }
    let settings = EntraSettings {
        authority,
        tenant: tenant?,
        client: client?,
    };
    let proof = match secret {
        None => ProofSetting::WebIdentity,
        Some(arn) => ProofSetting::Secret {
            arn: secret_arn(reader, "COSMOS_CLIENT_SECRET_ARN", arn)?,
        },
    };
    if let Err(error) = settings.check() {
        reader.problem("COSMOS_TENANT_ID", format!("cannot be used with the others: {error}"));
        return None;
    }
    Some(CredentialSetting::Entra { settings, proof })
}

fn secret_arn(reader: &mut Reader<'_>, name: &'static str, arn: String) -> Option<String> {
    if arn.starts_with("arn:") && arn.contains(":secretsmanager:") {
        return Some(arn);
    }
    reader.problem(
        name,
        "is not the ARN of a secret: set it to the secret's ARN, like \
         arn:aws:secretsmanager:eu-west-1:123456789012:secret:cosmos-key-AbCdEf",
    );
    None
}
