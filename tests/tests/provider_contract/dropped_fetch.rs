//! A fetch that is dropped (duroxide's runtime drops its fetches when it shuts down) keeps no claim, wherever it was.
//!
//! Locks last an hour here: what a dropped fetch keeps is never found.

use cosmos_emulator::{Listener, ServerOptions};
use duroxide::providers::{Provider, SessionFetchConfig, TagFilter, WorkItem};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{OrchestrationStatus, Runtime, RuntimeOptions};
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use duroxide_cosmos::CosmosProvider;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tests::turns::*;
use tests::{PATIENCE, World, connect, until};

const HOUR: Duration = Duration::from_secs(3_600);
/// Requests of a fetch, generously.
const MOST_REQUESTS: usize = 40;

/// What is fetched.
#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    Turn,
    Activity,
    SessionActivity,
}

const ALL: [What; 3] = [What::Turn, What::Activity, What::SessionActivity];

impl What {
    /// Makes one of them due: a turn with a history to read, or an activity.
    async fn queue(self, client: &CosmosProvider) {
        if self == What::Turn {
            begin(client, "order").await;
            return enqueue(client, raised("order", "more")).await;
        }
        let mut item = activity("order", 2);
        if let (What::SessionActivity, WorkItem::ActivityExecute { session_id, .. }) = (self, &mut item) {
            *session_id = Some("session".to_owned());
        }
        client.enqueue_for_worker(item).await.expect("queued");
    }

    /// The attempt of what was found.
    async fn fetch(self, provider: &CosmosProvider, owner: &str, poll: Duration) -> Option<u32> {
        if self == What::Turn {
            let found = provider.fetch_orchestration_item(HOUR, poll, None).await;
            return found.expect("the fetch succeeds").map(|(_, _, attempt)| attempt);
        }
        let session = SessionFetchConfig {
            owner_id: owner.to_owned(),
            lock_timeout: HOUR,
        };
        let found = provider
            .fetch_work_item(HOUR, poll, Some(&session), &TagFilter::Any)
            .await;
        found.expect("the fetch succeeds").map(|(_, _, attempt)| attempt)
    }
}

/// A store where something is due, and a process that will fetch it.
async fn due(what: What) -> (World, Listener, Arc<CosmosProvider>) {
    // One partition, so that few of the requests are the sweep's.
    let world = World::local(ServerOptions {
        partitions: 1,
        ..ServerOptions::default()
    })
    .await;
    what.queue(&*world.provider().await).await;
    let listener = world.open_listener().await;
    let fetching = connect(world.builder_through(&listener)).await;
    (world, listener, fetching)
}

/// Another process finds it, as if nobody had fetched it before.
async fn is_found_by_another(world: &World, what: What, place: &str) {
    let other = world.provider().await;
    until(
        &format!("{what:?} is free although its fetch was dropped {place}"),
        async || {
            let found = what.fetch(&other, "other", Duration::ZERO).await;
            assert!(
                found.is_none_or(|attempt| attempt == 1),
                "the dropped fetch counts {place}"
            );
            found.is_some()
        },
    )
    .await;
}

/// When a fetch is dropped that is no longer polled once a request of it has arrived.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Dropped {
    /// Before the request is carried out.
    AtOnce,
    /// After all has come to its end that goes on without the fetch: a result may be there, and nobody takes it.
    Late,
}

