//! Saved histories: their names, what is overwritten, what is damaged.

use super::site::*;
use anyhow::{Result, ensure};
use cosmos::{PartitionKey, Retry};
use std::fs;
use tests::replay::FIRST;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_id_is_saved_and_replayed() -> Result<()> {
    let site = Site::start().await?;
    let long = "long ".repeat(100);
    let ids = ["order-7", "a/b", "../up", "%2F", "日本 \u{1F600}", "\"q\"\n", &long];
    for id in ids {
        site.ran(id, "Order", "tea").await?;
    }
    let folder = fresh_folder("ids")?;
    // Twice: the second replaces the first.
    for _ in 0..2 {
        let report = site.replay(FIRST, &["--json", "--save", text(&folder)]).await?.json()?;
        ensure!(report["ok"] == ids.len(), "{report:#}");
    }
    ensure!(
        fs::read_dir(&folder)?.count() == ids.len(),
        "one file per instance, and nothing else"
    );
    let report = replay(&folder, FIRST, &["--json"]).await?.json()?;
    ensure!(report["ok"] == ids.len(), "{report:#}");
    let ran = site.run(&["history", "a/b", "--save", text(&folder), "--json"]).await?;
    let file = ran.json()?["saved"][0]["file"].clone();
    ensure!(
        file.as_str().is_some_and(|file| file.ends_with("a%2Fb.1.json")),
        "{ran:?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_else_is_overwritten() -> Result<()> {
    let site = Site::start().await?;
    site.ran("order-7", "Order", "tea").await?;
    let folder = fresh_folder("overwritten")?;
    for (content, whose) in [
        (
            steps("another", 1).to_string(),
            "it holds instance 'another', execution 1",
        ),
        ("my notes".to_owned(), "it is no saved history"),
    ] {
        fs::write(folder.join("order-7.1.json"), &content)?;
        for arguments in [
            vec!["history", "order-7", "--save", text(&folder)],
            vec!["history", "--save", text(&folder)],
        ] {
            let ran = site.run(&arguments).await?;
            ensure!(ran.code == 1 && ran.err.contains(whose), "{arguments:?}: {ran:?}");
        }
        let ran = site.replay(FIRST, &["--save", text(&folder)]).await?;
        ensure!(ran.code == 6 && ran.err.contains(whose), "{ran:?}");
        ensure!(fs::read_to_string(folder.join("order-7.1.json"))? == content);
    }
    ensure!(fs::read_dir(&folder)?.count() == 1, "no part is left");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_file_fails_the_gate_and_the_others_are_replayed() -> Result<()> {
    let folder = fresh_folder("damaged")?;
    write(&folder, "good.1.json", &steps("good", 3))?;
    let whole = steps("cut", 3).to_string();
    fs::write(folder.join("cut.1.json"), &whole[..whole.len() / 2])?;
    fs::write(folder.join("notes.txt"), "not read")?;
    let mut newer = steps("newer", 1);
    newer["v"] = 9.into();
    write(&folder, "newer.1.json", &newer)?;
    let ran = replay(&folder, FIRST, &["--json"]).await?;
    let report = ran.json()?;
    ensure!(
        ran.code == 1 && report["ok"] == 1 && report["unreadable"].as_array().is_some_and(|list| list.len() == 2),
        "{ran:?}"
    );
    let ran = replay(&folder, FIRST, &[]).await?;
    ensure!(
        ran.out.contains("cut.1.json: it is no saved history") && ran.out.contains("2 histories cannot be read"),
        "{ran:?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_histories_are_faults_of_their_own() -> Result<()> {
    let folder = fresh_folder("histories")?;
    let mut unknown = steps("unknown", 2);
    unknown["events"][2]["type"] = "FromTheFuture".into();
    let mut headless = steps("headless", 2);
    headless["events"].as_array_mut().expect("events").remove(0);
    let mut empty = steps("empty", 2);
    empty["events"] = serde_json::json!([]);
    let mut swapped = steps("swapped", 2);
    swapped["events"].as_array_mut().expect("events").swap(1, 3);
    let mut newer = steps("newer", 2);
    newer["events"][0]["duroxide_version"] = "99.0.0".into();
    for history in [&unknown, &headless, &empty, &swapped, &newer] {
        write(
            &folder,
            &format!("{}.json", history["instance"].as_str().unwrap_or_default()),
            history,
        )?;
    }
    let ran = replay(&folder, FIRST, &["--json"]).await?;
    let report = ran.json()?;
    ensure!(ran.code == 1 && report["wouldBlock"] == 5, "{report:#}");
    for (instance, reason) in [
        ("unknown", "event 3 of its history cannot be read by the new build"),
        ("headless", "its history does not begin with the start"),
        ("empty", "its history does not begin with the start"),
        ("swapped", "is out of order"),
        ("newer", "its execution was begun by duroxide 99.0.0"),
    ] {
        let faults = report["faults"].as_array().expect("faults");
        let fault = faults.iter().find(|fault| fault["instance"] == instance);
        let shown = fault.map(|fault| (fault["cause"] == "history", fault["reason"].to_string()));
        ensure!(
            shown.is_some_and(|(is, text)| is && text.contains(reason)),
            "{instance}: {report:#}"
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_or_missing_folder_is_no_pass() -> Result<()> {
    let folder = fresh_folder("empty")?;
    let ran = replay(&folder, FIRST, &[]).await?;
    ensure!(ran.code == 6 && ran.err.contains("has no saved histories"), "{ran:?}");
    let ran = replay(&folder.join("missing"), FIRST, &[]).await?;
    ensure!(ran.code == 6 && ran.err.contains("cannot be read"), "{ran:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_history_that_the_api_cannot_read_fails_the_gate_for_its_instance_alone() -> Result<()> {
    let site = Site::start().await?;
    site.ran("broken", "Order", "tea").await?;
    let world = &site.cloud.world;
    let mut history = world.documents_of("history").await.remove(0);
    history["events"][0] = serde_json::json!({"event_id": 1, "type": "FromTheFuture"});
    let (pk, id) = (
        PartitionKey::new("broken")?,
        history["id"].as_str().unwrap_or_default().to_owned(),
    );
    world.raw().replace(&pk, &id, &history, None, Retry::Idempotent).await?;
    site.ran("whole", "Order", "tea").await?;
    let ran = site.replay(FIRST, &["--json"]).await?;
    let report = ran.json()?;
    ensure!(
        ran.code == 1 && report["ok"] == 1 && report["replayed"] == 1,
        "{report:#}"
    );
    ensure!(report["unreadable"][0]["instance"] == "broken", "{report:#}");
    let folder = fresh_folder("unreadable")?;
    let ran = site.run(&["history", "--save", text(&folder)]).await?;
    ensure!(
        ran.code == 1 && ran.err.contains("the history of instance 'broken' cannot be read"),
        "{ran:?}"
    );
    Ok(())
}
