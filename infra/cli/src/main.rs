//! The command line: what each command is told, and how it tells what happened.
//!
//! | command | what it does |
//! |---|---|
//! | `demo` | the default: everything on this machine, thirty orders, processes killed at random |
//! | `up` | everything on this machine, until Ctrl-C |
//! | the rest | [`client`]: a way in to a running cloud, or to a deployment |

mod arguments;
mod client;
mod demo;
mod lines;
mod screen;
mod up;

use clap::{Parser, Subcommand};
use screen::Screen;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

/// The local cloud: durable workflows on the real function binaries, on this machine.
#[derive(Parser)]
#[command(name = "duroxide-lambda", version, subcommand_required = false)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Run thirty orders through the functions, and kill function processes meanwhile (the default)
    Demo(demo::Demo),
    /// Start everything and stay up: Cosmos DB, SQS, the functions, the schedule
    Up(up::Up),
    #[command(flatten)]
    Client(client::Command),
}

impl Command {
    /// From which level on trouble is shown. Who serves others tells what befalls them; a wakeup that is put aside is one.
    fn trouble(&self) -> &'static str {
        match self {
            Command::Up(_) => "warn",
            // It draws its progress, and a lost wakeup or a killed process is what it is about.
            Command::Demo(_) | Command::Client(_) => "error",
        }
    }
}

fn main() -> ExitCode {
    // Before anything else, and before there are threads: this process may be about to become a function.
    if let Some(code) = local_cloud::become_child() {
        return code;
    }
    match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime.block_on(run()),
        Err(error) => {
            eprintln!("error: no threads can be started: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Does what the arguments say.
async fn run() -> ExitCode {
    let command = Arguments::parse().command;
    let command = command.unwrap_or_else(|| Command::Demo(demo::Demo::default()));
    // What a command answers stands on stdout, alone. Unless told otherwise, only trouble is shown.
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(command.trouble()));
    let screen = Screen::start();
    let writer = match command {
        Command::Up(_) => BoxMakeWriter::new(screen.clone()),
        _ => BoxMakeWriter::new(std::io::stderr),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        // A log that cannot be written (a full disk has both) must not bring down who wrote it.
        .log_internal_errors(false)
        .init();
    let done = match command {
        Command::Demo(demo) => demo.run().await,
        Command::Up(up) => up.run(&screen).await,
        Command::Client(command) => return client::run(command).await,
    };
    screen.finish();
    match done {
        Ok(code) => code,
        // A port in use is an everyday mistake: one line says it, a backtrace would hide it.
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Waits for Ctrl-C or a request to end.
async fn asked_to_stop() -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    tokio::select! {
        pressed = tokio::signal::ctrl_c() => pressed?,
        _ = terminate.recv() => {}
        _ = hang_up.recv() => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_serves_others_shows_warnings_and_who_answers_only_errors() {
        for (name, level) in [("up", "warn"), ("demo", "error"), ("list", "error")] {
            let command = Arguments::try_parse_from(["duroxide-lambda", name])
                .ok()
                .and_then(|told| told.command);
            assert_eq!(command.expect("it needs no arguments").trouble(), level, "{name}");
        }
    }
}
