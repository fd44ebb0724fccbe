//! What crates.io and docs.rs need of each manifest, and the order of publication.

use std::fs;

use serde_json::Value;

use crate::project::{PUBLISHED, folder, members, published, text};

#[test]
fn published_crates_have_what_crates_io_shows() {
    for member in published() {
        let name = member["name"].as_str().unwrap();
        for field in ["description", "license", "readme", "documentation", "rust_version"] {
            assert!(member[field].is_string(), "{name} has no {field}");
        }
        // The limits of crates.io.
        let words = |field: &str| -> Vec<String> { serde_json::from_value(member[field].clone()).unwrap() };
        assert!(
            (1..=5).contains(&words("keywords").len()),
            "{name}: one to five keywords"
        );
        assert!(
            (1..=5).contains(&words("categories").len()),
            "{name}: one to five categories"
        );
        for word in words("keywords") {
            assert!(word.len() <= 20 && word.is_ascii(), "{name}: the keyword {word}");
        }
        assert_eq!(member["publish"], Value::Null, "{name} may be published");
        let folder = folder(&member);
        let readme = fs::read_to_string(folder.join("README.md")).unwrap();
        assert!(
            readme.starts_with(&format!("# {name}\n")),
            "{name}: its README starts with its name"
        );
        let licence = fs::read_to_string(folder.join("LICENSE"));
        assert_eq!(
            licence.ok(),
            Some(text("LICENSE")),
            "{name}: LICENSE is a link to the project's"
        );
    }
}

#[test]
fn all_other_members_are_never_published() {
    let others = members()
        .into_iter()
        .filter(|member| !PUBLISHED.contains(&member["name"].as_str().unwrap()));
    for member in others {
        let allowed = member["publish"].as_array();
        assert!(
            allowed.is_some_and(Vec::is_empty),
            "{} needs `publish.workspace = true`, or a place in PUBLISHED",
            member["name"]
        );
    }
}

#[test]
fn a_published_crate_depends_on_crates_that_are_published_before_it() {
    for (position, member) in published().iter().enumerate() {
        let name = member["name"].as_str().unwrap();
        for dependency in member["dependencies"].as_array().unwrap() {
            let other = dependency["name"].as_str().unwrap();
            // Cargo leaves a dev-dependency without a version out of the package: a crate may use itself in its tests.
            let left_out = dependency["kind"] == "dev" && dependency["req"] == "*";
            if dependency["path"].is_null() || left_out {
                continue;
            }
            let before = PUBLISHED.iter().position(|published| *published == other);
            assert!(
                before.is_some_and(|before| before < position),
                "{name} depends on {other}, which is not before it in PUBLISHED"
            );
            let version = format!("^{}", member["version"].as_str().unwrap());
            assert_eq!(
                dependency["req"], *version,
                "{name} depends on {other}: give it the workspace's version beside its path"
            );
        }
    }
}

#[test]
fn docs_rs_shows_what_is_stable() {
    for member in published() {
        let settings = &member["metadata"]["docs"]["rs"];
        let shown = settings["features"].as_array().cloned().unwrap_or_default();
        let unstable = "internals";
        let has_unstable = member["features"].get(unstable).is_some();
        let all = settings["all-features"] == true;
        assert!(
            !has_unstable || (!all && shown.iter().all(|feature| feature != unstable)),
            "{}: docs.rs must not show `{unstable}`",
            member["name"]
        );
        // `doc_cfg` labels the items that need a feature.
        let is_library = member["targets"]
            .as_array()
            .unwrap()
            .iter()
            .any(|target| target["kind"][0] == "lib");
        if is_library
            && member["features"]
                .as_object()
                .unwrap()
                .keys()
                .any(|feature| feature != "default")
        {
            let source = fs::read_to_string(folder(&member).join("src/lib.rs")).unwrap();
            assert!(
                source.contains("#![cfg_attr(docsrs, feature(doc_cfg))]"),
                "{}",
                member["name"]
            );
        }
    }
}

#[test]
fn the_guide_to_releases_has_the_crates_in_their_order() {
    let guide = text("docs/releasing.md");
    let rows: Vec<String> = (1..)
        .zip(PUBLISHED)
        .map(|(position, name)| format!("| {position} | `{name}` |"))
        .collect();
    let found: Vec<&str> = guide
        .lines()
        .filter(|line| line.starts_with("| ") && line.as_bytes()[2].is_ascii_digit())
        .collect();
    assert_eq!(found.len(), rows.len(), "{found:#?}");
    for (line, row) in found.iter().zip(&rows) {
        assert!(line.starts_with(row), "expected {row}, found {line}");
    }
}