/// Drops the fetch when its `n`-th request has arrived. Answers `false` when it has fewer.
async fn drop_at_request(what: What, n: usize, dropped: Dropped) -> bool {
    let (world, listener, fetching) = due(what).await;
    let mut pause = Some(listener.pause_when(move |log| log.len() == n));
    {
        let paused = async {
            while pause.as_ref().is_some_and(|pause| !pause.is_reached()) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let mut fetch = pin!(what.fetch(&fetching, "dropped", PATIENCE));
        tokio::select! {
            biased;
            () = paused => {}
            _ = &mut fetch => return false,
        }
        if dropped == Dropped::Late {
            drop(pause.take());
            quiet(&listener).await;
        }
    }
    drop(pause);
    is_found_by_another(&world, what, &format!("at request {n}, {dropped:?}")).await;
    true
}

/// Waits until no request is under way and none comes.
async fn quiet(listener: &Listener) {
    let mut before = usize::MAX;
    until("the listener is quiet", async || {
        let log = listener.log();
        let is_quiet = log.len() == before && log.iter().all(|request| request.status.is_some());
        before = log.len();
        tokio::time::sleep(Duration::from_millis(20)).await;
        is_quiet
    })
    .await;
}

async fn drop_at_each_request(what: What) {
    for dropped in [Dropped::AtOnce, Dropped::Late] {
        let mut requests = 0;
        while drop_at_request(what, requests, dropped).await {
            requests += 1;
            assert!(requests < MOST_REQUESTS, "{what:?}");
        }
        assert!(requests >= 4, "{what:?} is a sweep and a claim: {requests}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fetch_of_a_turn_that_is_dropped_at_any_of_its_requests_keeps_no_claim() {
    drop_at_each_request(What::Turn).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fetch_of_an_activity_that_is_dropped_at_any_of_its_requests_keeps_no_claim() {
    drop_at_each_request(What::Activity).await;
}

/// Neither the activity nor its session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fetch_of_a_session_that_is_dropped_at_any_of_its_requests_keeps_no_claim() {
    drop_at_each_request(What::SessionActivity).await;
}

/// Drops the fetch after it was polled `polls` times. Answers `false` when it was ready before.
async fn drop_after_polls(what: What, polls: usize) -> bool {
    let (world, _listener, fetching) = due(what).await;
    let is_ready = {
        let mut fetch = pin!(what.fetch(&fetching, "dropped", PATIENCE));
        let mut left = polls;
        poll_fn(|context| {
            if fetch.as_mut().poll(context).is_ready() {
                return Poll::Ready(true);
            }
            left -= 1;
            if left == 0 { Poll::Ready(false) } else { Poll::Pending }
        })
        .await
    };
    if !is_ready {
        is_found_by_another(&world, what, &format!("after {polls} polls")).await;
    }
    !is_ready
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fetch_that_is_dropped_after_any_number_of_polls_keeps_no_claim() {
    for what in ALL {
        let mut polls = 1;
        while drop_after_polls(what, polls).await {
            polls += 1;
        }
    }
}

/// Shuts a runtime down after so long, and lets another complete its work.
async fn shut_down_after(seed: u64) {
    let world = World::start().await;
    let client = Client::new(world.provider().await as Arc<dyn Provider>);
    for n in 0..6 {
        let started = client.start_orchestration(format!("order-{n}"), "Sequence", "");
        started.await.expect("it starts");
    }
    let first = run_with_long_locks(world.provider().await).await;
    let work = Duration::from_millis(fastrand::Rng::with_seed(seed).u64(0..400));
    tokio::time::sleep(work).await;
    first.shutdown(Some(60_000)).await;
    let second = run_with_long_locks(world.provider().await).await;
    for n in 0..6 {
        let status = client.wait_for_orchestration(&format!("order-{n}"), PATIENCE).await;
        let status = status.unwrap_or_else(|error| panic!("seed {seed}, after {work:?}: order-{n} is stuck: {error}"));
        assert!(
            matches!(status, OrchestrationStatus::Completed { .. }),
            "seed {seed}: {status:?}"
        );
    }
    second.shutdown(None).await;
}

async fn run_with_long_locks(provider: Arc<CosmosProvider>) -> Arc<Runtime> {
    let activities = ActivityRegistry::builder()
        .register("Act", |_: ActivityContext, _: String| async { Ok(String::new()) })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("Sequence", |ctx: OrchestrationContext, _: String| async move {
            for _ in 0..5 {
                ctx.schedule_activity("Act", "").await?;
            }
            Ok(String::new())
        })
        .build();
    let options = RuntimeOptions {
        orchestrator_lock_timeout: HOUR,
        worker_lock_timeout: HOUR,
        // The runtime demands more than the lock.
        session_idle_timeout: 2 * HOUR,
        ..RuntimeOptions::default()
    };
    Runtime::start_with_options(provider, activities, orchestrations, options).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_graceful_shutdown_leaves_no_work_claimed() {
    for seed in 0..2 {
        shut_down_after(seed).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: 40 shutdowns"]
async fn no_graceful_shutdown_of_many_leaves_work_claimed() {
    for seed in 2..42 {
        shut_down_after(seed).await;
    }
}
