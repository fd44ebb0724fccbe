//! `cargo package` of the published crates, without compiling them again: the workspace does that. What a package could miss are
//! files that its sources include, so these are looked for in the package's list.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;
use tests::real::target_dir;

use crate::project::{PUBLISHED, cargo, folder, published, succeed};

/// The most that a package may weigh, compressed. crates.io refuses more than 10 MB.
const MAX_BYTES: u64 = 1_000_000;

#[test]
fn packages_are_made_and_are_small() {
    let target = target_dir().unwrap();
    // The dependencies are on this machine, since the workspace is compiled.
    let mut command = cargo(&["package", "--no-verify", "--allow-dirty", "--offline", "--target-dir"]);
    command.arg(&target);
    for name in PUBLISHED {
        command.args(["--package", name]);
    }
    let output = succeed(&mut command);
    let warnings = String::from_utf8_lossy(&output.stderr);
    // Tests are left out on purpose.
    let is_warning = |line: &&str| line.starts_with("warning") && !line.starts_with("warning: ignoring test");
    assert_eq!(warnings.lines().find(is_warning), None, "{warnings}");
    for member in published() {
        let file = format!(
            "{}-{}.crate",
            member["name"].as_str().unwrap(),
            member["version"].as_str().unwrap()
        );
        let bytes = fs::metadata(target.join("package").join(&file)).unwrap().len();
        println!("{file}: {} KB", bytes.div_ceil(1000));
        assert!(
            bytes <= MAX_BYTES,
            "{file} has {bytes} bytes: exclude what is no source"
        );
    }
}

#[test]
fn a_package_has_every_file_that_its_sources_include() {
    for member in published() {
        let listed = listed(&member);
        for needed in ["Cargo.toml", "LICENSE", "README.md"] {
            assert!(
                listed.contains(Path::new(needed)),
                "{}: {needed} is missing",
                member["name"]
            );
        }
        let tests = listed.iter().find(|path| path.starts_with("tests"));
        assert_eq!(tests, None, "{}: tests are not packaged", member["name"]);
        for source in listed
            .iter()
            .filter(|path| path.extension().is_some_and(|end| end == "rs"))
        {
            let text = fs::read_to_string(folder(&member).join(source)).unwrap();
            for path in included(&text) {
                let wanted = normal(&source.parent().unwrap().join(&path));
                assert!(
                    wanted.as_ref().is_some_and(|wanted| listed.contains(wanted)),
                    "{} of {} includes {path}, which is not in the package. If it is outside of the crate's folder, \
                     include a symbolic link to it inside: cargo packages what the link leads to",
                    source.display(),
                    member["name"]
                );
            }
        }
    }
}

/// The files of a package, except those that cargo adds.
fn listed(member: &Value) -> BTreeSet<PathBuf> {
    let name = member["name"].as_str().unwrap();
    let output = succeed(&mut cargo(&[
        "package",
        "--list",
        "--allow-dirty",
        "--offline",
        "--package",
        name,
    ]));
    let added = ["Cargo.lock", "Cargo.toml.orig", ".cargo_vcs_info.json"];
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .filter(|line| !added.contains(line))
        .map(PathBuf::from)
        .collect()
}

/// The literal paths in `include_str!` and `include_bytes!` outside of comments. Paths below `OUT_DIR` are no literals.
fn included(source: &str) -> Vec<String> {
    let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code = code.collect::<Vec<_>>().join("\n");
    let mut paths = Vec::new();
    for name in ["include_str!(\"", "include_bytes!(\""] {
        let starts = code.match_indices(name).map(|(at, _)| at + name.len());
        paths.extend(starts.map(|start| code[start..].split('"').next().unwrap().to_owned()));
    }
    paths
}

/// A path without `..`; `None` when it leaves the folder.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut parts = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => parts.pop().then_some(())?,
            Component::Normal(part) => parts.push(part),
            _ => {}
        }
    }
    Some(parts)
}

#[test]
fn included_files_are_found_in_sources() {
    let source =
        "const A: &str = include_str!(\"../a.txt\");\n// include_str!(\"no.txt\")\nlet b = include_bytes!(\"b\");";
    assert_eq!(included(source), ["../a.txt", "b"]);
    assert_eq!(normal(Path::new("src/new/../../a.txt")), Some(PathBuf::from("a.txt")));
    assert_eq!(normal(Path::new("src/../../a.txt")), None);
}
