//! Projects of users in one account, on moto: deployed, upgraded, rolled back and destroyed by `duroxide-lambda deploy`.

use crate::lint::quiet;
use crate::template::run;
use anyhow::{Context, Result};
use cosmos_emulator::{CosmosServer, ServerOptions};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tests::real::{Binaries, Deployed, Moto, Programs, Project, Venv, store};

const TAGGED: &str = "[functions.tagged]\ngpu = \"gpu-worker\"\nhigh-mem = \"worker\"\n\
                      [deploy]\noverlay = \"overlay.yaml\"\nparameters = { GpuWorkerMemory = \"2048\" }\n";
const OVERLAY: &str = "
Resources:
  WorkerFunction:
    Properties:
      Environment: { Variables: { BUCKET: !Ref Bucket } }
  WorkerRole:
    Properties:
      Policies:
        - PolicyName: bucket
          PolicyDocument:
            Version: '2012-10-17'
            Statement: [{ Effect: Allow, Action: 's3:GetObject', Resource: !Sub '${Bucket.Arn}/*' }]
  Bucket: { Type: AWS::S3::Bucket }
";

/// All that is in the account, by function name.
const LOOK: &str = "
import boto3, json, sys
functions = boto3.client('lambda').list_functions()['Functions']
stacks = boto3.client('cloudformation').describe_stacks()['Stacks']
queues = boto3.client('sqs').list_queues().get('QueueUrls', [])
json.dump({'functions': {one['FunctionName']: one for one in functions}, 'queues': queues, 'stacks': {
    one['StackName']: {pair['ParameterKey']: pair['ParameterValue'] for pair in one['Parameters']} for one in stacks}}, sys.stdout, default=str)";

struct Account {
    moto: Moto,
    programs: Programs,
    server: CosmosServer,
    python: PathBuf,
}

impl Account {
    /// Each test has its own: what is in it is removed with it.
    async fn open(name: &str) -> Result<Account> {
        let venv = Venv::ready().await?;
        let moto = Moto::deployable(&venv).await?;
        Ok(Account {
            programs: Programs::on_moto(name, &moto).await?,
            moto,
            server: CosmosServer::start(ServerOptions::default()).await?,
            python: venv.python(),
        })
    }

    async fn deploy(&self, project: &Path, arguments: &[&str]) -> Result<Deployed> {
        let [endpoint, key] = store(self.server.listener());
        let container = project
            .file_name()
            .context("it has a name")?
            .to_string_lossy()
            .into_owned();
        let env = [
            (endpoint.0, endpoint.1.as_str()),
            (key.0, key.1.as_str()),
            ("COSMOS_CONTAINER", &container),
        ];
        let done = self.programs.deploy(project, arguments, &env).await?;
        anyhow::ensure!(done.is_done(), "{arguments:?}: {}", done.said());
        Ok(done)
    }

    fn look(&self) -> Result<Value> {
        let mut python = Command::new(&self.python);
        python.args(["-c", LOOK]).envs(self.moto.env());
        Ok(serde_json::from_slice(&run(&mut python, b"")?)?)
    }
}

/// The name of a queue: addresses differ by where moto is asked from.
fn name_of(url: &Value) -> Option<&str> {
    url.as_str()?.rsplit_once('/').map(|(_, name)| name)
}

