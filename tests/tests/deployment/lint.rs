//! The tools that judge templates find nothing, but for what is suppressed with a reason.

use crate::template::{root, run};
use anyhow::Result;
use serde_json::Value;
use std::process::Command;
use tests::real::Venv;

const TEMPLATE: &str = "infra/aws/template.yaml";
const NETWORK: &str = "infra/aws/network.yaml";

/// A program without telemetry.
pub fn quiet(venv: &Venv, program: &str) -> Command {
    let mut command = Command::new(venv.program(program));
    command
        .env("AWS_DEFAULT_REGION", "eu-central-1")
        .env("SAM_CLI_TELEMETRY", "0")
        .env("PYTHONWARNINGS", "ignore");
    command
}

#[tokio::test]
#[ignore = "exhaustive: the linters from PyPI"]
async fn cfn_lint_finds_nothing() -> Result<()> {
    let venv = Venv::sam().await?;
    let found = run(
        quiet(&venv, "cfn-lint").args(["--format", "json", "--", TEMPLATE, NETWORK]),
        b"",
    )?;
    assert_eq!(serde_json::from_slice::<Value>(&found)?, serde_json::json!([]));
    Ok(())
}

#[tokio::test]
#[ignore = "exhaustive: the linters from PyPI"]
async fn sam_validates_the_template() -> Result<()> {
    let venv = Venv::sam().await?;
    let said = run(
        quiet(&venv, "sam").args(["validate", "--lint", "--template-file", TEMPLATE]),
        b"",
    )?;
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(said.contains("is a valid SAM Template"), "{said}");
    Ok(())
}

/// What checkov says of one file: passed, failed, suppressed.
async fn checked(framework: &str, file: &str) -> Result<Value> {
    let venv = Venv::checkov().await?;
    let mut checkov = quiet(&venv, "checkov");
    checkov.args(["--framework", framework, "--file", file]);
    checkov.args(["--output", "json", "--skip-download", "--quiet", "--soft-fail"]);
    let report: Value = serde_json::from_slice(&run(&mut checkov, b"")?)?;
    Ok(report)
}

async fn check(framework: &str, file: &str) -> Result<()> {
    let report = checked(framework, file).await?;
    let failed = &report["results"]["failed_checks"];
    assert_eq!(failed.as_array().map(Vec::len), Some(0), "{failed:#}");
    assert!(report["summary"]["passed"].as_u64() > Some(0), "{}", report["summary"]);
    assert_eq!(report["summary"]["parsing_errors"], 0, "{}", report["summary"]);
    Ok(())
}

#[tokio::test]
#[ignore = "exhaustive: the linters from PyPI"]
async fn checkov_finds_nothing_in_the_templates_of_aws() -> Result<()> {
    check("cloudformation", TEMPLATE).await?;
    check("cloudformation", NETWORK).await
}

#[tokio::test]
#[ignore = "exhaustive: the linters from PyPI"]
async fn checkov_finds_nothing_in_the_bicep_file() -> Result<()> {
    check("bicep", "infra/azure/cosmos.bicep").await
}

#[tokio::test]
#[ignore = "exhaustive: the linters from PyPI"]
async fn checkov_finds_nothing_in_the_arm_template() -> Result<()> {
    check("arm", "infra/azure/cosmos.json").await
}

#[test]
fn each_suppressed_finding_has_its_reason() {
    for file in [TEMPLATE, "infra/azure/cosmos.bicep", "infra/azure/cosmos.json"] {
        let text = std::fs::read_to_string(root().join(file)).unwrap();
        let mut skips = 0;
        for (_, skip) in text.lines().filter_map(|line| line.split_once("checkov:skip=")) {
            let (id, reason) = skip.split_once(':').unwrap_or((skip, ""));
            assert!(id.starts_with("CKV") && reason.len() > 20, "{file}: {skip}");
            skips += 1;
        }
        assert!(skips > 0 || !file.ends_with("yaml"), "{file} has suppressions");
    }
    let template = std::fs::read_to_string(root().join(TEMPLATE)).unwrap();
    let lines: Vec<&str> = template.lines().collect();
    let ignored = lines.iter().position(|line| line.trim() == "ignore_checks:").unwrap();
    let listed = lines[ignored + 1..]
        .iter()
        .take_while(|line| line.starts_with("        "));
    let mut reasoned = false;
    for line in listed {
        let line = line.trim();
        assert!(line.starts_with('#') || (line.starts_with("- ") && reasoned), "{line}");
        reasoned = line.starts_with('#');
    }
}
