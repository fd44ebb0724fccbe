//! Which API a command uses, and how it proves who it is. Pure, but for reading the file of profiles.
//!
//! | first that is given | address |
//! |---|---|
//! | `--url` | as given |
//! | `--profile` | of that profile |
//! | `DUROXIDE_LAMBDA_URL` | as set |
//! | `DUROXIDE_LAMBDA_PROFILE` | of that profile |
//! | | of a running `duroxide-lambda up` |

use super::answer::{Code, Failure};
use super::profiles::{Auth, Profile, Profiles};
use std::fmt;
use std::str::FromStr;
use url::{Host, Url};

/// Where `up` serves the API by default.
pub(super) const LOCAL: &str = "http://127.0.0.1:9401";
const URL: &str = "DUROXIDE_LAMBDA_URL";
const PROFILE: &str = "DUROXIDE_LAMBDA_PROFILE";
const TOKEN: &str = "DUROXIDE_LAMBDA_TOKEN";

/// A bearer token. Its `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Token(String);

impl Token {
    pub(super) fn secret(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

impl FromStr for Token {
    type Err = String;

    fn from_str(text: &str) -> Result<Token, String> {
        let text = text.trim();
        match !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()) {
            true => Ok(Token(text.to_owned())),
            false => Err("a token has no spaces and no line breaks".to_owned()),
        }
    }
}

/// How requests prove who sends them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Not at all: the local cloud.
    None,
    /// By a token.
    Bearer(Token),
    /// By a signature with AWS credentials.
    Aws {
        /// The region; without one, that of the AWS settings.
        region: Option<String>,
        /// The service that the signature is for.
        service: &'static str,
        /// The AWS profile, if the profile names one.
        profile: Option<String>,
    },
}

/// An API and the way into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) url: Url,
    pub(super) access: Access,
    /// Nobody named it: it should be a local cloud.
    pub(super) is_default: bool,
}

/// What the arguments say.
#[derive(Clone, Debug, Default)]
pub(super) struct Given {
    pub(super) url: Option<String>,
    pub(super) profile: Option<String>,
    pub(super) token: Option<Token>,
}

impl Target {
    /// Chooses by arguments, variables and profiles. `get` reads a variable.
    pub(super) fn choose(
        given: &Given,
        get: impl Fn(&str) -> Option<String>,
        profiles: impl FnOnce() -> Result<Profiles, Failure>,
    ) -> Result<Target, Failure> {
        let set = |name: &str| get(name).filter(|value| !value.trim().is_empty());
        let (url, named) = match (&given.url, &given.profile) {
            (Some(url), _) => (Some(url.clone()), None),
            (None, Some(name)) => (None, Some(name.clone())),
            (None, None) => match set(URL) {
                Some(url) => (Some(url), None),
                None => (None, set(PROFILE)),
            },
        };
        let profile = named.map(|name| profiles()?.find(&name)).transpose()?;
        let is_default = url.is_none() && profile.is_none();
        let text = url.or_else(|| profile.as_ref().map(|profile| profile.url.clone()));
        let url = address(text.as_deref().unwrap_or(LOCAL))?;
        let token = token(given, profile.as_ref(), set)?;
        let access = access(&url, profile.unwrap_or_default(), token)?;
        Ok(Target {
            url,
            access,
            is_default,
        })
    }
}

/// The token of the argument, of the profile's variable, or of our variable.
fn token(
    given: &Given,
    profile: Option<&Profile>,
    set: impl Fn(&str) -> Option<String>,
) -> Result<Option<Token>, Failure> {
    if let Some(token) = &given.token {
        return Ok(Some(token.clone()));
    }
    let named = profile.and_then(|profile| profile.token_variable.as_deref());
    let variable = named.unwrap_or(TOKEN);
    let Some(text) = set(variable) else {
        return Ok(None);
    };
    let token = text.parse();
    token
        .map(Some)
        .map_err(|why| Failure::new(Code::Usage, format!("{variable} is not a token: {why}")))
}

fn access(url: &Url, profile: Profile, token: Option<Token>) -> Result<Access, Failure> {
    let aws = || {
        let (region, service) = of_host(url.host_str().unwrap_or_default());
        Access::Aws {
            region: profile.region.clone().or(region),
            service,
            profile: profile.aws_profile.clone(),
        }
    };
    Ok(match (profile.auth, token) {
        (Some(Auth::None), _) => Access::None,
        (Some(Auth::Iam), _) => aws(),
        (Some(Auth::Token) | None, Some(token)) => Access::Bearer(token),
        (Some(Auth::Token), None) => {
            return Err(Failure::new(
                Code::Usage,
                format!(
                    "the profile needs a token: pass --token, or set {TOKEN} or the variable that the profile names"
                ),
            ));
        }
        (None, None) if is_here(url) => Access::None,
        (None, None) => aws(),
    })
}

/// The region and the service in the name of a host of AWS.
fn of_host(host: &str) -> (Option<String>, &'static str) {
    let labels: Vec<&str> = host.split('.').collect();
    match labels.as_slice() {
        [_, "lambda-url", region, "on", "aws"] => (Some((*region).to_owned()), "lambda"),
        [_, "execute-api", region, ..] => (Some((*region).to_owned()), "execute-api"),
        _ => (None, "lambda"),
    }
}

