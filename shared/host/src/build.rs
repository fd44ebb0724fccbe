//! Which build a function is: what one build cannot go on with, another may.
//!
//! A build is its executable and what it registers. Its name is a digest of both, after the label of the deployment
//! (`DUROXIDE_BUILD`) if there is one: people find the label in the state of a blocked instance. Reading the executable takes
//! some milliseconds (of a debug build, of 100 MB, 0.2 s, and ten times as long if sha2 is not optimised), so the name is made when the process first
//! meets something that is blocked.

use duroxide::runtime::registry::Registry;
use duroxide_cosmos::Build;
use sha2::{Digest as _, Sha256};
use std::sync::OnceLock;
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
    let versions = |name: &String| {
        let mut versions = registry.list_versions(name);
        versions.sort();
        versions
            .into_iter()
            .map(|version| format!("{name} {version}\n"))
            .collect::<String>()
    };
    names.iter().map(versions).collect()
}

/// A digest of this process's executable.
fn executable() -> &'static str {
    static DIGEST: OnceLock<String> = OnceLock::new();
    DIGEST.get_or_init(|| {
        read_executable().unwrap_or_else(|error| {
            tracing::warn!(%error, "the executable cannot be read: set DUROXIDE_BUILD to tell builds apart");
            String::new()
        })
    })
}

fn read_executable() -> io::Result<String> {
    let mut digest = Sha256::new();
    io::copy(&mut fs::File::open(env::current_exe()?)?, &mut digest)?;
    Ok(hex(digest))
}

fn name(label: Option<&str>, registered: &str, executable: &str) -> String {
    let digest = &hex(Sha256::new().chain_update(executable).chain_update(registered))[..DIGITS];
    match label {
        Some(label) => format!("{label} {digest}"),
        None => digest.to_owned(),
    }
}

fn hex(digest: Sha256) -> String {
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use duroxide::{OrchestrationContext, OrchestrationRegistry};

    #[test]
    fn label_code_and_names_make_a_build() {
        let one = name(None, "a 1.0.0\n", "x");
        assert_eq!(one.len(), DIGITS);
        assert_eq!(one, name(None, "a 1.0.0\n", "x"));
        assert_ne!(one, name(None, "b 1.0.0\n", "x"));
        assert_ne!(one, name(None, "a 1.0.0\n", "y"));
        assert_eq!(name(Some("v7"), "a 1.0.0\n", "x"), format!("v7 {one}"));
        assert_eq!(executable().len(), 64, "this test can read its executable");
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
