//! The files of a project, from the templates in `infra/cli/templates`. Pure.
//!
//! A template has fields like `{{name}}`. Code has none, so that it is formatted as it stands: the packages of a project are always
//! `workflows` and `functions`. Invariant: no field is left over. `templates/linked` has symbolic links to files of this repository, so that
//! `cargo package` has them, too.

use super::source::{Library, Source, SourceError};
use std::path::{Path, PathBuf};

/// An input of the full example's orchestration, in the README and in the hints.
pub(crate) const TRIP: &str =
    r#"{"traveller": "ada", "legs": ["Oslo to Bergen", "Bergen to Voss"], "price_cents": 12900}"#;
/// Of the workspace, whose versions a project shares.
const WORKSPACE: &str = include_str!("../../templates/linked/workspace.toml");
/// The ARM template of the store.
const STORE: &str = include_str!("../../templates/linked/cosmos.json");
/// How a project is deployed: a section of its README.
const DEPLOYING: &str = include_str!("../../templates/common/deploying.md");
/// The versions of dependencies that this project is tested with. Cargo adds and removes what differs.
const LOCK: &str = include_str!("../../templates/linked/workspace.lock");

/// Which example a project begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One orchestration and one activity.
    Minimal,
    /// Events, timers, children, retries and compensation.
    Full,
}

/// A file, with its path in the project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

macro_rules! templates {
    ($($path:literal: $template:literal,)*) => {
        &[$(($path, include_str!(concat!("../../templates/", $template)))),*]
    };
}

type Template = (&'static str, &'static str);

const COMMON: &[Template] = templates! {
    ".github/workflows/ci.yml": "common/ci.yml",
    ".gitignore": "common/gitignore",
    "Cargo.toml": "common/Cargo.toml.template",
    "deploy/overlay.yaml": "common/deploy/overlay.yaml",
    "duroxide-lambda.toml": "common/duroxide-lambda.toml.template",
    "functions/Cargo.toml": "common/functions/Cargo.toml.template",
    "functions/src/bin/api.rs": "common/functions/bin/api.rs",
    "functions/src/bin/maintenance.rs": "common/functions/bin/maintenance.rs",
    "functions/src/bin/orchestrator.rs": "common/functions/bin/orchestrator.rs",
    "functions/src/bin/worker.rs": "common/functions/bin/worker.rs",
};

const MINIMAL: &[Template] = templates! {
    "README.md": "minimal/README.md",
    "workflows/Cargo.toml": "minimal/Cargo.toml.template",
    "workflows/src/lib.rs": "minimal/lib.rs",
    "workflows/tests/hello.rs": "minimal/hello.rs",
};

const FULL: &[Template] = templates! {
    "README.md": "full/README.md",
    "workflows/Cargo.toml": "full/Cargo.toml.template",
    "workflows/src/activities.rs": "full/src/activities.rs",
    "workflows/src/book_leg.rs": "full/src/book_leg.rs",
    "workflows/src/book_trip.rs": "full/src/book_trip.rs",
    "workflows/src/lib.rs": "full/src/lib.rs",
    "workflows/src/trip.rs": "full/src/trip.rs",
    "workflows/tests/trip.rs": "full/tests/trip.rs",
};

/// The files of a project with this root.
pub(crate) fn of(kind: Kind, name: &str, source: &Source, root: &Path) -> Result<Vec<File>, SourceError> {
    let fields = fields(name, source, root)?;
    let own = match kind {
        Kind::Minimal => MINIMAL,
        Kind::Full => FULL,
    };
    let filled = COMMON.iter().chain(own).map(|(path, template)| File {
        path: path.into(),
        text: fill(template, &fields),
    });
    let copied = [("Cargo.lock", LOCK), ("deploy/cosmos.json", STORE)];
    let copied = copied.into_iter().map(|(path, text)| File {
        path: path.into(),
        text: text.to_owned(),
    });
    Ok(filled.chain(copied).collect())
}

/// The fields of the templates with their values.
fn fields(name: &str, source: &Source, root: &Path) -> Result<Vec<(&'static str, String)>, SourceError> {
    let (origin, for_ci) = match source {
        Source::Path(_) => (
            "A checkout on this machine. For other machines, write `git` or `version` instead of `path`.",
            "It runs when duroxide-lambda comes from git or crates.io: see the dependencies in Cargo.toml.",
        ),
        Source::Git { .. } => (
            "Both from the same commit.",
            "GitHub runs it for every push and pull request.",
        ),
        Source::Published(_) => (
            "Both of the same release.",
            "GitHub runs it for every push and pull request.",
        ),
    };
    Ok(vec![
        ("name", name.to_owned()),
        ("rust-version", of_workspace("rust-version")),
        ("duroxide", of_workspace("duroxide")),
        ("source-comment", origin.to_owned()),
        ("ci-note", for_ci.to_owned()),
        ("duroxide-lambda", source.dependency(Library::Host, root)?),
        ("duroxide-lambda-api", source.dependency(Library::Api, root)?),
        ("install", source.install(root)?),
        ("trip", TRIP.to_owned()),
        ("deploying", DEPLOYING.trim_end().to_owned()),
    ])
}

fn fill(template: &str, fields: &[(&str, String)]) -> String {
    let mut text = template.to_owned();
    for (field, value) in fields {
        text = text.replace(&format!("{{{{{field}}}}}"), value);
    }
    text
}

/// The text of a key in the manifest of the workspace.
fn of_workspace(key: &str) -> String {
    let beginning = format!("{key} = \"");
    let value = WORKSPACE.lines().find_map(|line| line.strip_prefix(&beginning));
    let value = value.and_then(|rest| rest.strip_suffix('"'));
    value.expect("the manifest of the workspace has this key").to_owned()
}
