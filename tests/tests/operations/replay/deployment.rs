//! `duroxide-lambda deploy` runs the gate against the stack that runs, before it deploys.

use super::site::{FUNCTION, Site};
use anyhow::Result;
use cosmos_emulator::{CosmosServer, ServerOptions};
use std::fs;
use std::path::{Path, PathBuf};
use tests::real::{Deployed, Programs, store};
use tests::replay::BUILD;

/// What the gate runs is the archive's own binary only if that is for this machine.
const ARCHITECTURE: &str = if cfg!(target_arch = "aarch64") {
    "Architecture=arm64"
} else {
    "Architecture=x86_64"
};

struct Deployment {
    programs: Programs,
    project: PathBuf,
    server: CosmosServer,
}

impl Deployment {
    /// Deploys a build of the orchestrator.
    async fn deploy(&self, build: &str, arguments: &[&str]) -> Result<Deployed> {
        let orchestrator = self.programs.binaries().join("orchestrator");
        fs::write(orchestrator, format!("#!/bin/sh\n{BUILD}={build} exec {FUNCTION}\n"))?;
        let mut all = vec![ARCHITECTURE];
        all.extend(arguments);
        self.run(&all).await
    }

    async fn run(&self, arguments: &[&str]) -> Result<Deployed> {
        let store = store(self.server.listener());
        let env = store.each_ref().map(|(name, value)| (*name, value.as_str()));
        self.programs.deploy(&self.project, arguments, &env).await
    }

    /// The stack, with this API, runs the orchestrator of this deployment.
    fn runs(&self, api: &str, deployment: u64) -> Result<()> {
        let outputs = [("ApiUrl", api), ("OrchestratorFunctionName", "flow-orchestrator")];
        self.programs
            .describe("UPDATE_COMPLETE", &[("WorkerTimeout", "120")], &outputs)?;
        let archive = self
            .project
            .join(format!(".duroxide/deploy/flow/{deployment}/orchestrator.zip"));
        fs::write(self.programs.file("function"), code_of(&archive)?)?;
        Ok(())
    }
}

/// As Lambda describes a function with this archive.
fn code_of(archive: &Path) -> Result<String> {
    use aws_lc_rs::digest::{SHA256, digest};
    use base64::Engine as _;
    let digest = digest(&SHA256, &fs::read(archive)?);
    let sha = base64::engine::general_purpose::STANDARD.encode(digest.as_ref());
    Ok(serde_json::json!({"CodeSha256": sha}).to_string())
}

fn deploys(done: &Deployed) -> bool {
    done.calls.iter().any(|call| call.starts_with("sam"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: builds the command line"]
async fn a_build_that_cannot_go_on_is_not_deployed_and_a_rollback_goes_through_the_gate_too() -> Result<()> {
    let site = Site::start().await?;
    site.ran("order-1", "Order", "7").await?;
    let programs = Programs::recorded("gate")?;
    let deployment = Deployment {
        project: programs.project("flow", "")?,
        programs,
        server: CosmosServer::start(ServerOptions::default()).await?,
    };
    // There is nothing to replay before there is a stack.
    let first = deployment.deploy("first", &[]).await?;
    assert!(
        first.is_done() && !first.said().contains("== replay"),
        "{}",
        first.said()
    );
    deployment.runs(&site.url, 1)?;

    let refused = deployment.deploy("reordered", &[]).await?;
    assert!(!refused.is_done() && !deploys(&refused), "{}", refused.said());
    assert!(refused.said().contains("order-1") && refused.said().contains("--skip-replay"));
    let passed = deployment.deploy("refactored", &[]).await?;
    assert!(
        passed.is_done() && passed.said().contains("1 histor"),
        "{}",
        passed.said()
    );
    deployment.runs(&site.url, 3)?;
    let forced = deployment.deploy("reordered", &["--skip-replay"]).await?;
    assert!(forced.is_done() && deploys(&forced), "{}", forced.said());

    // Back to the build of the third deployment, with its parameters, and further to the first.
    deployment.runs(&site.url, 4)?;
    let back = deployment.run(&["--rollback"]).await?;
    assert!(back.is_done() && back.said().contains("== replay"), "{}", back.said());
    assert!(back.said().contains("deployment 3 again"), "{}", back.said());
    let settings = fs::read_to_string(deployment.programs.file("settings.toml"))?;
    assert!(
        settings.contains("WorkerTimeout=\"120\"") && !settings.contains("Cosmos"),
        "{settings}"
    );

    // What was deployed from elsewhere has another "previous".
    let elsewhere = deployment.run(&["--rollback"]).await?;
    assert!(!elsewhere.is_done() && !deploys(&elsewhere), "{}", elsewhere.said());
    assert!(
        elsewhere.said().contains("deployed from elsewhere"),
        "{}",
        elsewhere.said()
    );
    deployment.runs(&site.url, 3)?;
    assert!(
        deployment
            .run(&["--rollback"])
            .await?
            .said()
            .contains("deployment 1 again")
    );

    // Without an API there is no gate, and without a gate no deployment.
    deployment.runs("http://127.0.0.1:9", 1)?;
    let unknown = deployment.deploy("first", &[]).await?;
    assert!(!unknown.is_done() && !deploys(&unknown), "{}", unknown.said());
    assert!(
        unknown.said().contains("the replay gate could not be run"),
        "{}",
        unknown.said()
    );

    let kept = deployment.run(&["destroy"]).await?;
    assert!(!kept.is_done() && kept.calls.is_empty(), "{}", kept.said());
    assert!(kept.said().contains("--yes") && kept.said().contains("Keeps the container"));
    let destroyed = deployment.run(&["destroy", "--yes"]).await?;
    assert_eq!(destroyed.calls.len(), 2, "{destroyed:?}");
    Ok(())
}
