//! `duroxide-lambda deploy` of a stack that runs: it stays with its container, a rollback skips no deployment that was made elsewhere, and
//! each role that Entra ID must trust is printed once.

use crate::command::Stage;
use anyhow::Result;
use serde_json::json;
use std::fs;
use std::path::Path;
use tests::real::{Deployed, stack};

const FUNCTION: (&str, &str) = ("OrchestratorFunctionName", "flow-orchestrator");

/// A variable that is misspelt, or left from another project, must not leave running instances unserved.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: builds the command line"]
async fn a_stack_stays_with_its_container_unless_it_is_to_move() -> Result<()> {
    let stage = Stage::set("move").await?;
    let endpoint = format!("{}/", stage.server.listener().endpoint());
    let last = [
        ("CosmosEndpoint", endpoint.as_str()),
        ("CosmosDatabase", "duroxide"),
        ("CosmosContainer", "workflows"),
    ];
    let key = ("COSMOS_KEY", stage.key.as_str());
    let other = [key, ("COSMOS_CONTAINER", "orders")];
    stage.deployed(Some(&last))?;
    for env in [
        &other[..],
        &[key, ("COSMOS_DATABASE", "durable")],
        &[key, ("COSMOS_ENDPOINT", "https://other.documents.azure.com")],
    ] {
        let refused = stage.deploy_with(&[], env).await?;
        assert!(!refused.is_done() && refused.calls.is_empty(), "{refused:?}");
        let said = refused.said();
        for word in ["duroxide/workflows of http", "--move-store", "no function serves"] {
            assert!(said.contains(word), "{said}");
        }
    }
    let given = stage.deploy(&["CosmosContainer=orders"]).await?;
    assert!(
        !given.is_done() && given.said().contains("duroxide/orders"),
        "{given:?}"
    );
    let same = stage.deploy(&[]).await?;
    assert!(same.is_done(), "{same:?}");
    let moved = stage.deploy_with(&["--move-store"], &other).await?;
    assert!(
        moved.is_done() && moved.said().contains("container duroxide/orders: as expected"),
        "{moved:?}"
    );
    // There is nothing to move before there is a stack.
    stage.deployed(None)?;
    let first = stage.deploy_with(&[], &other).await?;
    assert!(first.is_done(), "{first:?}");
    Ok(())
}

/// As Lambda describes a function with this archive.
fn code_of(archive: &Path) -> Result<String> {
    use aws_lc_rs::digest::{SHA256, digest};
    use base64::Engine as _;
    let digest = digest(&SHA256, &fs::read(archive)?);
    let sha = base64::engine::general_purpose::STANDARD.encode(digest.as_ref());
    Ok(json!({"CodeSha256": sha}).to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: builds the command line"]
async fn a_rollback_skips_no_deployment_that_was_made_elsewhere() -> Result<()> {
    let stage = Stage::set("elsewhere").await?;
    assert!(stage.deploy(&[]).await?.is_done());
    stage.programs.describe("UPDATE_COMPLETE", &[], &[FUNCTION])?;
    let runs = |code: String| fs::write(stage.programs.file("function"), code);
    let archive = |n: u64| {
        stage
            .project
            .join(format!(".duroxide/deploy/flow/{n}/orchestrator.zip"))
    };

    // Another machine has deployed since.
    runs(json!({"CodeSha256": "other"}).to_string())?;
    let second = stage.deploy(&[]).await?;
    assert!(second.is_done(), "{second:?}");
    runs(code_of(&archive(2))?)?;
    let refused = stage.deploy(&["--rollback"]).await?;
    assert!(!refused.is_done() && refused.calls.is_empty(), "{refused:?}");
    let said = refused.said();
    assert!(
        said.contains("nothing to go back to") && said.contains("deployed from elsewhere"),
        "{said}"
    );

    assert!(stage.deploy(&[]).await?.is_done());
    runs(code_of(&archive(3))?)?;
    let back = stage.deploy(&["--rollback"]).await?;
    assert!(back.is_done() && back.said().contains("deployment 2 again"), "{back:?}");

    // A deployment does not fail because the running code is not known, but it says so.
    runs("no JSON".to_owned())?;
    let unknown = stage.deploy(&[]).await?;
    assert!(
        unknown.is_done() && unknown.said().contains("--rollback cannot go back to it"),
        "{unknown:?}"
    );
    Ok(())
}

/// The roles that it says the application must trust.
fn to_trust(done: &Deployed) -> Vec<String> {
    let said = done.said();
    let lines = said.lines().map(str::trim).filter(|line| line.starts_with("arn:"));
    lines.map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: builds the command line"]
async fn roles_that_the_application_must_trust_are_printed_when_they_are_new() -> Result<()> {
    let stage = Stage::set("roles").await?;
    let sam = r#"cp "$(dirname "$0")/next" "$(dirname "$0")/stack""#;
    stage.programs.program("sam", "/usr/bin/env bash", sam)?;
    for (roles, expected) in [
        (
            "arn:orchestrator arn:worker",
            &["arn:orchestrator", "arn:worker"] as &[&str],
        ),
        ("arn:orchestrator arn:worker", &[]),
        ("arn:orchestrator arn:worker arn:gpu", &["arn:gpu"]),
    ] {
        let next = stack(
            "flow",
            "UPDATE_COMPLETE",
            &[("CosmosContainer", "workflows")],
            &[("RoleArns", roles)],
        );
        fs::write(stage.programs.file("next"), next.to_string())?;
        let done = stage.deploy(&[]).await?;
        assert!(done.is_done(), "{done:?}");
        assert_eq!(to_trust(&done), expected, "{roles}");
    }
    Ok(())
}
