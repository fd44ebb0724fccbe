//! Stdout is for the answer alone; help.

use crate::fixture::Fixture;
use std::io::Read as _;
use std::process::{Command, Stdio};

#[tokio::test(flavor = "multi_thread")]
async fn stdout_has_only_the_answer_whatever_is_logged() {
    let mut fixture = Fixture::running().await;
    fixture.set("RUST_LOG", "trace");
    fixture
        .json(&["start", "Greet", "--id", "g", "--input", "Kyoto", "--wait", "120"])
        .await;
    let ran = fixture
        .run(&["wait", "g", "--json"])
        .await
        .exits(0)
        .warns("g: greeting Kyoto");
    let value: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(value["status"], "Completed");
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_closes_the_pipe_is_no_error() {
    let fixture = Fixture::running().await;
    let input = "x".repeat(500_000);
    let started = ["start", "Echo", "--id", "long", "--input", "-", "--wait", "120"];
    fixture.run_with(&started, &input).await.exits(0);
    let mut child = Command::new(env!("CARGO_BIN_EXE_duroxide-lambda"));
    child
        .env_clear()
        .envs(&fixture.variables)
        .args(["status", "long", "--full"]);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let run = move || {
        // There is much more output than a pipe holds.
        let mut some = [0; 10];
        let mut out = child.stdout.take().unwrap();
        out.read_exact(&mut some).unwrap();
        drop(out);
        child.wait_with_output().unwrap()
    };
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{output:?}");
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_help_lists_commands_with_examples_and_exit_codes() {
    let fixture = Fixture::idle().await;
    let overview = fixture.run(&["--help"]).await.exits(0).out;
    for command in [
        "start",
        "raise",
        "enqueue",
        "cancel",
        "status",
        "wait",
        "watch",
        "list",
        "history",
        "dead-letters",
    ] {
        assert!(overview.contains(&format!("\n  {command} ")), "{overview}");
        let help = fixture.run(&[command, "--help"]).await.exits(0).out;
        assert!(help.contains("Example") && help.contains("Exit codes"), "{help}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn completions_are_printed_for_each_shell() {
    let fixture = Fixture::idle().await;
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let printed = fixture.run(&["completions", shell]).await.exits(0).out;
        assert!(printed.contains("dead-letters") && printed.contains("watch"), "{shell}");
    }
    fixture.run(&["completions", "basic"]).await.exits(2);
}
