//! The file `duroxide-lambda.toml` at the root of a user's project: which binaries are its functions, how they run on this machine, and
//! how they are deployed.
//!
//! ```toml
//! name = "greeter"
//!
//! [functions]                       # names of binaries; these are the defaults
//! orchestrator = "orchestrator"
//! worker = "worker"
//! maintenance = "maintenance"
//! api = "api"
//!
//! [functions.tagged]                # activities with this tag have a worker of their own
//! gpu = "gpu-worker"
//!
//! [local]                           # `duroxide-lambda dev`
//! port = 9400
//! data = ".duroxide/data"
//! [local.env]
//! LOG_LEVEL = "info"
//!
//! [deploy]                          # `duroxide-lambda deploy`
//! stack = "greeter"
//! overlay = "deploy/overlay.yaml"
//! [deploy.parameters]
//! WorkerTimeout = "60"
//! ```
//!
//! Paths in the file are relative to its directory. Nothing is read but the file; a mistake in it names the file and what to write.

#[cfg(test)]
mod tests;

use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The name of the file.
pub(crate) const FILE: &str = "duroxide-lambda.toml";

/// A user's project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Project {
    /// The directory of the file, which is the root of the cargo workspace.
    pub(crate) root: PathBuf,
    pub(crate) name: String,
    pub(crate) functions: Functions,
    pub(crate) local: Local,
    pub(crate) deploy: Deploy,
}

/// The names of the functions' binaries.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct Functions {
    pub(crate) orchestrator: String,
    pub(crate) worker: String,
    pub(crate) maintenance: String,
    pub(crate) api: String,
    /// By tag: the worker of the activities that have it.
    pub(crate) tagged: BTreeMap<String, String>,
}

impl Default for Functions {
    fn default() -> Functions {
        Functions {
            orchestrator: "orchestrator".to_owned(),
            worker: "worker".to_owned(),
            maintenance: "maintenance".to_owned(),
            api: "api".to_owned(),
            tagged: BTreeMap::new(),
        }
    }
}

/// How the functions run on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct Local {
    /// The port of SQS and Lambda; the HTTP API has the next one.
    pub(crate) port: Option<u16>,
    /// Where the state is kept; without it, in memory.
    pub(crate) data: Option<PathBuf>,
    /// Variables of the functions.
    pub(crate) env: BTreeMap<String, String>,
}

/// How the functions are deployed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct Deploy {
    /// The CloudFormation stack; without it, the name of the project.
    pub(crate) stack: Option<String>,
    /// YAML that is merged over the template.
    pub(crate) overlay: Option<PathBuf>,
    /// Parameters of the template.
    pub(crate) parameters: BTreeMap<String, String>,
}

/// Why there is no project.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProjectError {
    #[error(
        "there is no {FILE} in {} or a directory above it: run this in a project, or create one with `duroxide-lambda new NAME`",
        .0.display()
    )]
    NotFound(PathBuf),
    #[error("{} cannot be read", .0.display())]
    Unreadable(PathBuf, #[source] std::io::Error),
    #[error("{} has a mistake: {}", .0.display(), .1)]
    Mistake(PathBuf, String),
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Written {
    name: String,
    #[serde(default)]
    functions: Functions,
    #[serde(default)]
    local: Local,
    #[serde(default)]
    deploy: Deploy,
}

impl Project {
    /// Reads the file in this directory or the nearest one above it.
    pub(crate) fn find(from: &Path) -> Result<Project, ProjectError> {
        for directory in from.ancestors() {
            let file = directory.join(FILE);
            match std::fs::read_to_string(&file) {
                Ok(text) => return Project::parse(directory, &text),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(ProjectError::Unreadable(file, error)),
            }
        }
        Err(ProjectError::NotFound(from.to_owned()))
    }

    /// The project whose file, in this directory, has this text.
    pub(crate) fn parse(root: &Path, text: &str) -> Result<Project, ProjectError> {
        let mistake = |what: String| ProjectError::Mistake(root.join(FILE), what);
        let written: Written = toml::from_str(text).map_err(|error| mistake(described(&error, text)))?;
        written.check().map_err(mistake)?;
        let under_root = |path: PathBuf| root.join(path);
        Ok(Project {
            root: root.to_owned(),
            name: written.name,
            functions: written.functions,
            local: Local {
                data: written.local.data.map(under_root),
                ..written.local
            },
            deploy: Deploy {
                overlay: written.deploy.overlay.map(under_root),
                ..written.deploy
            },
        })
    }
}

impl Written {
    fn check(&self) -> Result<(), String> {
        if !is_name(&self.name) {
            return Err(format!(
                "name '{}' must begin with a letter and have at most 50 letters, digits and hyphens",
                self.name
            ));
        }
        let functions = &self.functions;
        let named = [
            ("orchestrator", &functions.orchestrator),
            ("worker", &functions.worker),
            ("maintenance", &functions.maintenance),
            ("api", &functions.api),
        ];
        let tagged = functions.tagged.iter().map(|(tag, binary)| (tag.as_str(), binary));
        for (function, binary) in named.into_iter().chain(tagged) {
            if binary.is_empty() || binary.contains(['/', '\\']) {
                return Err(format!(
                    "the function {function} must be the name of a binary, not '{binary}'"
                ));
            }
        }
        if functions.tagged.keys().any(String::is_empty) {
            return Err("a tag in [functions.tagged] is empty".to_owned());
        }
        let stack = self.deploy.stack.as_ref();
        match stack.filter(|stack| !is_name(stack)) {
            Some(stack) => Err(format!(
                "stack '{stack}' must begin with a letter and have at most 50 letters, digits and hyphens"
            )),
            None => Ok(()),
        }
    }
}

/// What CloudFormation accepts as the name of a stack, short enough for the names of its functions.
pub(crate) fn is_name(name: &str) -> bool {
    let rest = |c: char| c.is_ascii_alphanumeric() || c == '-';
    name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.len() <= 50 && name.chars().all(rest)
}

/// What TOML says is wrong, with the line.
fn described(error: &toml::de::Error, text: &str) -> String {
    let line = |span: std::ops::Range<usize>| text.get(..span.start).map(|before| before.matches('\n').count() + 1);
    match error.span().and_then(line) {
        Some(line) => format!("line {line}: {}", error.message()),
        None => error.message().to_owned(),
    }
}
