//! Which files are projects, and what is said of those that are not.

use super::*;

fn parsed(text: &str) -> Result<Project, String> {
    Project::parse(Path::new("/p"), text).map_err(|error| error.to_string())
}

#[test]
fn a_name_is_enough() {
    let project = parsed("name = \"greeter\"").unwrap();
    assert_eq!(project.functions, Functions::default());
    assert_eq!(project.functions.worker, "worker");
    assert_eq!((project.local, project.deploy), (Local::default(), Deploy::default()));
}

#[test]
fn paths_are_relative_to_the_file() {
    let project = parsed(
        "name = \"a\"\n[local]\nport = 7000\ndata = \"state\"\nenv = { LOG_LEVEL = \"debug\" }\n\
         [functions.tagged]\ngpu = \"gpu-worker\"\n[deploy]\nstack = \"a-test\"\noverlay = \"deploy/overlay.yaml\"\n\
         parameters = { WorkerTimeout = \"60\" }",
    )
    .unwrap();
    assert_eq!(project.local.data.as_deref(), Some(Path::new("/p/state")));
    assert_eq!(
        project.deploy.overlay.as_deref(),
        Some(Path::new("/p/deploy/overlay.yaml"))
    );
    assert_eq!(project.local.port, Some(7000));
    assert_eq!(project.local.env["LOG_LEVEL"], "debug");
    assert_eq!(project.functions.tagged["gpu"], "gpu-worker");
    assert_eq!(project.deploy.stack.as_deref(), Some("a-test"));
    assert_eq!(project.deploy.parameters["WorkerTimeout"], "60");
}

#[test]
fn a_mistake_names_the_file_and_the_line() {
    let long = format!("name = \"{}\"", "a".repeat(51));
    for (text, why) in [
        ("", "missing field `name`"),
        ("name = \"a\"\n\nport = 1", "line 3: unknown field `port`"),
        ("name = \"a\"\n[functions]\nwork = \"b\"", "unknown field `work`"),
        ("name = \"a\"\n[local]\nport = 70000", "line 3"),
        ("name = \"\"", "name ''"),
        ("name = \"1st\"", "name '1st'"),
        ("name = \"a b\"", "name 'a b'"),
        (&long, "at most 50"),
        (
            "name = \"a\"\n[functions]\nworker = \"target/debug/worker\"",
            "name of a binary",
        ),
        ("name = \"a\"\n[functions]\nworker = \"\"", "worker"),
        ("name = \"a\"\n[functions.tagged]\n\"\" = \"b\"", "a tag"),
        ("name = \"a\"\n[deploy]\nstack = \"a_b\"", "stack 'a_b'"),
    ] {
        let error = parsed(text).unwrap_err();
        assert!(error.contains("/p/duroxide-lambda.toml"), "{error}");
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn the_file_is_found_from_below() {
    let root = std::env::temp_dir().join(format!("project-{}", std::process::id()));
    let below = root.join("workflows/src");
    std::fs::create_dir_all(&below).unwrap();
    let none = Project::find(&below).unwrap_err().to_string();
    std::fs::write(root.join(FILE), "name = \"found\"").unwrap();
    let found = Project::find(&below);
    std::fs::remove_dir_all(&root).unwrap();
    assert_eq!(found.unwrap().name, "found");
    assert!(none.contains("duroxide-lambda new"), "{none}");
}
