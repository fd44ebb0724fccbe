//! Which parameters a deployment has. Pure.
//!
//! | first that is given | |
//! |---|---|
//! | the command line | `WorkerTimeout=60` |
//! | the environment | of the store: `COSMOS_ENDPOINT`, `COSMOS_DATABASE`, `COSMOS_CONTAINER`, `COSMOS_KEY` |
//! | `[deploy.parameters]` of the project | |
//! | the last deployment | `sam` repeats its value |
//! | the template's default | |
//!
//! Parameters that must agree with an archive or with each other are always given, by default with their last value: the architecture, and
//! how the functions reach the store. A way that is given replaces the last one.

use super::stack::Stack;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Where the store is, as the environment says.
#[derive(Clone, Default)]
pub(super) struct Variables {
    pub(super) endpoint: Option<String>,
    pub(super) database: Option<String>,
    pub(super) container: Option<String>,
    /// The account's key, if it is what the environment gives.
    pub(super) key: Option<String>,
}

/// The parameters of a deployment. `Debug` does not show the key.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Parameters(BTreeMap<String, String>);

/// What is wrong with the parameters.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ParameterError {
    #[error("{0} is not of the form Parameter=Value")]
    Form(String),
    #[error("CosmosKey is taken from the environment: set COSMOS_KEY")]
    Key,
    #[error("{0} contains a quote, a backslash or a line break")]
    Character(String),
    #[error("the template has no parameter {name}{}", .tags)]
    Unknown { name: String, tags: &'static str },
    #[error("Architecture must be arm64 or x86_64")]
    Architecture,
    #[error("COSMOS_ENDPOINT is not set: set it to the URI of the account")]
    Endpoint,
    #[error(
        "the functions have no access to the account: give CosmosTenantId and CosmosClientId, or CosmosKeySecretArn, or set \
         COSMOS_KEY instead of COSMOS_TOKEN"
    )]
    NoAccess,
}

/// The parameters that decide how the functions reach the store.
const ACCESS: [&str; 5] = [
    "CosmosTenantId",
    "CosmosClientId",
    "CosmosClientSecretArn",
    "CosmosKeySecretArn",
    "CosmosKey",
];

/// Reads `Parameter=Value`.
pub(super) fn pair(text: &str) -> Result<(String, String), ParameterError> {
    match text.split_once('=') {
        Some((name, value)) if name.starts_with(|c: char| c.is_ascii_uppercase() || c.is_ascii_digit()) => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err(ParameterError::Form(text.to_owned())),
    }
}

/// What a deployment is asked for.
pub(super) struct Asked<'a> {
    /// The arguments of the command line.
    pub(super) arguments: &'a [(String, String)],
    /// Those of the project.
    pub(super) project: &'a BTreeMap<String, String>,
    pub(super) variables: &'a Variables,
    /// The parameters of the template.
    pub(super) known: &'a BTreeSet<&'a str>,
}

