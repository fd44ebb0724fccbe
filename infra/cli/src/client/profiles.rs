//! Profiles: named deployments in a file of the user.
//!
//! ```toml
//! [production]
//! url = "https://abc.lambda-url.eu-central-1.on.aws"
//! aws-profile = "ops"
//!
//! [people]
//! url = "https://workflows.example.com"
//! auth = "token"
//! token-variable = "WORKFLOWS_TOKEN"
//! ```

use super::answer::{Code, Failure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Names another file.
const CONFIG: &str = "DUROXIDE_LAMBDA_CONFIG";

/// One deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Profile {
    pub(super) url: String,
    /// Without it: `token` if there is one, `none` for this machine, else `iam`.
    pub(super) auth: Option<Auth>,
    pub(super) region: Option<String>,
    /// The profile of the AWS settings whose credentials are used.
    pub(super) aws_profile: Option<String>,
    /// The environment variable that holds the token.
    pub(super) token_variable: Option<String>,
}

/// How requests prove who sends them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Auth {
    Iam,
    Token,
    None,
}

/// All profiles of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Profiles {
    from: String,
    profiles: BTreeMap<String, Profile>,
}

impl Profiles {
    /// Reads the user's file.
    pub(super) fn read(get: impl Fn(&str) -> Option<String>) -> Result<Profiles, Failure> {
        let Some(path) = path(get) else {
            let message = format!("there is no directory for profiles: set {CONFIG} to a file, or HOME");
            return Err(Failure::new(Code::Usage, message));
        };
        let from = path.display().to_string();
        match std::fs::read_to_string(&path) {
            Ok(text) => Profiles::parse(&from, &text),
            Err(error) => {
                let message = format!("the file of profiles {from} cannot be read: {error}");
                Err(Failure::new(Code::Usage, message))
            }
        }
    }

    pub(super) fn parse(from: &str, text: &str) -> Result<Profiles, Failure> {
        let profiles = toml::from_str(text).map_err(|error| {
            let message = format!("the file of profiles {from} has a mistake: {}", error.message());
            Failure::new(Code::Usage, message)
        })?;
        Ok(Profiles {
            from: from.to_owned(),
            profiles,
        })
    }

    pub(super) fn find(mut self, name: &str) -> Result<Profile, Failure> {
        let known: Vec<String> = self.profiles.keys().cloned().collect();
        self.profiles.remove(name).ok_or_else(|| {
            let known = match known.is_empty() {
                true => "none".to_owned(),
                false => known.join(", "),
            };
            let message = format!("{} has no profile '{name}'; it has: {known}", self.from);
            Failure::new(Code::Usage, message)
        })
    }
}

/// Where the profiles are: in the user's directory of settings.
fn path(get: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let set = |name: &str| get(name).filter(|value| !value.is_empty());
    if let Some(path) = set(CONFIG) {
        return Some(path.into());
    }
    let directory = match set("XDG_CONFIG_HOME") {
        Some(directory) => PathBuf::from(directory),
        None => Path::new(&set("HOME")?).join(".config"),
    };
    Some(directory.join("duroxide-lambda/config.toml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_in_the_users_directory_of_settings() {
        let with = |variables: &[(&str, &str)]| {
            let variables: BTreeMap<String, String> = variables
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect();
            path(|name| variables.get(name).cloned()).map(|path| path.display().to_string())
        };
        assert_eq!(with(&[]), None);
        let home = [
            ("HOME", "/home/ada"),
            ("XDG_CONFIG_HOME", "/settings"),
            (CONFIG, "/a/file"),
        ];
        assert_eq!(
            with(&home[..1]).as_deref(),
            Some("/home/ada/.config/duroxide-lambda/config.toml")
        );
        assert_eq!(
            with(&home[..2]).as_deref(),
            Some("/settings/duroxide-lambda/config.toml")
        );
        assert_eq!(with(&home).as_deref(), Some("/a/file"));
    }

    #[test]
    fn a_mistake_in_the_file_is_named() {
        for (text, why) in [
            ("[a]\nurl = \"u\"\ntoken = \"secret\"", "unknown field"),
            ("[a]\nauth = \"iam\"", "url"),
            ("[a]\nurl = \"u\"\nauth = \"magic\"", "magic"),
            ("[a", "expected"),
        ] {
            let failure = Profiles::parse("the file", text).unwrap_err();
            assert_eq!(failure.code, Code::Usage);
            assert!(failure.message.contains("the file"), "{failure:?}");
            assert!(failure.message.contains(why), "{text}: {failure:?}");
        }
    }
}
