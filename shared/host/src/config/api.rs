//! The settings of the HTTP API: who may call it, and from which web pages.

use super::variables::Reader;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// What a caller of the API may do. Each role includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ApiRole {
    /// Reads.
    Reader,
    /// Starts instances and sends them events.
    Client,
    /// Cancels, deletes, prunes, redrives, runs maintenance.
    Operator,
}

impl ApiRole {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            ApiRole::Reader => "reader",
            ApiRole::Client => "client",
            ApiRole::Operator => "operator",
        }
    }
}

impl fmt::Display for ApiRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text that is not a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is none of reader, client, operator")]
pub struct ApiRoleError;

impl FromStr for ApiRole {
    type Err = ApiRoleError;

    fn from_str(text: &str) -> Result<ApiRole, ApiRoleError> {
        [ApiRole::Reader, ApiRole::Client, ApiRole::Operator]
            .into_iter()
            .find(|role| role.name() == text)
            .ok_or(ApiRoleError)
    }
}

/// The settings of the HTTP API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiSettings {
    /// How callers are known.
    pub auth: ApiAuth,
    /// The origin whose web pages may call the API; without one, none may.
    pub cors_origin: Option<String>,
}

/// How callers are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiAuth {
    /// By AWS, which has checked their signature.
    Iam {
        /// The roles of callers by their ARN; a pattern may end in `*`.
        roles: BTreeMap<String, ApiRole>,
        /// The role of the others.
        default_role: Option<ApiRole>,
    },
    /// By a token of an OpenID Connect issuer.
    Jwt(JwtSettings),
    /// Not at all: for programs on the same machine.
    None,
}

/// Which tokens are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtSettings {
    /// The issuer (`iss`).
    pub issuer: String,
    /// The audience (`aud`).
    pub audience: String,
    /// Where the issuer's keys are; without it they are found by the issuer's discovery document.
    pub jwks_url: Option<String>,
    /// The public client that people sign in to the dashboard with; without one, nobody can.
    pub client_id: Option<String>,
    /// The scopes that the dashboard asks for, separated by spaces.
    pub scope: String,
    /// The claim with the caller's roles.
    pub role_claim: String,
    /// The roles of other values of that claim than the names of the roles.
    pub roles: BTreeMap<String, ApiRole>,
}

impl ApiSettings {
    pub(super) fn read(reader: &mut Reader<'_>) -> ApiSettings {
        const AUTH: &str = "DUROXIDE_API_AUTH";
        let mode = reader.text(AUTH);
        let iam = ApiAuth::Iam {
            roles: roles(reader, "DUROXIDE_API_IAM_ROLES"),
            default_role: default_role(reader),
        };
        let jwt = jwt(reader, mode == "jwt");
        let auth = match (mode.as_str(), jwt) {
            ("iam", _) => iam,
            ("jwt", Some(jwt)) => ApiAuth::Jwt(jwt),
            ("none", _) => ApiAuth::None,
            // A problem is noted.
            ("jwt", None) => iam,
            (other, _) => {
                reader.problem(AUTH, format!("is {other:?}: set it to iam, jwt or none"));
                iam
            }
        };
        let cors_origin = cors_origin(reader);
        ApiSettings { auth, cors_origin }
    }
}

fn default_role(reader: &mut Reader<'_>) -> Option<ApiRole> {
    const NAME: &str = "DUROXIDE_API_IAM_DEFAULT_ROLE";
    let text = reader.text(NAME);
    if text == "none" {
        return None;
    }
    let role = text.parse();
    if role.is_err() {
        reader.problem(NAME, format!("is {text:?}: set it to reader, client, operator or none"));
    }
    role.ok()
}

fn roles(reader: &mut Reader<'_>, name: &'static str) -> BTreeMap<String, ApiRole> {
    let text = reader.text(name);
    let read = serde_json::from_str::<BTreeMap<String, String>>(&text).ok();
    let roles = read.and_then(|roles| {
        let roles = roles.into_iter().map(|(key, role)| Some((key, role.parse().ok()?)));
        roles.collect::<Option<BTreeMap<_, _>>>()
    });
    roles.unwrap_or_else(|| {
        let reason =
            "is not a JSON object whose values are reader, client or operator: set it like {\"...\":\"operator\"}";
        reader.problem(name, reason);
        BTreeMap::new()
    })
}

