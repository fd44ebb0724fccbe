//! `duroxide-lambda deploy`: a user's project becomes a stack of AWS, with its state in Cosmos DB.
//!
//! ```text
//!   project, environment, last deployment ──> parameters, template
//!     ──> archives (cargo lambda) ──> container ──> replay gate ──> sam deploy ──> the address of the API
//! ```
//!
//! | module | role |
//! |---|---|
//! | `parameters` | which parameters the deployment has; pure |
//! | `template` | the template with the project's functions, tags and overlay; pure |
//! | `tools`, `stack` | the programs that are called, and the stack as they describe it |
//! | `archives` | what is built |
//! | `container` | the store |
//! | `gate` | whether the new orchestrator can go on with what runs |
//! | `records`, `running` | what was deployed, for a rollback, and whether the stack runs it |
//! | `other` | `destroy`, `outputs` and `files` |
//!
//! Invariant: mistakes are reported before anything is built, and nothing of the stack is changed before the container and the gate are
//! as they should be. The account's key is never an argument of a program.

mod archives;
mod container;
mod gate;
mod other;
mod parameters;
#[cfg(test)]
mod parameters_tests;
mod records;
mod running;
mod stack;
mod template;
mod tools;

use crate::project::Project;
use crate::terminal::program;
use anyhow::{Context as _, bail};
use archives::Binaries;
use clap::{Args, Subcommand};
use gate::Gate;
use other::{Destroy, Files, Outputs};
use parameters::{Asked, Parameters, Variables};
use provision::Credential;
use records::{About, Record, Records, Scratch};
use running::Running;
use stack::Stack;
use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::process::ExitCode;
use template::Template;
use tools::Tools;

/// The exit code for a container that is missing or different.
const DIFFERENT: u8 = 3;
/// The exit code after Ctrl-C, as shells have it.
const INTERRUPTED: u8 = 130;

const NOTES: &str = "\
Environment:
  COSMOS_ENDPOINT                    the URI of the account
  COSMOS_TOKEN                       a token of Entra ID, which verifies the container; or
  COSMOS_KEY                         the account's key, which also creates it
  COSMOS_DATABASE, COSMOS_CONTAINER  names [default: those of the last deployment, else duroxide and workflows];
                                     others than the last ones need --move-store
  COSMOS_THROUGHPUT                  of a container that is created now: serverless, autoscale:4000 or manual:400
  and AWS's own variables

Exit codes:
  0: deployed
  1: error; the replay gate refuses the new orchestrator
  2: wrong usage
  3: the container is missing or different
  130: stopped by Ctrl-C or a signal";

/// Deploy the project of this directory to AWS, upgrade it, or roll it back.
///
/// Builds its functions, creates or verifies the container, replays what runs on the new orchestrator, and deploys the stack. A parameter that is
/// not given here or in duroxide-lambda.toml keeps its last value; an empty value (CosmosClientId=) resets it. The functions use the application
/// CosmosClientId, or the secret CosmosKeySecretArn, or, with neither, a secret that the stack creates from COSMOS_KEY.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, after_help = NOTES)]
pub(crate) struct Deploy {
    #[command(subcommand)]
    other: Option<Other>,
    #[command(flatten)]
    deployment: Deployment,
}

#[derive(Debug, Subcommand)]
enum Other {
    Destroy(Destroy),
    Outputs(Outputs),
    Files(Files),
}

#[derive(Debug, Args)]
struct Deployment {
    /// Parameters of the template, like WorkerTimeout=60
    #[arg(value_name = "Parameter=Value", value_parser = parameters::pair)]
    parameters: Vec<(String, String)>,
    #[command(flatten)]
    name: StackName,
    /// Deploy the archives and parameters of the previous deployment from this directory again
    #[arg(long, conflicts_with = "parameters")]
    rollback: bool,
    /// Deploy even if the new orchestrator may not be able to go on with what runs
    #[arg(long)]
    skip_replay: bool,
    /// Use a container that another stack of the same code uses
    #[arg(long)]
    share_container: bool,
    /// Move the stack to another account, database or container; its instances stay in the old one, where no function serves them
    #[arg(long, conflicts_with = "rollback")]
    move_store: bool,
}

/// Which stack.
#[derive(Debug, Args)]
struct StackName {
    /// The name of the stack [default: that of duroxide-lambda.toml]
    #[arg(long, value_name = "NAME")]
    stack: Option<String>,
}

