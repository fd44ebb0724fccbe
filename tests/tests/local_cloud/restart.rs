//! The cloud itself is killed, and started again on what it kept.

use crate::support::*;
use anyhow::{Result, ensure};
use fastrand::Rng;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: four clouds, twelve orders"]
async fn a_cloud_that_is_killed_continues_from_its_data_directory() -> Result<()> {
    let binaries = Binaries::built().await?;
    let data = fresh_directory("killed")?;
    let data = data.to_string_lossy();
    let arguments = ["--data", &*data];
    let mut rng = Rng::with_seed(5);
    let mut orders = Vec::new();
    for round in 0..3 {
        let mut up = Up::start(&binaries, &arguments).await?;
        for number in 0..3 {
            let id = format!("order/{round}-{number}");
            up.place(&id, 1_500)?;
            orders.push(id);
        }
        // Not a wait for anything: the moment at which it is killed, which the seed decides.
        tokio::time::sleep(Duration::from_millis(rng.u64(100..2_500))).await;
        let children = up.children().await?;
        ensure!(!children.is_empty(), "functions are running");
        up.process.kill();
        until_gone(&children).await?;
    }
    let up = Up::start(&binaries, &arguments).await?;
    for order in &orders {
        up.expect_shipped(order)?;
    }
    let listed = up.json(&["list", "--limit", "100"])?;
    let count = listed.to_string().matches("fulfil-order").count();
    ensure!(count == orders.len(), "{count} of {}: {listed}", orders.len());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_directory_that_is_in_use_is_refused_and_left_alone() -> Result<()> {
    let binaries = Binaries::built().await?;
    let data = fresh_directory("in-use")?;
    let path = data.to_string_lossy().into_owned();
    let up = Up::start(&binaries, &["--data", &path]).await?;
    up.place("kept", 100)?;
    let another = ["up", "--port", "0", "--cosmos-port", "0", "--data", &path];
    let said = refused(binaries.with_functions(&another)).await?;
    ensure!(said.contains("in use") && said.contains(&path), "{said}");
    up.expect_shipped("kept")?;
    let children = up.children().await?;
    drop(up);
    until_gone(&children).await?;
    let up = Up::start(&binaries, &["--data", &path]).await?;
    up.expect_shipped("kept")?;
    Ok(())
}
