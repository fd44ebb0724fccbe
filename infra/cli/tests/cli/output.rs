//! What stands where: stdout for the answer alone.

use crate::world::World;
use std::io::Read as _;
use std::process::{Command, Stdio};

#[tokio::test(flavor = "multi_thread")]
async fn stdout_holds_the_answer_alone_whatever_is_logged() {
    let mut world = World::moving().await;
    world.set("RUST_LOG", "trace");
    world
        .json(&["start", "Greet", "--id", "g", "--input", "Kyoto", "--wait", "120"])
        .await;
    let ran = world
        .run(&["wait", "g", "--json"])
        .await
        .is(0)
        .says("g: greeting Kyoto");
    let value: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(value["status"], "Completed");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_who_has_seen_enough_is_no_error() {
    let world = World::moving().await;
    let input = "x".repeat(500_000);
    let started = ["start", "Echo", "--id", "long", "--input", "-", "--wait", "120"];
    world.run_with(&started, &input).await.is(0);
    let mut child = Command::new(env!("CARGO_BIN_EXE_duroxide-lambda"));
    child
        .env_clear()
        .envs(&world.variables)
        .args(["status", "long", "--full"]);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let run = move || {
        // Much more is to come than a pipe holds.
        let mut some = [0; 10];
        let mut out = child.stdout.take().unwrap();
        out.read_exact(&mut some).unwrap();
        drop(out);
        child.wait_with_output().unwrap()
    };
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{output:?}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn help_is_for_newcomers() {
    let world = World::still().await;
    let overview = world.run(&["--help"]).await.is(0).out;
    for command in [
        "start",
        "raise",
        "enqueue",
        "cancel",
        "status",
        "wait",
        "list",
        "history",
        "dead-letters",
    ] {
        assert!(overview.contains(&format!("\n  {command} ")), "{overview}");
        let help = world.run(&[command, "--help"]).await.is(0).out;
        assert!(help.contains("Example") && help.contains("Exit codes"), "{help}");
    }
}
