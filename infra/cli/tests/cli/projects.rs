//! `new`: the files of a project, and what is refused. `tests/tests/projects` builds and runs them.

use crate::fixture::{Output, binary};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use toml::Table;

/// A directory of a test's own, removed at its end.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("new-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Place(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    fn toml(&self, file: &str) -> Table {
        toml::from_str(&fs::read_to_string(self.0.join(file)).unwrap()).unwrap()
    }

    /// The files below it.
    fn files(&self) -> Vec<String> {
        let (mut folders, mut files) = (vec![self.0.clone()], Vec::new());
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    files.push(path.strip_prefix(&self.0).unwrap().to_str().unwrap().to_owned());
                }
            }
        }
        files.sort();
        files
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What is left is below the target directory.
        fs::remove_dir_all(&self.0).unwrap_or_default();
    }
}

async fn new(arguments: &[&str]) -> Output {
    binary(&BTreeMap::new(), &[&["new"], arguments].concat(), "").await
}

#[tokio::test]
async fn a_project_has_workflows_tests_functions_and_what_runs_and_deploys_them() {
    let common = [
        ".github/workflows/ci.yml",
        ".gitignore",
        "Cargo.lock",
        "Cargo.toml",
        "README.md",
        "deploy/cosmos.json",
        "deploy/overlay.yaml",
        "duroxide-lambda.toml",
        "functions/Cargo.toml",
        "functions/src/bin/api.rs",
        "functions/src/bin/maintenance.rs",
        "functions/src/bin/orchestrator.rs",
        "functions/src/bin/worker.rs",
        "workflows/Cargo.toml",
    ];
    let minimal = ["workflows/src/lib.rs", "workflows/tests/hello.rs"];
    let full = [
        "workflows/src/activities.rs",
        "workflows/src/book_leg.rs",
        "workflows/src/book_trip.rs",
        "workflows/src/lib.rs",
        "workflows/src/trip.rs",
        "workflows/tests/trip.rs",
    ];
    for (name, options, own) in [("a-minimal", &["--minimal"][..], &minimal[..]), ("a-full", &[], &full)] {
        let place = Place::new(name);
        let root = place.path(name);
        let said = new(&[&[root.as_str()], options].concat()).await.exits(0).out;
        let mut expected: Vec<String> = common.iter().chain(own).map(|file| format!("{name}/{file}")).collect();
        expected.sort();
        assert_eq!(place.files(), expected);
        assert_eq!(
            place.toml(&format!("{name}/duroxide-lambda.toml"))["name"].as_str(),
            Some(name)
        );
        for manifest in ["functions", "workflows"] {
            let manifest = place.toml(&format!("{name}/{manifest}/Cargo.toml"));
            let described = manifest["package"]["description"].as_str().unwrap();
            assert!(described.contains(name), "{described}");
        }
        for command in [
            &format!("cd {root}\n"),
            "cargo test\n",
            "duroxide-lambda dev\n",
            "duroxide-lambda start ",
        ] {
            assert!(said.contains(command), "{command}: {said}");
        }
    }
}

#[tokio::test]
async fn dependencies_come_from_a_path_git_or_a_release() {
    let place = Place::new("sources");
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let checkout = checkout.to_str().unwrap();
    for (name, options, key) in [
        ("default", &[][..], "path"),
        ("path", &["--path", checkout], "path"),
        ("git", &["--git", "https://example.com/d.git", "--rev", "1a2b"], "git"),
        ("published", &["--published", "0.1"], "version"),
    ] {
        let root = place.path(name);
        new(&[&[root.as_str(), "--minimal"], options].concat()).await.exits(0);
        let workspace = place.toml(&format!("{name}/Cargo.toml"));
        let dependencies = workspace["workspace"]["dependencies"].as_table().unwrap();
        assert_eq!(dependencies["duroxide"].as_str(), Some("=0.1.32"));
        for (library, package) in [("duroxide-lambda", "host"), ("duroxide-lambda-api", "api")] {
            let value = dependencies[library][key].as_str().unwrap();
            match key {
                "path" => {
                    let manifest = Path::new(&root).join(value).join("Cargo.toml");
                    let manifest: Table = toml::from_str(&fs::read_to_string(manifest).unwrap()).unwrap();
                    assert_eq!(manifest["package"]["name"].as_str(), Some(library));
                    assert!(value.ends_with(package), "{value}");
                }
                "git" => {
                    assert_eq!(value, "https://example.com/d.git");
                    assert_eq!(dependencies[library]["rev"].as_str(), Some("1a2b"));
                }
                _ => assert_eq!(value, "0.1"),
            }
        }
        assert_eq!(
            dependencies["duroxide-lambda-api"]["features"][0].as_str(),
            Some("lambda")
        );
    }
}

#[tokio::test]
async fn an_empty_directory_and_an_empty_repository_become_a_project() {
    let place = Place::new("empty");
    for name in ["empty", "cloned"] {
        let root = place.path(name);
        fs::create_dir_all(&root).unwrap();
        if name == "cloned" {
            fs::create_dir(format!("{root}/.git")).unwrap();
        }
        new(&[&root, "--minimal"]).await.exits(0);
        assert!(Path::new(&root).join("Cargo.toml").is_file());
    }
    // The name is that of the directory, also where the path does not say it.
    let root = place.path("named");
    fs::create_dir(&root).unwrap();
    new(&[&format!("{root}/."), "--minimal"]).await.exits(0);
    assert_eq!(place.toml("named/duroxide-lambda.toml")["name"].as_str(), Some("named"));
    let other = place.path("1");
    new(&[&other, "--minimal", "--name", "first"]).await.exits(0);
    assert_eq!(place.toml("1/duroxide-lambda.toml")["name"].as_str(), Some("first"));
}

#[tokio::test]
async fn what_cannot_become_a_project_is_refused_and_left_as_it_is() {
    let place = Place::new("refused");
    fs::write(place.path("file"), "mine").unwrap();
    fs::create_dir(place.path("full")).unwrap();
    fs::write(place.path("full/notes.txt"), "mine").unwrap();
    std::os::unix::fs::symlink("nowhere", place.path("dangling")).unwrap();
    let before = place.files();
    for (name, options, why) in [
        ("file", &[][..], "is no directory"),
        ("full", &[], "is not empty (it has notes.txt)"),
        ("dangling", &[], "is no directory"),
        ("my_app", &[], "like my-app"),
        ("fn", &[], "a keyword of Rust"),
        ("missing/greeter", &[], "create the directory above it first"),
        ("greeter", &["--name", "a/b"], "'a/b' is no name"),
        ("greeter", &["--path", "/nowhere"], "no checkout of duroxide-lambda"),
        ("greeter", &["--published", "newest"], "no version"),
    ] {
        let root = place.path(name);
        let ran = new(&[&[root.as_str()], options].concat()).await.exits(1).warns(why);
        assert_eq!((ran.err.lines().count(), ran.out.as_str()), (1, ""), "{}", ran.err);
        assert_eq!(place.files(), before, "{name}");
    }
    assert_eq!(fs::read_to_string(place.path("file")).unwrap(), "mine");
}
