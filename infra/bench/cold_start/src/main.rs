//! Cold starts of the functions beside a bare `lambda_runtime` function, in one run on one machine.
//!
//! ```text
//!   benchmark ── spawns ──> function
//!       │                      │ GET /next        init: from the spawn to here; memory is read here
//!       └─ Runtime API <───────┤ POST /response   first invocation: an empty SQS batch; of `api`, GET /v1/health
//!                              │ GET /next        memory again
//! ```
//!
//! The functions are started in turns, so that other load on the machine affects all of them. The first round fills the page
//! cache and is not counted. Cosmos DB and SQS are closed ports on the loopback interface.
//!
//! ```text
//! cargo run --release --manifest-path infra/bench/cold_start/Cargo.toml
//! ```
//!
//! The exit code is 1 if a limit is exceeded.

mod binaries;
mod memory;
mod report;
mod runtime_api;
mod start;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;

use binaries::Binary;
use report::Row;
use start::Start;

/// Compares the functions' cold starts with a bare function's.
#[derive(Debug, Parser)]
struct Args {
    /// How often each function is started.
    #[arg(long, default_value_t = 20)]
    starts: usize,
    /// A variable for the functions, beside the built-in ones or in place of one.
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = pair)]
    env: Vec<(String, String)>,
    /// Show what the functions write.
    #[arg(long)]
    show_output: bool,
    /// Compare these binaries, instead of building the functions.
    #[arg(value_name = "NAME=PATH", value_parser = pair)]
    binaries: Vec<(String, String)>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let mut binaries = vec![binaries::bare()?];
    if args.binaries.is_empty() {
        binaries.extend(binaries::functions()?);
    }
    let given = |(name, path): &(String, String)| Binary::new(name, PathBuf::from(path));
    binaries.extend(args.binaries.iter().map(given));

    let mut starts: Vec<Vec<Start>> = binaries.iter().map(|_| Vec::new()).collect();
    for round in 0..=args.starts {
        for turn in 0..binaries.len() {
            // Each round begins with another one, so that the order does not favour any.
            let which = (round + turn) % binaries.len();
            let binary = &binaries[which];
            let start = start::measure(binary, &args.env, args.show_output)
                .with_context(|| format!("{} does not start (--show-output shows why)", binary.name))?;
            if round > 0 {
                starts[which].push(start);
            }
        }
    }
    let rows: Result<Vec<Row>> = binaries.iter().zip(&starts).map(|(b, s)| Row::new(b, s)).collect();
    Ok(if report::print(&rows?, args.starts) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
