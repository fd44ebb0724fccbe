//! The archives of the functions, by `cargo lambda`, and the orchestrator for the replay gate.

use super::tools::Tools;
use crate::project::Functions;
use anyhow::{Context as _, bail};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// What Lambda starts in an archive.
const BOOTSTRAP: &str = "bootstrap";

/// The binaries of a project, with the package of each.
#[derive(Clone, Debug)]
pub(super) struct Binaries {
    packages: BTreeMap<String, String>,
    target: PathBuf,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_members: BTreeSet<String>,
    target_directory: PathBuf,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

/// The names of all binaries that a deployment has.
pub(super) fn names(functions: &Functions) -> BTreeSet<&str> {
    let each = [
        &functions.orchestrator,
        &functions.worker,
        &functions.maintenance,
        &functions.api,
    ];
    each.into_iter()
        .chain(functions.tagged.values())
        .map(String::as_str)
        .collect()
}

impl Binaries {
    /// Finds the packages of the binaries in the cargo workspace of the project.
    pub(super) async fn find(tools: &Tools, functions: &Functions) -> anyhow::Result<Binaries> {
        // With all dependencies, so that cargo completes the lock file of a new project: the builds take it as it is.
        let arguments = ["metadata", "--format-version", "1"];
        let answer = match tools.read("cargo", &arguments).await? {
            Ok(answer) => answer,
            Err(said) => bail!("the project is no cargo workspace: {}", said.trim()),
        };
        let metadata: Metadata = serde_json::from_str(&answer).context("the answer of cargo cannot be read")?;
        let mut known = BTreeMap::new();
        let members = &metadata.workspace_members;
        for package in metadata
            .packages
            .into_iter()
            .filter(|package| members.contains(&package.id))
        {
            for target in package.targets {
                if target.kind.iter().any(|kind| kind == "bin") {
                    known.insert(target.name, package.name.clone());
                }
            }
        }
        let packages = names(functions).into_iter().map(|name| match known.get(name) {
            Some(package) => Ok((name.to_owned(), package.clone())),
            None => {
                let known: Vec<&str> = known.keys().map(String::as_str).collect();
                bail!(
                    "no package of the workspace has a binary '{name}'; it has: {}. Name your binaries in [functions] of {}",
                    known.join(", "),
                    crate::project::FILE
                )
            }
        });
        Ok(Binaries {
            packages: packages.collect::<Result<_, _>>()?,
            target: metadata.target_directory,
        })
    }

    /// Builds the archives for an architecture, and copies them to a directory.
    pub(super) async fn build(&self, tools: &Tools, architecture: &str, into: &Path) -> anyhow::Result<()> {
        let folder = self.target.join("lambda");
        let mut arguments = ["lambda", "build", "--release", "--locked"].map(str::to_owned).to_vec();
        arguments.push(format!("--{}", architecture.replace('_', "-")));
        arguments.extend(["--output-format", "zip", "--lambda-dir"].map(str::to_owned));
        arguments.push(folder.display().to_string());
        arguments.extend(self.selection(self.packages.keys()));
        tools.run("cargo", &arguments).await?;
        for name in self.packages.keys() {
            let from = folder.join(name).join("bootstrap.zip");
            let to = into.join(super::template::archive_of(name));
            fs::copy(&from, &to).with_context(|| format!("cargo lambda made no archive {}", from.display()))?;
        }
        Ok(())
    }

    /// Builds a binary for this machine, and returns its path.
    pub(super) async fn build_here(&self, tools: &Tools, name: &str) -> anyhow::Result<PathBuf> {
        // Apart from what the archives are built with: another compiler links those.
        let target = self.target.join("gate");
        let mut arguments = ["build", "--release", "--locked", "--target-dir"]
            .map(str::to_owned)
            .to_vec();
        arguments.push(target.display().to_string());
        arguments.extend(self.selection([&name.to_owned()].into_iter()));
        tools.run("cargo", &arguments).await?;
        Ok(target.join("release").join(name))
    }

    /// The packages are named so that cargo unifies the features of these only, not those of the whole workspace.
    fn selection<'a>(&self, names: impl Iterator<Item = &'a String> + Clone) -> Vec<String> {
        let packages: BTreeSet<&String> = names.clone().filter_map(|name| self.packages.get(name)).collect();
        let packages = packages.into_iter().map(|package| ["--package", package]);
        let binaries = names.map(|name| ["--bin", name]);
        packages.chain(binaries).flatten().map(str::to_owned).collect()
    }
}

/// Whether a binary of this architecture for Lambda runs on this machine.
pub(super) fn runs_here(architecture: &str) -> bool {
    let here = match std::env::consts::ARCH {
        "aarch64" => "arm64",
        other => other,
    };
    cfg!(target_os = "linux") && here == architecture
}

/// Takes the binary out of its archive.
pub(super) fn unpack(archive: &Path, to: &Path) -> anyhow::Result<()> {
    let unreadable = || format!("the archive {} cannot be read", archive.display());
    let file = File::open(archive).with_context(unreadable)?;
    let mut archive = zip::ZipArchive::new(file).with_context(unreadable)?;
    let mut binary = archive.by_name(BOOTSTRAP).with_context(unreadable)?;
    let mut made = File::create(to).with_context(|| format!("{} cannot be written", to.display()))?;
    io::copy(&mut binary, &mut made).with_context(unreadable)?;
    executable(to)
}

/// Makes a file a program.
pub(super) fn executable(path: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("{} cannot be made a program", path.display()))
}
