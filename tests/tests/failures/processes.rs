//! Real processes that end: by an abort, because memory runs out, and because Lambda kills what never returns.

use anyhow::{Context as _, Result, ensure};
use duroxide_cosmos::{DeadLetterKind, InstanceStatus, InstanceSummary};
use duroxide_lambda::notifier::Sqs;
use duroxide_lambda::{Config, Connection};
use local_cloud::{Cloud, CloudOptions, Functions};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tests::PATIENCE;

const FUNCTION: &str = env!("CARGO_BIN_EXE_dying_function");
/// How much address space a function has, in KB.
const MEMORY: u64 = 2_000_000;
const WAYS: [&str; 3] = ["abort", "memory", "hang"];

/// The function as a program whose memory is limited.
fn limited() -> Result<PathBuf> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("dying-function-{}", std::process::id()));
    fs::write(&path, format!("#!/bin/sh\nulimit -v {MEMORY}\nexec {FUNCTION}\n"))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

async fn deploy() -> Result<(Cloud, Connection)> {
    let function = limited()?;
    let mut options = CloudOptions::of(Functions {
        orchestrator: function.clone(),
        worker: function.clone(),
        maintenance: function,
        api: None,
    });
    // One at a time: those beside it would die, too.
    options.batch_size = 1;
    options.concurrency = WAYS.len();
    options.timeout = Duration::from_secs(10);
    options.visibility = Duration::from_secs(12);
    for (name, value) in [
        ("DUROXIDE_MAX_ATTEMPTS", "2"),
        ("DUROXIDE_WORK_LOCK_SECONDS", "15"),
        ("DUROXIDE_TURN_LOCK_SECONDS", "5"),
    ] {
        options.variables.push((name.to_owned(), value.to_owned()));
    }
    let cloud = Cloud::start(options).await?;
    let get = |name: &str| cloud.variables().get(name).cloned();
    let config = Config::from_variables(get)?;
    let notifier = Arc::new(Sqs::from_variables(config.queues.clone(), get));
    let connection = Connection::new(config.cosmos_config(), notifier, config.limits.clone()).await?;
    Ok((cloud, connection))
}

/// Waits until the instance has this status.
async fn until(connection: &Connection, instance: &str, status: InstanceStatus) -> Result<InstanceSummary> {
    let begun = Instant::now();
    loop {
        let summary = connection.store().instance_summary(instance).await?;
        let summary = summary.with_context(|| format!("{instance} exists"))?;
        if summary.status == status {
            return Ok(summary);
        }
        ensure!(begun.elapsed() < PATIENCE, "{instance} is not {status}: {summary:#?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: real processes die, and their locks expire"]
async fn a_process_that_dies_costs_an_attempt_however_it_dies() -> Result<()> {
    let (cloud, connection) = deploy().await?;
    let client = connection.client();
    for way in WAYS {
        client.start_orchestration(&format!("saga-{way}"), "Saga", way).await?;
        client.start_orchestration(&format!("turn-{way}"), "Dies", way).await?;
    }
    for way in WAYS {
        // In an activity: its workflow compensates.
        let saga = until(&connection, &format!("saga-{way}"), InstanceStatus::Completed).await?;
        let expected = "undone: activity `Dies` killed its process 2 times (out of memory?)";
        ensure!(saga.output.as_deref() == Some(expected), "{way}: {saga:?}");
        // In a turn: it is blocked for this build, and can be cancelled all the same.
        let turn = format!("turn-{way}");
        let blocked = until(&connection, &turn, InstanceStatus::Blocked).await?;
        let blocked = blocked.blocked.context("a reason")?;
        ensure!(blocked.cause.name() == "crash", "{way}: {blocked:?}");
        client.cancel_instance(&turn, "enough").await?;
        until(&connection, &turn, InstanceStatus::Cancelled).await?;
    }
    let letters = connection.store().dead_letters(100, None).await?.dead_letters;
    let given_up = letters
        .iter()
        .filter(|letter| letter.kind == DeadLetterKind::PoisonActivity);
    ensure!(
        given_up.count() == WAYS.len() && letters.len() == WAYS.len(),
        "one cause, one letter: {letters:?}"
    );
    cloud.shutdown().await?;
    Ok(())
}
