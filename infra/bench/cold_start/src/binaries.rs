//! The binaries that are compared: the bare function of this package and the functions of the product, built with equal
//! profiles.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// A function's release binary.
#[derive(Debug)]
pub struct Binary {
    /// The function's name.
    pub name: String,
    /// The path of the binary.
    pub path: PathBuf,
}

impl Binary {
    /// An existing binary.
    pub fn new(name: &str, path: PathBuf) -> Binary {
        let name = name.to_owned();
        Binary { name, path }
    }
}

/// The bare function.
pub fn bare() -> Result<Binary> {
    let mut built = build(package(), &["--bin", "hello"], &["hello"])?;
    let mut bare = built.remove(0);
    bare.name = "bare".to_owned();
    Ok(bare)
}

/// The functions that serve requests and wakeups.
pub fn functions() -> Result<Vec<Binary>> {
    let root = package()
        .ancestors()
        .nth(3)
        .context("this package lies in the workspace")?;
    let (ours, theirs) = (profile(package())?, profile(root)?);
    if ours != theirs {
        bail!("the release profiles differ: {ours:?} here, {theirs:?} in the workspace");
    }
    build(
        root,
        &["-p", "orchestrator", "-p", "worker", "-p", "api"],
        &["orchestrator", "worker", "api"],
    )
}

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The settings of `[profile.release]`, sorted.
fn profile(directory: &Path) -> Result<Vec<String>> {
    let manifest = fs::read_to_string(directory.join("Cargo.toml"))?;
    let section = manifest
        .lines()
        .skip_while(|line| line.trim() != "[profile.release]")
        .skip(1);
    let settings = section.map(str::trim).take_while(|line| !line.starts_with('['));
    let mut settings: Vec<String> = settings
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::to_owned)
        .collect();
    settings.sort();
    Ok(settings)
}

fn build(directory: &Path, what: &[&str], names: &[&str]) -> Result<Vec<Binary>> {
    let output = Command::new(env!("CARGO"))
        .current_dir(directory)
        .args([
            "build",
            "--release",
            "--locked",
            "--message-format=json-render-diagnostics",
        ])
        .args(what)
        .stderr(Stdio::inherit())
        .output()
        .context("cargo does not start")?;
    if !output.status.success() {
        bail!("{} does not build", names.join(", "));
    }
    let text = String::from_utf8(output.stdout)?;
    let messages: Vec<Value> = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let find = |name: &&str| {
        let of = |message: &&Value| message["target"]["name"] == *name && message["executable"].is_string();
        let path = messages
            .iter()
            .find(of)
            .and_then(|message| message["executable"].as_str());
        let path = path.with_context(|| format!("cargo did not name the binary {name}"))?;
        Ok(Binary::new(name, PathBuf::from(path)))
    };
    names.iter().map(find).collect()
}
