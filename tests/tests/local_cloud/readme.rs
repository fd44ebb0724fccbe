//! What the README says to paste into a terminal.

use crate::support::*;
use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// A workflow of one's own takes no more lines than these.
const MOST_LINES: usize = 20;

fn repository() -> &'static Path {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().expect("the tests are in a folder of the repository")
}

fn readme() -> Result<String> {
    Ok(std::fs::read_to_string(repository().join("README.md"))?)
}

/// The shell lines of a text, block by block.
fn pasted(text: &str) -> Vec<Vec<&str>> {
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: builds a crate with its dependencies"]
async fn your_own_workflow_runs_as_pasted_from_the_readme() -> Result<()> {
    let text = readme()?;
    let section = text.split("\n## Your own workflow\n").nth(1).context("the section")?;
    let section = section.split("\n## ").next().context("its end")?;
    let blocks = pasted(section);
    let lines: usize = blocks.iter().map(Vec::len).sum();
    ensure!(lines <= MOST_LINES, "{lines} lines");
    let [first, second] = blocks.as_slice() else {
        anyhow::bail!("two terminals, {} blocks", blocks.len());
    };
    let (up, making) = first.split_last().context("the first terminal does something")?;

    // Beside our folder is here: a workspace of its own, so that nothing is added to ours.
    let place = fresh_directory("readme")?;
    std::fs::write(
        place.join("Cargo.toml"),
        "[workspace]\nresolver = \"3\"\nmembers = []\n",
    )?;
    // The same packages as ours are, which are on this machine.
    std::fs::copy(repository().join("Cargo.lock"), place.join("Cargo.lock"))?;
    let greeter = place.join("greeter").display().to_string();
    let here = |text: &str| text.replace("../greeter", &greeter);
    // Kept from run to run: what the crate depends on is built once.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("readme-target");
    let mut making = {
        let mut command = Command::new("bash");
        command.args(["-euc", &here(&making.join("\n"))]);
        command.current_dir(repository());
        command
            .env("CARGO_NET_OFFLINE", "true")
            .env("CARGO_TARGET_DIR", &target);
        command
    };
    let made = tokio::task::spawn_blocking(move || making.output()).await??;
    ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    std::os::unix::fs::symlink(&target, place.join("greeter/target"))?;

    let binaries = Binaries::built().await?;
    let arguments = |line: &str| -> Result<Vec<String>> {
        let arguments = line.strip_prefix("cargo run -- ").context("a command of ours")?;
        Ok(here(arguments).split(' ').map(str::to_owned).collect())
    };
    let mut command = binaries.local(&[]);
    command.args(arguments(up)?).args(["--port", "0", "--cosmos-port", "0"]);
    command.arg("--maintenance").arg(&binaries.functions.maintenance);
    command.arg("--api").arg(binaries.api());
    let up = Up::of(command, &binaries).await?;
    let [start] = second.as_slice() else {
        anyhow::bail!("one command in the second terminal: {second:?}");
    };
    let said = started_by_curl(start, &up)?;
    let instance = said["instance"].as_str().context("an instance")?;
    // It may have ended within the time that the request waits.
    let waited = up.json(&["wait", instance, "--timeout", "120"])?;
    ensure!(waited["output"] == "Hello world!", "{said} {waited}");
    Ok(())
}

/// Runs a command with the API of this cloud, and answers its JSON.
fn started_by_curl(command: &str, up: &Up) -> Result<Value> {
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
    let said = started_by_curl(&command, &up)?;
    ensure!(said["instance"] == "A-1", "{said}");
    let waited = up.json(&["wait", "A-1", "--timeout", "120"])?;
    let output = waited["output"].as_str().context("an output")?;
    ensure!(output.contains("shipped"), "{waited}");
    Ok(())
}
