//! Clocks that differ, a key that is refused in the middle of a turn, a timeout that is too short, a newer release.

use crate::support::*;
use async_trait::async_trait;
use cosmos::{Clock, Credential, CredentialSource, Error, Key, PartitionKey, Retry};
use duroxide::providers::{DispatcherCapabilityFilter, SemverRange};
use duroxide::runtime::OrchestrationStatus;
use duroxide::{OrchestrationContext, OrchestrationRegistry};
use duroxide_cosmos::{CosmosConfig, Fetched};
use duroxide_lambda::Limits;
use duroxide_lambda::internals::Metrics;
use duroxide_lambda::internals::{Environment, Parts};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tests::cloud::{Cloud, CloudOptions, INVOCATION, event};
use tests::{ShiftedClock, connect, workload};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_queued_by_a_fast_clock_is_not_lost_on_a_function_with_a_slow_clock() {
    // The client, and all but one function, are ahead of the true time.
    const AHEAD: Duration = Duration::from_secs(600);
    let fast = Arc::new(ShiftedClock::default());
    fast.advance(AHEAD);
    let slow = Arc::new(ShiftedClock::default());
    let options = CloudOptions {
        clock: fast,
        ..CloudOptions::default()
    };
    let cloud = Cloud::with(options, workload::orchestrations(), workload::activities()).await;
    let behind = cloud
        .another_orchestrator_at(
            Arc::clone(&slow) as Arc<dyn Clock>,
            "behind",
            workload::orchestrations(),
        )
        .await;
    let wakeup = start(&cloud, "order", "HelloCities", "1").await;
    behind.listener.reset();
    serve(&behind, &[wakeup]).await;
    assert_eq!(
        behind.listener.counts().requests,
        0,
        "it is not due yet, by the function's clock"
    );
    let again = only(cloud.queue.take());
    assert!(again.delay > Duration::ZERO && again.delay <= AHEAD, "{again:?}");
    slow.advance(AHEAD);
    assert!(again.wakeup.due_ms.expect("it knows its time") <= slow.now_ms());
    serve(&behind, &[again.wakeup]).await;
    assert_eq!(metrics(&behind)["Committed"], 1);
}

/// The account's key, unless it is said to be refused.
#[derive(Debug)]
struct Rotating {
    key: Key,
    refused: Arc<AtomicBool>,
}

#[async_trait]
impl CredentialSource for Rotating {
    async fn credential(&self) -> Result<Credential, Error> {
        if self.refused.load(Ordering::SeqCst) {
            return Key::from_base64("YW4tb2xkLWtleS10aGF0LXdhcy1yb3RhdGVkLWF3YXk=").map(Credential::Key);
        }
        Ok(Credential::Key(self.key.clone()))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_refused_at_the_commit_does_not_fail_the_orchestration() {
    let refused = Arc::new(AtomicBool::new(false));
    let during = Arc::clone(&refused);
    // The key is rotated away while the turn runs, and the new one is known a second later.
    let rotate = move |_: OrchestrationContext, _: String| {
        let during = Arc::clone(&during);
        async move {
            during.store(true, Ordering::SeqCst);
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                during.store(false, Ordering::SeqCst);
            });
            Ok("done".to_owned())
        }
    };
    let orchestrations = || {
        OrchestrationRegistry::builder()
            .register("Rotate", rotate.clone())
            .build()
    };
    let cloud = Cloud::start(orchestrations(), workload::activities()).await;
    let key = Rotating {
        key: Key::from_base64(&cloud.world.listener().key()).expect("a key"),
        refused,
    };
    let (database, container) = cloud.world.names();
    let config = CosmosConfig::builder(cloud.world.listener().endpoint(), key)
        .database(database)
        .container(container);
    let metrics = Arc::new(Metrics::new(None));
    let parts = Parts::of(
        connect(config).await,
        Arc::clone(&cloud.queue) as _,
        metrics,
        Limits::default(),
        "rotated",
    );
    let function = Environment::orchestrator(parts, orchestrations()).await;
    let wakeup = start(&cloud, "order", "Rotate", "").await;
    let response = function
        .serve(event(&[wakeup]), duroxide_lambda::internals::Budget::of(INVOCATION))
        .await;
    assert_eq!(failed(&response), [""; 0]);
    let status = status(&cloud, "order").await;
    assert!(matches!(status, OrchestrationStatus::Completed { .. }), "{status:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_whose_timeout_is_too_short_reports_it_instead_of_sending_wakeups_for_ever() {
    let cloud = Cloud::start(workload::orchestrations(), workload::activities()).await;
    let mut wakeup = start(&cloud, "order", "HelloCities", "1").await;
    let too_short = Limits::default().turn_reserve / 2;
    let mut invocations = 0;
    loop {
        let response = cloud
            .orchestrator
            .invoke_within(std::slice::from_ref(&wakeup), too_short)
            .await;
        invocations += 1;
        if !response.batch_item_failures.is_empty() {
            break;
        }
        assert!(invocations < 20, "it goes on for ever");
        wakeup = only(cloud.queue.take()).wakeup;
    }
    assert!(invocations > 1, "time may be short once by chance");
    assert_eq!(cloud.orchestrator.listener.counts().requests, 0);
    serve(&cloud.orchestrator, &[wakeup]).await;
    assert_eq!(metrics(&cloud.orchestrator)["Committed"], 1, "nothing was lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_only_another_release_can_run_is_not_dropped() {
    let cloud = Cloud::start(workload::orchestrations(), workload::activities()).await;
    let wakeup = start(&cloud, "pinned", "HelloCities", "1").await;
    serve(&cloud.orchestrator, &[wakeup]).await;
    cloud
        .client
        .raise_event("pinned", "Any", "")
        .await
        .expect("it is raised");
    let old = DispatcherCapabilityFilter {
        supported_duroxide_versions: vec![SemverRange {
            min: semver::Version::new(0, 0, 1),
            max: semver::Version::new(0, 0, 2),
        }],
    };
    let fetched = cloud.silent.fetch_turn("pinned", INVOCATION, Some(&old)).await;
    let Ok(Fetched::Foreign { why }) = fetched else {
        panic!("{fetched:?}");
    };
    assert!(why.contains("pinned") && why.contains("deploy"), "{why}");
    cloud.queue.take();

    // A message of a newer release: this build cannot read it, and must not drop it.
    let wakeup = start(&cloud, "newer", "HelloCities", "1").await;
    let messages = cloud.world.documents_of("message").await;
    let mut message = messages
        .into_iter()
        .find(|message| message["pk"] == "newer")
        .expect("the start is queued");
    message["item"] = json!({ "OfTheFuture": { "instance": "newer" } });
    let pk = PartitionKey::new("newer").expect("a partition key");
    let raw = cloud.world.raw();
    let id = message["id"].as_str().expect("an id");
    raw.replace(&pk, id, &message, None, Retry::Idempotent)
        .await
        .expect("it is replaced");
    let response = cloud.orchestrator.invoke(&[wakeup]).await;
    assert_eq!(
        failed(&response),
        ["0"],
        "it goes to the dead-letter queue, where somebody sees it"
    );
}