fn jwt(reader: &mut Reader<'_>, is_used: bool) -> Option<JwtSettings> {
    const ISSUER: &str = "DUROXIDE_API_JWT_ISSUER";
    const AUDIENCE: &str = "DUROXIDE_API_JWT_AUDIENCE";
    const KEYS: &str = "DUROXIDE_API_JWT_JWKS_URL";
    let (issuer, audience, jwks_url) = (
        reader.optional(ISSUER),
        reader.optional(AUDIENCE),
        reader.optional(KEYS),
    );
    let client_id = reader.optional("DUROXIDE_API_JWT_CLIENT_ID");
    let scope = reader.text("DUROXIDE_API_JWT_SCOPE");
    let role_claim = reader.text("DUROXIDE_API_JWT_ROLE_CLAIM");
    let roles = roles(reader, "DUROXIDE_API_JWT_ROLES");
    if !is_used {
        return None;
    }
    for (name, value) in [(ISSUER, &issuer), (AUDIENCE, &audience)] {
        if value.is_none() {
            reader.problem(name, "is not set: DUROXIDE_API_AUTH=jwt needs it");
        }
    }
    for (name, value) in [(ISSUER, &issuer), (KEYS, &jwks_url)] {
        if value.as_deref().is_some_and(|url| !is_safe(url)) {
            reader.problem(
                name,
                "is not a URL that begins with https:// (or http:// on this machine)",
            );
        }
    }
    Some(JwtSettings {
        issuer: issuer?,
        audience: audience?,
        jwks_url,
        client_id,
        scope,
        role_claim,
        roles,
    })
}

/// The host of a URL of this scheme, without its port.
fn host_of<'a>(url: &'a str, scheme: &str) -> Option<&'a str> {
    let rest = url.strip_prefix(scheme)?;
    let authority = rest.split(['/', '?', '#']).next()?;
    if authority.contains('@') || url.contains(char::is_whitespace) {
        return None;
    }
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?.0,
        None => authority.split(':').next()?,
    };
    (!host.is_empty()).then_some(host)
}

/// Keys that come over plain HTTP from elsewhere could be anyone's.
fn is_safe(url: &str) -> bool {
    let is_here = |host: &str| ["127.0.0.1", "localhost", "::1"].contains(&host);
    host_of(url, "https://").is_some() || host_of(url, "http://").is_some_and(is_here)
}

