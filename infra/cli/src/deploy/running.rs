//! Whether the stack runs what was deployed from this directory: another machine or CI may have deployed since.
//!
//! The code of the orchestrator decides. A rollback that went by the records alone could skip a deployment that was made elsewhere.

use super::records::Records;
use super::stack::Stack;
use super::tools::Tools;
use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::fs;

/// What the stack runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Running {
    /// Nothing was deployed from here.
    Nothing,
    /// The deployment of this number.
    Here(u64),
    /// Something else than the last deployment from here.
    Elsewhere,
}

impl Running {
    /// Compares the code of the stack with the archive of the last deployment from here.
    pub(super) async fn find(tools: &Tools, stack: &Stack, records: &Records) -> anyhow::Result<Running> {
        let Some(current) = records.current()? else {
            return Ok(Running::Nothing);
        };
        let Some(function) = stack.output("OrchestratorFunctionName") else {
            return Ok(Running::Here(current));
        };
        let record = records.record(current);
        let archive = record.archive(&record.about()?.orchestrator);
        let archive = fs::read(&archive).with_context(|| format!("{} cannot be read", archive.display()))?;
        let expected = STANDARD.encode(Sha256::digest(archive));
        match code(tools, function).await? == expected.as_str() {
            true => Ok(Running::Here(current)),
            false => Ok(Running::Elsewhere),
        }
    }

    /// The same for a deployment, which does not fail because of it.
    pub(super) async fn before(tools: &Tools, stack: Option<&Stack>, records: &Records) -> Running {
        let Some(stack) = stack else {
            return Running::Nothing;
        };
        let found = Running::find(tools, stack, records).await;
        found.unwrap_or_else(|why| {
            eprintln!("warning: what the stack runs now is not known, so --rollback cannot go back to it: {why:#}");
            Running::Elsewhere
        })
    }

    /// Refuses a rollback of code that was not deployed from this directory: "previous" would mean something else there.
    pub(super) fn check_here(self) -> anyhow::Result<()> {
        match self {
            Running::Nothing | Running::Here(_) => Ok(()),
            Running::Elsewhere => bail!(
                "the stack does not run the last deployment of this directory: it was deployed from elsewhere since. Roll back there, or check \
                 out the earlier commit and deploy it"
            ),
        }
    }

    /// What a rollback of the next deployment goes back to.
    pub(super) fn deployment(self) -> Option<u64> {
        match self {
            Running::Here(current) => Some(current),
            Running::Nothing | Running::Elsewhere => None,
        }
    }
}

/// The digest of a function's code, as Lambda describes it.
async fn code(tools: &Tools, function: &str) -> anyhow::Result<Value> {
    let arguments = [
        "lambda",
        "get-function-configuration",
        "--function-name",
        function,
        "--output",
        "json",
    ];
    let answer = match tools.read("aws", &arguments).await? {
        Ok(answer) => answer,
        Err(said) => bail!("the function '{function}' cannot be described: {}", said.trim()),
    };
    let mut answer: Value = serde_json::from_str(&answer).context("the answer of `aws lambda` cannot be read")?;
    Ok(answer["CodeSha256"].take())
}
