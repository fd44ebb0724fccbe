//! The commands beside deploying: `destroy`, `outputs` and `files`.

use super::records::Records;
use super::stack::Stack;
use super::tools::Tools;
use super::{StackName, project};
use anyhow::{Context as _, bail};
use clap::Args;
use serde_json::{Map, Value, json};
use std::fs;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

/// Delete the stack. The container and its data are kept
#[derive(Debug, Args)]
pub(super) struct Destroy {
    #[command(flatten)]
    name: StackName,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
}

/// Print the outputs of the stack: addresses, names, policies
#[derive(Debug, Args)]
pub(super) struct Outputs {
    #[command(flatten)]
    name: StackName,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Write the templates of both clouds to a directory, to read or to deploy them by hand
#[derive(Debug, Args)]
pub(super) struct Files {
    /// The directory
    directory: PathBuf,
}

impl Destroy {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let project = project()?;
        let name = self.name.of(&project)?;
        let tools = Tools::find(project.root.clone(), &["aws"])?;
        let Some(stack) = Stack::describe(&tools, &name).await? else {
            bail!("there is no stack '{name}'");
        };
        stack.check_ours()?;
        let store = |name: &str| stack.parameter(name).unwrap_or_default();
        println!(
            "Deletes the stack '{name}': its functions, queues, roles, logs, alarms, dashboard, and a secret that it created."
        );
        println!(
            "Keeps the container {}/{} of {} with all instances: they go on when a stack is deployed with it again.",
            store("CosmosDatabase"),
            store("CosmosContainer"),
            store("CosmosEndpoint")
        );
        println!("Keeps the archives in the bucket of sam, and .duroxide/deploy of this project.");
        if !self.yes && !confirmed(&name)? {
            println!("Nothing was deleted.");
            return Ok(ExitCode::FAILURE);
        }
        Stack::delete(&tools, &name).await?;
        Records::of(&project.root, &name).none_runs()?;
        println!("The stack '{name}' is deleted.");
        Ok(ExitCode::SUCCESS)
    }
}

fn confirmed(name: &str) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        bail!("there is nobody to ask for confirmation: delete the stack with --yes");
    }
    print!("Type the name of the stack to delete it: ");
    io::stdout().flush().context("the question cannot be written")?;
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.context("the answer cannot be read")?;
    Ok(answer.trim() == name)
}

impl Outputs {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let project = project()?;
        let name = self.name.of(&project)?;
        let tools = Tools::find(project.root, &["aws"])?;
        let Some(stack) = Stack::describe(&tools, &name).await? else {
            bail!("there is no stack '{name}'");
        };
        if self.json {
            let each = stack.outputs.iter();
            let all: Map<String, Value> = each
                .map(|output| (output.output_key.clone(), json!(output.output_value)))
                .collect();
            println!("{:#}", Value::Object(all));
            return Ok(ExitCode::SUCCESS);
        }
        for output in &stack.outputs {
            println!("{}: {}", output.output_key, output.output_value);
            if !output.description.is_empty() {
                println!("  {}", output.description);
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// What is part of this program.
const FILES: [(&str, &str); 5] = [
    ("aws/network.yaml", include_str!("../../templates/linked/network.yaml")),
    (
        "aws/template.yaml",
        include_str!("../../templates/linked/template.yaml"),
    ),
    (
        "azure/cosmos.bicep",
        include_str!("../../templates/linked/cosmos.bicep"),
    ),
    ("azure/cosmos.json", include_str!("../../templates/linked/cosmos.json")),
    (
        "azure/container.json",
        include_str!("../../templates/linked/container.json"),
    ),
];

impl Files {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let paths = FILES.map(|(name, text)| (self.directory.join(name), text));
        for (path, text) in &paths {
            if path.exists() && fs::read(path).is_ok_and(|there| there != text.as_bytes()) {
                bail!("{} exists and is different: choose another directory", path.display());
            }
        }
        for (path, text) in &paths {
            let written = match path.parent() {
                Some(parent) => fs::create_dir_all(parent).and_then(|()| fs::write(path, text)),
                None => fs::write(path, text),
            };
            written.with_context(|| format!("{} cannot be written", path.display()))?;
            println!("{}", path.display());
        }
        Ok(ExitCode::SUCCESS)
    }
}
