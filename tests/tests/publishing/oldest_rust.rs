//! The oldest Rust that the crates promise (`rust-version`) is the one that CI compiles and tests with, or CI checks it too.

use serde_json::Value;

use crate::project::{cargo, published, succeed, text};

/// Major, minor and patch, with zeros for what is left out.
fn version(text: &str) -> [u64; 3] {
    let mut parts = text.split('.').map(|part| part.parse().unwrap());
    [(); 3].map(|()| parts.next().unwrap_or(0))
}

fn promised() -> String {
    let manifest: toml::Table = text("Cargo.toml").parse().unwrap();
    manifest["workspace"]["package"]["rust-version"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn every_published_crate_promises_the_rust_of_the_workspace() {
    for member in published() {
        assert_eq!(member["rust_version"], *promised(), "{}", member["name"]);
    }
}

#[test]
fn ci_compiles_with_the_promised_rust() {
    let run = text(".ci/run");
    // CI passes with the promised release itself; with a newer one it needs this step.
    for line in [
        r#"oldest=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)"#,
        r#"if [[ $(rustc --version) != "rustc $oldest."* ]]; then"#,
        r#"cargo "+$oldest" check --workspace --all-targets --all-features --locked"#,
    ] {
        assert!(run.contains(line), "{line}");
    }
    // Clippy's `incompatible_msrv` takes the version from the manifests, unless its own file has one.
    let clippy: toml::Table = text("clippy.toml").parse().unwrap();
    assert!(!clippy.contains_key("msrv"), "clippy.toml must not hide rust-version");
}

#[test]
fn no_dependency_needs_a_newer_rust() {
    let host = succeed(std::process::Command::new("rustc").arg("-vV")).stdout;
    let host = String::from_utf8(host).unwrap();
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let output = succeed(&mut cargo(&[
        "metadata",
        "--format-version=1",
        "--locked",
        "--offline",
        "--filter-platform",
        host,
    ]));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let needs = |package: &&Value| {
        package["rust_version"]
            .as_str()
            .is_some_and(|needed| version(needed) > version(&promised()))
    };
    let newer: Vec<String> = packages
        .iter()
        .filter(needs)
        .map(|package| format!("{} needs {}", package["name"], package["rust_version"]))
        .collect();
    assert!(newer.is_empty(), "{newer:#?}\nrust-version is {}", promised());
    assert!(packages.len() > 100);
}
