//! Builds that do something else, and builds that do the same.

use super::site::*;
use anyhow::{Result, ensure};
use serde_json::{Value, json};

/// An order that waits for its approval: event 2 reserve, 4 charge, 6 timer, 8 queue.
async fn order() -> Result<std::path::PathBuf> {
    let site = Site::start().await?;
    site.ran("order-7", "Order", "tea").await?;
    site.saved("order").await
}

/// build, cause, event, and the sentence
type Row = (&'static str, &'static str, Option<u64>, &'static str);

const FAULTS: &[Row] = &[
    (
        "reordered",
        "nondeterminism",
        Some(2),
        "recorded activity Reserve, the new build asks for Charge",
    ),
    (
        "no-timer",
        "nondeterminism",
        Some(6),
        "recorded a timer, the new build asks for queue approval",
    ),
    (
        "renamed",
        "nondeterminism",
        Some(4),
        "recorded activity Charge, the new build asks for ChargeCard",
    ),
    (
        "input",
        "nondeterminism",
        Some(4),
        "recorded activity Charge, the new build asks for it with another input",
    ),
    (
        "added",
        "nondeterminism",
        Some(4),
        "recorded activity Charge, the new build asks for Notify",
    ),
    (
        "child",
        "nondeterminism",
        Some(4),
        "recorded activity Charge, the new build asks for child Charge",
    ),
    (
        "status",
        "nondeterminism",
        Some(8),
        "recorded queue approval, the new build asks for a custom status",
    ),
    (
        "continues",
        "nondeterminism",
        Some(6),
        "recorded a timer, the new build continues as new",
    ),
    (
        "version",
        "unknown-name",
        None,
        "the new build does not register version 1.0.0 of orchestration `Order`; versions registered here: `2.0.0`",
    ),
    (
        "gone",
        "unknown-name",
        None,
        "the new build does not register orchestration `Order`",
    ),
    ("panic", "panic", Some(5), "the new build panics at "),
    (
        "ends",
        "divergence",
        Some(6),
        "recorded a timer, the new build ends (completed)",
    ),
    (
        "fails",
        "divergence",
        Some(6),
        "recorded a timer, the new build ends (failed)",
    ),
    (
        "extra",
        "divergence",
        Some(8),
        "recorded nothing after it, the new build asks for activity Audit",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_change_of_the_code_is_found_at_its_event() -> Result<()> {
    let folder = order().await?;
    for (build, cause, event, sentence) in FAULTS {
        let ran = replay(&folder, build, &["--json"]).await?;
        ensure!(ran.code == 1, "{build}: {ran:?}");
        let report = ran.json()?;
        let fault = &report["faults"][0];
        ensure!(fault["cause"] == *cause, "{build}: {report:#}");
        ensure!(fault["event"] == json!(event), "{build}: {report:#}");
        let reason = fault["reason"].as_str().unwrap_or_default();
        ensure!(reason.starts_with(sentence), "{build}: {reason}");
        let blocks = u64::from(*cause != "divergence");
        ensure!(
            report["wouldBlock"] == blocks && report["wouldDiverge"] == 1 - blocks && report["ok"] == 0,
            "{build}: {report:#}"
        );
        ensure!((fault["instance"].as_str(), fault["version"].as_str()) == (Some("order-7"), Some("1.0.0")));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn builds_that_do_the_same_pass() -> Result<()> {
    let folder = order().await?;
    // `longer` has another timer, and `later` another step after the end of the history: neither is a difference.
    for build in ["first", "refactored", "longer", "later", "chatty"] {
        let ran = replay(&folder, build, &[]).await?;
        ensure!(ran.code == 0 && ran.out == "1 history: 1 ok\n", "{build}: {ran:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_is_one_sentence_and_payloads_are_shown_only_on_request() -> Result<()> {
    let folder = order().await?;
    let ran = replay(&folder, "input", &[]).await?;
    let expected = "instance order-7 (Order 1.0.0): event 4: recorded activity Charge, the new build asks for it with another \
                    input\n1 history: 0 ok, 1 would block\n";
    ensure!(ran.out == expected, "{ran:?}");
    let shown = replay(&folder, "input", &["--payloads"]).await?;
    ensure!(shown.out.contains("\n  recorded: tea:7\n  new: tea:8\n"), "{shown:?}");
    let json = replay(&folder, "input", &["--json"]).await?.json()?;
    let input = |report: &Value| report["faults"][0]["expected"]["input"].clone();
    ensure!(input(&json).is_null(), "{json:#}");
    let json = replay(&folder, "input", &["--json", "--payloads"]).await?.json()?;
    ensure!(input(&json) == "tea:7", "{json:#}");
    Ok(())
}

/// The gate says what the functions do: what it lets pass goes on, what it calls blocked is blocked, each build on a store of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gate_agrees_with_the_functions() -> Result<()> {
    for (build, status) in [
        ("refactored", "Running"),
        ("later", "Running"),
        ("reordered", "Blocked"),
        ("no-timer", "Blocked"),
        ("version", "Blocked"),
        ("panic", "Blocked"),
        ("ends", "Completed"),
    ] {
        let site = Site::start().await?;
        site.ran("order-7", "Order", "tea").await?;
        let gate = site.replay(build, &["--json"]).await?.json()?;
        let next = site
            .cloud
            .another_build(duroxide_lambda::Limits::default(), tests::replay::orchestrations(build))
            .await;
        site.cloud.client.enqueue_event("order-7", "approval", "yes").await?;
        let wakeups = site.cloud.queue.take();
        let wakeups: Vec<_> = wakeups.into_iter().map(|delayed| delayed.wakeup).collect();
        next.invoke(&wakeups).await;
        let summary = site.cloud.silent.instance_summary("order-7").await?;
        let now = summary.map(|summary| summary.status.to_string());
        ensure!(now.as_deref() == Some(status), "{build}: {now:?}, {gate:#}");
        let expected = match status {
            "Running" => ("ok", 1),
            "Blocked" => ("wouldBlock", 1),
            _ => ("wouldDiverge", 1),
        };
        ensure!(gate[expected.0] == expected.1, "{build}: {gate:#}");
    }
    Ok(())
}
