//! The real API on the Cosmos DB emulator, a runtime with some orchestrations, and the binary that speaks to it.

use crate::server::{address_of, serve};
use async_trait::async_trait;
use cosmos::{ClientConfig, CosmosClient, Key, PartitionKey, Retry, StaticKey, Throughput};
use cosmos_emulator::http_server::HttpServer;
use cosmos_emulator::{CosmosServer, ServerOptions};
use duroxide::providers::Provider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{OrchestrationRegistry, Runtime};
use duroxide::{ActivityContext, Client, OrchestrationContext};
use duroxide_cosmos::{CosmosConfig, CosmosProvider};
use duroxide_lambda::config::{ApiAuth, ApiSettings, MaintenanceSettings};
use duroxide_lambda::{Connection, Delayed, Limits, NotSent, Notifier};
use duroxide_lambda_api::{Api, router};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Longer than anything takes, also on a busy machine.
pub const LONG: Duration = Duration::from_secs(120);

pub struct Fixture {
    pub server: CosmosServer,
    pub store: Arc<CosmosProvider>,
    pub variables: BTreeMap<String, String>,
    /// Where the API's wakeups go.
    pub wakeups: Arc<Wakeups>,
    _api: HttpServer,
    runtime: Option<Arc<Runtime>>,
}

/// The instances that the API has woken.
#[derive(Debug, Default)]
pub struct Wakeups(Mutex<Vec<String>>);

impl Wakeups {
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

#[async_trait]
impl Notifier for Wakeups {
    async fn notify(&self, wakeups: &[Delayed]) -> Vec<NotSent> {
        let targets = wakeups
            .iter()
            .map(|delayed| delayed.wakeup.target.instance().to_owned());
        self.0.lock().unwrap().extend(targets);
        Vec::new()
    }
}

/// What the binary printed, and its exit code.
#[derive(Debug)]
pub struct Output {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Fixture {
    /// An API without a runtime.
    pub async fn idle() -> Fixture {
        let server = CosmosServer::start(ServerOptions::default()).await.unwrap();
        let (endpoint, key) = (server.listener().endpoint(), server.listener().key());
        let source = StaticKey::new(Key::from_base64(&key).unwrap());
        let config = || CosmosConfig::builder(&endpoint, source.clone()).create_with(Throughput::Serverless);
        let store = Arc::new(CosmosProvider::connect(config().build()).await.unwrap());
        let wakeups = Arc::<Wakeups>::default();
        let notifier = Arc::clone(&wakeups) as Arc<dyn Notifier>;
        let patient = config().operation_timeout(Duration::from_secs(5)).build();
        let connection = Connection::new(patient, notifier, Limits::default()).await.unwrap();
        let settings = ApiSettings {
            auth: ApiAuth::None,
            cors_origin: None,
        };
        let api = Api::new(connection, &settings, MaintenanceSettings::default());
        let api = serve(router(api)).await;
        Fixture {
            server,
            store,
            variables: BTreeMap::from([("DUROXIDE_LAMBDA_URL".to_owned(), address_of(&api))]),
            wakeups,
            _api: api,
            runtime: None,
        }
    }

    /// A store with a runtime.
    pub async fn running() -> Fixture {
        let mut fixture = Fixture::idle().await;
        fixture.run_instances().await;
        fixture
    }

    pub async fn run_instances(&mut self) {
        let store = Arc::clone(&self.store) as Arc<dyn Provider>;
        self.runtime = Some(Runtime::start_with_store(store, activities(), orchestrations()).await);
    }

    pub fn client(&self) -> Client {
        Client::new(Arc::clone(&self.store) as Arc<dyn Provider>)
    }

    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.variables.insert(name.to_owned(), value.into());
    }

    pub async fn run(&self, arguments: &[&str]) -> Output {
        self.run_with(arguments, "").await
    }

    pub async fn run_with(&self, arguments: &[&str], input: &str) -> Output {
        binary(&self.variables, arguments, input).await
    }

    /// Runs a command with `--json`, which must succeed.
    pub async fn json(&self, arguments: &[&str]) -> Value {
        let mut arguments = arguments.to_vec();
        let end = arguments
            .iter()
            .position(|word| *word == "--")
            .unwrap_or(arguments.len());
        arguments.insert(end, "--json");
        let ran = self.run(&arguments).await;
        assert_eq!(ran.code, 0, "{arguments:?}: {ran:?}");
        serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
    }

