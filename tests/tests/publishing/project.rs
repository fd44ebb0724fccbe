//! The crates that are published, in their order, and cargo as a command.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// The published crates. Each depends on earlier ones only, its tests included: that is the order of publication.
pub const PUBLISHED: [&str; 9] = [
    "cosmos-emulator",
    "duroxide-cosmos-client",
    "duroxide-cosmos",
    "duroxide-lambda",
    "duroxide-lambda-api",
    "duroxide-lambda-sample",
    "local-cloud",
    "provision",
    "duroxide-lambda-cli",
];

/// The root of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// A file of the project.
pub fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A cargo command at the root, without the variables that cargo sets for a test of this package.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CARGO_PKG_")) {
        command.env_remove(name);
    }
    command
}

/// Runs a command, and answers its output if it succeeded.
pub fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// The members of the workspace, as `cargo metadata` describes them.
pub fn members() -> Vec<Value> {
    let output = succeed(&mut cargo(&[
        "metadata",
        "--no-deps",
        "--format-version=1",
        "--locked",
        "--offline",
    ]));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

/// The published crates, as `cargo metadata` describes them, in their order.
pub fn published() -> Vec<Value> {
    let members = members();
    let find = |name: &&str| members.iter().find(|member| member["name"] == **name);
    PUBLISHED
        .iter()
        .map(|name| {
            find(name)
                .unwrap_or_else(|| panic!("{name} is no member of the workspace"))
                .clone()
        })
        .collect()
}

/// The folder of a member.
pub fn folder(member: &Value) -> PathBuf {
    Path::new(member["manifest_path"].as_str().unwrap())
        .parent()
        .unwrap()
        .to_owned()
}
