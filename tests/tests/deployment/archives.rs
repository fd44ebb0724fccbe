//! `cargo lambda build` makes what is deployed: an archive for each function, that runs on Lambda's own Linux.

use crate::template::run;
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use tests::real::{Venv, target_dir};

/// What the README promises of the binary.
const MOST_BYTES: u64 = 15_000_000;
/// The C library of Amazon Linux 2023.
const GLIBC: (u32, u32) = (2, 34);

/// The functions whose archives are made. By default the two that have least in common: a release build of each takes minutes.
fn functions() -> Vec<String> {
    let names = std::env::var("ARCHIVES").unwrap_or_else(|_| "orchestrator,api".to_owned());
    names.split(',').map(str::to_owned).collect()
}

/// Lists an archive, and unpacks it beside itself.
const UNPACK: &str = "
import json, pathlib, sys, zipfile
path = pathlib.Path(sys.argv[1])
archive = zipfile.ZipFile(path)
files = [[one.filename, one.file_size, one.external_attr >> 16 & 0o777] for one in archive.infolist()]
archive.extractall(path.parent)
(path.parent / 'bootstrap').chmod(0o755)
json.dump(files, sys.stdout)";

/// The versions of the C library that a binary asks for.
fn glibc(binary: &[u8]) -> Vec<(u32, u32)> {
    let text = String::from_utf8_lossy(binary);
    let numbers = |version: &str| {
        let end = version
            .find(|one: char| !one.is_ascii_digit() && one != '.')
            .unwrap_or(version.len());
        let mut parts = version[..end].split('.').map(str::parse);
        Some((parts.next()?.ok()?, parts.next()?.ok()?))
    };
    text.split("GLIBC_").skip(1).filter_map(numbers).collect()
}

/// Builds with the compiler that `cargo lambda` brings, which links against an old C library, for this machine's own
/// architecture: the other needs Rust's libraries for it, which are no package of a registry.
async fn built() -> Result<()> {
    let venv = Venv::builder().await?;
    let path = std::env::var_os("PATH").context("there is a PATH")?;
    let path = std::iter::once(venv.directory()).chain(std::env::split_paths(&path));
    let architecture = match std::env::consts::ARCH {
        "aarch64" => "--arm64",
        _ => "--x86-64",
    };
    let mut command = Command::new(venv.cargo_lambda());
    command
        .args([
            "lambda",
            "build",
            "--release",
            "--locked",
            architecture,
            "--output-format",
            "zip",
        ])
        .arg("--lambda-dir")
        .arg(target_dir()?.join("lambda"))
        .env("CARGO_TARGET_DIR", target_dir()?)
        .env("PATH", std::env::join_paths(path)?);
    for function in functions() {
        command.args(["--package", &function]);
    }
    tokio::task::spawn_blocking(move || run(&mut command, b"")).await??;
    Ok(())
}

fn unpacked(archive: &Path) -> Result<Vec<(String, u64, u32)>> {
    let files: Value = serde_json::from_slice(&run(Command::new("python3").args(["-c", UNPACK]).arg(archive), b"")?)?;
    Ok(serde_json::from_value(files)?)
}

#[tokio::test]
#[ignore = "exhaustive: cargo-lambda and its compiler from PyPI; ARCHIVES=orchestrator,worker,maintenance,api makes all"]
async fn each_function_is_an_archive_that_lambda_can_start() -> Result<()> {
    built().await?;
    for function in functions() {
        let directory = target_dir()?.join("lambda").join(&function);
        let archive = directory.join("bootstrap.zip");
        let files = unpacked(&archive)?;
        let [(name, size, mode)] = files.as_slice() else {
            panic!("{function} has {files:?}");
        };
        assert_eq!(
            (name.as_str(), mode & 0o111),
            ("bootstrap", 0o111),
            "{function}: {mode:o}"
        );
        assert!(*size <= MOST_BYTES, "{function} has {size} bytes");
        println!(
            "{function}: {size} bytes, {} in the archive",
            std::fs::metadata(&archive)?.len()
        );

        let binary = std::fs::read(directory.join("bootstrap"))?;
        let machine = u16::from_le_bytes([binary[18], binary[19]]);
        let expected = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
        assert_eq!((&binary[..4], machine), (&b"\x7fELF"[..], expected), "{function}");
        let newest = glibc(&binary).into_iter().max();
        assert!(
            newest.is_some_and(|newest| newest <= GLIBC),
            "{function} wants {newest:?}"
        );

        // It starts, and ends with all that it misses.
        let output = Command::new(directory.join("bootstrap")).env_clear().output()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && said.contains("COSMOS_ENDPOINT is not set"),
            "{function}: {said}"
        );
    }
    Ok(())
}