    /// Waits until an instance has had its first turn.
    pub async fn until_running(&self, instance: &str) {
        let begun = Instant::now();
        while self.json(&["status", instance]).await["status"] == "Pending" {
            assert!(begun.elapsed() < LONG, "{instance} never had a turn");
        }
    }

    /// Writes what a build that cannot go on with an instance writes.
    pub async fn block(&self, instance: &str) {
        let endpoint = self.server.listener().endpoint();
        let key = StaticKey::new(Key::from_base64(&self.server.listener().key()).unwrap());
        let client = CosmosClient::new(ClientConfig::new(&endpoint, key).unwrap());
        let container = client.container("duroxide", "workflows");
        let pk = PartitionKey::new(instance).unwrap();
        let found = container.read::<Value>(&pk, "instance").await.unwrap();
        let mut doc = found.expect("an instance").doc;
        doc["blocked"] = json!({
            "cause": "unknown-name", "reason": "no deployed function registers `Echo`", "build": "b7",
            "since": 1_700_000_000_000_u64, "tries": 3, "until": 1_700_000_300_000_u64, "listed": true,
        });
        let replaced = container.replace(&pk, "instance", &doc, None, Retry::Idempotent).await;
        replaced.unwrap();
    }

    pub async fn stop(self) {
        if let Some(runtime) = self.runtime {
            runtime.shutdown(Some(0)).await;
        }
    }
}

impl Output {
    #[track_caller]
    pub fn exits(self, code: i32) -> Output {
        assert_eq!(self.code, code, "{self:?}");
        self
    }

    /// Expects this on stderr.
    #[track_caller]
    pub fn warns(self, words: &str) -> Output {
        assert!(self.err.contains(words), "{words:?} is not on stderr: {self:?}");
        self
    }
}

/// Runs the binary with these environment variables only.
pub async fn binary(variables: &BTreeMap<String, String>, arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_duroxide-lambda"));
    command.env_clear().envs(variables).args(arguments);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let input = input.to_owned();
    let run = move || {
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // A command that does not read its input may have closed it.
        stdin.write_all(input.as_bytes()).unwrap_or_default();
        drop(stdin);
        child.wait_with_output().unwrap()
    };
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    Output {
        code: output.status.code().expect("it was not killed"),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// An address where nobody listens, as long as this process lives.
pub fn dead_address() -> String {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = format!("http://{}", socket.local_addr().unwrap());
    // Bound without listening, so that no other process gets the port.
    std::mem::forget(socket);
    address
}

fn activities() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Greet", |_: ActivityContext, whom: String| async move {
            Ok(format!("Hello, {whom}!"))
        })
        .register("Charge", {
            let calls = Arc::<AtomicU32>::default();
            move |_: ActivityContext, _: String| {
                let call = calls.fetch_add(1, Ordering::SeqCst);
                async move {
                    match call {
                        0 => Err("the bank is closed".to_owned()),
                        _ => Ok("charged".to_owned()),
                    }
                }
            }
        })
        .build()
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Greet", |ctx: OrchestrationContext, whom: String| async move {
            ctx.set_kv_value("whom", whom.clone());
            ctx.set_custom_status(format!("greeting {whom}"));
            ctx.schedule_activity("Greet", whom).await
        })
        .register(
            "Echo",
            |_: OrchestrationContext, input: String| async move { Ok(input) },
        )
        .register("Await", |ctx: OrchestrationContext, _: String| async move {
            ctx.set_custom_status("waiting");
            Ok(ctx.schedule_wait("go").await)
        })
        .register("Mailbox", |ctx: OrchestrationContext, _: String| async move {
            Ok(ctx.dequeue_event("notes").await)
        })
        .register("Unlucky", |_: OrchestrationContext, _: String| async move {
            Err::<String, _>("no luck \u{1b}[31mtoday".to_owned())
        })
        .register("Order", |ctx: OrchestrationContext, whom: String| async move {
            let greeted = ctx.schedule_activity("Greet", whom).await?;
            let charged = ctx.schedule_activity("Charge", "").await?;
            Ok(format!("{greeted} {charged}"))
        })
        .register("Parent", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_sub_orchestration("Echo", input).await
        })
        .register("Count", |ctx: OrchestrationContext, input: String| async move {
            match input.parse().unwrap_or(0) {
                0_u32 => Ok("counted".to_owned()),
                left => ctx.continue_as_new((left - 1).to_string()).await,
            }
        })
        .build()
}