impl StackName {
    fn of(&self, project: &Project) -> anyhow::Result<String> {
        let name = self
            .stack
            .as_ref()
            .or(project.deploy.stack.as_ref())
            .unwrap_or(&project.name);
        if !crate::project::is_name(name) {
            // Function names start with it, and Lambda allows 64 characters.
            bail!("the stack '{name}' must begin with a letter and have at most 50 letters, digits and hyphens");
        }
        Ok(name.clone())
    }
}

fn project() -> anyhow::Result<Project> {
    let directory = env::current_dir().context("the current directory is not known")?;
    Ok(Project::find(&directory)?)
}

impl Deploy {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        match self.other {
            Some(Other::Destroy(destroy)) => destroy.run().await,
            Some(Other::Outputs(outputs)) => outputs.run().await,
            Some(Other::Files(files)) => files.run(),
            None => self.deployment.run().await,
        }
    }
}

impl Deployment {
    /// Ends in order when it is stopped: the settings of `sam`, which hold the key, are removed, and no program goes on.
    async fn run(self) -> anyhow::Result<ExitCode> {
        let work = async {
            match self.rollback {
                true => self.roll_back().await,
                false => self.deploy().await,
            }
        };
        tokio::select! {
            done = work => done,
            stopped = crate::stop_requested() => {
                stopped?;
                eprintln!("Stopped. If CloudFormation has begun to change the stack, it completes that: see its events before you deploy again.");
                Ok(ExitCode::from(INTERRUPTED))
            }
        }
    }

    async fn deploy(self) -> anyhow::Result<ExitCode> {
        let project = project()?;
        let name = self.name.of(&project)?;
        let variables = variables()?;
        let throughput = provision::throughput(&set("COSMOS_THROUGHPUT").unwrap_or_else(|| "serverless".to_owned()))
            .map_err(|why| anyhow::anyhow!("COSMOS_THROUGHPUT cannot be used: {why}"))?;
        let credential = Credential::from_variables(set)?;
        let template = Template::render(&project.functions, &name, overlay(&project)?)?;
        let known = template.parameters();
        let asked = Asked {
            arguments: &self.parameters,
            project: &project.deploy.parameters,
            variables: &variables,
            known: &known,
        };
        asked.check()?;
        let tools = Tools::find(project.root.clone(), &["cargo", "cargo-lambda", "sam", "aws"])?;
        let described = Stack::describe(&tools, &name).await?;
        if let Some(stack) = &described {
            stack.check_ours()?;
        }
        let last = described.as_ref().filter(|stack| stack.is_deployed());
        let parameters = asked.decide(last)?;
        if let (Some(last), false) = (last, self.move_store) {
            container::refuse_move(last, &parameters)?;
        }
        if !self.share_container {
            container::refuse_shared(&tools, &name, &parameters).await?;
        }
        let binaries = Binaries::find(&tools, &project.functions).await?;
        // Before the build, which takes minutes: a wrong key is found at once.
        println!("== container");
        if !container::ensure(&parameters, credential, throughput).await? {
            return Ok(ExitCode::from(DIFFERENT));
        }
        let records = Records::of(&project.root, &name);
        let record = records.begin()?;
        let architecture = parameters.get("Architecture");

        println!("== archives");
        binaries.build(&tools, architecture, record.folder()).await?;
        fs::write(record.template(), template.text()).context("the template cannot be written")?;
        let orchestrator = project.functions.orchestrator.as_str();
        let gate = |api| Gate {
            record: &record,
            architecture,
            orchestrator,
            api,
        };
        if let Some(api) = self.replays(last) {
            println!("== replay");
            gate(api).check(&tools, Some(&binaries)).await?;
        }
        println!("== stack");
        let before = Running::before(&tools, last, &records).await;
        if described.as_ref().is_some_and(Stack::is_failed_creation) {
            Stack::delete(&tools, &name).await?;
        }
        let deployed = Sam {
            tools: &tools,
            stack: &name,
            names_roles: project.deploy.overlay.is_some(),
        };
        let deployed = deployed.deploy(&record, &parameters).await?;
        let about = About {
            architecture: architecture.to_owned(),
            orchestrator: orchestrator.to_owned(),
            parameters: deployed.parameters_but_the_stores(),
            previous: before.deployment(),
            followed_other: before == Running::Elsewhere,
        };
        records.succeed(&record, &about)?;
        report(&deployed, last);
        Ok(ExitCode::SUCCESS)
    }

