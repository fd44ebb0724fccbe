//! The demo, end to end, from fixed seeds.

use crate::support::*;
use anyhow::{Result, ensure};
use std::process::Command;

/// The number behind a label of the summary.
fn number(summary: &str, label: &str) -> Option<u64> {
    let line = summary.lines().find(|line| line.starts_with(label))?;
    let digits: String = line[label.len()..]
        .trim_start()
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().ok()
}

/// So many orders, of whose wakeups so many percent are lost.
async fn shows(orders: u64, kills: u64, lost: &str, seed: &str) -> Result<()> {
    let binaries = Binaries::built().await?;
    let log = fresh_directory(&format!("demo-{seed}"))?.join("functions.log");
    let mut command = binaries.with_functions(&["demo", "--lose-wakeups", lost, "--seed", seed]);
    command.args(["--orders", &orders.to_string(), "--kills", &kills.to_string()]);
    // A demo takes a minute or two; the machine may be slow.
    command.args(["--limit", "1800"]);
    command.arg("--log").arg(&log);
    // The turns are counted whatever the shell says of other programs' logs.
    command.env("LOG_LEVEL", "warn");
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{said}");
    ensure!(
        output.status.success(),
        "{}\n{said}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    ensure!(said.contains("result           all well"), "{said}");
    for (label, least) in [
        ("orders", orders),
        ("turns", 6 * orders),
        ("activities", 3 * orders),
        ("charges", orders),
        ("kills survived", 1),
    ] {
        ensure!(number(&said, label) >= Some(least), "{label}: {said}");
    }
    ensure!(
        number(&said, "charges") == Some(orders) && number(&said, "dead letters") == Some(0),
        "{said}"
    );
    ensure!(!said.contains(", 0 of them lost"), "{said}");
    ensure!(!said.contains('\u{1b}'), "a pipe gets plain lines: {said:?}");
    // The ninth kind of order fails.
    let explained = said.lines().last().unwrap_or_default();
    ensure!(
        orders < 9 || explained.contains("order-09 failed on purpose. `explain` says: Failed "),
        "{said}"
    );
    ensure!(
        std::fs::read_to_string(&log)?.contains("\"outcome\":\"Committed\""),
        "the functions' logs are kept"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_few_orders_complete_though_processes_are_killed_and_wakeups_lost() -> Result<()> {
    shows(4, 2, "15", "3").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: 16 orders"]
async fn all_orders_complete_though_processes_are_killed_and_wakeups_lost() -> Result<()> {
    shows(16, 5, "15", "1").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: 16 orders"]
async fn all_orders_complete_for_another_seed() -> Result<()> {
    shows(16, 5, "15", "20261116").await
}

/// Cancellations that were accepted in time lost against later timers here, before messages were ordered by when they were due.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: 250 orders and 50 kills, twice"]
async fn two_hundred_and_fifty_orders_complete_though_fifty_processes_are_killed() -> Result<()> {
    for seed in ["7", "11"] {
        shows(250, 50, "5", seed).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_demo_prints_where_its_logs_are() -> Result<()> {
    let binaries = Binaries::built().await?;
    let log = fresh_directory("demo-fails")?.join("functions.log");
    let mut command = binaries.with_functions(&["demo", "--orders", "3", "--kills", "0", "--limit", "0"]);
    command.arg("--log").arg(&log);
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.code() == Some(1), "{}\n{said}", output.status);
    ensure!(said.contains(&*log.to_string_lossy()), "{said}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: the program `script` of util-linux"]
async fn on_a_terminal_the_progress_is_redrawn_in_place() -> Result<()> {
    let binaries = Binaries::built().await?;
    let directory = fresh_directory("terminal")?;
    let demo = binaries.with_functions(&["demo", "--orders", "3", "--kills", "0", "--lose-wakeups", "0"]);
    let mut line = String::from("stty cols 70; exec");
    for part in std::iter::once(demo.get_program()).chain(demo.get_args()) {
        line += &format!(" '{}'", part.to_string_lossy());
    }
    line += &format!(" --log '{}'", directory.join("log").display());
    let mut command = Command::new("script");
    command
        .args(["-q", "-e", "-c", &line])
        .arg(directory.join("typescript"))
        .env("TERM", "xterm-256color")
        .env_remove("NO_COLOR");
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "{}\n{said}", output.status);
    // Some lines up, to the first column, erase.
    ensure!(said.contains("A\r\u{1b}[2K"), "lines are redrawn: {said:?}");
    ensure!(said.contains('░') && said.contains("of 3 orders"), "{said:?}");
    ensure!(said.contains("\u{1b}[38;5;10mall well"), "{said:?}");
    Ok(())
}
