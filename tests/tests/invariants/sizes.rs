//! What is too large is refused with an error before anything is written; what is allowed works.

use cosmos_emulator::ServerOptions;
use duroxide::providers::Provider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{OrchestrationStatus, Runtime};
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tests::turns::*;
use tests::{PATIENCE, World};

const TOO_LARGE: usize = 3_000_000;
/// What a document of the provider may have: 2 MB, less what shares a batch with it.
const LIMIT: usize = 2 * 1024 * 1024 - 64 * 1024;
/// duroxide's own limits.
const KEYS: usize = 150;
const VALUE: usize = 64 * 1024;
const STATUS: usize = 256 * 1024;

struct Site {
    world: World,
    client: Client,
    runtime: Arc<Runtime>,
    ran: Arc<AtomicUsize>,
}

impl Site {
    async fn new() -> Site {
        let world = World::start().await;
        let provider = world.provider().await;
        let ran = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&ran);
        let activities = ActivityRegistry::builder()
            .register("Echo", |_: ActivityContext, input: String| async move { Ok(input) })
            .register("Inflate", move |_: ActivityContext, bytes: String| {
                counter.fetch_add(1, Ordering::SeqCst);
                async move { Ok("r".repeat(bytes.parse().expect("a number"))) }
            })
            .build();
        let runtime = run(&provider, activities, orchestrations()).await;
        let client = Client::new(Arc::clone(&provider) as Arc<dyn Provider>);
        Site {
            world,
            client,
            runtime,
            ran,
        }
    }

    async fn outcome(&self, instance: &str, orchestration: &str, input: String) -> OrchestrationStatus {
        self.client
            .start_orchestration(instance, orchestration, input)
            .await
            .expect("it starts");
        let ended = self.client.wait_for_orchestration(instance, PATIENCE).await;
        ended.unwrap_or_else(|error| panic!("{instance} does not end: {error:?}"))
    }

    async fn failure(&self, instance: &str, orchestration: &str, input: String) -> String {
        match self.outcome(instance, orchestration, input).await {
            OrchestrationStatus::Failed { details, .. } => details.display_message(),
            other => panic!("{instance} ended as {other:.200?}"),
        }
    }
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Echo", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_activity("Echo", input).await
        })
        .register("Inflate", |ctx: OrchestrationContext, bytes: String| async move {
            ctx.schedule_activity("Inflate", bytes)
                .await
                .map(|result| result.len().to_string())
        })
        .register("Schedule", |ctx: OrchestrationContext, bytes: String| async move {
            let input = "i".repeat(bytes.parse().expect("a number"));
            ctx.schedule_activity("Echo", input)
                .await
                .map(|result| result.len().to_string())
        })
        .register("Child", |ctx: OrchestrationContext, bytes: String| async move {
            let input = "i".repeat(bytes.parse().expect("a number"));
            ctx.schedule_sub_orchestration("Echo", input)
                .await
                .map(|result| result.len().to_string())
        })
        .register("Boast", |_: OrchestrationContext, bytes: String| async move {
            Ok("o".repeat(bytes.parse().expect("a number")))
        })
        .register("Hoard", |ctx: OrchestrationContext, _: String| async move {
            for key in 0..KEYS {
                ctx.set_kv_value(format!("key {key}"), key.to_string().repeat(VALUE)[..VALUE].to_owned());
            }
            ctx.set_custom_status("s".repeat(STATUS));
            ctx.schedule_activity("Echo", "x").await?;
            let bytes: usize = ctx.get_kv_all_values().values().map(String::len).sum();
            Ok(format!("{} {bytes}", ctx.get_kv_length()))
        })
        .build()
}

