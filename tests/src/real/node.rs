//! Packages from npm below the target directory, and Debian's Chromium: what the tests of the dashboard and of clients in TypeScript need.
//!
//! Made once and reused by later runs; a lock file keeps concurrent test processes from making it twice. Every package is named with its
//! version, also the indirect ones, and none may run a script when it is installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::install::{lock, parts, run};

/// `NAME@VERSION`. The compiler brings one package for the platform, of its own version.
const PACKAGES: [&str; 5] = [
    "@types/node@20.19.0",
    "axe-core@4.14.0",
    "playwright-core@1.65.1",
    "typescript@7.0.2",
    "undici-types@6.21.0",
];

/// What Debian calls the browser, and fonts for its text.
const DEBIAN: [&str; 2] = ["chromium", "fonts-liberation"];

/// A folder in which the packages are installed.
#[derive(Debug, Clone)]
pub struct Node {
    root: PathBuf,
}

impl Node {
    /// Installs the packages unless they are there. The first time takes some seconds and needs a package registry.
    pub async fn ready() -> Result<Node> {
        tokio::task::spawn_blocking(Node::make).await?
    }

    fn make() -> Result<Node> {
        let parent = parts()?;
        let node = Node {
            root: parent.join("node"),
        };
        let _lock = lock(&parent.join("node.lock"))?;
        // The marker is written last.
        let (marker, wanted) = (node.root.join("installed"), PACKAGES.join("\n"));
        if fs::read_to_string(&marker).is_ok_and(|installed| installed == wanted) {
            return Ok(node);
        }
        if node.root.exists() {
            fs::remove_dir_all(&node.root)?;
        }
        fs::create_dir_all(&node.root)?;
        fs::write(node.root.join("package.json"), "{\"private\": true}")?;
        let mut npm = Command::new("npm");
        npm.args([
            "install",
            "--no-audit",
            "--no-fund",
            "--silent",
            "--ignore-scripts",
            "--no-package-lock",
        ]);
        npm.args(["--save-exact"]).args(PACKAGES).current_dir(&node.root);
        run(&mut npm).context("Node with npm is needed: on Debian, apt-get install nodejs npm")?;
        fs::write(marker, wanted)?;
        Ok(node)
    }

    /// The folder of the packages. A module resolves them by `createRequire`, as they are not in a folder above it.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The TypeScript compiler.
    pub fn tsc(&self) -> PathBuf {
        self.root.join("node_modules/.bin/tsc")
    }
}

/// The program of Debian's Chromium, which is installed if it is missing.
pub async fn chromium() -> Result<PathBuf> {
    tokio::task::spawn_blocking(|| {
        let parent = parts()?;
        let _lock = lock(&parent.join("chromium.lock"))?;
        if let Some(found) = found("chromium") {
            return Ok(found);
        }
        let install = "Chromium is needed: as root, apt-get install chromium fonts-liberation";
        ensure!(found("apt-get").is_some(), install);
        let mut apt = Command::new("apt-get");
        run(apt.args(["update", "-qq"])).context(install)?;
        let mut apt = Command::new("apt-get");
        apt.args(["install", "-y", "-qq", "--no-install-recommends"])
            .args(DEBIAN);
        run(apt.env("DEBIAN_FRONTEND", "noninteractive")).context(install)?;
        found("chromium").context(install)
    })
    .await?
}

/// A program of the path.
fn found(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}
