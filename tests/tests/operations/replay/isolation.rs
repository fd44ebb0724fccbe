//! A replay has no effect: it knows no store, opens no connection and writes nothing.

use super::site::*;
use anyhow::{Context as _, Result, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use tests::replay::{BUILD, FIRST};
use tests::until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_binary_gets_no_settings_and_connects_to_nothing() -> Result<()> {
    let site = Site::start().await?;
    site.ran("order-7", "Order", "tea").await?;
    let folder = site.saved("isolation").await?;
    let trap = TcpListener::bind("127.0.0.1:0")?;
    trap.set_nonblocking(true)?;
    let address = format!("http://{}", trap.local_addr()?);
    let variable = format!("{BUILD}=environment");
    let mut command = command(&[
        "replay",
        "--orchestrator",
        FUNCTION,
        "--from",
        text(&folder),
        "--env",
        &variable,
        "--json",
    ])
    .await?;
    for name in [
        "COSMOS_ENDPOINT",
        "AWS_ENDPOINT_URL",
        "TURN_QUEUE_URL",
        "WORK_QUEUE_URL",
        "AWS_LAMBDA_RUNTIME_API",
    ] {
        command.env(name, &address);
    }
    command
        .env("COSMOS_KEY", "c2VjcmV0")
        .env("AWS_ACCESS_KEY_ID", "x")
        .env("DUROXIDE_LAMBDA_TOKEN", "secret");
    let report = ran(command).await?.json()?;
    let reason = report["faults"][0]["reason"].as_str().context("a fault")?;
    let (_, names) = reason.split_once("environment: ").context("the names")?;
    let names: BTreeSet<&str> = names.split_whitespace().collect();
    let allowed = [
        BUILD,
        "DUROXIDE_REPLAY",
        "PATH",
        "HOME",
        "TMPDIR",
        "LANG",
        "LC_ALL",
        "TZ",
        "LD_LIBRARY_PATH",
        "RUST_BACKTRACE",
    ];
    ensure!(names.iter().all(|name| allowed.contains(name)), "{names:?}");
    ensure!(names.contains("DUROXIDE_REPLAY") && names.contains(BUILD), "{names:?}");
    ensure!(trap.accept().is_err(), "nobody has connected");
    Ok(())
}

/// A process that replays has no network socket open, at any time that a test can look at it.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_binary_that_replays_has_no_network_socket() -> Result<()> {
    let site = Site::start().await?;
    site.ran("order-7", "Order", "tea").await?;
    let folder = site.saved("sockets").await?;
    let variable = format!("{BUILD}=loops");
    let arguments = [
        "replay",
        "--orchestrator",
        FUNCTION,
        "--from",
        text(&folder),
        "--env",
        &variable,
    ];
    let mut command = command(&arguments).await?;
    let mut gate = command
        .arg("--timeout")
        .arg("600")
        .stdout(std::process::Stdio::null())
        .spawn()?;
    let parent = gate.id().context("it runs")?;
    // It has read the history when it burns time.
    until("the binary replays", async || {
        child_of(parent).is_some_and(|child| seconds_of(child) > 0.3)
    })
    .await;
    let child = child_of(parent).context("the binary")?;
    let sockets = sockets_of(child)?;
    let network = network_sockets(child)?;
    ensure!(sockets.is_disjoint(&network), "{sockets:?}, {network:?}");
    // The check itself: this process has some.
    let _own = TcpListener::bind("127.0.0.1:0")?;
    let own = std::process::id();
    ensure!(
        !sockets_of(own)?.is_disjoint(&network_sockets(own)?),
        "the check sees sockets"
    );
    gate.kill().await?;
    until("the binary ends with the gate, though its code loops", async || {
        !Path::new(&format!("/proc/{child}")).exists()
    })
    .await;
    Ok(())
}

#[cfg(target_os = "linux")]
fn child_of(parent: u32) -> Option<u32> {
    let tasks = fs::read_dir(format!("/proc/{parent}/task")).ok()?;
    let of_task = |task: fs::DirEntry| {
        let children = fs::read_to_string(task.path().join("children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    };
    tasks.filter_map(Result::ok).find_map(of_task)
}

/// The processor time of a process, in seconds.
#[cfg(target_os = "linux")]
fn seconds_of(process: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = fields
        .split_whitespace()
        .nth(11)
        .and_then(|ticks| ticks.parse::<f64>().ok());
    ticks.unwrap_or_default() / 100.0
}

/// The inodes of the sockets that a process has open.
#[cfg(target_os = "linux")]
fn sockets_of(process: u32) -> Result<BTreeSet<String>> {
    let mut inodes = BTreeSet::new();
    for entry in fs::read_dir(format!("/proc/{process}/fd"))? {
        let Ok(target) = fs::read_link(entry?.path()) else {
            continue;
        };
        if let Some(rest) = text(&target).strip_prefix("socket:[") {
            inodes.insert(rest.trim_end_matches(']').to_owned());
        }
    }
    Ok(inodes)
}

/// The inodes of all network sockets.
#[cfg(target_os = "linux")]
fn network_sockets(process: u32) -> Result<BTreeSet<String>> {
    let mut inodes = BTreeSet::new();
    for table in ["tcp", "tcp6", "udp", "udp6"] {
        let Ok(rows) = fs::read_to_string(format!("/proc/{process}/net/{table}")) else {
            continue;
        };
        let inode = |row: &str| row.split_whitespace().nth(9).map(str::to_owned);
        inodes.extend(rows.lines().skip(1).filter_map(inode));
    }
    Ok(inodes)
}

/// The gate only reads: the store, the queue and the working folder are as before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gate_changes_nothing() -> Result<()> {
    let site = Site::start().await?;
    for id in ["a", "b"] {
        site.ran(id, "Order", "tea").await?;
    }
    let before = site.cloud.world.documents().await;
    let folder = fresh_folder("untouched")?;
    for build in [FIRST, "added", "panic"] {
        let variable = format!("{BUILD}={build}");
        site.replay(build, &["--env", &variable]).await?;
    }
    ensure!(site.cloud.queue.take().is_empty(), "no wakeup");
    ensure!(site.cloud.world.documents().await == before, "no document");
    ensure!(fs::read_dir(&folder)?.next().is_none(), "no file");
    Ok(())
}
