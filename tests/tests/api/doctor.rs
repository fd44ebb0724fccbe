//! `POST /v1/doctor`: what the API finds out about its deployment, and the canary.

use async_trait::async_trait;
use cosmos::{ClientConfig, CosmosClient, IndexingPolicy, Key, StaticKey, Throughput};
use cosmos_emulator::{Refusing, RequestKind, RequestRecord};
use duroxide_cosmos::container_spec;
use duroxide_lambda::config::MaintenanceSettings;
use duroxide_lambda::doctor::{CheckState as State, Diagnosis as Found};
use duroxide_lambda::notifier::{Delayed, Memory, NotSent, Notifier, QueueName, QueueSettings};
use duroxide_lambda::{Connection, Limits, canary};
use duroxide_lambda_api::types::{CheckState, Diagnosis, ProblemType};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tests::api::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sound_deployment_passes_every_check_and_nothing_is_left_behind() {
    let site = Site::start().await;
    let documents = site.cloud.world.documents().await.len();
    let reply = site.post("/v1/doctor", json!({"samples": 3})).await;
    let found: Diagnosis = serde_json::from_value(reply.is(200)).expect("the documented type");
    let states: Vec<(&str, CheckState)> = found
        .checks
        .iter()
        .map(|check| (check.name.as_str(), check.state))
        .collect();
    for name in ["container", "store permissions", "clock", "maintenance period"] {
        assert!(states.contains(&(name, CheckState::Ok)), "{name}: {:#?}", found.checks);
    }
    let names: Vec<&str> = found.operations.iter().map(|cost| cost.name.as_str()).collect();
    assert_eq!(names, ["commit", "read", "query", "claim", "complete"]);
    for cost in &found.operations {
        assert_eq!((cost.samples, cost.requests), (3, 3), "{cost:?}");
        assert!(
            cost.request_units.thousandths > 0 && cost.median_ms <= cost.p99_ms,
            "{cost:?}"
        );
    }
    assert_eq!(
        site.cloud.world.documents().await.len(),
        documents,
        "every document was deleted"
    );
    for bad in [json!({"samples": 0}), json!({"samples": 201}), json!({"sample": 1})] {
        let reply = site.post("/v1/doctor", bad).await;
        reply.is_problem(ProblemType::InvalidRequest);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_deployment_runs_the_canary_within_its_budget_of_requests() {
    let site = Site::start().await;
    site.started(&canary::ORCHESTRATION.replace(':', "%3A"), "c", json!(null))
        .await;
    site.cloud.drain().await;
    let waiting = site.get("/v1/instances/c").await.is(200);
    assert_eq!(waiting["customStatus"], canary::WAITING, "{waiting}");
    let event = format!("/v1/instances/c/events/{}", canary::EVENT);
    site.post(&event, json!({})).await.is(202);
    site.cloud.drain().await;
    let ended = site.get("/v1/instances/c").await.is(200);
    assert_eq!(
        (&ended["status"], &ended["orchestration"]),
        (&json!("Completed"), &json!(canary::ORCHESTRATION))
    );
    let usage = &ended["usage"];
    assert_eq!(
        (&usage["turns"], &usage["activities"], &usage["requests"]),
        (&json!(canary::TURNS), &json!(canary::STEPS), &json!(canary::REQUESTS)),
        "{usage}"
    );
    let messages = site.cloud.world.documents_of("message").await;
    assert!(
        messages.is_empty(),
        "its time limit went with the last turn: {messages:?}"
    );
    let history = site.get("/v1/instances/c/history").await.is(200);
    let report = history["events"].as_array().expect("events").iter().find_map(|event| {
        let text = event.get("result")?.as_str()?;
        serde_json::from_str::<canary::StepReport>(text).ok()
    });
    let report = report.unwrap_or_else(|| panic!("an activity has reported: {history:#}"));
    assert_eq!(report.environment, "environment-of-work");
    assert!(report.invocation >= 1 && report.timeout_ms > 0, "{report:?}");
    site.delete("/v1/instances/c").await.is(200);
}

/// What a process finds that uses this container of the site's account.
async fn diagnosed(site: &Site, container: &str) -> Found {
    let connection = connected(site, container, Arc::new(Memory::new())).await;
    let time = Duration::from_secs(30);
    connection.diagnose(1, &MaintenanceSettings::default(), time).await
}

/// A process that uses this container of the site's account.
async fn connected(site: &Site, container: &str, notifier: Arc<dyn Notifier>) -> Connection {
    let cosmos = site.cloud.world.builder().container(container);
    let cosmos = cosmos.operation_timeout(Duration::from_secs(5)).build();
    let connection = Connection::new(cosmos, notifier, Limits::default());
    connection.await.expect("it connects")
}

fn of(found: &Found, name: &str) -> (State, String) {
    let check = found.checks.iter().find(|check| check.name == name);
    let check = check.unwrap_or_else(|| panic!("{name}: {:#?}", found.checks));
    (check.state, check.found.clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_index_policy_and_a_missing_container_are_found() {
    let site = Site::start().await;
    let server = site.cloud.world.listener();
    let key = StaticKey::new(Key::from_base64(&server.key()).expect("base64"));
    let client = CosmosClient::new(ClientConfig::new(&server.endpoint(), key).expect("an endpoint"));
    let (database, own) = site.cloud.world.names();
    let mut spec = container_spec("other", Throughput::Serverless);
    (spec.indexing, spec.default_ttl) = (IndexingPolicy::default(), None);
    client.ensure_container(database, &spec).await.expect("it is created");

    let found = diagnosed(&site, "other").await;
    let (state, differences) = of(&found, "container");
    assert_eq!(state, State::Failed, "{differences}");
    for part in ["indexingPolicy.compositeIndexes", "defaultTtl is not set, expected -1"] {
        assert!(differences.contains(part), "{part}: {differences}");
    }
    assert_eq!(of(&found, "store permissions").0, State::Ok, "it can be used");

    let missing = diagnosed(&site, "nowhere").await;
    assert_eq!(of(&missing, "container"), (State::Failed, "there is none".to_owned()));
    assert_eq!(of(&missing, "store permissions").0, State::Failed);
    assert_eq!(of(&diagnosed(&site, own).await, "container").0, State::Ok);
}

/// How long an examination may take that is meant to run out of time: enough for a sample on a busy machine.
const SHORT: Duration = Duration::from_secs(4);

/// What is found if the first request after so many batches gets no answer.
async fn cut_off(site: &Site, batches: usize) -> Found {
    let own = site.cloud.world.names().1.to_owned();
    let connection = connected(site, &own, Arc::new(Memory::new())).await;
    let listener = site.cloud.world.listener();
    listener.reset();
    let is_batch = |request: &&RequestRecord| request.kind == RequestKind::Batch;
    let pause = listener.pause_when(move |before| before.iter().filter(is_batch).count() == batches);
    let documents = site.cloud.world.documents().await.len();
    let found = connection.diagnose(50, &MaintenanceSettings::default(), SHORT).await;
    assert!(pause.is_reached(), "{found:#?}");
    assert_eq!(site.cloud.world.documents().await.len(), documents, "nothing is left");
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_under_way_at_the_deadline_is_no_finding_once_one_was_complete() {
    let site = Site::start().await;
    // The read of the second sample.
    let found = cut_off(&site, 3).await;
    assert_eq!(of(&found, "store permissions").0, State::Ok, "{:#?}", found.checks);
    let counts: Vec<(&str, u64, u64)> = found
        .operations
        .iter()
        .map(|cost| (cost.name, cost.samples, cost.requests))
        .collect();
    let expected = [
        ("commit", 2, 2),
        ("read", 1, 1),
        ("query", 1, 1),
        ("claim", 1, 1),
        ("complete", 1, 1),
    ];
    assert_eq!(counts, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_that_never_ended_in_time_is_reported_as_that_and_not_as_a_permission() {
    let site = Site::start().await;
    // The read of the first sample.
    let found = cut_off(&site, 1).await;
    let expected = "read: the time limit of 4 s was over".to_owned();
    assert_eq!(of(&found, "store operations"), (State::Failed, expected));
    has_no(&found, "store permissions");
}

fn has_no(found: &Found, name: &str) {
    assert_eq!(found.checks.iter().find(|check| check.name == name), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unavailable_store_is_not_reported_as_a_permission_and_a_denial_is() {
    let site = Site::start().await;
    let own = site.cloud.world.names().1.to_owned();
    let connection = connected(&site, &own, Arc::new(Memory::new())).await;
    let listener = site.cloud.world.listener();
    let documents = site.cloud.world.documents().await.len();
    for (refusing, name, other) in [
        (Refusing::with(503), "store operations", "store permissions"),
        (Refusing::with(403), "store permissions", "store operations"),
    ] {
        // The query of a partition, which is also how documents could be found again.
        listener.refuse_when(move |request| {
            let is_query = request.kind == RequestKind::Query && request.partition_key.is_some();
            is_query.then_some(refusing)
        });
        // Longer than an operation may take.
        let time = Duration::from_secs(30);
        let found = connection.diagnose(1, &MaintenanceSettings::default(), time).await;
        listener.refuse_nothing();
        let (state, text) = of(&found, name);
        assert_eq!(state, State::Failed, "{text}");
        assert!(text.starts_with("query: "), "{text}");
        has_no(&found, other);
        assert_eq!(site.cloud.world.documents().await.len(), documents, "nothing is left");
    }
}

/// A notifier whose service never answers.
#[derive(Debug)]
struct Hanging;

#[async_trait]
impl Notifier for Hanging {
    async fn notify(&self, _: &[Delayed]) -> Vec<NotSent> {
        Vec::new()
    }

    async fn settings(&self, _: &QueueName) -> Result<Option<QueueSettings>, String> {
        std::future::pending().await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queues_that_do_not_answer_leave_the_store_its_time() {
    let site = Site::start().await;
    let own = site.cloud.world.names().1.to_owned();
    let connection = connected(&site, &own, Arc::new(Hanging)).await;
    let found = connection.diagnose(1, &MaintenanceSettings::default(), SHORT).await;
    for queue in ["queue turn", "queue work"] {
        assert_eq!(of(&found, queue), (State::Failed, "no answer in time".to_owned()));
    }
    for name in ["container", "store permissions"] {
        assert_eq!(of(&found, name).0, State::Ok, "{:#?}", found.checks);
    }
}
