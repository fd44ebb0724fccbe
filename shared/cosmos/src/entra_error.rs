//! Why Entra ID gave no token, and what to do.
//!
//! Whether an error is transient follows from the HTTP status and from OAuth's own `error`. Microsoft's numeric codes
//! may change, so they only choose the advice: a code that is not known here gets the general one, with Microsoft's
//! words.

use std::time::Duration;

/// Why there is no token. It never has a secret, an assertion or a token.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(
    missing_docs,
    reason = "the fields are named for what they are, and each variant says what it means"
)]
pub enum TokenError {
    /// There is nothing to prove the application's identity with.
    #[error("there is no proof of identity for Entra ID: {reason}")]
    Proof { reason: String, transient: bool },
    /// Entra ID refuses the application or its proof.
    #[error("Entra ID refuses the application {client} of the tenant {tenant}: {}{}", refusal.advice(), quoted(detail))]
    Refused {
        refusal: Refusal,
        tenant: String,
        client: String,
        detail: String,
    },
    /// Entra ID did not answer, or cannot serve the request now.
    #[error(
        "Entra ID at {authority} gives no token now; try later, and check that the network allows {authority} [{reason}]"
    )]
    Unavailable {
        authority: String,
        reason: String,
        retry_after: Option<Duration>,
    },
    /// The answer is not what Entra ID documents.
    #[error("the answer of {authority} is not a token of Entra ID: {problem}; check the authority's address")]
    Protocol { authority: String, problem: String },
    /// The settings cannot be used.
    #[error("the settings for Entra ID cannot be used: {reason}")]
    Settings { reason: String },
}

impl TokenError {
    /// The error of a [`ProofSource`](crate::ProofSource).
    pub fn proof(reason: impl Into<String>, transient: bool) -> TokenError {
        TokenError::Proof {
            reason: reason.into(),
            transient,
        }
    }

    /// The same request may succeed later without a change.
    pub fn is_transient(&self) -> bool {
        match self {
            TokenError::Proof { transient, .. } => *transient,
            TokenError::Unavailable { .. } => true,
            TokenError::Refused { .. } | TokenError::Protocol { .. } | TokenError::Settings { .. } => false,
        }
    }
}

fn quoted(detail: &str) -> String {
    if detail.is_empty() {
        String::new()
    } else {
        format!(" [{detail}]")
    }
}

/// What Entra ID refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// There is no such tenant.
    Tenant,
    /// The tenant has no such application, or it is disabled.
    Application,
    /// No federated credential has the assertion's issuer.
    Issuer,
    /// No federated credential has the assertion's audience.
    Audience,
    /// No federated credential has the assertion's subject.
    Subject,
    /// The assertion has expired, or is not valid yet.
    AssertionTime,
    /// The assertion's signature cannot be verified.
    AssertionSignature,
    /// The client secret is wrong.
    Secret,
    /// The client secret has expired.
    SecretExpired,
    /// The tenant does not know Cosmos DB, or the application may not use it.
    Resource,
    /// Anything else.
    Other,
}

impl Refusal {
    /// By the numbers that Microsoft writes as `AADSTS...`.
    pub(crate) fn of(codes: &[u64]) -> Refusal {
        let known = |code: &u64| match code {
            90_002 | 900_023 | 900_021 => Some(Refusal::Tenant),
            700_016 | 7_000_112 | 700_021 => Some(Refusal::Application),
            700_211 => Some(Refusal::Issuer),
            700_212 => Some(Refusal::Audience),
            700_213 | 70_021 => Some(Refusal::Subject),
            700_024 => Some(Refusal::AssertionTime),
            700_027 => Some(Refusal::AssertionSignature),
            7_000_215 => Some(Refusal::Secret),
            7_000_222 => Some(Refusal::SecretExpired),
            500_011 | 650_057 | 65_001 => Some(Refusal::Resource),
            _ => None,
        };
        codes.iter().find_map(known).unwrap_or(Refusal::Other)
    }

    /// Whether another proof of the same source may be accepted: it was rotated, or it was too old.
    pub(crate) fn is_of_proof(self) -> bool {
        use Refusal::*;
        matches!(self, AssertionTime | AssertionSignature | Secret | SecretExpired)
    }

    /// What to do.
    pub fn advice(self) -> &'static str {
        match self {
            Refusal::Tenant => {
                "there is no such tenant; check the tenant id, and that the authority is that of its cloud"
            }
            Refusal::Application => {
                "the tenant has no such application, or it is disabled; check the client id (not the object id) and the tenant"
            }
            Refusal::Issuer => {
                "none of its federated credentials has this issuer; set one to the issuer of the AWS account \
                 (`aws iam get-outbound-web-identity-federation-info`)"
            }
            Refusal::Audience => {
                "none of its federated credentials has this audience; set it to api://AzureADTokenExchange"
            }
            Refusal::Subject => {
                "none of its federated credentials has this subject; add one whose subject is the ARN of the role that \
                 this program runs with"
            }
            Refusal::AssertionTime => {
                "the assertion has expired or is not valid yet; check this machine's clock, and that nothing delays its \
                 requests"
            }
            Refusal::AssertionSignature => {
                "the assertion's signature cannot be verified; check that the certificate is registered with the \
                 application, or that the federated credential's issuer is reachable"
            }
            Refusal::Secret => "the client secret is wrong; store the secret's value (not its id) of this application",
            Refusal::SecretExpired => "the client secret has expired; create a new one, and store its value",
            Refusal::Resource => {
                "the tenant gives it no token for Cosmos DB; check that the tenant is that of the account's subscription"
            }
            Refusal::Other => "check the tenant id, the client id and the application's credentials",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_known_code_leads_to_advice_and_an_unknown_one_to_the_general_advice() {
        for (code, expected, advice) in [
            (90_002, Refusal::Tenant, "no such tenant"),
            (700_016, Refusal::Application, "no such application"),
            (700_211, Refusal::Issuer, "issuer of the AWS account"),
            (700_212, Refusal::Audience, "api://AzureADTokenExchange"),
            (700_213, Refusal::Subject, "ARN of the role"),
            (700_024, Refusal::AssertionTime, "clock"),
            (700_027, Refusal::AssertionSignature, "certificate"),
            (7_000_215, Refusal::Secret, "not its id"),
            (7_000_222, Refusal::SecretExpired, "create a new one"),
            (500_011, Refusal::Resource, "Cosmos DB"),
            (1, Refusal::Other, "check the tenant id"),
        ] {
            let found = Refusal::of(&[2, code]);
            assert_eq!(found, expected, "{code}");
            assert!(found.advice().contains(advice), "{code}: {}", found.advice());
        }
        assert_eq!(Refusal::of(&[]), Refusal::Other);
    }

    #[test]
    fn only_what_passes_by_itself_is_transient() {
        let unavailable = TokenError::Unavailable {
            authority: "https://a".into(),
            reason: "503".into(),
            retry_after: None,
        };
        assert!(unavailable.is_transient());
        assert!(TokenError::proof("throttled", true).is_transient());
        assert!(!TokenError::proof("denied", false).is_transient());
        let refused = TokenError::Refused {
            refusal: Refusal::Subject,
            tenant: "t".into(),
            client: "c".into(),
            detail: String::new(),
        };
        assert!(!refused.is_transient());
    }
}
