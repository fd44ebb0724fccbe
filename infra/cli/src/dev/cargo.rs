//! Cargo: which packages the project has, and building its functions. What cargo says goes to stderr, as cargo prints it.

use super::watch::Sources;
use crate::project::{FILE, Project};
use anyhow::{Context as _, anyhow, bail};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use tokio::process::Command;

/// Files besides the packages that decide what cargo builds.
const SETTINGS: [&str; 6] = [
    "Cargo.toml",
    "Cargo.lock",
    ".cargo/config.toml",
    "rust-toolchain",
    "rust-toolchain.toml",
    FILE,
];

/// The cargo workspace of a project.
#[derive(Debug)]
pub(super) struct Workspace {
    root: PathBuf,
    target: PathBuf,
    /// The folders of all packages on this machine that the functions depend on, and of the functions.
    packages: BTreeSet<PathBuf>,
    /// The package of each function's binary.
    owners: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_members: Vec<String>,
    workspace_root: PathBuf,
    target_directory: PathBuf,
    resolve: Option<Resolve>,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    /// None: it is on this machine.
    source: Option<String>,
    manifest_path: PathBuf,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    dependencies: Vec<String>,
}

impl Workspace {
    /// Asks cargo. `None` if cargo reports a mistake, which it has printed.
    pub(super) async fn load(project: &Project, binaries: &BTreeSet<String>) -> anyhow::Result<Option<Workspace>> {
        let mut command = cargo(&project.root);
        command.args(["metadata", "--format-version", "1"]);
        // Else cargo downloads the crates of all platforms.
        if let Some(host) = host(&project.root).await? {
            command.args(["--filter-platform", &host]);
        }
        let output = run(command).await?;
        if !output.status.success() {
            return Ok(None);
        }
        let metadata = serde_json::from_slice(&output.stdout).context("the metadata of cargo cannot be read")?;
        Workspace::of(metadata, binaries).map(Some)
    }

    fn of(metadata: Metadata, binaries: &BTreeSet<String>) -> anyhow::Result<Workspace> {
        let members: BTreeSet<&String> = metadata.workspace_members.iter().collect();
        let mut owners = BTreeMap::new();
        let mut reached = Vec::new();
        for binary in binaries {
            let has = |package: &&Package| {
                let is = |target: &Target| target.name == *binary && target.kind.iter().any(|kind| kind == "bin");
                members.contains(&package.id) && package.targets.iter().any(is)
            };
            let mut having = metadata.packages.iter().filter(has);
            match (having.next(), having.next()) {
                (Some(package), None) => {
                    owners.insert(binary.clone(), package.name.clone());
                    reached.push(package.id.clone());
                }
                (Some(one), Some(another)) => bail!(
                    "the packages {} and {} both have a binary {binary}: rename one, and name the right one in [functions] of {FILE}",
                    one.name,
                    another.name
                ),
                (None, _) => bail!(
                    "no package of this workspace has a binary {binary}: add it, or name another one in [functions] of {FILE}"
                ),
            }
        }
        let nodes = metadata.resolve.map(|resolve| resolve.nodes).unwrap_or_default();
        let dependencies: BTreeMap<&String, &Vec<String>> =
            nodes.iter().map(|node| (&node.id, &node.dependencies)).collect();
        let mut all = BTreeSet::new();
        while let Some(id) = reached.pop() {
            if let Some(further) = dependencies.get(&id).filter(|_| !all.contains(&id)) {
                reached.extend(further.iter().cloned());
            }
            all.insert(id);
        }
        let here = metadata
            .packages
            .iter()
            .filter(|package| package.source.is_none() && all.contains(&package.id));
        let folders = here.filter_map(|package| package.manifest_path.parent().map(Path::to_owned));
        Ok(Workspace {
            packages: folders.collect(),
            root: metadata.workspace_root,
            target: metadata.target_directory,
            owners,
        })
    }

    /// What to watch, without these folders.
    pub(super) fn sources(&self, project: &Project, ignored: BTreeSet<PathBuf>) -> Sources {
        let mut sources = without_workspace(project, ignored);
        sources.folders = self.packages.clone();
        sources.files.extend(settings(&self.root));
        sources.ignored.insert(self.target.clone());
        sources
    }

    pub(super) fn lock_file(&self) -> PathBuf {
        self.root.join("Cargo.lock")
    }

    /// Builds these binaries, and returns their paths by name. `None` if cargo reports errors, which it has printed.
    pub(super) async fn build(
        &self,
        binaries: &BTreeSet<String>,
        release: bool,
    ) -> anyhow::Result<Option<BTreeMap<String, PathBuf>>> {
        let mut command = cargo(&self.root);
        command.args(["build", "--message-format=json-render-diagnostics"]);
        let packages: BTreeSet<&String> = binaries.iter().filter_map(|name| self.owners.get(name)).collect();
        for package in packages {
            command.args(["-p", package]);
        }
        for name in binaries {
            command.args(["--bin", name]);
        }
        if release {
            command.arg("--release");
        }
        let output = run(command).await?;
        if !output.status.success() {
            return Ok(None);
        }
        let built = executables(&output.stdout);
        let path = |name: &String| {
            let path = built.get(name).cloned();
            let path = path.ok_or_else(|| anyhow!("cargo built no binary {name}"))?;
            Ok((name.clone(), path))
        };
        binaries.iter().map(path).collect::<anyhow::Result<_>>().map(Some)
    }
}

