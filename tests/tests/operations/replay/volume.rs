//! Large histories, and many.

use super::site::*;
use anyhow::{Result, ensure};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};
use tests::replay::FIRST;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_history_of_5_000_events_is_replayed_and_a_fault_in_it_found() -> Result<()> {
    let folder = fresh_folder("large")?;
    let large = steps("large", 2_499);
    write(&folder, "large.json", &large)?;
    let report = replay(&folder, FIRST, &["--json"]).await?.json()?;
    ensure!(report["ok"] == 1 && report["events"] == 5_000, "{report:#}");
    let mut changed = large;
    changed["events"][3_401]["input"] = "another".into();
    write(&folder, "large.json", &changed)?;
    let ran = replay(&folder, FIRST, &[]).await?;
    let expected = "event 3402: recorded activity Step, the new build asks for it with another input";
    ensure!(ran.code == 1 && ran.out.contains(expected), "{ran:?}");
    Ok(())
}

/// A binary that notes each of its starts.
fn counting(folder: &Path) -> Result<std::path::PathBuf> {
    let (binary, starts) = (folder.join("counting"), folder.join("starts"));
    fs::write(
        &binary,
        format!("#!/bin/sh\necho start >> '{}'\nexec '{FUNCTION}'\n", starts.display()),
    )?;
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755))?;
    Ok(binary)
}

async fn replay_many(folder: &Path) -> Result<(Value, Duration, usize)> {
    let binary = counting(folder)?;
    fs::write(folder.join("starts"), "")?;
    let begun = Instant::now();
    let ran = run(&[
        "replay",
        "--orchestrator",
        text(&binary),
        "--from",
        text(folder),
        "--json",
    ])
    .await?;
    let took = begun.elapsed();
    let starts = fs::read_to_string(folder.join("starts"))?.lines().count();
    Ok((ran.json()?, took, starts))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_process_replays_many_histories() -> Result<()> {
    let folder = fresh_folder("many")?;
    for number in 0..100 {
        write(&folder, &format!("{number}.json"), &steps(&format!("i-{number}"), 10))?;
    }
    let (report, _, starts) = replay_many(&folder).await?;
    ensure!(report["ok"] == 100 && starts == 1, "{starts} starts, {report:#}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: 1,000 instances"]
async fn a_thousand_histories_take_less_than_a_minute() -> Result<()> {
    const MANY: usize = 1_000;
    let site = Site::start().await?;
    for number in 0..MANY {
        let id = format!("steps-{number}");
        site.cloud.client.start_orchestration(&id, "Steps", "0").await?;
    }
    site.cloud.drain().await;
    let begun = Instant::now();
    let report = site.replay(FIRST, &["--json"]).await?.json()?;
    let from_api = begun.elapsed();
    ensure!(report["ok"] == MANY, "{report:#}");

    let folder = fresh_folder("thousand")?;
    let mut changed = steps("", 20);
    changed["events"][21]["input"] = "another".into();
    let folder_of_faults = fresh_folder("thousand-faults")?;
    for number in 0..MANY {
        let id = format!("steps-{number}");
        write(&folder, &format!("{id}.json"), &steps(&id, 20))?;
        changed["instance"] = id.as_str().into();
        write(&folder_of_faults, &format!("{id}.json"), &changed)?;
    }
    let (report, from_files, starts) = replay_many(&folder).await?;
    ensure!(report["ok"] == MANY && starts == 1, "{starts} starts, {report:#}");
    let (report, with_faults, starts) = replay_many(&folder_of_faults).await?;
    ensure!(
        report["wouldBlock"] == MANY && starts == 1,
        "{starts} starts: {}",
        report["wouldBlock"]
    );
    println!(
        "1,000 histories: {from_api:.1?} of 2 events from the API; of 42 events from files {from_files:.1?}, with a fault in each \
         {with_faults:.1?}"
    );
    let most = from_api.max(from_files).max(with_faults);
    ensure!(most < Duration::from_secs(60), "{most:?}");
    Ok(())
}
