//! A site: the functions, their store, and the API in front of them.

use super::calls::{Reply, request};
use super::workflows::{activities, orchestrations};
use crate::cloud::{Cloud, CloudOptions};
use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use cosmos::{Clock, SystemClock};
use cosmos_emulator::Listener;
use duroxide::OrchestrationRegistry;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide_lambda::config::{ApiAuth, ApiSettings, MaintenanceSettings};
use duroxide_lambda::{Connection, Limits, Notifier};
use duroxide_lambda_api::routes::Route;
use duroxide_lambda_api::{Api, Timer, TokioTimer, router};
use http::Request;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tower::ServiceExt as _;

/// A cloud with an API.
pub struct Site {
    /// The functions and their store.
    pub cloud: Cloud,
    /// The API.
    pub router: Router,
    /// The listener of the API's requests.
    pub listener: Listener,
}

/// What a site is made from.
pub struct Options {
    /// How callers are known.
    pub auth: ApiAuth,
    /// The origin whose pages may call the API.
    pub cors_origin: Option<String>,
    /// What waits are made of.
    pub timer: Arc<dyn Timer>,
    /// How long a request to the store may take, with its retries.
    pub time: Duration,
    /// The clock by which tokens expire and keys grow old.
    pub clock: Arc<dyn Clock>,
    /// What the functions run; by default the small workflows of the test kit.
    pub workflows: (OrchestrationRegistry, ActivityRegistry),
}

impl Default for Options {
    fn default() -> Options {
        Options {
            auth: ApiAuth::None,
            cors_origin: None,
            timer: Arc::new(TokioTimer),
            time: Duration::from_secs(30),
            clock: Arc::new(SystemClock),
            workflows: (orchestrations(), activities()),
        }
    }
}

impl Site {
    /// A site for programs on this machine.
    pub async fn start() -> Site {
        Site::with(Options::default()).await
    }

    /// A site of these options.
    pub async fn with(options: Options) -> Site {
        let (orchestrations, activities) = options.workflows;
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

    /// The answer to a request.
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

    /// The answer to a GET.
    pub async fn get(&self, path: &str) -> Reply {
        self.send(request("GET", path, None)).await
    }

    /// The answer to a POST with this JSON.
    pub async fn post(&self, path: &str, body: Value) -> Reply {
        self.send(request("POST", path, Some(body))).await
    }

    /// The answer to a DELETE.
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

/// A timer that does not wait, and remembers for how long it was asked to.
#[derive(Debug, Default)]
pub struct Paused(pub Mutex<Vec<Duration>>);

#[async_trait]
impl Timer for Paused {
    async fn pause(&self, time: Duration) {
        self.0.lock().expect("no panic").push(time);
    }
}
