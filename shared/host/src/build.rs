//! Which build a function is: what one build cannot go on with, another may.
//!
//! A build is its executable and what it registers. Its name is a digest of both, after the label of the deployment
//! (`DUROXIDE_BUILD`) if there is one: people find the label in the state of a blocked instance. Reading the executable takes
//! some milliseconds, so the name is made when the process first meets something that is blocked.

use duroxide::runtime::registry::Registry;
use duroxide_cosmos::Build;
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::{env, fs, io};

/// How many digits of the digest are shown.
const DIGITS: usize = 12;

/// The build of this process, with what it registers.
pub(crate) fn build(label: Option<String>, registered: String) -> Build {
    Build::new(move || name(label.as_deref(), &registered, executable()))
}

/// Everything that a registry has, as text.
pub(crate) fn registered<H: ?Sized>(registry: &Registry<H>) -> String {
    let mut names = registry.list_names();
    names.sort();
    let mut text = String::new();
    for name in names {
        let mut versions = registry.list_versions(&name);
        versions.sort();
        for version in versions {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name} {version}");
        }
    }
    text
}

fn executable() -> io::Result<Vec<u8>> {
    fs::read(env::current_exe()?)
}

fn name(label: Option<&str>, registered: &str, executable: io::Result<Vec<u8>>) -> String {
    let mut digest = Sha256::new();
    digest.update(registered);
    match executable {
        Ok(bytes) => digest.update(bytes),
        Err(error) => tracing::warn!(%error, "the executable cannot be read: set DUROXIDE_BUILD to tell builds apart"),
    }
    let hex: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    match label {
        Some(label) => format!("{label} {}", &hex[..DIGITS]),
        None => hex[..DIGITS].to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use duroxide::{OrchestrationContext, OrchestrationRegistry};

    fn executable(text: &str) -> io::Result<Vec<u8>> {
        Ok(text.as_bytes().to_vec())
    }

    #[test]
    fn label_code_and_names_make_a_build() {
        let one = name(None, "a 1.0.0\n", executable("x"));
        assert_eq!(one.len(), DIGITS);
        assert_eq!(one, name(None, "a 1.0.0\n", executable("x")));
        assert_ne!(one, name(None, "b 1.0.0\n", executable("x")));
        assert_ne!(one, name(None, "a 1.0.0\n", executable("y")));
        assert_eq!(name(Some("v7"), "a 1.0.0\n", executable("x")), format!("v7 {one}"));
        let unreadable = name(Some("v7"), "", Err(io::ErrorKind::NotFound.into()));
        assert!(unreadable.starts_with("v7 "), "{unreadable}");
    }

    #[test]
    fn the_order_of_registration_does_not_matter() {
        let run = |_: OrchestrationContext, input: String| async move { Ok::<_, String>(input) };
        let one = OrchestrationRegistry::builder()
            .register("a", run)
            .register("b", run)
            .build();
        let two = OrchestrationRegistry::builder()
            .register("b", run)
            .register("a", run)
            .build();
        assert_eq!(registered(&one), registered(&two));
        assert_eq!(registered(&one), "a 1.0.0\nb 1.0.0\n");
    }
}
