//! Who calls, and with which role.
//!
//! | mode | module | who |
//! |---|---|---|
//! | IAM | `iam` | the ARN that AWS puts into the request context after it has checked the signature |
//! | JWT | `jwt`, `jwks` | the subject of a bearer token, verified with the issuer's keys; `sign_in` is how a person gets one |
//! | none | `loopback` | any program on this machine; web pages of other sites are refused |
//!
//! Invariant: the answers to a missing, a wrong and an expired credential are the same. The reason is in the log.

mod iam;
mod issuer;
mod jwks;
mod jwt;
mod loopback;
mod sign_in;

use crate::api::Invocation;
use crate::refusal::Refusal;
use crate::types::{AuthMode, ProblemType, SignIn};
use cosmos::Clock;
use duroxide_lambda::config::{ApiAuth, ApiRole, JwtSettings};
use http::HeaderMap;
use iam::IamRoles;
use issuer::Issuer;
use jwks::Keys;
use jwt::{Rejected, Rules, Token};
use sign_in::{SignInPage, Unknown};
use std::fmt;
use std::sync::Arc;

/// The longest name of a caller in the log.
const MOST_NAME: usize = 256;

/// A caller who is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// An ARN, or the subject of a token.
    pub who: String,
    /// What it may do; nothing without one.
    pub role: Option<ApiRole>,
}

impl Caller {
    fn new(who: &str, role: Option<ApiRole>) -> Caller {
        let who = who.chars().take(MOST_NAME).collect();
        Caller { who, role }
    }

    pub(crate) fn may(&self, role: ApiRole) -> bool {
        self.role.is_some_and(|own| own >= role)
    }
}

/// How callers are known.
pub(crate) enum Auth {
    Iam(IamRoles),
    Jwt(Box<Tokens>),
    Loopback,
}

/// Which tokens are accepted, and what verifies them.
pub(crate) struct Tokens {
    rules: Rules,
    keys: Keys,
    /// None when the dashboard is no client of the issuer.
    sign_in: Option<SignInPage>,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Auth::Iam(_) => "Iam",
            Auth::Jwt(_) => "Jwt",
            Auth::Loopback => "Loopback",
        })
    }
}

impl Auth {
    pub(crate) fn new(settings: &ApiAuth, clock: Arc<dyn Clock>) -> Auth {
        match settings {
            ApiAuth::Iam { roles, default_role } => Auth::Iam(IamRoles {
                roles: roles.clone(),
                default_role: *default_role,
            }),
            ApiAuth::Jwt(jwt) => Auth::Jwt(Box::new(Tokens::of(jwt, clock))),
            ApiAuth::None => Auth::Loopback,
        }
    }

    /// Whether callers come over the network, by TLS.
    pub(crate) fn is_remote(&self) -> bool {
        !matches!(self, Auth::Loopback)
    }

    /// The mode, for the dashboard.
    pub(crate) fn mode(&self) -> AuthMode {
        match self {
            Auth::Iam(_) => AuthMode::Iam,
            Auth::Jwt(_) => AuthMode::Jwt,
            Auth::Loopback => AuthMode::None,
        }
    }

    /// How a person signs in to the dashboard, if that is configured.
    pub(crate) async fn sign_in(&self) -> Result<Option<SignIn>, Unknown> {
        match self.sign_in_page() {
            Some(page) => page.known().await.map(Some),
            None => Ok(None),
        }
    }

    /// The origins that the dashboard connects to while a person signs in.
    pub(crate) async fn sign_in_origins(&self) -> Vec<String> {
        match self.sign_in_page() {
            Some(page) => page.origins().await,
            None => Vec::new(),
        }
    }

    fn sign_in_page(&self) -> Option<&SignInPage> {
        match self {
            Auth::Jwt(tokens) => tokens.sign_in.as_ref(),
            Auth::Iam(_) | Auth::Loopback => None,
        }
    }

    /// The caller of a request.
    pub(crate) async fn caller(&self, headers: &HeaderMap, invocation: &Invocation) -> Result<Caller, Refusal> {
        match self {
            Auth::Iam(roles) => match &invocation.caller {
                Some(arn) => Ok(Caller::new(arn, roles.role_of(arn))),
                None => {
                    tracing::info!(
                        "a request without a caller was refused: give the function URL the auth type AWS_IAM"
                    );
                    Err(Refusal::unauthenticated())
                }
            },
            Auth::Jwt(tokens) => {
                let caller = tokens.caller(headers).await;
                caller.map_err(|rejected| {
                    tracing::info!(reason = %rejected, "a token was refused");
                    match rejected {
                        Rejected::NoKeys => Refusal::new(
                            ProblemType::IssuerUnavailable,
                            "the keys of the token issuer cannot be read: repeat the request",
                        ),
                        _ => Refusal::unauthenticated(),
                    }
                })
            }
            Auth::Loopback => match loopback::is_here(headers) {
                true => Ok(Caller::new("loopback", Some(ApiRole::Operator))),
                false => {
                    tracing::info!("a request from another site was refused");
                    Err(Refusal::forbidden())
                }
            },
        }
    }
}

impl Tokens {
    fn of(settings: &JwtSettings, clock: Arc<dyn Clock>) -> Tokens {
        let issuer = Arc::new(Issuer::new(&settings.issuer));
        let sign_in = settings.client_id.clone().map(|client_id| {
            SignInPage::new(
                Arc::clone(&issuer),
                client_id,
                settings.scope.clone(),
                Arc::clone(&clock),
            )
        });
        Tokens {
            rules: Rules::of(settings),
            keys: Keys::new(issuer, settings.jwks_url.clone(), Arc::clone(&clock)),
            sign_in,
            clock,
        }
    }

    /// The caller of a bearer token.
    async fn caller(&self, headers: &HeaderMap) -> Result<Caller, Rejected> {
        let mut values = headers.get_all(http::header::AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return Err(Rejected::NoToken);
        };
        let text = value.to_str().map_err(|_| Rejected::Malformed)?;
        let (scheme, token) = text.split_once(' ').ok_or(Rejected::NoToken)?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(Rejected::NoToken);
        }
        let token = Token::parse(token.trim())?;
        let key = self.keys.key(&token.kid).await?;
        token.verify(&key)?;
        self.rules.check(&token.claims, self.clock.now_ms() / 1000)
    }
}
