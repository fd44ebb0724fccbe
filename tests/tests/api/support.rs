//! A site: the functions, their store, and the API in front of them.

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use cosmos::{Clock, SystemClock};
use cosmos_emulator::Listener;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};
use duroxide_lambda::config::{ApiAuth, ApiRole, ApiSettings, MaintenanceSettings};
use duroxide_lambda::{Connection, Limits, Notifier};
use duroxide_lambda_api::routes::Route;
use duroxide_lambda_api::types::{Problem, ProblemType};
use duroxide_lambda_api::{Api, Invocation, Timer, TokioTimer, router};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tests::cloud::{Cloud, CloudOptions};
use tower::ServiceExt as _;

/// A cloud with an API.
pub struct Site {
    pub cloud: Cloud,
    pub router: Router,
    /// The listener of the API's requests.
    pub listener: Listener,
}

/// What an API is made from, besides its cloud.
pub struct Options {
    pub auth: ApiAuth,
    pub cors_origin: Option<String>,
    pub timer: Arc<dyn Timer>,
    /// How long a request to the store may take, with its retries.
    pub time: Duration,
    /// The clock by which tokens expire and keys grow old.
    pub clock: Arc<dyn Clock>,
    /// Whether the functions have the sample's workflows instead of those of this file.
    pub sample: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            auth: ApiAuth::None,
            cors_origin: None,
            timer: Arc::new(TokioTimer),
            time: Duration::from_secs(30),
            clock: Arc::new(SystemClock),
            sample: false,
        }
    }
}

impl Site {
    /// A site for programs on this machine.
    pub async fn start() -> Site {
        Site::with(Options::default()).await
    }

    pub async fn with(options: Options) -> Site {
        let (orchestrations, activities) = match options.sample {
            true => (workflows::orchestrations(), workflows::activities()),
            false => (orchestrations(), activities()),
        };
        let cloud = Cloud::with(CloudOptions::default(), orchestrations, activities).await;
        let listener = cloud.world.open_listener().await;
        let cosmos = cloud
            .world
            .builder_through(&listener)
            .operation_timeout(options.time)
            .build();
        let notifier = Arc::clone(&cloud.queue) as Arc<dyn Notifier>;
        let connection = Connection::new(cosmos, notifier, Limits::default())
            .await
            .expect("the API connects");
        let settings = ApiSettings {
            auth: options.auth,
            cors_origin: options.cors_origin,
        };
        let maintenance = MaintenanceSettings::default();
        let api = Api::with(connection, &settings, maintenance, options.clock, options.timer);
        listener.reset();
        Site {
            cloud,
            router: router(api),
            listener,
        }
    }

    pub async fn send(&self, request: Request<Body>) -> Reply {
        let response = self.router.clone().oneshot(request).await.expect("the router answers");
        let (parts, body) = response.into_parts();
        let body = body.collect().await.expect("the body ends").to_bytes().to_vec();
        Reply {
            status: parts.status,
            headers: parts.headers,
            body,
        }
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.send(request("GET", path, None)).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Reply {
        self.send(request("POST", path, Some(body))).await
    }

    pub async fn delete(&self, path: &str) -> Reply {
        self.send(request("DELETE", path, None)).await
    }

    /// A path that this route of the table serves.
    pub async fn path_of(&self, route: &Route) -> String {
        let mut path = route.path.to_owned();
        if path.contains("{version}") {
            let config = self.get("/v1/dashboard-config").await.is(200);
            path = path.replace("{version}", config["version"].as_str().expect("a version"));
        }
        for (name, value) in [
            ("{id}", "x"),
            ("{name}", "Echo"),
            ("{instance}", "x"),
            ("{letter}", "dead:t:1"),
            ("{*file}", "main.js"),
        ] {
            path = path.replace(name, value);
        }
        path
    }

    /// Starts an instance.
    pub async fn started(&self, orchestration: &str, id: &str, input: Value) {
        let path = format!("/v1/orchestrations/{orchestration}/instances");
        let reply = self.post(&path, json!({"id": id, "input": input})).await;
        reply.is(202);
    }

    /// Starts an instance, and lets the functions run it as far as it goes.
    pub async fn ran(&self, orchestration: &str, id: &str, input: Value) {
        self.started(orchestration, id, input).await;
        self.cloud.drain().await;
    }
}

/// A request of a program on this machine.
pub fn request(method: &str, path: &str, body: Option<Value>) -> Request<Body> {
    let builder = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "127.0.0.1:9401");
    match body {
        Some(body) => builder
            .header("content-type", "application/json")
            .body(Body::from(body.to_string())),
        None => builder.body(Body::empty()),
    }
    .expect("a request")
}

