//! What persons do, on the local cloud with the real functions.

use crate::browser::run;
use anyhow::Result;
use serde_json::json;
use tests::real::{Binaries, Up};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: Node and Chromium"]
async fn a_person_starts_watches_approves_and_finds_orders() -> Result<()> {
    let up = Up::start(&Binaries::built().await?, &[]).await?;
    let scenarios = [
        "start_to_end",
        "failed_order",
        "rewind",
        "batches",
        "restart_and_fork",
        "filters",
        "keyboard",
        "deleted",
    ];
    run(&json!({ "api": up.api.trim_end_matches('/') }), &scenarios).await
}
