//! Under duroxide's polling runtime, a process leaves what it has given back to others for a while. Else a rolling deployment
//! would fail orchestrations: the process that does not know one would take it again and again, until it is given up.

use duroxide::providers::{Provider, TagFilter};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{OrchestrationStatus, Runtime, RuntimeOptions, UnregisteredBackoffConfig};
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use duroxide_cosmos::CosmosProvider;
use std::sync::Arc;
use std::time::Duration;
use tests::turns::*;
use tests::{World, connect};

const ORCHESTRATIONS: usize = 8;
/// Far below the five minutes after which duroxide gives up with its default back-off.
const SOON: Duration = Duration::from_secs(100);
/// A sweep interval that no test reaches.
const NEVER: Duration = Duration::from_secs(3_600);
const BACKOFF: Duration = Duration::from_millis(100);
/// Well above the back-off.
const DUE: Duration = Duration::from_millis(400);

/// One node of a deployment, with or without the new code.
async fn node(provider: &Arc<CosmosProvider>, is_new: bool, backoff: UnregisteredBackoffConfig) -> Arc<Runtime> {
    let (mut activities, mut orchestrations) = (ActivityRegistry::builder(), OrchestrationRegistry::builder());
    if is_new {
        activities = activities.register("NewActivity", |_: ActivityContext, input: String| async move {
            Ok(format!("new {input}"))
        });
        orchestrations = orchestrations.register("New", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_activity("NewActivity", input).await
        });
    }
    let options = RuntimeOptions {
        unregistered_backoff: backoff,
        ..RuntimeOptions::default()
    };
    let store = Arc::clone(provider) as Arc<dyn Provider>;
    Runtime::start_with_options(store, activities.build(), orchestrations.build(), options).await
}

/// Two nodes on one store, of which only one has the code; the other node's client starts the orchestrations.
async fn all_complete(backoff: UnregisteredBackoffConfig) {
    let world = World::start().await;
    let (old, new) = (world.provider().await, world.provider().await);
    let nodes = [
        node(&old, false, backoff.clone()).await,
        node(&new, true, backoff).await,
    ];
    let client = Client::new(Arc::clone(&old) as Arc<dyn Provider>);
    for n in 0..ORCHESTRATIONS {
        let started = client.start_orchestration(format!("order-{n}"), "New", n.to_string());
        started.await.expect("it starts");
    }
    let ended = (0..ORCHESTRATIONS).map(|n| {
        let client = &client;
        async move { client.wait_for_orchestration(&format!("order-{n}"), SOON).await }
    });
    for (n, status) in futures::future::join_all(ended).await.into_iter().enumerate() {
        let status = status.expect("it ends soon");
        let expected = format!("new {n}");
        assert!(
            matches!(&status, OrchestrationStatus::Completed { output, .. } if *output == expected),
            "order-{n}: {status:?}"
        );
    }
    for node in nodes {
        node.shutdown(None).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_the_code_fails_no_orchestration_with_short_backoffs() {
    all_complete(UnregisteredBackoffConfig {
        base_delay: Duration::from_millis(10),
        max_delay: Duration::from_millis(50),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_the_code_fails_no_orchestration_with_default_backoffs() {
    all_complete(UnregisteredBackoffConfig::default()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_was_given_back_is_left_to_others() {
    let world = World::start().await;
    let node = connect(world.builder().sweep_interval(NEVER)).await;
    enqueue(&node, start_of("order")).await;
    let (_, token, _) = fetch_turn(&node, PATIENT).await.expect("the start");
    let given_back = node.abandon_orchestration_item(&token, Some(BACKOFF), false).await;
    given_back.expect("it is given back");
    assert_eq!(fetch_turn(&node, DUE).await, None, "it is not preferred");
    let other = world.provider().await;
    let (instance, _, attempt) = fetch_turn(&other, PATIENT).await.expect("another node finds it");
    assert_eq!((instance.as_str(), attempt), ("order", 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_activity_that_was_given_back_is_left_to_others() {
    let world = World::start().await;
    let node = connect(world.builder().sweep_interval(NEVER)).await;
    node.enqueue_for_worker(activity("order", 2)).await.expect("queued");
    let (token, _) = fetch_work(&node, PATIENT).await.expect("the activity");
    let given_back = node.abandon_work_item(&token, Some(BACKOFF), false).await;
    given_back.expect("it is given back");
    assert_eq!(fetch_work(&node, DUE).await, None, "it is not preferred");
    let other = world.provider().await;
    let (_, attempt) = fetch_work(&other, PATIENT).await.expect("another node finds it");
    assert_eq!(attempt, 2);
}

/// Also when it is told of more messages in the meantime.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_node_finds_again_what_it_has_given_back() {
    let world = World::start().await;
    let node = connect(world.builder().sweep_interval(Duration::from_millis(100))).await;
    enqueue(&node, start_of("order")).await;
    node.enqueue_for_worker(activity("order", 2)).await.expect("queued");
    for attempt in 1..=3 {
        let (_, token, turn_attempt) = fetch_turn(&node, PATIENT).await.expect("the start");
        let given_back = node.abandon_orchestration_item(&token, Some(BACKOFF), false).await;
        given_back.expect("it is given back");
        let (token, work_attempt) = fetch_work(&node, PATIENT).await.expect("the activity");
        let given_back = node.abandon_work_item(&token, Some(BACKOFF), false).await;
        given_back.expect("it is given back");
        assert_eq!((turn_attempt, work_attempt), (attempt, attempt));
    }
}

/// A caller that does not wait asks the store, and not what this process prefers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fetch_that_does_not_wait_finds_what_was_given_back_once_it_is_due() {
    let world = World::start().await;
    let node = connect(world.builder().sweep_interval(NEVER)).await;
    enqueue(&node, start_of("order")).await;
    let (_, token, _) = fetch_turn(&node, Duration::ZERO).await.expect("the start");
    let given_back = node.abandon_orchestration_item(&token, Some(BACKOFF), false).await;
    given_back.expect("it is given back");
    tests::until("the start is due again", async || {
        fetch_turn(&node, Duration::ZERO).await.is_some()
    })
    .await;
}

/// Instance, token and attempt of the next turn.
async fn fetch_turn(node: &CosmosProvider, poll: Duration) -> Option<(String, String, u32)> {
    let fetched = node.fetch_orchestration_item(LOCK, poll, None).await;
    let fetched = fetched.expect("the fetch succeeds");
    fetched.map(|(item, token, attempt)| (item.instance, token, attempt))
}

/// Token and attempt of the next activity.
async fn fetch_work(node: &CosmosProvider, poll: Duration) -> Option<(String, u32)> {
    let fetched = node.fetch_work_item(LOCK, poll, None, &TagFilter::Any).await;
    fetched
        .expect("the fetch succeeds")
        .map(|(_, token, attempt)| (token, attempt))
}