/// Parses the address of an API. Requests may carry a token and data, so plain HTTP is for this machine only.
fn address(text: &str) -> Result<Url, Failure> {
    let usage = |why: &str| Failure::new(Code::Usage, format!("the address of the API '{text}' {why}"));
    let url = Url::parse(text).map_err(|_| usage(&format!("is not a URL like {LOCAL}")))?;
    match url.scheme() {
        "http" if is_here(&url) => Ok(url),
        "https" if url.has_host() => Ok(url),
        "http" => Err(usage("is on another machine: use https or a tunnel")),
        _ => Err(usage(&format!("is not an HTTP URL like {LOCAL}"))),
    }
}

fn is_here(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILES: &str = r#"
        [production]
        url = "https://abc.lambda-url.eu-central-1.on.aws/"
        aws-profile = "ops"

        [people]
        url = "https://workflows.example.com"
        auth = "token"
        token-variable = "MY_TOKEN"

        [tunnel]
        url = "http://localhost:8443"
        auth = "iam"
        region = "us-east-2"
    "#;

    fn choose(given: Given, variables: &[(&str, &str)]) -> Result<Target, Failure> {
        let get = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Target::choose(&given, get, || Profiles::parse("here", PROFILES))
    }

    fn url(url: &str) -> Given {
        Given {
            url: Some(url.to_owned()),
            ..Given::default()
        }
    }

    fn profile(name: &str) -> Given {
        Given {
            profile: Some(name.to_owned()),
            ..Given::default()
        }
    }

    #[test]
    fn the_first_that_is_given_names_the_api() {
        let all = [(URL, "https://variable.example"), (PROFILE, "production")];
        let host = |given, variables: &[(&str, &str)]| {
            let target = choose(given, variables).unwrap();
            target.url.host_str().unwrap_or_default().to_owned()
        };
        assert_eq!(host(url("https://argument.example"), &all), "argument.example");
        assert_eq!(
            host(profile("people"), &[("MY_TOKEN", "t"), all[0], all[1]]),
            "workflows.example.com"
        );
        assert_eq!(host(Given::default(), &all), "variable.example");
        assert_eq!(host(Given::default(), &all[1..]), "abc.lambda-url.eu-central-1.on.aws");
        let local = choose(Given::default(), &[(URL, " ")]).unwrap();
        assert_eq!(
            (local.url.as_str(), local.access),
            ("http://127.0.0.1:9401/", Access::None)
        );
        assert!(local.is_default);
        let failure = choose(profile("prodution"), &[]).unwrap_err();
        assert_eq!(failure.code, Code::Usage);
        assert!(
            failure.message.contains("people, production, tunnel"),
            "{}",
            failure.message
        );
    }

    #[test]
    fn requests_are_signed_unless_there_is_a_token_or_the_api_is_here() {
        let aws = |region: Option<&str>, service, profile: Option<&str>| Access::Aws {
            region: region.map(str::to_owned),
            service,
            profile: profile.map(str::to_owned),
        };
        let token = || Access::Bearer("t".parse().unwrap());
        let access = |given, variables: &[(&str, &str)]| choose(given, variables).unwrap().access;
        assert_eq!(
            access(url("https://abc.lambda-url.eu-west-1.on.aws"), &[]),
            aws(Some("eu-west-1"), "lambda", None)
        );
        assert_eq!(
            access(url("https://abc.execute-api.eu-west-1.amazonaws.com"), &[]),
            aws(Some("eu-west-1"), "execute-api", None)
        );
        assert_eq!(
            access(url("https://workflows.example.com"), &[]),
            aws(None, "lambda", None)
        );
        assert_eq!(access(url("https://workflows.example.com"), &[(TOKEN, "t")]), token());
        assert_eq!(access(url(LOCAL), &[(TOKEN, "t")]), token());
        assert_eq!(
            access(profile("production"), &[]),
            aws(Some("eu-central-1"), "lambda", Some("ops"))
        );
        assert_eq!(
            access(profile("tunnel"), &[(TOKEN, "t")]),
            aws(Some("us-east-2"), "lambda", None)
        );
        assert_eq!(access(profile("people"), &[("MY_TOKEN", "t")]), token());
        assert_eq!(
            choose(profile("people"), &[(TOKEN, "t")]).unwrap_err().code,
            Code::Usage
        );
    }

    #[test]
    fn an_api_on_another_machine_needs_https() {
        for fine in [
            LOCAL,
            "http://localhost:1/",
            "http://[::1]:9401",
            "https://api.example/x",
        ] {
            assert!(address(fine).is_ok(), "{fine}");
        }
        for (wrong, why) in [
            ("http://10.0.0.1:9401", "on another machine"),
            ("http://localhost.example:9401", "on another machine"),
            ("127.0.0.1:9401", "not a URL"),
            ("ftp://127.0.0.1", "not an HTTP URL"),
            ("", "not a URL"),
        ] {
            let failure = address(wrong).unwrap_err();
            assert_eq!(failure.code, Code::Usage, "{wrong}");
            assert!(failure.message.contains(why), "{wrong}: {}", failure.message);
        }
    }

    #[test]
    fn a_token_is_never_shown() {
        let given = Given {
            token: Some("hush".parse().unwrap()),
            ..url("https://workflows.example.com")
        };
        let target = choose(given.clone(), &[]).unwrap();
        assert!(!format!("{given:?} {target:?}").contains("hush"));
        let failure = choose(url("https://a.example"), &[(TOKEN, "hush hush")]).unwrap_err();
        assert!(!failure.message.contains("hush"), "{}", failure.message);
    }
}