impl Asked<'_> {
    /// Finds mistakes that need no knowledge of the stack.
    pub(super) fn check(&self) -> Result<(), ParameterError> {
        let all = self.arguments.iter().map(|(name, value)| (name, value));
        for (name, value) in all.chain(self.project) {
            if name == "CosmosKey" {
                return Err(ParameterError::Key);
            }
            if !self.known.contains(name.as_str()) {
                let of_tag = name == "WorkerTag" || name.starts_with("TaggedWorker");
                let tags = match of_tag {
                    true => ": the project has [functions.tagged], and its tags have parameters of their own",
                    false => "",
                };
                let name = name.clone();
                return Err(ParameterError::Unknown { name, tags });
            }
            check_value(name, value)?;
        }
        match self.given("Architecture") {
            Some(architecture) => check_architecture(&architecture),
            None => Ok(()),
        }
    }

    fn given(&self, name: &str) -> Option<String> {
        let argument = self.arguments.iter().rev().find(|(given, _)| given == name);
        let of_store = || match name {
            "CosmosEndpoint" => self.variables.endpoint.clone(),
            "CosmosDatabase" => self.variables.database.clone(),
            "CosmosContainer" => self.variables.container.clone(),
            _ => None,
        };
        argument
            .map(|(_, value)| value.clone())
            .or_else(of_store)
            .or_else(|| self.project.get(name).cloned())
    }

    /// The parameters of this deployment, after the last one.
    pub(super) fn decide(&self, last: Option<&Stack>) -> Result<Parameters, ParameterError> {
        let last = |name: &str| last.and_then(|stack| stack.parameter(name)).unwrap_or_default();
        let or = |name: &str, default: &str| {
            let value = self.given(name).unwrap_or_else(|| last(name));
            match value.is_empty() {
                true => default.to_owned(),
                false => value,
            }
        };
        let named = self
            .project
            .iter()
            .chain(self.arguments.iter().map(|(name, value)| (name, value)));
        let mut all: BTreeMap<String, String> = named.map(|(name, value)| (name.clone(), value.clone())).collect();
        let endpoint = or("CosmosEndpoint", "");
        if endpoint.is_empty() {
            return Err(ParameterError::Endpoint);
        }
        all.insert("CosmosEndpoint".to_owned(), endpoint);
        all.insert("CosmosDatabase".to_owned(), or("CosmosDatabase", "duroxide"));
        all.insert("CosmosContainer".to_owned(), or("CosmosContainer", "workflows"));
        all.insert("Architecture".to_owned(), or("Architecture", "arm64"));
        all.extend(self.access(last)?);
        check_architecture(&all["Architecture"])?;
        for (name, value) in &all {
            check_value(name, value)?;
        }
        Ok(Parameters(all))
    }

    /// How the functions reach the store: by an application, a secret with the key, or the key.
    fn access(&self, last: impl Fn(&str) -> String) -> Result<BTreeMap<String, String>, ParameterError> {
        let given = |name: &str| self.given(name);
        let is_set = |name: &str| given(name).is_some_and(|value| !value.is_empty());
        let mut secret = given("CosmosKeySecretArn");
        let mut application = ["CosmosTenantId", "CosmosClientId", "CosmosClientSecretArn"].map(given);
        if is_set("CosmosClientId") {
            secret.get_or_insert_default();
        }
        if is_set("CosmosKeySecretArn") {
            for part in &mut application {
                part.get_or_insert_default();
            }
        }
        let secret = secret.unwrap_or_else(|| last("CosmosKeySecretArn"));
        let [tenant, client, client_secret] = application;
        let client = client.unwrap_or_else(|| last("CosmosClientId"));
        let of_application = |part: Option<String>, name: &str| match (part, client.is_empty()) {
            (Some(part), _) => part,
            (None, true) => String::new(),
            (None, false) => last(name),
        };
        let tenant = of_application(tenant, "CosmosTenantId");
        let client_secret = of_application(client_secret, "CosmosClientSecretArn");
        let key = match secret.is_empty() && client.is_empty() {
            true => self.variables.key.clone().ok_or(ParameterError::NoAccess)?,
            false => String::new(),
        };
        let names = ACCESS.map(str::to_owned);
        Ok(names
            .into_iter()
            .zip([tenant, client, client_secret, secret, key])
            .collect())
    }
}

fn check_architecture(architecture: &str) -> Result<(), ParameterError> {
    match architecture {
        "arm64" | "x86_64" | "" => Ok(()),
        _ => Err(ParameterError::Architecture),
    }
}

/// `sam` reads parameters from a line of quoted texts.
fn check_value(name: &str, value: &str) -> Result<(), ParameterError> {
    match value.contains(['\'', '"', '\\', '\n', '\r']) {
        true => Err(ParameterError::Character(name.to_owned())),
        false => Ok(()),
    }
}

impl Parameters {
    /// Those of an earlier deployment. The others keep their last values, among them those of the store.
    pub(super) fn again(recorded: BTreeMap<String, String>) -> Result<Parameters, ParameterError> {
        for (name, value) in &recorded {
            check_value(name, value)?;
        }
        Ok(Parameters(recorded))
    }

    pub(super) fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// The settings file of `sam` that gives them. Arguments would show the key to every user of the machine.
    pub(super) fn sam_config(&self) -> String {
        let each = self.0.iter().map(|(name, value)| format!("{name}=\"{value}\" "));
        format!(
            "version = 0.1\n[default.deploy.parameters]\nparameter_overrides = '{}'\n",
            each.collect::<String>()
        )
    }
}

impl fmt::Debug for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.iter().filter(|(name, _)| *name != "CosmosKey");
        f.debug_map().entries(shown).finish()
    }
}
