//! moto: AWS's APIs in a process of one test, empty at its start.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use aws_sdk_secretsmanager as secretsmanager;
use aws_sdk_sqs as sqs;

use super::process::Process;
use super::venv::Venv;

const START: Duration = Duration::from_secs(180);
const REGION: &str = "eu-central-1";
/// moto takes any credentials; requests must be signed with some.
const ACCESS_KEY: &str = "AKIDEXAMPLE";
const SECRET_KEY: &str = "not-a-secret";

/// A running moto server.
#[derive(Debug)]
pub struct Moto {
    endpoint: String,
    _process: Process,
}

impl Moto {
    /// Starts a server on a free port.
    pub async fn start(venv: &Venv) -> Result<Moto> {
        Moto::run(Command::new(venv.python()).args(["-m", "moto.server"])).await
    }

    /// Starts a server by a script that extends moto, and takes moto's own arguments.
    async fn start_by(venv: &Venv, script: &Path) -> Result<Moto> {
        Moto::run(Command::new(venv.python()).arg(script)).await
    }

    /// Starts a server whose CloudFormation makes all that our template has.
    pub async fn deployable(venv: &Venv) -> Result<Moto> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/real/programs/moto_more.py");
        Moto::start_by(venv, &script).await
    }

    async fn run(command: &mut Command) -> Result<Moto> {
        command
            .args(["-H", "127.0.0.1", "-p", "0"])
            .env("PYTHONUNBUFFERED", "1");
        let mut process = Process::spawn("moto", command)?;
        // It listens before it prints the port that it chose.
        let port = process.wait_for(START, port_of).await?;
        Ok(Moto {
            endpoint: format!("http://127.0.0.1:{port}"),
            _process: process,
        })
    }

    /// The address of all its services.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The variables that lead a function's AWS SDK here.
    pub fn env(&self) -> Vec<(String, String)> {
        [
            ("AWS_ENDPOINT_URL", self.endpoint.as_str()),
            ("AWS_REGION", REGION),
            ("AWS_DEFAULT_REGION", REGION),
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
            ("AWS_SECRET_ACCESS_KEY", SECRET_KEY),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
    }

    /// A client of its SQS.
    pub fn sqs(&self) -> sqs::Client {
        let config = sqs::Config::builder()
            .behavior_version(sqs::config::BehaviorVersion::latest())
            .region(sqs::config::Region::new(REGION))
            .credentials_provider(sqs::config::Credentials::new(
                ACCESS_KEY, SECRET_KEY, None, None, "test",
            ))
            .endpoint_url(&self.endpoint);
        sqs::Client::from_conf(config.build())
    }

    /// A client of its Secrets Manager.
    pub fn secrets(&self) -> secretsmanager::Client {
        let credentials = secretsmanager::config::Credentials::new(ACCESS_KEY, SECRET_KEY, None, None, "test");
        let config = secretsmanager::Config::builder()
            .behavior_version(secretsmanager::config::BehaviorVersion::latest())
            .region(secretsmanager::config::Region::new(REGION))
            .credentials_provider(credentials)
            .endpoint_url(&self.endpoint);
        secretsmanager::Client::from_conf(config.build())
    }
}

fn port_of(line: &str) -> Option<u16> {
    let (_, port) = line.split_once("Running on http://127.0.0.1:")?;
    port.trim().parse().ok()
}