fn assert_names(text: &str, instance: &str) {
    assert!(
        text.contains(instance) && text.contains("bytes") && text.contains(&format!("limit of {LIMIT}")),
        "{text}"
    );
    let size = text
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|word| word.parse::<usize>().ok())
        .max();
    assert!(
        size.is_some_and(|size| (TOO_LARGE..TOO_LARGE + 10_000).contains(&size)),
        "the size is in the error: {text}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_input_or_event_of_three_megabytes_is_refused_before_any_request() {
    let world = World::local(ServerOptions::default()).await;
    let client = Client::new(world.provider().await as Arc<dyn Provider>);
    world.listener().reset();
    let large = "x".repeat(TOO_LARGE);
    let start = client
        .start_orchestration("big-start", "Echo", large.clone())
        .await
        .expect_err("too large");
    let raise = client
        .raise_event("big-raise", "go", large.clone())
        .await
        .expect_err("too large");
    let queue = client
        .enqueue_event("big-queue", "go", large)
        .await
        .expect_err("too large");
    for (error, instance) in [(start, "big-start"), (raise, "big-raise"), (queue, "big-queue")] {
        assert!(!error.is_retryable());
        assert_names(&error.to_string(), instance);
    }
    assert_eq!(world.listener().counts().requests, 0);
    assert!(world.documents().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: almost 2 MB, many times"]
async fn an_input_of_almost_two_megabytes_goes_through_an_activity_and_back() {
    let site = Site::new().await;
    let input: String = "0123456789".repeat(190_000);
    match site.outcome("almost", "Echo", input.clone()).await {
        OrchestrationStatus::Completed { output, .. } => assert!(output == input, "the echo differs"),
        other => panic!("ended as {other:.200?}"),
    }
    match site.outcome("almost-child", "Child", "1900000".to_owned()).await {
        OrchestrationStatus::Completed { output, .. } => assert_eq!(output, "1900000"),
        other => panic!("ended as {other:.200?}"),
    }
    site.runtime.shutdown(Some(1_000)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: many turns of almost 2 MB"]
async fn at_the_size_limit_everything_succeeds_or_fails_and_nothing_hangs() {
    let site = Site::new().await;
    for bytes in [LIMIT - 1_500, LIMIT - 500, LIMIT] {
        for orchestration in ["Schedule", "Inflate", "Child", "Boast"] {
            let instance = format!("limit-{orchestration}-{bytes}");
            match site.outcome(&instance, orchestration, bytes.to_string()).await {
                OrchestrationStatus::Completed { .. } => assert!(bytes < LIMIT, "{instance}"),
                OrchestrationStatus::Failed { details, .. } => {
                    let text = details.display_message();
                    assert!(text.contains(&format!("limit of {LIMIT}")), "{instance}: {text:.500}");
                }
                other => panic!("{instance} ended as {other:.200?}"),
            }
        }
    }
    let stuck: Vec<String> = site
        .world
        .documents_of("staged-head")
        .await
        .iter()
        .map(ToString::to_string)
        .collect();
    assert!(stuck.is_empty(), "unfinished commits: {stuck:?}");
    site.runtime.shutdown(Some(1_000)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_of_three_megabytes_fails_the_activity_after_one_run() {
    let site = Site::new().await;
    let text = site.failure("big-result", "Inflate", TOO_LARGE.to_string()).await;
    assert_names(&text, "big-result");
    assert_eq!(site.ran.load(Ordering::SeqCst), 1, "the activity ran once");
    assert!(
        site.world.documents_of("work").await.is_empty(),
        "nothing is left to run"
    );
    site.runtime.shutdown(Some(1_000)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_emits_three_megabytes_fails_its_orchestration() {
    let site = Site::new().await;
    for orchestration in ["Schedule", "Child", "Boast"] {
        let instance = format!("big-{orchestration}");
        let text = site.failure(&instance, orchestration, TOO_LARGE.to_string()).await;
        assert_names(&text, &instance);
    }
    assert!(site.world.documents_of("work").await.is_empty());
    assert!(site.world.documents_of("message").await.is_empty());
    site.runtime.shutdown(Some(1_000)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: 9.6 MB of keys"]
async fn keys_and_status_at_duroxides_limits_are_stored_and_read_back() {
    let site = Site::new().await;
    match site.outcome("hoard", "Hoard", String::new()).await {
        OrchestrationStatus::Completed {
            output, custom_status, ..
        } => {
            assert_eq!(output, format!("{KEYS} {}", KEYS * VALUE));
            assert_eq!(custom_status.map(|status| status.len()), Some(STATUS));
        }
        other => panic!("ended as {other:.200?}"),
    }
    let values = site
        .client
        .get_kv_all_values("hoard")
        .await
        .expect("the keys can be read");
    assert_eq!(values.len(), KEYS);
    for key in 0..KEYS {
        let expected = &key.to_string().repeat(VALUE)[..VALUE];
        assert!(values[&format!("key {key}")] == expected, "key {key} differs");
    }
    site.runtime.shutdown(Some(1_000)).await;
}
