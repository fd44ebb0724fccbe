//! `duroxide-lambda demo`: see it work, see it survive.

use super::arguments::CloudArguments;
use super::asked_to_stop;
use super::up::advised;
use anyhow::Context as _;
use clap::Args;
use duroxide_cosmos::{Ids as _, RandomIds};
use local_cloud::cloud::{Cloud, CloudOptions, Store};
use local_cloud::demo::{self, Show, Tally};
use local_cloud::sqs::Loss;
use local_cloud::term::table::Look;
use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// As shells say that a program was interrupted.
const INTERRUPTED: u8 = 130;

/// Run orders through the functions, and kill function processes meanwhile.
#[derive(Args, Clone, Debug)]
pub(crate) struct Demo {
    #[command(flatten)]
    cloud: CloudArguments,
    /// How many orders
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=1000))]
    orders: u16,
    /// How many function processes are killed, most of them in the middle of an invocation
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(0..=1000))]
    kills: u16,
    /// How many of a hundred wakeups are lost on purpose: maintenance makes up for them
    #[arg(long, default_value_t = 5, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    lose_wakeups: u8,
    /// Decides which processes are killed and which wakeups are lost
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// All orders must be over by then
    #[arg(long, default_value_t = 180, value_name = "SECONDS")]
    limit: u64,
    /// Where the functions' logs are kept
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

impl Default for Demo {
    fn default() -> Demo {
        #[derive(clap::Parser)]
        struct None {
            #[command(flatten)]
            demo: Demo,
        }
        <None as clap::Parser>::parse_from(["duroxide-lambda"]).demo
    }
}

impl Demo {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        println!("Building the functions, if they are not ...");
        let mut options = self.cloud.options(0).await?;
        // Turns are counted by what the functions log: what this shell sets for other programs must not hide it.
        options
            .variables
            .retain(|set| set.0 != "LOG_LEVEL" || self.cloud.variables.contains(set));
        let log = self
            .log
            .clone()
            .unwrap_or_else(|| std::env::temp_dir().join(format!("duroxide-lambda-demo-{}.log", std::process::id())));
        let file = File::create(&log).with_context(|| format!("the log {} cannot be written", log.display()))?;
        let tally = Tally::new(Some(file));
        options.logs = tally.sink();
        options.loss = (self.lose_wakeups > 0).then(|| Loss {
            share: f64::from(self.lose_wakeups) / 100.0,
            seed: self.seed,
        });
        let fresh = self.cloud.data.is_none() && matches!(options.store, Store::Embedded(_));
        let show = Show {
            orders: self.orders.into(),
            kills: self.kills.into(),
            seed: self.seed,
            // A store that is kept may have the orders of an earlier demo.
            run: if fresh {
                "order".to_owned()
            } else {
                format!("order-{}", RandomIds.unique())
            },
            limit: Duration::from_secs(self.limit),
        };
        let shown = self.show(options, &show, &tally).await;
        println!("\nThe functions' logs are in {}", log.display());
        let Some(shown) = shown? else {
            println!("It was stopped before its end.");
            return Ok(ExitCode::from(INTERRUPTED));
        };
        println!("Next: `cargo run -- up`, and `cargo run -- --help`.");
        Ok(if shown { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Whether all is well; nothing when somebody stopped it.
    async fn show(&self, options: CloudOptions, show: &Show, tally: &Tally) -> anyhow::Result<Option<bool>> {
        let cloud = tokio::select! {
            started = Cloud::start(options) => started.map_err(|error| advised(error, 0, 0))?,
            asked = asked_to_stop() => return asked.map(|()| None),
        };
        println!(
            "The local cloud is up: Cosmos DB at {}, SQS and Lambda at {}.\n\
             {} orders; {} function processes will be killed, {} % of the wakeups lost. Seed {}.\n",
            cloud.variables()["COSMOS_ENDPOINT"],
            cloud.endpoint(),
            show.orders,
            show.kills,
            self.lose_wakeups,
            show.seed,
        );
        let summary = tokio::select! {
            summary = demo::run(show, &cloud, tally) => summary.map(Some),
            asked = asked_to_stop() => asked.map(|()| None),
        };
        let stopped = cloud.shutdown().await;
        let summary = summary?;
        stopped.context("the data was written, but not forced to the disk")?;
        Ok(summary.map(|summary| {
            print!("{}", summary.render(Look::of_stdout()));
            summary.is_well()
        }))
    }
}
