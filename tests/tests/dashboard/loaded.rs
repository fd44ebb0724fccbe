//! Volumes, hostile data and failures, on the API in this process.

use crate::browser::run;
use crate::seed::{documents, hostile, orders, workflows};
use anyhow::Result;
use axum::Router;
use axum::extract::State;
use axum::routing::post;
use cosmos::{Clock as _, SystemClock};
use serde_json::json;
use std::sync::Arc;
use std::time::Instant;
use tests::api::{GivingUp, Options, Served, Site, Web};

const EVENTS: u64 = 5_000;
const HOUR_MS: u64 = 3_600_000;

/// How many instances there are to page through.
fn volume() -> u64 {
    std::env::var("DASHBOARD_INSTANCES").map_or(2_000, |count| count.parse().expect("a number"))
}

async fn site() -> Site {
    Site::with(Options {
        workflows: workflows::all(),
        ..Options::default()
    })
    .await
}

/// An address at which a scenario kills the API and starts it again.
async fn control(served: &Arc<Served>) -> Web {
    async fn down(State(served): State<Arc<Served>>) -> &'static str {
        served.take_down();
        "{}"
    }
    async fn up(State(served): State<Arc<Served>>) -> &'static str {
        served.bring_up().await.expect("the port is free");
        "{}"
    }
    let router = Router::new().route("/down", post(down)).route("/up", post(up));
    Web::start(0, router.with_state(Arc::clone(served)))
        .await
        .expect("a free port")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: Node and Chromium"]
async fn hostile_large_and_missing_data_are_shown_as_what_they_are() -> Result<()> {
    let site = site().await;
    hostile::seed(&site).await;
    orders::seed(&site).await;
    for id in ["mail-1", "mail-2"] {
        site.started(workflows::MAIL, id, json!("ada@example.org")).await;
        let reason = "it was tried 10 times";
        site.give_up(GivingUp {
            instance: id,
            activity: workflows::DELIVER,
            reason,
        })
        .await;
    }
    let served = Arc::new(Served::of(site).await);
    let control = control(&served).await;
    let world = json!({ "api": served.url, "control": control.url(), "hostile": hostile::world() });
    let scenarios = [
        "hostile",
        "payloads",
        "dead_letters",
        "executions",
        "unreachable",
        "hidden",
    ];
    run(&world, &scenarios).await
}

/// The emulator reads every instance for each page of the list, so more of them measure the emulator. What the page does with 100,000 is
/// shown with answers that the scenario makes itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: Node and Chromium, 2,000 instances; DASHBOARD_INSTANCES sets another number"]
async fn many_instances_and_long_histories_stay_fast() -> Result<()> {
    let (site, count) = (site().await, volume());
    let now = SystemClock.now_ms();
    let begun = Instant::now();
    let instances = (0..count).flat_map(|n| {
        let id = format!("job-{n:06}");
        let past = documents::Past {
            id: &id,
            name: if n % 7 == 0 { "import" } else { "nightly-report" },
            // The newest ended a moment ago.
            created_at: now - 5_000 - (count - n) * (20 * HOUR_MS / count),
            took_ms: 4_000,
            error: (n % 500 == 0).then_some("the source did not answer"),
        };
        // Only the histories of those that have failed are read, by the overview.
        let [instance, history] = past.documents();
        [Some(instance), past.error.is_some().then_some(history)]
            .into_iter()
            .flatten()
    });
    documents::load(&site.cloud.world, instances).await;
    println!(
        "{count} instances were written in {:.1} s",
        begun.elapsed().as_secs_f64()
    );
    documents::load(&site.cloud.world, documents::long("crawl-1", EVENTS, now - HOUR_MS)).await;
    documents::load(&site.cloud.world, documents::long("crawl-small", 200, now - HOUR_MS)).await;
    let served = Served::of(site).await;
    let world = json!({ "api": served.url, "instances": count, "events": EVENTS });
    run(&world, &["long_history", "hundred_thousand", "paging"]).await
}
