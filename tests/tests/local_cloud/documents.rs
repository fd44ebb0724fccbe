//! The documents name files, headings and settings that exist.

use anyhow::{Context as _, Result, ensure};
use duroxide_lambda::config::VARIABLES;
use std::fs;
use std::path::{Path, PathBuf};

/// The README is for a first reading.
const MOST_README_LINES: usize = 150;
/// Folders in which a document may name a file without its path.
const FOLDERS: [&str; 6] = [
    "",
    "shared/host/src",
    "shared/provider/src",
    "shared/provider/src/model",
    "infra/azure",
    "infra/aws",
];
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The documents, with the folder that their links start from.
fn documents() -> Result<Vec<(PathBuf, String)>> {
    let mut paths = vec![root().join("README.md")];
    for entry in fs::read_dir(root().join("docs"))? {
        paths.push(entry?.path());
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    let read = |path: PathBuf| -> Result<(PathBuf, String)> {
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok((path, text))
    };
    paths.into_iter().map(read).collect()
}

/// The lines outside code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut in_block = false;
    text.lines().filter(move |line| {
        let is_fence = line.starts_with("```");
        in_block ^= is_fence;
        !in_block && !is_fence
    })
}

/// The anchors of the headings, as GitHub makes them.
fn anchors(text: &str) -> Vec<String> {
    let headings = prose(text).filter_map(|line| line.strip_prefix('#'));
    let anchor = |heading: &str| {
        let kept = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = kept.replace(' ', "-");
        kept.chars()
            .filter(|c| c.is_alphanumeric() || "-_".contains(*c))
            .collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn the_readme_is_short() -> Result<()> {
    let lines = fs::read_to_string(root().join("README.md"))?.lines().count();
    ensure!(lines <= MOST_README_LINES, "{lines} lines");
    Ok(())
}

#[test]
fn each_link_leads_to_a_file_and_a_heading() -> Result<()> {
    let mut links = 0;
    for (path, text) in documents()? {
        for link in prose(&text).flat_map(|line| line.split("](").skip(1)) {
            let target = link.split(')').next().unwrap_or_default();
            if target.starts_with("https://") {
                continue;
            }
            links += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let there = match file {
                "" => path.clone(),
                file => path.with_file_name(file),
            };
            let named = || format!("{}: {target}", path.display());
            // It may be a picture, which has no headings.
            let led_to = fs::read(&there).with_context(named)?;
            let led_to = String::from_utf8_lossy(&led_to);
            ensure!(
                anchor.is_empty() || anchors(&led_to).contains(&anchor.to_owned()),
                "{}",
                named()
            );
        }
    }
    ensure!(links > 20, "{links} links");
    Ok(())
}

fn is_path(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    let is_file = [".rs", ".sh", ".yaml", ".json", ".bicep", ".md"]
        .iter()
        .any(|end| name.ends_with(end));
    let tops = ["shared/", "functions/", "infra/", "tests/", "docs/"];
    let is_below = name.ends_with('/') || tops.iter().any(|top| name.starts_with(top));
    name.chars().all(plain) && !name.starts_with('/') && (is_file || is_below)
}

#[test]
fn each_file_that_a_document_names_exists() -> Result<()> {
    let (mut files, mut missing) = (0, Vec::new());
    for (path, text) in documents()? {
        for name in prose(&text).flat_map(|line| line.split('`').skip(1).step_by(2)) {
            if !is_path(name) || ["report.json", "order.json", "template.json"].contains(&name) {
                continue;
            }
            files += 1;
            let exists = FOLDERS.iter().any(|folder| root().join(folder).join(name).exists());
            if !exists {
                missing.push(format!("{} names {name}", path.display()));
            }
        }
    }
    ensure!(missing.is_empty(), "these do not exist:\n{}", missing.join("\n"));
    ensure!(files > 50, "{files} files");
    Ok(())
}

/// The Rust blocks of a text.
fn rust_blocks(text: &str) -> impl Iterator<Item = &str> {
    let blocks = text.split("```rust\n").skip(1);
    blocks.map(|block| block.split("\n```").next().unwrap_or_default())
}

#[test]
fn each_item_of_the_guides_code_is_compiled_and_run() -> Result<()> {
    let mut code = String::new();
    for entry in fs::read_dir(root().join("functions/workflows/tests/guide"))? {
        code += &fs::read_to_string(entry?.path())?;
    }
    let guide = fs::read_to_string(root().join("docs/guide.md"))?;
    let mut items = 0;
    for item in rust_blocks(&guide).flat_map(|block| block.split("\n\n")) {
        items += 1;
        ensure!(
            code.contains(item),
            "functions/workflows/tests/guide does not have\n{item}"
        );
    }
    ensure!(items > 20, "{items} items");
    Ok(())
}

#[test]
fn the_configuration_document_has_every_variable_with_its_default() -> Result<()> {
    let text = fs::read_to_string(root().join("docs/configuration.md"))?;
    for variable in VARIABLES {
        let rows = text
            .lines()
            .filter(|line| line.starts_with(&format!("| `{}` |", variable.name)));
        let [row] = rows.collect::<Vec<_>>()[..] else {
            anyhow::bail!("{} has one row", variable.name);
        };
        let shown = row.split('|').nth(2).unwrap_or_default().trim().trim_matches('`');
        let is_right = match variable.default {
            Some(default) => shown == default,
            None => shown.starts_with("required") || shown.starts_with("not set"),
        };
        ensure!(is_right, "{}: {shown}, not {:?}", variable.name, variable.default);
    }
    Ok(())
}
