//! Projects that `duroxide-lambda new` makes: each kind passes its own tests, the lints and the formatter, and its workflow runs to its
//! end, started over HTTP. The README of a project and what `new` prints are true: their commands are what is run.

use crate::dev::said;
use crate::readme::{curl, pasted};
use crate::support::*;
use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tests::real::Project;

/// A project of one kind, and its functions on a local cloud.
struct Running {
    project: Project,
    /// What `new` has printed.
    said: String,
    up: Up,
}

/// Makes a project, does with it what its CI does, and runs it.
async fn running(name: &str, options: &[&str]) -> Result<Running> {
    let binaries = Binaries::built().await?;
    let (project, said) = Project::generate(&binaries, name, options).await?;
    // Without `--all`, which would look at the crates of this repository, too.
    project.cargo(&["fmt", "--", "--check"]).await?;
    let tested = project.cargo(&["test"]).await?;
    let passed = tested.lines().filter(|line| line.ends_with(" ... ok")).count();
    ensure!(passed >= 2, "{passed} tests:\n{tested}");
    let strict = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    project.cargo(&strict).await?;
    let own = binaries.and(project.functions().await?);
    let up = Up::start(&own, &[]).await?;
    Ok(Running { project, said, up })
}

impl Running {
    /// The commands of the project's README that begin like this.
    fn commands(&self, beginning: &str) -> Result<Vec<String>> {
        let text = self.project.read("README.md")?;
        let blocks = pasted(&text);
        let lines = blocks.iter().flatten().filter(|line| line.starts_with(beginning));
        let found: Vec<String> = lines.map(|line| (*line).to_owned()).collect();
        ensure!(!found.is_empty(), "the README has no {beginning}");
        Ok(found)
    }

    /// Runs client commands in a shell, as a user would, and returns what the last one has printed.
    fn client(&self, commands: &[String]) -> Result<String> {
        let mut said = String::new();
        for command in commands {
            let output = self.up.shell(command)?;
            said = String::from_utf8_lossy(&output.stdout).into_owned();
            ensure!(
                output.status.success(),
                "{command}: {said}{}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(said)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: builds a project with its dependencies; curl"]
async fn a_minimal_project_passes_its_tests_and_runs() -> Result<()> {
    let running = running("greeter", &["--minimal"]).await?;
    let [start] = &running.commands("curl ")?[..] else {
        anyhow::bail!("one curl in the README");
    };
    let said = curl(start, &running.up)?;
    let instance = said["instance"].as_str().context("an instance")?;
    // It may have ended within the time that the request waits.
    let waited = running.up.json(&["wait", instance, "--timeout", "120"])?;
    ensure!(waited["output"] == "Hello world!", "{said} {waited}");
    let said = running.client(&running.commands("duroxide-lambda start")?)?;
    ensure!(said.contains("Hello world!"), "{said}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: builds a project with its dependencies; curl"]
async fn a_full_project_passes_its_tests_and_runs() -> Result<()> {
    let running = running("travel", &[]).await?;
    let mut last = Value::Null;
    for command in running.commands("curl ")? {
        last = curl(&command, &running.up)?;
    }
    // The last one waits for the end, if that is near.
    let waited = running.up.json(&["wait", "bergen", "--timeout", "120"])?;
    let output: Value = serde_json::from_str(waited["output"].as_str().context("an output")?)?;
    let seats = output["booked"]["seats"].as_array().map(Vec::len);
    ensure!(seats == Some(2), "{last} {waited}");
    // What `new` has printed begins with the path of the program; the README names it as an installed one.
    let printed = running.said.lines().filter(|line| line.contains(" oslo"));
    let printed: Vec<String> = printed.map(|line| line.trim().to_owned()).collect();
    let shown = running.commands("duroxide-lambda ")?;
    let shown: Vec<&String> = shown.iter().filter(|line| line.contains(" oslo")).collect();
    ensure!(printed.len() == 3 && shown.len() == 3, "{printed:?} {shown:?}");
    for (printed, shown) in printed.iter().zip(&shown) {
        let arguments = |line: &str| line.split_once("duroxide-lambda ").map(|(_, rest)| rest.to_owned());
        ensure!(arguments(printed) == arguments(shown), "{printed} is not {shown}");
    }
    let said = running.client(&printed)?;
    ensure!(said.contains("booked"), "{said}");
    Ok(())
}

/// The commands of a section of the guide.
fn commands_of_the_guide(section: &str) -> Result<Vec<String>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guide.md");
    let text = std::fs::read_to_string(path)?;
    let text = text.split(&format!("\n## {section}\n")).nth(1).context("the section")?;
    let text = text.split("\n## ").next().unwrap_or_default();
    let commands: Vec<String> = pasted(text).into_iter().flatten().map(str::to_owned).collect();
    ensure!(!commands.is_empty(), "{section} has no commands");
    Ok(commands)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: builds a project with its dependencies"]
async fn a_new_project_is_developed_as_the_guide_says() -> Result<()> {
    let binaries = Binaries::built().await?;
    let (project, _) = Project::generate(&binaries, "subscriptions", &["--minimal"]).await?;
    project.functions().await?;
    let dev = project.inside(binaries.local(&["dev", "--port", "0"]));
    let mut up = Up::of(dev, &binaries).await?;
    said(&mut up, "Watching the sources", 1).await?;
    let mut commands = commands_of_the_guide("Run it")?;
    ensure!(commands.remove(0) == "duroxide-lambda dev", "it begins with the cloud");
    commands.extend(commands_of_the_guide("When something goes wrong")?);
    let mut printed = String::new();
    for command in &commands {
        let output = up.shell(command)?;
        printed += &String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "{command}: {output:?}");
    }
    for part in ["Hello world!", "first", "greet"] {
        ensure!(printed.contains(part), "{part} is not in\n{printed}");
    }

    // A change of the activity is used without a new start.
    let source = project.root.join("workflows/src/lib.rs");
    let text = std::fs::read_to_string(&source)?;
    ensure!(text.contains("Hello {name}!"), "{text}");
    std::fs::write(&source, text.replace("Hello {name}!", "Good day, {name}!"))?;
    said(&mut up, "worker: replaced", 1).await?;
    let output = up.shell("duroxide-lambda start hello --input world --wait")?;
    let printed = String::from_utf8_lossy(&output.stdout);
    ensure!(printed.contains("Good day, world!"), "{printed}");
    Ok(())
}