    async fn roll_back(self) -> anyhow::Result<ExitCode> {
        let project = project()?;
        let name = self.name.of(&project)?;
        let tools = Tools::find(project.root.clone(), &["sam", "aws"])?;
        let records = Records::of(&project.root, &name);
        let (record, about) = records.previous()?;
        let described = Stack::describe(&tools, &name).await?;
        let Some(last) = described.as_ref().filter(|stack| stack.is_deployed()) else {
            bail!("there is no stack '{name}' to roll back");
        };
        last.check_ours()?;
        Running::find(&tools, last, &records).await?.check_here()?;
        if let Some(api) = self.replays(Some(last)) {
            println!("== replay");
            let gate = Gate {
                record: &record,
                architecture: &about.architecture,
                orchestrator: &about.orchestrator,
                api,
            };
            gate.check(&tools, None).await?;
        }
        println!("== stack: deployment {} again", record.number);
        let sam = Sam {
            tools: &tools,
            stack: &name,
            names_roles: true,
        };
        let deployed = sam.deploy(&record, &Parameters::again(about.parameters)?).await?;
        records.run_now(record.number)?;
        report(&deployed, Some(last));
        Ok(ExitCode::SUCCESS)
    }

    /// The API whose instances are replayed, if there is one.
    fn replays<'a>(&self, last: Option<&'a Stack>) -> Option<&'a str> {
        let last = last.filter(|_| !self.skip_replay)?;
        let api = last.output("ApiUrl");
        if api.is_none() {
            println!("== replay: skipped, because the stack has no API that knows what runs");
        }
        api
    }
}

/// `sam deploy` of one stack.
struct Sam<'a> {
    tools: &'a Tools,
    stack: &'a str,
    /// An overlay may name roles.
    names_roles: bool,
}

impl Sam<'_> {
    /// Deploys, and returns the stack as it is then.
    async fn deploy(&self, record: &Record, parameters: &Parameters) -> anyhow::Result<Stack> {
        let scratch = Scratch::create()?;
        let settings = scratch.file("samconfig.toml");
        fs::write(&settings, parameters.sam_config()).context("the settings of sam cannot be written")?;
        let (template, settings) = (record.template(), settings.display().to_string());
        let template = template.display().to_string();
        let mut arguments = vec![
            "deploy",
            "--template-file",
            &template,
            "--config-file",
            &settings,
            "--stack-name",
            self.stack,
            "--resolve-s3",
            "--no-confirm-changeset",
            "--no-fail-on-empty-changeset",
            "--capabilities",
            "CAPABILITY_IAM",
        ];
        if self.names_roles {
            arguments.push("CAPABILITY_NAMED_IAM");
        }
        self.tools.run("sam", &arguments).await?;
        let described = Stack::describe(self.tools, self.stack).await?;
        described.with_context(|| format!("the stack '{}' was deployed, but there is none", self.stack))
    }
}

/// What the environment says of the store.
fn variables() -> anyhow::Result<Variables> {
    Ok(Variables {
        endpoint: set("COSMOS_ENDPOINT"),
        database: set("COSMOS_DATABASE"),
        container: set("COSMOS_CONTAINER"),
        key: set("COSMOS_KEY"),
    })
}

fn set(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.trim().is_empty())
}

fn overlay(project: &Project) -> anyhow::Result<serde_json::Value> {
    let Some(path) = &project.deploy.overlay else {
        return Ok(serde_json::Value::Null);
    };
    let text = fs::read_to_string(path).with_context(|| format!("the overlay {} cannot be read", path.display()))?;
    template::parse(&text).with_context(|| format!("the overlay {} has a mistake", path.display()))
}

impl Stack {
    fn parameters_but_the_stores(&self) -> BTreeMap<String, String> {
        let all = self.parameters();
        // CloudFormation masks what is secret.
        all.filter(|(name, value)| !name.starts_with("Cosmos") && *value != "****")
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }
}

/// Prints where the API is, and what to do next.
fn report(stack: &Stack, last: Option<&Stack>) {
    println!("== deployed");
    let program = program();
    let roles = stack.new_roles(last);
    if !roles.is_empty() {
        println!("The application must trust these roles, each by one federated credential (docs/deployment.md):");
        for role in roles {
            println!("  {role}");
        }
    }
    if let Some(url) = stack.output("ApiUrl") {
        println!("API: {url}");
        println!("Next: export DUROXIDE_LAMBDA_URL={url}");
        println!("      {program} start ORCHESTRATION --input TEXT");
        println!("      {program} list");
        println!("      {program} dashboard");
    }
    println!("      {program} deploy outputs");
}
