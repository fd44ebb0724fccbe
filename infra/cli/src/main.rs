//! The command line.
//!
//! | command | what it does |
//! |---|---|
//! | `demo` (default) | starts the local cloud, runs thirty orders while function processes are killed |
//! | `new` | creates a project |
//! | `up` | starts the local cloud and stays up until Ctrl-C |
//! | `dev` | builds a user's project, runs it on a local cloud, and replaces its functions when a source changes |
//! | `deploy` | deploys a user's project to AWS, upgrades it, rolls it back, deletes it |
//! | `completions` | prints the completions of a shell |
//! | the others | [`client`]: start, watch and manage workflows through the HTTP API of a running local cloud or a deployment |

mod ambient;
mod arguments;
mod client;
mod demo;
mod deploy;
mod dev;
mod loopback;
mod new;
mod project;
mod suggestions;
mod terminal;
mod up;

use clap::{CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;
use std::io;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use up::Output;

/// Durable workflows on AWS Lambda: a demo, a local cloud, and commands for workflows.
///
/// Without a command it runs the demo.
#[derive(Parser)]
#[command(name = "duroxide-lambda", version, subcommand_required = false)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Run thirty orders through the functions while function processes are killed (default)
    Demo(demo::Demo),
    /// Start everything and stay up: Cosmos DB, SQS, the functions, the HTTP API, the schedule
    Up(up::Up),
    New(new::New),
    Dev(dev::Dev),
    Deploy(deploy::Deploy),
    #[command(flatten)]
    Client(client::Command),
    /// Print the completions of a shell, to be loaded by it
    ///
    /// bash: `source <(duroxide-lambda completions bash)`; the other shells likewise.
    Completions {
        /// The shell
        shell: Shell,
    },
}

impl Command {
    /// The log level, unless RUST_LOG sets it.
    fn log_level(&self) -> &'static str {
        match self {
            Command::Up(_) | Command::Dev(_) => "warn",
            // The demo loses wakeups and kills processes on purpose; a client prints only its answer.
            Command::Demo(_)
            | Command::New(_)
            | Command::Deploy(_)
            | Command::Client(_)
            | Command::Completions { .. } => "error",
        }
    }
}

fn main() -> ExitCode {
    // First, and before there are threads: this process may have to become a function.
    if let Some(code) = local_cloud::become_child() {
        return code;
    }
    match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime.block_on(run()),
        Err(error) => {
            eprintln!("error: the program cannot start threads: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> ExitCode {
    let arguments = Arguments::parse();
    let demo = || {
        Arguments::parse_from(["duroxide-lambda", "demo"])
            .command
            .expect("a command was given")
    };
    let command = arguments.command.unwrap_or_else(demo);
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(command.log_level()));
    let log_to = |writer| {
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(writer)
            // A log that cannot be written (the disk may be full) must not end the program.
            .log_internal_errors(false)
            .init();
    };
    let finished = match command {
        Command::Up(up) => {
            let (stdout, _last_lines) = Output::to(io::stdout());
            let (stderr, _last_records) = Output::to(io::stderr());
            log_to(BoxMakeWriter::new(stderr));
            up.run(&stdout).await
        }
        Command::Dev(dev) => {
            let (stdout, _last_lines) = Output::to(io::stdout());
            let (stderr, _last_records) = Output::to(io::stderr());
            log_to(BoxMakeWriter::new(stderr));
            dev.run(&stdout).await
        }
        // Stdout is for the answer alone.
        Command::Demo(demo) => {
            log_to(BoxMakeWriter::new(io::stderr));
            demo.run().await
        }
        Command::New(new) => new.run().map_err(anyhow::Error::from),
        Command::Deploy(deploy) => {
            log_to(BoxMakeWriter::new(io::stderr));
            deploy.run().await
        }
        Command::Client(command) => {
            log_to(BoxMakeWriter::new(io::stderr));
            return client::run(command).await;
        }
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Arguments::command(), "duroxide-lambda", &mut io::stdout());
            return ExitCode::SUCCESS;
        }
    };
    finished.unwrap_or_else(|error| {
        // One line: these are mistakes like a port in use.
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

/// Waits for Ctrl-C or a signal to terminate.
async fn stop_requested() -> anyhow::Result<()> {
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
    fn up_logs_warnings_and_the_other_commands_only_errors() {
        for (name, level) in [("up", "warn"), ("dev", "warn"), ("demo", "error"), ("list", "error")] {
            let arguments = Arguments::try_parse_from(["duroxide-lambda", name]).ok();
            let command = arguments.and_then(|arguments| arguments.command);
            assert_eq!(command.expect("it needs no arguments").log_level(), level, "{name}");
        }
    }
}
