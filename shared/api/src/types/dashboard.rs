//! What the dashboard needs to know: how to sign in, and who has.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The settings of the dashboard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DashboardConfig {
    /// How callers are known.
    pub auth: AuthMode,
    /// The version of the dashboard's files. A page of another version should be loaded again.
    pub version: String,
    /// How a person signs in, with `jwt`; without it a token has to be given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sign_in: Option<SignIn>,
}

/// How callers are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum AuthMode {
    /// By a signature of AWS, which a browser cannot make: use the command `dashboard`.
    Iam,
    /// By a bearer token.
    Jwt,
    /// Not at all: programs and pages of the same machine.
    None,
}

/// The OpenID Connect issuer that people sign in with: authorization code with PKCE, as a public client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignIn {
    /// The issuer.
    pub issuer: String,
    /// The client that is the dashboard.
    pub client_id: String,
    /// The scopes to ask for, separated by spaces.
    pub scope: String,
    /// Where a person signs in.
    pub authorization_endpoint: String,
    /// Where a code is exchanged for a token.
    pub token_endpoint: String,
    /// Where a person signs out, if the issuer has such a page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_session_endpoint: Option<String>,
}

/// The caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Me {
    /// An ARN, the subject of a token, or `loopback`.
    pub who: String,
    /// What it may do.
    pub role: Role,
}

/// What a caller may do. Each role includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads.
    Reader,
    /// Starts instances and sends them events.
    Client,
    /// Cancels, deletes, prunes, redrives, runs maintenance.
    Operator,
}
