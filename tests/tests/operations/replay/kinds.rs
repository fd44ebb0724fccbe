//! Histories of every kind: children, events, queues, keys, executions, races, retries, ends.

use super::site::*;
use anyhow::{Result, ensure};
use serde_json::Value;
use tests::replay::FIRST;

/// One instance of each orchestration, as far as it goes.
async fn everything() -> Result<Site> {
    let site = Site::start().await?;
    for (id, orchestration, input) in [
        ("race", "Race", ""),
        ("rounds", "Rounds", "1"),
        ("family", "Parent", "slow"),
        ("signals", "Signals", ""),
        ("retries", "Retries", ""),
        ("joins", "Joins", ""),
        ("order", "Order", "tea"),
    ] {
        site.ran(id, orchestration, input).await?;
    }
    let client = &site.cloud.client;
    client.raise_event("signals", "ping", "1").await?;
    site.cloud.drain().await;
    client.enqueue_event("signals", "letters", "a").await?;
    site.cloud.drain().await;
    client.enqueue_event("signals", "letters", "b").await?;
    // It is not waited for, and stays in the history.
    client.enqueue_event("signals", "other", "c").await?;
    site.cloud.drain().await;
    Ok(site)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_history_replays_on_the_build_that_recorded_it() -> Result<()> {
    let site = everything().await?;
    let report = site.replay(FIRST, &["--json"]).await?.json()?;
    // With the children `family::...` and `signals-apart`.
    ensure!(report["replayed"] == 9 && report["ok"] == 9, "{report:#}");
    ensure!(
        report["skipped"]["notBegun"] == 0 && report["skipped"]["gone"] == 0,
        "{report:#}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_losers_of_a_race_are_compared() -> Result<()> {
    let site = Site::start().await?;
    site.ran("race", "Race", "").await?;
    let ran = site.replay("keeps-loser", &["--json"]).await?;
    let report = ran.json()?;
    let fault = &report["faults"][0];
    ensure!(fault["cause"] == "nondeterminism", "{report:#}");
    let reason = fault["reason"].as_str().unwrap_or_default();
    ensure!(
        reason == "recorded the cancellation of activity Unserved, the new build asks for nothing",
        "{report:#}"
    );
    let report = site.replay("drops-more", &["--json"]).await?.json()?;
    ensure!(report["ok"] == 0, "{report:#}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_keys_that_an_execution_found_are_saved_with_it() -> Result<()> {
    let site = Site::start().await?;
    site.ran("rounds", "Rounds", "1").await?;
    let folder = site.saved("rounds").await?;
    let file = folder.join("rounds.3.json");
    let mut saved: Value = serde_json::from_str(&std::fs::read_to_string(&file)?)?;
    ensure!(
        saved["keys"][0]["key"] == "sum" && saved["keys"][0]["value"] == "+1+2",
        "{saved:#}"
    );
    let ran = replay(&folder, FIRST, &[]).await?;
    ensure!(ran.code == 0, "{ran:?}");
    // Without them the code would ask for something else.
    saved["keys"] = serde_json::json!([]);
    std::fs::write(&file, saved.to_string())?;
    let ran = replay(&folder, FIRST, &[]).await?;
    ensure!(
        ran.code == 1
            && ran
                .out
                .contains("(Rounds 1.0.0, execution 3): event 2: recorded activity Reserve"),
        "{ran:?}"
    );
    saved["keys"] = Value::Null;
    std::fs::write(&file, saved.to_string())?;
    let ran = replay(&folder, FIRST, &[]).await?;
    ensure!(
        ran.code == 1 && ran.out.contains("the keys from before this execution are not known"),
        "{ran:?}"
    );
    Ok(())
}

/// Ended histories are not in flight; on request they are a collection of cases.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ended_histories_must_end_in_the_same_way() -> Result<()> {
    let site = Site::start().await?;
    site.ran("short", "Short", "tea").await?;
    site.ran("rounds", "Rounds", "1").await?;
    site.ran("stopped", "Order", "tea").await?;
    site.cloud.client.cancel_instance("stopped", "enough").await?;
    site.cloud.drain().await;
    let report = site.replay(FIRST, &["--json"]).await?.json()?;
    // `rounds`, and the child that `short` has started.
    ensure!(report["replayed"] == 2 && report["ok"] == 2, "{report:#}");
    for (status, id) in [("completed", "short"), ("cancelled", "stopped")] {
        let report = site.replay(FIRST, &["--json", "--status", status]).await?.json()?;
        ensure!(report["replayed"] == 1 && report["ok"] == 1, "{id}: {report:#}");
    }
    // An execution that continued as new.
    let folder = fresh_folder("earlier")?;
    let ran = site
        .run(&["history", "rounds", "--execution", "1", "--save", text(&folder)])
        .await?;
    ensure!(ran.code == 0, "{ran:?}");
    let ran = replay(&folder, FIRST, &[]).await?;
    ensure!(ran.code == 0, "{ran:?}");

    let ended = fresh_folder("ended")?;
    let ran = site.run(&["history", "short", "--save", text(&ended)]).await?;
    ensure!(ran.code == 0, "{ran:?}");
    let file = ended.join("short.1.json");
    let saved: Value = serde_json::from_str(&std::fs::read_to_string(&file)?)?;
    for (change, expected) in [
        (
            "output",
            "recorded the end (completed), the new build ends with another output",
        ),
        (
            "value",
            "recorded a value of key reserved, the new build sets another value",
        ),
        (
            "input",
            "recorded a start of Child, the new build asks for it with another input",
        ),
    ] {
        let mut changed = saved.clone();
        let events = changed["events"].as_array_mut().expect("events");
        let event = events
            .iter_mut()
            .rev()
            .find(|event| event.get(change).is_some())
            .expect("such an event");
        event[change] = "other".into();
        std::fs::write(&file, changed.to_string())?;
        let ran = replay(&ended, FIRST, &[]).await?;
        ensure!(ran.code == 1 && ran.out.contains(expected), "{change}: {ran:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_choose_what_is_replayed_and_pending_instances_are_skipped() -> Result<()> {
    let site = Site::start().await?;
    for id in ["a-1", "a-2", "b-1"] {
        site.ran(id, "Order", id).await?;
    }
    site.ran("joins", "Joins", "").await?;
    site.cloud.client.start_orchestration("b-2", "Order", "").await?;
    for (filter, replayed, skipped, more) in [
        (&[][..], 4, 1, false),
        (&["--prefix", "a-"], 2, 0, false),
        (&["--name", "Joins"], 1, 0, false),
        (&["--name", "Order", "--limit", "2"], 1, 1, true),
        (&["--version", "9.0.0"], 0, 0, false),
        (&["--status", "running", "--prefix", "b"], 1, 0, false),
    ] {
        let mut arguments = vec!["--json"];
        arguments.extend(filter);
        let ran = site.replay(FIRST, &arguments).await?;
        let report = ran.json()?;
        let seen = (
            report["replayed"].as_u64(),
            report["skipped"]["notBegun"].as_u64(),
            report["more"].as_bool(),
        );
        ensure!(
            ran.code == 0 && seen == (Some(replayed), Some(skipped), Some(more)),
            "{filter:?}: {report:#}"
        );
    }
    Ok(())
}
