//! The public items of each library that users link, compared with the listing in its folder, `public-api.txt`.
//!
//! rustdoc describes the crates in JSON, and the crate `public-api` makes one line of each public item, with its types. Documentation, names of
//! parameters and private items are not in it. Items that are hidden from the documentation, and the module `internals`, are no
//! promise and are left out. All features are on.
//!
//! The JSON is an unstable output of rustdoc whose format changes between releases of Rust, so this test needs the release that the version
//! of `public-api` belongs to. Only rustdoc itself is allowed unstable options: the environment variable that allows them, set for
//! all of cargo, would compile every dependency again.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tests::real::target_dir;

use crate::project::{cargo, folder, published, succeed};

/// The libraries with a listing, and the names of their JSON files. The others serve the command line.
const LISTED: [(&str, &str); 4] = [
    ("duroxide-cosmos-client", "cosmos"),
    ("duroxide-cosmos", "duroxide_cosmos"),
    ("duroxide-lambda", "duroxide_lambda"),
    ("duroxide-lambda-api", "duroxide_lambda_api"),
];
/// The version of rustdoc's format that `public-api` reads: Rust 1.95 writes it.
const FORMAT: u64 = 57;
/// Writes the listings instead of comparing them.
const UPDATE: &str = "UPDATE_PUBLIC_API";

#[test]
#[ignore = "exhaustive: rustdoc describes every library of the workspace, and must be of the promised Rust version"]
fn public_items_are_those_of_the_saved_listings() {
    let target = target_dir().unwrap();
    describe(&target);
    let members = published();
    let mut differences = String::new();
    for (package, library) in LISTED {
        let member = members.iter().find(|member| member["name"] == package).unwrap();
        let saved = folder(member).join("public-api.txt");
        let now = listing(&target.join("doc").join(format!("{library}.json")));
        if std::env::var_os(UPDATE).is_some() {
            fs::write(&saved, now.join("\n") + "\n").unwrap();
            continue;
        }
        let before = fs::read_to_string(&saved).unwrap_or_default();
        let before: Vec<&str> = before.lines().collect();
        let removed = before.iter().filter(|line| !now.iter().any(|new| new == *line));
        let added = now.iter().filter(|line| !before.contains(&line.as_str()));
        let changes: Vec<String> = removed
            .map(|line| format!("- {line}"))
            .chain(added.map(|line| format!("+ {line}")))
            .collect();
        if !changes.is_empty() {
            differences += &format!("{package}\n{}\n", changes.join("\n"));
        }
    }
    assert!(
        differences.is_empty(),
        "The public items have changed. A line with - breaks users (docs/releasing.md: versions). If it is meant, write the \
         listings anew and commit them:\n{UPDATE}=1 cargo test -p tests --test publishing -- --ignored public_items\n\n{differences}"
    );
}

/// Lets rustdoc write the JSON files of all libraries. The whole workspace is selected, so that dependencies have the features that
/// the documentation of CI compiled them with.
fn describe(target: &Path) {
    let mut command = cargo(&[
        "doc",
        "--workspace",
        "--all-features",
        "--no-deps",
        "--lib",
        "--locked",
        "--quiet",
    ]);
    command.arg("--target-dir").arg(target);
    command.env("RUSTDOC", unstable_rustdoc(target));
    command.env("RUSTDOCFLAGS", "-Z unstable-options --output-format json");
    succeed(&mut command);
}

/// A script that runs rustdoc with unstable options allowed.
fn unstable_rustdoc(target: &Path) -> PathBuf {
    let rustdoc = std::env::var("RUSTDOC").unwrap_or_else(|_| "rustdoc".to_owned());
    let script = target.join("tmp/unstable-rustdoc");
    fs::create_dir_all(script.parent().unwrap()).unwrap();
    fs::write(
        &script,
        format!("#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec '{rustdoc}' \"$@\"\n"),
    )
    .unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    script
}

/// One line for each public item.
fn listing(json: &Path) -> Vec<String> {
    let text = fs::read_to_string(json).unwrap_or_else(|error| panic!("{}: {error}", json.display()));
    let format = serde_json::from_str::<Value>(&text).unwrap()["format_version"].as_u64();
    assert_eq!(
        format,
        Some(FORMAT),
        "this rustdoc writes another format: run the test with the Rust of `rust-version`, or move to the release of `public-api` \
         for this Rust (docs/releasing.md)"
    );
    let api = public_api::Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .build()
        .unwrap();
    api.items()
        .map(ToString::to_string)
        .filter(|line| is_stable(line))
        .collect()
}

/// Whether a line is a promise to users. What the feature `internals` opens is for the tests of this workspace; of the traits that the
/// compiler implements, `Send` and `Sync` matter.
fn is_stable(line: &str) -> bool {
    let implied = [
        "core::marker::Freeze",
        "core::marker::Unpin",
        "core::marker::UnsafeUnpin",
        "core::panic::unwind_safe::",
    ];
    let is_implied = line.starts_with("impl") && implied.iter().any(|name| line.contains(name));
    !line.contains("::internals") && !is_implied
}
