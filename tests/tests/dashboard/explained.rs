//! Explanations, pausing, and what needs attention, on the API in this process.

use crate::browser::run;
use crate::seed::{orders, trouble, workflows};
use anyhow::Result;
use serde_json::json;
use tests::api::{Options, Served, Site};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: Node and Chromium"]
async fn instances_are_explained_paused_resumed_and_sorted_out() -> Result<()> {
    let site = Site::with(Options {
        workflows: workflows::plain(),
        ..Options::default()
    })
    .await;
    orders::seed(&site).await;
    trouble::seed(&site).await;
    let served = Served::of(site).await;
    let world = json!({ "api": served.url });
    run(&world, &["explained", "attention", "paused"]).await
}