fn names(account: &Value) -> Vec<&str> {
    let functions = account["functions"].as_object().unwrap();
    functions.keys().map(String::as_str).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: sam and moto from PyPI"]
async fn two_projects_of_one_account_are_deployed_upgraded_rolled_back_and_destroyed() -> Result<()> {
    let account = Account::open("two-projects").await?;
    let orders = account.programs.project("orders", TAGGED)?;
    fs::write(orders.join("overlay.yaml"), OVERLAY)?;
    let invoices = account.programs.project("invoices", "")?;
    let first = account.deploy(&orders, &[]).await?;
    assert!(first.said().contains("API: http"), "{}", first.said());
    account.deploy(&invoices, &[]).await?;
    let made = account.look()?;
    let of_invoices = [
        "invoices-api",
        "invoices-maintenance",
        "invoices-orchestrator",
        "invoices-worker",
    ];
    let of_orders = [
        "orders-api",
        "orders-maintenance",
        "orders-orchestrator",
        "orders-worker",
        "orders-worker-gpu",
        "orders-worker-high-mem",
    ];
    assert_eq!(names(&made), [&of_invoices[..], &of_orders[..]].concat());
    let function = |name: &str| &made["functions"][name];
    assert_eq!(function("orders-worker-gpu")["MemorySize"], 2048);
    let variables = |name: &str| &function(name)["Environment"]["Variables"];
    assert!(
        variables("orders-worker")["BUCKET"]
            .as_str()
            .is_some_and(|name| !name.is_empty())
    );
    assert_eq!(variables("orders-worker-high-mem")["WORKER_TAGS"], "high-mem");
    let queues: Value = serde_json::from_str(variables("orders-api")["WORKER_TAG_QUEUE_URLS"].as_str().unwrap())?;
    let is_queue = |url: &Value| {
        let mut queues = made["queues"].as_array().unwrap().iter();
        queues.any(|made| name_of(made) == name_of(url))
    };
    assert!(is_queue(&queues["gpu"]) && is_queue(&queues["high-mem"]), "{queues}");
    assert_eq!(variables("invoices-api")["WORKER_TAG_QUEUE_URLS"], "{}");

    // The template of a project passes the linter, too.
    let venv = Venv::sam().await?;
    let rendered = orders.join(".duroxide/deploy/orders/1/template.json");
    let found = run(
        quiet(&venv, "cfn-lint").args(["--format", "json", "--"]).arg(&rendered),
        b"",
    )?;
    assert_eq!(serde_json::from_slice::<Value>(&found)?, json!([]));

    // moto's API has no address here, so the gate cannot be run.
    let code = |made: &Value| made["functions"]["orders-worker"]["CodeSha256"].clone();
    fs::write(account.programs.binaries().join("worker"), "#!/bin/sh\nexit 2\n")?;
    account.deploy(&orders, &["--skip-replay", "WorkerTimeout=120"]).await?;
    let upgraded = account.look()?;
    assert_ne!(code(&upgraded), code(&made));
    let parameter = |made: &Value, name: &str| made["stacks"]["orders"][name].clone();
    assert_eq!(parameter(&upgraded, "WorkerTimeout"), "120");
    assert_eq!(parameter(&upgraded, "GpuWorkerMemory"), "2048");

    account.deploy(&orders, &["--rollback", "--skip-replay"]).await?;
    let back = account.look()?;
    assert_eq!(code(&back), code(&made));
    assert_eq!(parameter(&back, "WorkerTimeout"), "60");
    assert_eq!(parameter(&back, "CosmosContainer"), "orders");

    let destroyed = account.deploy(&invoices, &["destroy", "--yes"]).await?;
    assert!(
        destroyed.said().contains("Keeps the container duroxide/invoices"),
        "{}",
        destroyed.said()
    );
    assert_eq!(names(&account.look()?), of_orders);
    let outputs = account.deploy(&orders, &["outputs", "--json"]).await?;
    let outputs: Value = serde_json::from_slice(&outputs.output.stdout)?;
    assert!(is_queue(&outputs["GpuWorkerQueueUrl"]), "{outputs}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: sam and moto from PyPI"]
async fn new_projects_of_both_kinds_are_deployed_as_they_are() -> Result<()> {
    let account = Account::open("new-projects").await?;
    let binaries = Binaries::built().await?;
    for (name, options) in [("plain", &["--minimal"][..]), ("complete", &[])] {
        let (project, _) = Project::generate(&binaries, name, options).await?;
        let deployed = account.deploy(&project.root, &[]).await?;
        assert!(deployed.said().contains("API: http"), "{}", deployed.said());
        for function in ["api", "maintenance", "orchestrator", "worker"] {
            let made = account.look()?;
            assert!(names(&made).contains(&format!("{name}-{function}").as_str()), "{made}");
        }
    }
    Ok(())
}
