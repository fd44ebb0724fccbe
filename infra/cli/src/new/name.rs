//! Which names a project may have. Pure.
//!
//! The name is that of the project file, of the CloudFormation stack and in the descriptions of the packages, so it must be what
//! each of them accepts. A name that no crate could have is refused as well: sooner or later somebody names a crate after the project.

use crate::project;

/// Rust's keywords, reserved ones included.
const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn", "else",
    "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match", "mod",
    "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static", "struct", "super", "trait", "true",
    "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];
/// Names of crates that come with Rust.
const CRATES_OF_RUST: &[&str] = &["alloc", "core", "proc-macro", "std", "test"];
/// Names of devices, which no file can have on Windows.
const DEVICES: &[&str] = &["aux", "con", "nul", "prn"];

/// Why a name is none.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NameError {
    #[error(
        "'{name}' is no name for a project: it must begin with a letter and have at most 50 letters, digits and hyphens{hint}"
    )]
    Form { name: String, hint: String },
    #[error("'{name}' is no name for a project: it is {what}. Choose another one")]
    Reserved { name: String, what: &'static str },
}

/// Checks a name.
pub(crate) fn check(name: &str) -> Result<(), NameError> {
    if !project::is_name(name) {
        return Err(NameError::Form {
            name: name.escape_debug().to_string(),
            hint: hint(name),
        });
    }
    match reserved(name) {
        None => Ok(()),
        Some(what) => Err(NameError::Reserved {
            name: name.to_owned(),
            what,
        }),
    }
}

/// What else has this name.
fn reserved(name: &str) -> Option<&'static str> {
    let lower = name.to_lowercase();
    let kinds = [
        (KEYWORDS, "a keyword of Rust"),
        (CRATES_OF_RUST, "a crate that comes with Rust"),
        (DEVICES, "the name of a device on Windows"),
    ];
    let kind = kinds.into_iter().find(|(names, _)| names.contains(&lower.as_str()));
    kind.map(|(_, what)| what)
}

/// A similar name that is one.
fn hint(name: &str) -> String {
    let similar: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    let similar = similar.trim_start_matches(|c: char| !c.is_ascii_alphabetic());
    let similar = similar.trim_end_matches('-');
    if project::is_name(similar) && reserved(similar).is_none() {
        format!(", like {similar}")
    } else {
        String::new()
    }
}
