//! The identity of this program's AWS role, for Entra ID: no secret at all.
//!
//! AWS STS signs a token that names the role (IAM outbound identity federation), and an application of Entra ID trusts
//! that token by a federated credential with the AWS account's issuer, this audience and the role's ARN as subject. So a
//! function needs nothing but its role. An assertion is used at once and never kept: `cosmos::EntraTokens` asks for one
//! per token, about once an hour.

use crate::aws;
use async_trait::async_trait;
use aws_sdk_sts::Client;
use aws_sdk_sts::error::ProvideErrorMetadata as _;
use cosmos::{ClientProof, ProofSource, TokenError};
use std::fmt;
use tokio::sync::OnceCell;

/// The audience that Entra ID expects in the token of another identity provider.
pub const AUDIENCE: &str = "api://AzureADTokenExchange";
/// The algorithm that Entra ID verifies.
pub const SIGNING_ALGORITHM: &str = "RS256";
/// The exchange follows at once; STS gives no less than a minute.
pub const DURATION_SECONDS: i32 = 300;

/// Assertions of AWS STS for the role of this program.
pub struct WebIdentity {
    client: OnceCell<Client>,
}

impl WebIdentity {
    /// A source that makes its client from the environment with the first request for a token.
    pub fn new() -> WebIdentity {
        WebIdentity {
            client: OnceCell::new(),
        }
    }

    /// A source that uses this client.
    #[cfg(test)]
    fn with_client(client: Client) -> WebIdentity {
        WebIdentity {
            client: OnceCell::new_with(Some(client)),
        }
    }
}

#[async_trait]
impl ProofSource for WebIdentity {
    async fn proof(&self) -> Result<ClientProof, TokenError> {
        let client = self
            .client
            .get_or_init(|| async { Client::new(aws::shared().await) })
            .await;
        let answer = client
            .get_web_identity_token()
            .audience(AUDIENCE)
            .signing_algorithm(SIGNING_ALGORITHM)
            .duration_seconds(DURATION_SECONDS)
            .send()
            .await;
        let answer = answer.map_err(|error| {
            let reason = format!(
                "AWS STS gives no web identity token; {} [{}]",
                advice(error.code()),
                aws::reason(&error)
            );
            TokenError::proof(reason, aws::is_transient(&error))
        })?;
        match answer.web_identity_token {
            Some(assertion) => Ok(ClientProof::Assertion(assertion)),
            None => Err(TokenError::proof(
                "the answer of AWS STS has no web identity token",
                false,
            )),
        }
    }
}

/// What to do, by the code of STS.
fn advice(code: Option<&str>) -> &'static str {
    match code.unwrap_or_default() {
        "OutboundWebIdentityFederationDisabledException" | "OutboundWebIdentityFederationDisabled" => {
            "enable it once in the AWS account: `aws iam enable-outbound-web-identity-federation`"
        }
        "AccessDenied" | "AccessDeniedException" => {
            "allow this program's role sts:GetWebIdentityToken for the audience api://AzureADTokenExchange"
        }
        "ExpiredToken" | "ExpiredTokenException" | "InvalidClientTokenId" | "UnrecognizedClientException" => {
            "the AWS credentials of this program have expired or are not valid: renew them"
        }
        "SignatureDoesNotMatch" | "RequestExpired" | "RequestTimeTooSkewed" => {
            "check this machine's clock, and the AWS credentials of this program"
        }
        _ => "check the region, the network and the AWS credentials of this program",
    }
}

impl fmt::Debug for WebIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebIdentity")
    }
}

#[cfg(test)]
mod tests;
