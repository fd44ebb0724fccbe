//! The template of a deployment: ours, which is part of this program, with the archives of the project's functions, a worker for each
//! tag, and the project's overlay.
//!
//! | module | role |
//! |---|---|
//! | `yaml` | YAML with the tags of CloudFormation as JSON |
//! | `tags` | the resources of each tag |
//! | `overlay` | the project's changes |
//! | `local` | files that an overlay must not refer to |
//! | `rules` | which functions the section `Rules` may use |
//!
//! It is written as JSON, which CloudFormation and `sam` read like YAML.

mod local;
mod overlay;
mod rules;
mod tags;
#[cfg(test)]
mod tests;
mod yaml;

use crate::project::Functions;
pub(super) use local::LocalFile;
pub(super) use overlay::OverlayError;
pub(super) use rules::RuleError;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
pub(super) use tags::TagError;
pub(super) use yaml::{YamlError, parse};

/// Ours.
const TEMPLATE: &str = include_str!("../../../templates/linked/template.yaml");

/// Why there is no template.
#[derive(Debug, thiserror::Error)]
pub(super) enum TemplateError {
    #[error("the template of this program has a mistake: {0}")]
    Ours(#[from] YamlError),
    #[error("the template of this program has no {0}")]
    Missing(&'static str),
    #[error("[functions.tagged]: {0}")]
    Tag(#[from] TagError),
    #[error("the overlay does not fit: {0}")]
    Overlay(#[from] OverlayError),
    #[error("the overlay does not fit: {0}")]
    Local(#[from] LocalFile),
    #[error(transparent)]
    Rule(#[from] RuleError),
}

/// A template that can be deployed from a directory with the archives.
#[derive(Clone, Debug)]
pub(super) struct Template(Map<String, Value>);

impl Template {
    /// The template for a stack of these functions. `overlay` is null for none.
    pub(super) fn render(functions: &Functions, stack: &str, overlay: Value) -> Result<Template, TemplateError> {
        let Value::Object(mut template) = parse(TEMPLATE)? else {
            return Err(TemplateError::Missing("sections"));
        };
        for (name, binary) in [
            ("OrchestratorFunction", &functions.orchestrator),
            ("WorkerFunction", &functions.worker),
            ("TaggedWorkerFunction", &functions.worker),
            ("MaintenanceFunction", &functions.maintenance),
            ("ApiFunction", &functions.api),
        ] {
            let resource = template
                .get_mut("Resources")
                .and_then(|resources| resources.get_mut(name));
            let archive = resource.and_then(|resource| resource.pointer_mut("/Properties/CodeUri"));
            *archive.ok_or(TemplateError::Missing(name))? = json!(archive_of(binary));
        }
        let tagged: BTreeMap<String, String> = functions
            .tagged
            .iter()
            .map(|(tag, binary)| (tag.clone(), archive_of(binary)))
            .collect();
        tags::expand(&mut template, &tagged, stack)?;
        local::refuse(&overlay)?;
        overlay::merge(&mut template, overlay)?;
        rules::check(&template)?;
        Ok(Template(template))
    }

    /// The names of its parameters.
    pub(super) fn parameters(&self) -> BTreeSet<&str> {
        let parameters = self.0.get("Parameters").and_then(Value::as_object);
        parameters.into_iter().flat_map(Map::keys).map(String::as_str).collect()
    }

    /// As it is written.
    pub(super) fn text(&self) -> String {
        format!("{:#}\n", Value::Object(self.0.clone()))
    }
}

/// The name of a binary's archive, beside the template.
pub(super) fn archive_of(binary: &str) -> String {
    format!("{binary}.zip")
}
