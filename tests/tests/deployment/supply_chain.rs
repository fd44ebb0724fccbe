//! Where dependencies come from. `cargo deny` checks licences and banned crates, too; `.ci/run` runs it with `deny.toml`.

use std::fs;
use std::path::Path;

fn project(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    fs::read_to_string(path).unwrap()
}

#[test]
fn every_dependency_comes_from_the_registry_that_deny_allows() {
    let allowed = "https://github.com/rust-lang/crates.io-index";
    let deny = project("deny.toml");
    for rule in [
        r#"unknown-registry = "deny""#.to_owned(),
        r#"unknown-git = "deny""#.to_owned(),
        format!(r#"allow-registry = ["{allowed}"]"#),
    ] {
        assert!(deny.lines().any(|line| line == rule), "{rule}");
    }
    let lock = project("Cargo.lock");
    let sources: Vec<&str> = lock.lines().filter_map(|line| line.strip_prefix("source = ")).collect();
    assert!(sources.len() > 100);
    let expected = format!("\"registry+{allowed}\"");
    let others: Vec<&&str> = sources.iter().filter(|source| **source != expected).collect();
    assert!(others.is_empty(), "{others:?}");
    let checksums = lock.lines().filter(|line| line.starts_with("checksum = ")).count();
    assert_eq!(checksums, sources.len(), "each is pinned by its checksum");
}

#[test]
fn dependencies_are_checked_in_ci() {
    let run = project(".ci/run");
    assert!(run.contains("cargo deny --locked check licenses bans sources"), "{run}");
}
