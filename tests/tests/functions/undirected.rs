//! The gate over a provider that knows no directed fetches: a wakeup leads to one cycle of whatever comes first.

use crate::support::*;
use duroxide::providers::{Provider, TagFilter};
use duroxide_lambda::testing::Metrics;
use duroxide_lambda::testing::{Budget, Environment, Parts, Undirected};
use duroxide_lambda::{Limits, Target, Wakeup};
use std::sync::Arc;
use tests::cloud::{Cloud, INVOCATION, event};
use tests::workload;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wakeups_serve_a_provider_that_cannot_be_directed() {
    let cloud = Cloud::start(workload::orchestrations(), workload::activities()).await;
    let parts = |id: &str| {
        let store = Arc::clone(&cloud.silent);
        let (queue, metrics) = (Arc::clone(&cloud.queue), Arc::new(Metrics::new(None)));
        let mut parts = Parts::of(Arc::clone(&store), queue, metrics, Limits::default(), id);
        parts.directed = Arc::new(Undirected::new(store as Arc<dyn Provider>));
        parts
    };
    let turns = Environment::orchestrator(parts("turns"), workload::orchestrations()).await;
    let works = Environment::worker(parts("works"), workload::activities(), TagFilter::DefaultOnly).await;
    for instance in ["a", "b", "c"] {
        let started = cloud.client.start_orchestration(instance, "HelloCities", "1").await;
        started.expect("it starts");
    }
    until("no wakeup is left", async || {
        let wakeups = plain(cloud.queue.take());
        let (for_turns, for_works): (Vec<Wakeup>, Vec<Wakeup>) = wakeups
            .iter()
            .cloned()
            .partition(|wakeup| matches!(wakeup.target, Target::Turn { .. }));
        for (environment, wakeups) in [(&turns, for_turns), (&works, for_works)] {
            let response = environment.serve(event(&wakeups), Budget::of(INVOCATION)).await;
            assert_eq!(failed(&response), [""; 0]);
        }
        wakeups.is_empty()
    })
    .await;
    for instance in ["a", "b", "c"] {
        assert_eq!(
            output(&cloud, instance).await,
            "Hello Tokyo 1! Hello Paris 1! Hello Oslo 1!"
        );
    }
}
