//! Features are additive and independent: each published crate compiles without any, with each alone, and with all.

use crate::project::{cargo, published, succeed};

#[test]
#[ignore = "exhaustive: compiles the published crates with several sets of features"]
fn each_feature_compiles_alone_and_with_the_others() {
    for member in published() {
        let name = member["name"].as_str().unwrap();
        let features: Vec<&str> = member["features"]
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        // All other tests compile a crate that has no features.
        if features.is_empty() {
            continue;
        }
        let alone: Vec<&&str> = features.iter().filter(|feature| **feature != "default").collect();
        for feature in &alone {
            check(name, &["--no-default-features", "--features", feature]);
        }
        check(name, &["--no-default-features"]);
        // The only one is all.
        if alone.len() > 1 {
            check(name, &["--all-features"]);
        }
    }
}

/// Compiles a crate; unused code that only another feature uses is a mistake, too.
fn check(name: &str, selection: &[&str]) {
    let mut command = cargo(&["check", "--quiet", "--locked", "--package", name]);
    let output = succeed(command.args(selection));
    let warnings = String::from_utf8_lossy(&output.stderr);
    assert!(warnings.is_empty(), "{name} {selection:?}\n{warnings}");
}
