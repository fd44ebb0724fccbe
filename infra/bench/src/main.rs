//! Side by side: the same workloads on `CosmosProvider` and on `duroxide-cdb`, each on a fresh server of the same kind.
//!
//! ```text
//!   runtime ──> provider ──> proxy ──> counted listener ──┐
//!   watcher ──> provider ──> proxy ──> other listener ────┴──> strict Cosmos server
//! ```
//!
//! | module | role |
//! |---|---|
//! | `workflows`, `workload` | what is run, and what must come out |
//! | `arena`, `amend` | the server, its listeners, the two providers |
//! | `run`, `backlog`, `directed` | one measurement each |
//! | `measure`, `table`, `verdict`, `trace` | what was counted, and how it is shown |
//!
//! The exit code is 1 when an answer was wrong, or when our side did not finish; a missed target is only printed.

mod amend;
mod arena;
mod backlog;
mod directed;
mod measure;
mod run;
mod table;
mod trace;
mod verdict;
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

/// The peer's own default for its `orch_concurrency` and `worker_concurrency`, which is not the number of the
/// runtime's dispatchers. Where its dispatchers contend most it is also run *tuned*: one part of its queue each.
const PEER_DEFAULT_SLOTS: u32 = 1;

/// Compares `CosmosProvider` with `duroxide-cdb` on the same server.
#[derive(Debug, Parser)]
struct Args {
    /// Only the workloads whose name contains this.
    #[arg(long, value_name = "WORKLOAD")]
    only: Option<String>,
    /// Only the small workloads.
    #[arg(long)]
    quick: bool,
    /// Print the rows and the verdicts as JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Leave the peer out.
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
        bail!("no workload's name contains that");
    }
    let verdicts = verdict::verdicts(&rows);
    if args.json {
        println!("{}", serde_json::json!({ "rows": rows, "verdicts": verdicts }));
    } else {
        println!("{}", table::format(&rows));
        verdicts.iter().for_each(|line| println!("{line}"));
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
        &[Side::Ours, Side::Peer]
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
        for &side in sides.iter().filter(|_| wanted(&backlog::name(backlog))) {
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
