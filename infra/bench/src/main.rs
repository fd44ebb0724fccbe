//! Runs the same workloads on `CosmosProvider` and on `duroxide-cdb`, each on a fresh emulator, and on duroxide's SQLite
//! provider in memory.
//!
//! ```text
//!   runtime ──> provider ──> proxy ──> counted listener ──┐
//!   watcher ──> provider ──> proxy ──> other listener ────┴──> Cosmos DB emulator
//! ```
//!
//! | module | role |
//! |---|---|
//! | `workflows`, `workload` | what is run, and the expected results |
//! | `arena`, `proxy`, `processor` | the emulator on a runtime of its own, its listeners, the two providers |
//! | `run`, `backlog`, `directed` | one measurement each |
//! | `measure`, `table`, `targets`, `trace` | the numbers, and how they are shown |
//!
//! The exit code is 1 if a result was wrong or our side did not finish. A missed target is only printed.

mod arena;
mod backlog;
mod directed;
mod measure;
mod processor;
mod proxy;
mod run;
mod table;
mod targets;
mod trace;
mod workflows;
mod workload;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Parser;
use tracing_subscriber::EnvFilter;

use arena::{DISPATCHERS, Side};
use measure::{End, Measure};
use run::Settings;

/// The peer's default of `orch_concurrency` and `worker_concurrency`. The workload in which its dispatchers contend most is also
/// run *tuned*, with one part of the queue for each dispatcher.
const PEER_DEFAULT_SLOTS: u32 = 1;

/// Compares `CosmosProvider` with `duroxide-cdb` on the same server, and with duroxide's SQLite provider.
#[derive(Debug, Parser)]
struct Args {
    /// Only the workloads whose name contains this.
    #[arg(long, value_name = "WORKLOAD")]
    only: Option<String>,
    /// Only the small workloads.
    #[arg(long)]
    quick: bool,
    /// Print rows and targets as JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Run neither the peer nor SQLite.
    #[arg(long)]
    ours_only: bool,
    /// The longest time, in seconds, for one workload on one side.
    #[arg(long, default_value_t = 120)]
    limit: u64,
    /// Print every request to standard error.
    #[arg(long)]
    log: bool,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("off"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    let args = Args::parse();
    let rows = measure_all(&args).await?;
    if rows.is_empty() {
        bail!("no workload has a name that contains --only");
    }
    let targets = targets::targets(&rows);
    if args.json {
        println!("{}", serde_json::json!({ "rows": rows, "targets": targets }));
    } else {
        println!("{}", table::format(&rows));
        targets.iter().for_each(|line| println!("{line}"));
    }
    Ok(exit_code(&rows))
}

async fn measure_all(args: &Args) -> Result<Vec<Measure>> {
    let settings = Settings {
        peer_slots: PEER_DEFAULT_SLOTS,
        limit: Duration::from_secs(args.limit),
        log: args.log,
    };
    let tuned = Settings {
        peer_slots: DISPATCHERS,
        ..settings
    };
    let wanted = |name: &str| args.only.as_deref().is_none_or(|only| name.contains(only));
    let sides = if args.ours_only {
        &[Side::Ours][..]
    } else {
        &[Side::Ours, Side::Peer, Side::Sqlite]
    };
    let mut rows = Vec::new();
    for workload in workload::workloads(args.quick)
        .iter()
        .filter(|workload| wanted(&workload.name))
    {
        for &side in sides {
            eprintln!("{} {side:?} ...", workload.name);
            rows.push(run::run(workload, side, settings).await?);
        }
        if workload.name == workload::CONCURRENT_HELLO && !args.ours_only {
            eprintln!("{} Peer, tuned ...", workload.name);
            rows.push(run::run(workload, Side::Peer, tuned).await?.how("tuned"));
        }
    }
    for backlog in workload::backlogs(args.quick) {
        let on_server = sides.iter().filter(|side| **side != Side::Sqlite);
        for &side in on_server.filter(|_| wanted(&backlog::name(backlog))) {
            eprintln!("{} {side:?} ...", backlog::name(backlog));
            rows.extend(backlog::run(backlog, side, settings).await?);
        }
    }
    if wanted(directed::NAME) {
        rows.push(directed::run(settings).await?);
    }
    Ok(rows)
}

fn exit_code(rows: &[Measure]) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for row in rows {
        match &row.end {
            End::Wrong(what) => eprintln!("WRONG: {} {:?}: {what}", row.workload, row.side),
            End::DidNotFinish if row.side == Side::Ours => eprintln!("ours did not finish {}", row.workload),
            _ => continue,
        }
        code = ExitCode::FAILURE;
    }
    code
}
