//! `duroxide-lambda demo`: runs orders through the functions, and shows progress and a summary.

mod progress;
mod summary;

use crate::ambient;
use crate::arguments::CloudArguments;
use crate::stop_requested;
use crate::terminal::program;
use crate::terminal::table::Look;
use crate::terminal::text::escape;
use crate::up::with_advice;
use anyhow::Context as _;
use clap::Args;
use local_cloud::demo::{self, DemoOptions, Report, TurnCounter};
use local_cloud::{Cloud, CloudOptions, Loss, Store};
use progress::ProgressView;
use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// The exit code that shells use for an interrupted program.
const INTERRUPTED: u8 = 130;

/// Run orders through the functions while function processes are killed.
#[derive(Args, Clone, Debug)]
pub(crate) struct Demo {
    #[command(flatten)]
    cloud: CloudArguments,
    /// How many orders
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=1000))]
    orders: u16,
    /// How many function processes are killed, most of them during an invocation
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(0..=1000))]
    kills: u16,
    /// The percentage of wakeups that are lost on purpose; maintenance sends them again
    #[arg(long, default_value_t = 5, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    lose_wakeups: u8,
    /// Decides which processes are killed and which wakeups are lost
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The time in which all orders must finish
    #[arg(long, default_value_t = 180, value_name = "SECONDS")]
    limit: u64,
    /// Keep the local cloud running afterwards, with the orders in its dashboard and some that wait, until Ctrl-C
    #[arg(long)]
    keep: bool,
    /// The file for the functions' logs [default: one in the temporary directory]
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

impl Demo {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        println!("Building the functions, unless they are up to date ...");
        let mut options = self.cloud.options(0).await?;
        // Turns are counted in the functions' logs: LOG_LEVEL from this shell must not hide them.
        options
            .variables
            .retain(|set| set.0 != "LOG_LEVEL" || self.cloud.variables.contains(set));
        let log = self
            .log
            .clone()
            .unwrap_or_else(|| std::env::temp_dir().join(format!("duroxide-lambda-demo-{}.log", std::process::id())));
        let file = File::create(&log).with_context(|| format!("the log {} cannot be written", log.display()))?;
        let turns = TurnCounter::new(Some(file));
        options.logs = turns.sink();
        options.loss = (self.lose_wakeups > 0).then(|| Loss {
            share: f64::from(self.lose_wakeups) / 100.0,
            seed: self.seed,
        });
        let finished = self.run_on(options, &turns).await;
        println!("\nThe functions' logs are in {}", log.display());
        let Some(report) = finished? else {
            println!("The demo was interrupted.");
            return Ok(ExitCode::from(INTERRUPTED));
        };
        println!("Next: `{0} up`, and `{0} --help`.", program());
        if let Some((order, sentence)) = &report.explained {
            println!("{order} failed on purpose. `explain` says: {}", escape(sentence));
        }
        Ok(if report.all_well() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    /// Starts the cloud, runs the orders and prints the summary; `None` if it was interrupted.
    async fn run_on(&self, options: CloudOptions, turns: &TurnCounter) -> anyhow::Result<Option<Report>> {
        let demo = self.demo_options(&options);
        let cloud = tokio::select! {
            started = Cloud::start(options) => started.map_err(|error| with_advice(error, 0))?,
            stop = stop_requested() => return stop.map(|()| None),
        };
        println!(
            "The local cloud is up. Dashboard: {0}/\n\
             HTTP API at {0}, Cosmos DB at {1}, SQS and Lambda at {2}.\n\
             {3} orders; {4} function processes will be killed, {5} % of the wakeups lost. Seed {6}.\n",
            cloud.api().unwrap_or_default(),
            cloud.variables()["COSMOS_ENDPOINT"],
            cloud.endpoint(),
            demo.orders,
            demo.kills,
            self.lose_wakeups,
            demo.seed,
        );
        let mut view = ProgressView::new();
        let report = tokio::select! {
            report = demo::run(&demo, &cloud, turns, |progress| view.show(progress)) => report.map(Some).map_err(Into::into),
            stop = stop_requested() => stop.map(|()| None),
        };
        drop(view);
        if let Ok(Some(report)) = &report {
            print!("{}", summary::render(report, Look::of_stdout()));
        }
        let kept = match (&report, self.keep) {
            (Ok(Some(report)), true) => self.keep_open(&cloud, &demo, report).await,
            _ => Ok(()),
        };
        let stopped = cloud.shutdown().await;
        let report = report?;
        kept?;
        stopped.context("the data was written, but not forced to disk")?;
        Ok(report)
    }

    /// Places orders that stay open, and waits for Ctrl-C.
    async fn keep_open(&self, cloud: &Cloud, demo: &DemoOptions, report: &Report) -> anyhow::Result<()> {
        demo::place_open(cloud, &demo.id_prefix).await?;
        let (api, program) = (cloud.api().unwrap_or_default(), program());
        println!(
            "\nThe local cloud stays up. Two more orders wait for an approval, and one has failed.\n\n  \
             Dashboard       {api}/\n  Command line    {program} list --url {api}"
        );
        if let Some((failed, _)) = &report.explained {
            println!("  A failed order  {program} explain {failed} --url {api}");
        }
        println!("\nCtrl-C stops it.");
        stop_requested().await
    }

    fn demo_options(&self, options: &CloudOptions) -> DemoOptions {
        let fresh = self.cloud.data.is_none() && matches!(options.store, Store::Embedded(_));
        DemoOptions {
            orders: self.orders.into(),
            kills: self.kills.into(),
            seed: self.seed,
            // A store that is kept may have the orders of an earlier demo.
            id_prefix: match fresh {
                true => "order".to_owned(),
                false => format!("order-{}", ambient::unique()),
            },
            limit: Duration::from_secs(self.limit),
        }
    }
}
