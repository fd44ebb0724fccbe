//! The replay gate: the new orchestrator must replay what runs, before it is deployed.

use super::archives::{self, Binaries};
use super::records::{Record, Scratch};
use super::tools::Tools;
use crate::client::replay_gate;
use anyhow::{Context as _, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// A deployment that is to be checked.
pub(super) struct Gate<'a> {
    pub(super) record: &'a Record,
    pub(super) architecture: &'a str,
    /// The binary of the orchestrator.
    pub(super) orchestrator: &'a str,
    /// The API of the stack that runs.
    pub(super) api: &'a str,
}

impl Gate<'_> {
    /// Replays the histories of the stack on the orchestrator of the archive, or on one that is built for this machine.
    pub(super) async fn check(&self, tools: &Tools, binaries: Option<&Binaries>) -> anyhow::Result<()> {
        let scratch = Scratch::create()?;
        let binary = match archives::runs_here(self.architecture) {
            true => {
                let binary = scratch.file("orchestrator");
                archives::unpack(&self.record.archive(self.orchestrator), &binary)?;
                binary
            }
            false => self.native(tools, binaries).await?,
        };
        let answer = replay_gate(&binary, self.api).await;
        match answer {
            Ok(answer) if answer.passed => {
                println!("{}", answer.text);
                Ok(())
            }
            Ok(answer) => {
                println!("{}", answer.text);
                bail!(
                    "the new orchestrator cannot go on with instances in flight, so nothing was deployed. Keep the old code as a version \
                     beside the new one (docs/deployment.md), or deploy anyway with --skip-replay: those instances are blocked then"
                )
            }
            Err(why) => bail!(
                "the replay gate could not be run, so nothing was deployed: {why}. The API of the stack must accept your AWS credentials, or \
                 DUROXIDE_LAMBDA_TOKEN; --skip-replay deploys without it"
            ),
        }
    }

    async fn native(&self, tools: &Tools, binaries: Option<&Binaries>) -> anyhow::Result<PathBuf> {
        let kept = self.record.gate();
        if let Some(binaries) = binaries {
            println!(
                "the archives are for {}: building the orchestrator for this machine",
                self.architecture
            );
            let built = binaries.build_here(tools, self.orchestrator).await?;
            copy(&built, &kept)?;
        } else if !kept.is_file() {
            bail!(
                "deployment {} has no orchestrator for this machine, because its replay gate was skipped: roll back with --skip-replay",
                self.record.number
            );
        }
        Ok(kept)
    }
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::copy(from, to).with_context(|| format!("{} cannot be copied", from.display()))?;
    archives::executable(to)
}