/// What to watch as long as cargo cannot say which packages there are: the whole folder of the project, without these
/// folders.
pub(super) fn without_workspace(project: &Project, ignored: BTreeSet<PathBuf>) -> Sources {
    let root = &project.root;
    Sources {
        folders: [root.clone()].into(),
        files: settings(root).collect(),
        ignored,
    }
}

/// Whether a file says which packages there are.
pub(super) fn is_manifest(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "Cargo.toml")
}

fn settings(root: &Path) -> impl Iterator<Item = PathBuf> {
    SETTINGS.iter().map(|name| root.join(name))
}

fn cargo(folder: &Path) -> Command {
    // As `cargo run` has set it, if that has started this program.
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .kill_on_drop(true);
    command
}

/// The platform that cargo builds for, as it says itself.
async fn host(folder: &Path) -> anyhow::Result<Option<String>> {
    let mut command = cargo(folder);
    command.arg("-vV");
    let output = run(command).await?;
    let said = String::from_utf8_lossy(&output.stdout);
    Ok(said
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .map(str::to_owned))
}

/// Waits for its end. `output` of tokio would take stderr too.
async fn run(mut command: Command) -> anyhow::Result<Output> {
    let cargo = command.spawn().context("cargo does not start: is Rust installed?")?;
    cargo.wait_with_output().await.context("cargo cannot be waited for")
}

/// The executables that cargo's messages name.
fn executables(messages: &[u8]) -> BTreeMap<String, PathBuf> {
    let messages = messages.split(|byte| *byte == b'\n');
    let messages = messages.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    messages
        .filter_map(|message| {
            let path = PathBuf::from(message["executable"].as_str()?);
            Some((message["target"]["name"].as_str()?.to_owned(), path))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn metadata() -> Value {
        let package = |name: &str, source: Value, bins: &[&str]| {
            let targets: Vec<Value> = bins.iter().map(|bin| json!({ "name": bin, "kind": ["bin"] })).collect();
            json!({ "id": name, "name": name, "source": source, "manifest_path": format!("/p/{name}/Cargo.toml"), "targets": targets })
        };
        let node = |id: &str, dependencies: &[&str]| json!({ "id": id, "dependencies": dependencies });
        json!({
            "packages": [
                package("functions", Value::Null, &["orchestrator", "worker", "helper"]),
                package("workflows", Value::Null, &[]),
                package("beside", Value::Null, &["helper"]),
                package("elsewhere", Value::Null, &["api"]),
                package("serde", json!("registry"), &[]),
            ],
            "workspace_members": ["functions", "workflows", "beside"],
            "workspace_root": "/p",
            "target_directory": "/t",
            "resolve": { "nodes": [
                node("functions", &["workflows", "serde"]), node("workflows", &["elsewhere", "functions"]),
                node("elsewhere", &[]), node("beside", &[]), node("serde", &[]),
            ]},
        })
    }

    fn workspace(binaries: &[&str]) -> anyhow::Result<Workspace> {
        let binaries = binaries.iter().map(|name| (*name).to_owned()).collect();
        Workspace::of(serde_json::from_value(metadata())?, &binaries)
    }

    #[test]
    fn the_packages_that_the_functions_depend_on_are_watched() {
        let workspace = workspace(&["orchestrator", "worker"]).unwrap();
        let project = Project::parse(Path::new("/p"), "name = \"a\"").unwrap();
        let sources = workspace.sources(&project, [PathBuf::from("/p/state")].into());
        let folders = ["/p/functions", "/p/workflows", "/p/elsewhere"].map(PathBuf::from);
        assert_eq!(sources.folders, folders.into());
        for file in ["/p/Cargo.lock", "/p/duroxide-lambda.toml", "/p/.cargo/config.toml"] {
            assert!(sources.files.contains(Path::new(file)), "{file}");
        }
        assert_eq!(sources.ignored, ["/p/state", "/t"].map(PathBuf::from).into());
        assert_eq!(workspace.owners["worker"], "functions");
    }

    #[test]
    fn a_binary_that_is_missing_or_ambiguous_is_named() {
        for (binary, why) in [
            ("maintenance", "has a binary maintenance"),
            ("api", "has a binary api"),
            ("helper", "functions and beside both"),
        ] {
            let error = workspace(&[binary]).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("[functions]"), "{error}");
        }
    }

    #[test]
    fn the_paths_of_binaries_are_in_the_messages_of_cargo() {
        let messages =
            b"{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"lib\"},\"executable\":null}\nnot JSON\n\
            {\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"worker\"},\"executable\":\"/t/debug/worker\"}\n";
        let expected = [("worker".to_owned(), PathBuf::from("/t/debug/worker"))];
        assert_eq!(executables(messages), expected.into());
    }
}