/// Adds a header.
pub fn with(mut request: Request<Body>, name: &'static str, value: &str) -> Request<Body> {
    request.headers_mut().insert(name, value.parse().expect("a header"));
    request
}

/// Lets AWS have authenticated this caller.
pub fn signed_by(mut request: Request<Body>, arn: &str) -> Request<Body> {
    request.extensions_mut().insert(Invocation {
        caller: Some(arn.to_owned()),
        deadline: None,
    });
    request
}

/// Callers `arn:test:reader` and so on.
pub fn iam() -> ApiAuth {
    let role = |role: ApiRole| (format!("arn:test:{role}"), role);
    ApiAuth::Iam {
        roles: BTreeMap::from([ApiRole::Reader, ApiRole::Client, ApiRole::Operator].map(role)),
        default_role: None,
    }
}

/// An answer.
#[derive(Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().expect("a text"))
    }

    /// Fails unless this is the status; returns the body.
    #[track_caller]
    pub fn is(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        if self.body.is_empty() { Value::Null } else { self.json() }
    }

    /// Fails unless this is the problem.
    #[track_caller]
    pub fn is_problem(&self, kind: ProblemType) -> Problem {
        assert_eq!(self.status, kind.status(), "{}", self.text());
        assert_eq!(self.header("content-type"), "application/problem+json");
        let problem: Problem = serde_json::from_slice(&self.body).expect("a problem");
        assert_eq!(problem.kind, kind.uri(), "{problem:?}");
        assert_eq!(problem.status, kind.status());
        problem
    }
}

/// A timer that does not wait, and remembers for how long it was asked to.
#[derive(Debug, Default)]
pub struct Paused(pub Mutex<Vec<Duration>>);

#[async_trait]
impl Timer for Paused {
    async fn pause(&self, time: Duration) {
        self.0.lock().expect("no panic").push(time);
    }
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register(
            "Echo",
            |_: OrchestrationContext, input: String| async move { Ok(input) },
        )
        .register("Refuse", |_: OrchestrationContext, input: String| async move {
            Err::<String, _>(format!("refused: {input}"))
        })
        .register("Event", |ctx: OrchestrationContext, _: String| async move {
            Ok(ctx.schedule_wait("Go").await)
        })
        .register("Inbox", |ctx: OrchestrationContext, count: String| async move {
            let mut taken = Vec::new();
            for _ in 0..count.parse::<usize>().map_err(|error| error.to_string())? {
                taken.push(ctx.dequeue_event("inbox").await);
            }
            Ok(format!("[{}]", taken.join(",")))
        })
        .register("Keys", |ctx: OrchestrationContext, name: String| async move {
            ctx.set_custom_status("begun");
            let greeting = ctx.schedule_activity("Greet", name).await?;
            ctx.set_kv_value("greeting", greeting.as_str());
            ctx.set_kv_value("tag:customer", "ada");
            Ok(greeting)
        })
        .register("Parent", |ctx: OrchestrationContext, input: String| async move {
            let child = format!("{}/child", ctx.instance_id());
            ctx.schedule_sub_orchestration_with_id("Keys", child, input).await
        })
        .register("Rounds", |ctx: OrchestrationContext, left: String| async move {
            match left.parse::<u32>() {
                Ok(0) | Err(_) => Ok("done".to_owned()),
                Ok(left) => ctx.continue_as_new((left - 1).to_string()).await,
            }
        })
        .build()
}

fn activities() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Greet", |_: ActivityContext, name: String| async move {
            Ok(format!("Hello, {name}!"))
        })
        .build()
}