fn cors_origin(reader: &mut Reader<'_>) -> Option<String> {
    const NAME: &str = "DUROXIDE_API_CORS_ORIGIN";
    let origin = reader.optional(NAME)?;
    let host = host_of(&origin, "https://").or_else(|| host_of(&origin, "http://"));
    let is_origin = host.is_some() && origin.matches('/').count() == 2 && !origin.contains(['?', '#', '*', ',']);
    if !is_origin {
        let reason = format!("is {origin:?}: set it to one origin like https://app.example.com, without a path");
        reader.problem(NAME, reason);
    }
    Some(origin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, ConfigError};

    fn read(changes: &[(&str, &str)]) -> Result<ApiSettings, ConfigError> {
        let required = [
            ("COSMOS_ENDPOINT", "https://x.documents.azure.com"),
            ("COSMOS_KEY", "c2VjcmV0LXNlY3JldA=="),
            ("ORCHESTRATOR_QUEUE_URL", "https://sqs.eu-west-1.amazonaws.com/1/turns"),
            ("WORKER_QUEUE_URL", "https://sqs.eu-west-1.amazonaws.com/1/work"),
        ];
        let all: BTreeMap<&str, &str> = required.into_iter().chain(changes.iter().copied()).collect();
        let config = Config::from_variables(|name| all.get(name).map(|value| (*value).to_owned()))?;
        Ok(config.api)
    }

    #[test]
    fn by_default_iam_decides_and_callers_are_clients() {
        let settings = read(&[]).unwrap();
        let expected = ApiAuth::Iam {
            roles: BTreeMap::new(),
            default_role: Some(ApiRole::Client),
        };
        assert_eq!((settings.auth, settings.cors_origin), (expected, None));
    }

    #[test]
    fn each_mode_is_read_with_its_roles() {
        let iam = read(&[
            ("DUROXIDE_API_IAM_ROLES", "{\"arn:aws:iam::1:role/ops\":\"operator\"}"),
            ("DUROXIDE_API_IAM_DEFAULT_ROLE", "none"),
        ]);
        let roles = BTreeMap::from([("arn:aws:iam::1:role/ops".to_owned(), ApiRole::Operator)]);
        let default_role = None;
        assert_eq!(iam.unwrap().auth, ApiAuth::Iam { roles, default_role });
        let jwt = read(&[
            ("DUROXIDE_API_AUTH", "jwt"),
            ("DUROXIDE_API_JWT_ISSUER", "https://login.example.com/"),
            ("DUROXIDE_API_JWT_AUDIENCE", "shop"),
            ("DUROXIDE_API_JWT_ROLES", "{\"admins\":\"operator\"}"),
            ("DUROXIDE_API_JWT_CLIENT_ID", "dashboard"),
            ("DUROXIDE_API_CORS_ORIGIN", "https://app.example.com"),
        ]);
        let settings = jwt.unwrap();
        let ApiAuth::Jwt(jwt) = settings.auth else {
            panic!("{settings:?}");
        };
        assert_eq!(
            (jwt.issuer.as_str(), jwt.role_claim.as_str()),
            ("https://login.example.com/", "roles")
        );
        assert_eq!(jwt.roles["admins"], ApiRole::Operator);
        assert_eq!(
            (jwt.client_id.as_deref(), jwt.scope.as_str()),
            (Some("dashboard"), "openid")
        );
        assert_eq!(settings.cors_origin.as_deref(), Some("https://app.example.com"));
        assert_eq!(read(&[("DUROXIDE_API_AUTH", "none")]).unwrap().auth, ApiAuth::None);
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_its_variable() {
        const JWT: (&str, &str) = ("DUROXIDE_API_AUTH", "jwt");
        const ISSUER: &str = "DUROXIDE_API_JWT_ISSUER";
        for (changes, variable) in [
            (vec![("DUROXIDE_API_AUTH", "open")], "DUROXIDE_API_AUTH"),
            (
                vec![("DUROXIDE_API_IAM_ROLES", "ops=operator")],
                "DUROXIDE_API_IAM_ROLES",
            ),
            (
                vec![("DUROXIDE_API_IAM_ROLES", "{\"a\":\"root\"}")],
                "DUROXIDE_API_IAM_ROLES",
            ),
            (
                vec![("DUROXIDE_API_IAM_DEFAULT_ROLE", "admin")],
                "DUROXIDE_API_IAM_DEFAULT_ROLE",
            ),
            (vec![JWT, ("DUROXIDE_API_JWT_AUDIENCE", "shop")], ISSUER),
            (vec![JWT, (ISSUER, "https://x")], "DUROXIDE_API_JWT_AUDIENCE"),
            (
                vec![
                    JWT,
                    (ISSUER, "http://elsewhere.example"),
                    ("DUROXIDE_API_JWT_AUDIENCE", "a"),
                ],
                ISSUER,
            ),
            (
                vec![JWT, (ISSUER, "https://a@b"), ("DUROXIDE_API_JWT_AUDIENCE", "a")],
                ISSUER,
            ),
            (vec![("DUROXIDE_API_CORS_ORIGIN", "*")], "DUROXIDE_API_CORS_ORIGIN"),
            (
                vec![("DUROXIDE_API_CORS_ORIGIN", "https://a.example/")],
                "DUROXIDE_API_CORS_ORIGIN",
            ),
            (
                vec![("DUROXIDE_API_CORS_ORIGIN", "app.example")],
                "DUROXIDE_API_CORS_ORIGIN",
            ),
        ] {
            let problems = read(&changes).unwrap_err().problems;
            let named: Vec<&str> = problems.iter().map(|problem| problem.variable).collect();
            assert_eq!(named, [variable], "{changes:?}");
        }
    }
}
