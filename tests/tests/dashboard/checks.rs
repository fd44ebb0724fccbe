//! What can be checked without a world.

use crate::browser::dashboard;
use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use tests::real::{Node, target_dir};
use tokio::process::Command;

async fn passes(command: &mut Command) -> Result<String> {
    let output = command.kill_on_drop(true).output().await.context("it does not start")?;
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let err = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}\n{out}{err}", output.status);
    Ok(out)
}

/// The files below a folder whose names end so.
fn files(folder: &Path, end: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path, end)?);
        } else if path.to_string_lossy().ends_with(end) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[tokio::test]
#[ignore = "exhaustive: TypeScript from npm"]
async fn the_compiler_finds_no_mistake_in_the_types_of_the_modules() -> Result<()> {
    let node = Node::ready().await?;
    let folder = dashboard().canonicalize()?;
    let settings = json!({
        "compilerOptions": {
            "allowJs": true, "checkJs": true, "noEmit": true, "strict": true, "target": "ES2023", "module": "ES2022",
            "moduleResolution": "Bundler", "lib": ["ES2023", "DOM", "DOM.Iterable"], "skipLibCheck": true, "types": [],
        },
        "include": [folder.join("**/*.js")], "exclude": [folder.join("**/*.test.js")],
    });
    let file = target_dir()?.join("dashboard-tests/tsconfig.json");
    fs::create_dir_all(file.parent().context("a folder")?)?;
    fs::write(&file, settings.to_string())?;
    passes(Command::new(node.tsc()).arg("--project").arg(file)).await?;
    Ok(())
}

#[tokio::test]
#[ignore = "exhaustive: Node"]
async fn the_unit_tests_of_the_modules_pass() -> Result<()> {
    let tests = files(&dashboard(), ".test.js")?;
    ensure!(tests.len() > 3, "{tests:?}");
    let out = passes(Command::new("node").arg("--test").args(tests)).await?;
    ensure!(out.contains("# fail 0"), "{out}");
    Ok(())
}
