//! What the README says to paste into a terminal.

use crate::support::*;
use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn repository() -> &'static Path {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().expect("the tests are in a folder of the repository")
}

fn readme() -> Result<String> {
    Ok(std::fs::read_to_string(repository().join("README.md"))?)
}

/// The shell lines of a text, block by block.
pub fn pasted(text: &str) -> Vec<Vec<&str>> {
    let blocks = text.split("```sh\n").skip(1);
    blocks
        .map(|block| block.lines().take_while(|line| *line != "```").collect())
        .collect()
}

#[test]
fn commands_in_the_readme_have_no_comments_which_some_shells_take_for_arguments() -> Result<()> {
    let text = readme()?;
    let blocks = pasted(&text);
    ensure!(blocks.len() >= 4, "{blocks:?}");
    for line in blocks.iter().flatten() {
        ensure!(!line.starts_with('#') && !line.contains(" #"), "{line}");
    }
    Ok(())
}

#[test]
fn your_own_workflow_takes_few_commands_and_ends_as_the_readme_of_a_project_says() -> Result<()> {
    let text = readme()?;
    let section = text.split("\n## Your own workflow\n").nth(1).context("the section")?;
    let section = section.split("\n## ").next().context("its end")?;
    let [first, second] = &pasted(section)[..] else {
        anyhow::bail!("two terminals");
    };
    // `projects` runs these with a project of this kind, but for the first one: the tests have built the command line.
    let expected = [
        "cargo install --debug --locked --path infra/cli",
        "duroxide-lambda new ../greeter --minimal",
        "cd ../greeter",
        "cargo test",
        "duroxide-lambda dev",
    ];
    ensure!(*first == expected, "{first:?}");
    let template = repository().join("infra/cli/templates/minimal/README.md");
    let template = std::fs::read_to_string(template)?;
    let blocks = pasted(&template);
    ensure!(
        second.len() == 1 && blocks.iter().flatten().any(|line| *line == second[0]),
        "{second:?} is not in {blocks:?}"
    );
    Ok(())
}

/// Runs a command with the API of this cloud, and answers its JSON.
pub fn curl(command: &str, up: &Up) -> Result<Value> {
    let command = command.replace("http://127.0.0.1:9401", &up.api);
    ensure!(command.starts_with("curl ") && command.contains(&up.api), "{command}");
    let output = Command::new("bash").args(["-euc", &command]).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{command}: {output:?}");
    serde_json::from_str(&said).with_context(|| format!("{command}: {said}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: curl"]
async fn the_first_command_that_up_prints_starts_a_workflow() -> Result<()> {
    let binaries = Binaries::built().await?;
    let mut up = Up::start(&binaries, &[]).await?;
    let shown = |line: &str| line.contains("Ctrl-C stops it").then_some(());
    up.process.wait_for(PATIENCE, shown).await?;
    let printed = up.process.stdout();
    let mut lines = printed.iter().skip_while(|line| !line.trim().starts_with("curl "));
    let (first, second) = (lines.next().context("a curl")?, lines.next().context("its data")?);
    let command = format!("{}\n{}", first.trim(), second.trim());
    let said = curl(&command, &up)?;
    ensure!(said["instance"] == "A-1", "{said}");
    let waited = up.json(&["wait", "A-1", "--timeout", "120"])?;
    let output = waited["output"].as_str().context("an output")?;
    ensure!(output.contains("shipped"), "{waited}");
    Ok(())
}
