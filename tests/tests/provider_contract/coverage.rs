//! No function of the suite is left out.

use crate::suite::WIRED;
use serde_json::Value;

/// The polling style that this provider does not have.
const SHORT_POLLING: [&str; 2] = [
    "test_short_poll_returns_immediately",
    "test_short_poll_work_item_returns_immediately",
];
/// These take something else than a factory: wired by hand below.
const BY_HAND: [&str; 4] = [
    "test_continue_as_new_transition_delivery",
    "test_fetch_respects_timeout_upper_bound",
    "test_long_poll_waits_for_timeout",
    "test_long_poll_work_item_waits_for_timeout",
];

#[test]
fn no_function_of_the_suite_is_left_out() {
    let functions = functions();
    let missing: Vec<&String> = functions
        .iter()
        .filter(|name| !SHORT_POLLING.contains(&name.as_str()) && !BY_HAND.contains(&name.as_str()))
        .filter(|name| !WIRED.iter().any(|(_, wired)| wired == name))
        .collect();
    assert!(missing.is_empty(), "not wired: {missing:?}");
}

/// The store of the testing kit leaves some out, and names them.
#[test]
fn the_testing_kit_wires_or_names_every_function() {
    let kit = include_str!("../../../shared/host/tests/testing/store.rs");
    let words: Vec<&str> = kit.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
    let functions = functions();
    let missing: Vec<&String> = functions
        .iter()
        .filter(|name| !words.contains(&name.as_str()))
        .collect();
    assert!(missing.is_empty(), "neither wired nor named: {missing:?}");
}

/// The functions of the suite, from its source as cargo has it on disk.
fn functions() -> Vec<String> {
    let source = suite_source();
    let exported = std::fs::read_to_string(source.join("provider_validations.rs")).expect("the suite's list");
    let race_replay =
        std::fs::read_to_string(source.join("provider_validation/race_replay.rs")).expect("the suite's race replay");
    let mut functions: Vec<String> = exported
        .split("pub use crate::provider_validation::")
        .skip(1)
        .filter_map(|list| {
            list.split_once('{')?
                .1
                .split_once('}')
                .map(|(names, _)| names.to_owned())
        })
        .flat_map(|names| names.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>())
        .filter(|name| name.starts_with(|c: char| c.is_ascii_lowercase()))
        .collect();
    functions.extend(
        race_replay
            .split("pub async fn ")
            .skip(1)
            .filter_map(|rest| rest.split_once('<').map(|(name, _)| name.to_owned())),
    );
    assert!(
        functions.len() > 200,
        "only {} functions were found: has the suite moved?",
        functions.len()
    );
    functions
}

fn suite_source() -> std::path::PathBuf {
    let output = std::process::Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--offline",
            "--filter-platform",
            &host(),
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo metadata runs");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata answers JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let duroxide = packages
        .iter()
        .find(|package| package["name"] == "duroxide" && package["version"] == "0.1.32")
        .expect("duroxide is a dependency");
    let manifest = std::path::Path::new(duroxide["manifest_path"].as_str().expect("a path"));
    manifest.parent().expect("a folder").join("src")
}

/// The platform whose dependencies are on disk.
fn host() -> String {
    let output = std::process::Command::new("rustc")
        .arg("-vV")
        .output()
        .expect("rustc runs");
    let text = String::from_utf8(output.stdout).expect("rustc writes UTF-8");
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.expect("rustc prints its host").to_owned()
}
