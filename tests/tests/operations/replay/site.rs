//! A site whose API the command line reaches over HTTP, and the command line.

use anyhow::{Context as _, Result, ensure};
use axum::Router;
use axum::body::Body;
use cosmos_emulator::http_server::HttpServer;
use duroxide::{Event, EventKind};
use duroxide_lambda::config::{ApiAuth, ApiSettings, MaintenanceSettings};
use duroxide_lambda::{Connection, Limits, Notifier};
use duroxide_lambda_api::{Api, router};
use http::Response;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tests::cloud::Cloud;
use tests::real::build;
use tests::replay::{BUILD, FIRST, activities, orchestrations};
use tokio::process::Command;
use tokio::sync::OnceCell;
use tower::ServiceExt as _;

/// The orchestrator whose builds are replayed.
pub const FUNCTION: &str = env!("CARGO_BIN_EXE_replay_function");
const LARGEST_BODY: usize = 16 << 20;

/// The functions of the first build, their store, and the API.
pub struct Site {
    pub cloud: Cloud,
    pub url: String,
    _api: HttpServer,
}

impl Site {
    pub async fn start() -> Result<Site> {
        let cloud = Cloud::start(orchestrations(FIRST), activities()).await;
        let listener = cloud.world.open_listener().await;
        let cosmos = cloud.world.builder_through(&listener).build();
        let notifier = Arc::clone(&cloud.queue) as Arc<dyn Notifier>;
        let connection = Connection::new(cosmos, notifier, Limits::default()).await?;
        let settings = ApiSettings {
            auth: ApiAuth::None,
            cors_origin: None,
        };
        let api = serve(router(Api::new(connection, &settings, MaintenanceSettings::default()))).await?;
        Ok(Site {
            cloud,
            url: format!("http://{}", api.address()),
            _api: api,
        })
    }

    /// Starts an instance, and lets the functions run it as far as it goes.
    pub async fn ran(&self, id: &str, orchestration: &str, input: &str) -> Result<()> {
        self.cloud.client.start_orchestration(id, orchestration, input).await?;
        self.cloud.drain().await;
        Ok(())
    }

    /// Runs a command on this site.
    pub async fn run(&self, arguments: &[&str]) -> Result<Ran> {
        let mut with_url = arguments.to_vec();
        with_url.extend(["--url", &self.url]);
        run(&with_url).await
    }

    /// Replays all that is in flight on a build.
    pub async fn replay(&self, build: &str, more: &[&str]) -> Result<Ran> {
        let variable = format!("{BUILD}={build}");
        let mut arguments = vec!["replay", "--orchestrator", FUNCTION, "--env", &variable];
        arguments.extend(more);
        self.run(&arguments).await
    }

    /// Saves all that is in flight in a new folder.
    pub async fn saved(&self, name: &str) -> Result<PathBuf> {
        let folder = fresh_folder(name)?;
        let ran = self.run(&["history", "--save", text(&folder)]).await?;
        ensure!(ran.code == 0, "{ran:?}");
        Ok(folder)
    }
}

/// Serves a router.
async fn serve(router: Router) -> Result<HttpServer> {
    let bound = HttpServer::bind(0).await?;
    Ok(bound.serve(LARGEST_BODY, move |request| {
        let router = router.clone();
        async move {
            let response = router.oneshot(request.map(Body::from)).await.ok()?;
            let (parts, body) = response.into_parts();
            let body = body.collect().await.ok()?.to_bytes();
            Some(Response::from_parts(parts, Full::new(body)))
        }
    }))
}

/// What the command line printed, and its exit code.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.out).with_context(|| format!("{self:?}"))
    }
}

/// The command line, built once per test process.
pub async fn command_line() -> Result<&'static Path> {
    static BUILT: OnceCell<PathBuf> = OnceCell::const_new();
    let built = BUILT.get_or_try_init(async || {
        let [built] = build(["duroxide-lambda"]).await?;
        anyhow::Ok(built)
    });
    Ok(built.await?)
}

/// A command, without what the test's own environment may say.
pub async fn command(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(command_line().await?);
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    for name in [
        "DUROXIDE_LAMBDA_PROFILE",
        "DUROXIDE_LAMBDA_TOKEN",
        "DUROXIDE_LAMBDA_URL",
        "RUST_LOG",
    ] {
        command.env_remove(name);
    }
    Ok(command)
}

pub async fn run(arguments: &[&str]) -> Result<Ran> {
    ran(command(arguments).await?).await
}

pub async fn ran(mut command: Command) -> Result<Ran> {
    let output = tokio::time::timeout(Duration::from_secs(300), command.output())
        .await
        .context("the command ends")??;
    Ok(Ran {
        code: output.status.code().context("it was killed")?,
        out: String::from_utf8(output.stdout)?,
        err: String::from_utf8(output.stderr)?,
    })
}

/// Replays a folder on a build.
pub async fn replay(folder: &Path, build: &str, more: &[&str]) -> Result<Ran> {
    let variable = format!("{BUILD}={build}");
    let mut arguments = vec!["replay", "--orchestrator", FUNCTION, "--env", &variable];
    arguments.extend(["--from", text(folder)]);
    arguments.extend(more);
    run(&arguments).await
}

/// A folder of this test's own, empty.
pub fn fresh_folder(name: &str) -> Result<PathBuf> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("replay-{}-{name}", std::process::id()));
    if path.exists() {
        std::fs::remove_dir_all(&path)?;
    }
    std::fs::create_dir_all(&path)?;
    Ok(path)
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("a path of a test is UTF-8")
}

/// A saved history of these events of the first execution.
pub fn saved_history(instance: &str, orchestration: &str, events: Vec<EventKind>) -> Value {
    let ids = 1..;
    let mut scheduled = None;
    let events: Vec<Event> = ids
        .zip(events)
        .map(|(id, kind)| {
            let source = matches!(kind, EventKind::ActivityCompleted { .. })
                .then(|| scheduled.take())
                .flatten();
            if matches!(kind, EventKind::ActivityScheduled { .. }) {
                scheduled = Some(id);
            }
            Event::with_event_id(id, instance, 1, source, kind)
        })
        .collect();
    json!({
        "format": "duroxide-lambda-history", "v": 1, "instance": instance, "execution": 1, "orchestration": orchestration,
        "version": "1.0.0", "status": "Running", "savedAt": "2026-11-17T20:00:00.000Z", "keys": [], "events": events,
    })
}

/// `Steps` after so many of its activities.
pub fn steps(instance: &str, count: u32) -> Value {
    let mut events = vec![EventKind::OrchestrationStarted {
        name: "Steps".to_owned(),
        version: "1.0.0".to_owned(),
        input: count.to_string(),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        carry_forward_events: None,
        initial_custom_status: None,
    }];
    for step in 0..count {
        events.push(EventKind::ActivityScheduled {
            name: "Step".to_owned(),
            input: step.to_string(),
            session_id: None,
            tag: None,
        });
        events.push(EventKind::ActivityCompleted {
            result: format!("Step {step}"),
        });
    }
    events.push(EventKind::QueueSubscribed {
        name: "approval".to_owned(),
    });
    saved_history(instance, "Steps", events)
}

pub fn write(folder: &Path, name: &str, content: &Value) -> Result<()> {
    Ok(std::fs::write(folder.join(name), content.to_string())?)
}
