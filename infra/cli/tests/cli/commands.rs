//! Each command, with --json and as text.

use crate::fixture::Fixture;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn start_wait_and_status_show_the_instance() {
    let fixture = Fixture::running().await;
    let started = fixture
        .json(&["start", "Greet", "--id", "a/b ø", "--input", "Kyoto"])
        .await;
    assert_eq!(
        started,
        json!({ "instance": "a/b ø", "orchestration": "Greet", "version": null })
    );
    let waited = fixture.json(&["wait", "a/b ø", "--timeout", "120"]).await;
    assert_eq!(
        (&waited["status"], &waited["output"]),
        (&json!("Completed"), &json!("Hello, Kyoto!"))
    );
    let status = fixture.json(&["status", "a/b ø"]).await;
    assert_eq!(status, waited);
    assert_eq!(status["customStatus"], "greeting Kyoto");
    assert_eq!(status["keyValues"], json!({ "whom": "Kyoto" }));
    assert_eq!((&status["execution"], &status["error"]), (&json!(1), &json!(null)));
    assert!(status["events"].as_u64().unwrap() >= 4, "{status}");
    assert_eq!(
        (&status["usage"]["turns"], &status["usage"]["activities"]),
        (&json!(2), &json!(1)),
        "{status}"
    );
    let shown = fixture.run(&["status", "a/b ø"]).await.exits(0).out;
    for part in [
        "instance       a/b ø\n",
        "Greet 1.0.0",
        "Completed",
        "whom = Kyoto",
        "usage          2 turns, 1 activity, ",
        "output         Hello, Kyoto!",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains('\u{1b}'), "no colours in a pipe: {shown}");
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn start_generates_an_id_waits_and_reads_its_input_from_stdin_or_a_file() {
    let fixture = Fixture::running().await;
    let ran = fixture
        .run_with(
            &["start", "Echo", "--input", "-", "--wait", "120", "--json"],
            "by\nstdin",
        )
        .await
        .exits(0);
    let first: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(first["output"], "by\nstdin");
    let id = first["instance"].as_str().unwrap();
    assert!(id.starts_with("Echo-") && id.len() == "Echo-".len() + 12, "{id}");
    let path = std::env::temp_dir().join(format!("cli-input-{}.json", std::process::id()));
    std::fs::write(&path, "{\"a\": 1}").unwrap();
    let input = format!("@{}", path.display());
    let second = fixture
        .json(&[
            "start",
            "Echo",
            "--version",
            "1.0.0",
            "--input",
            &input,
            "--wait",
            "120",
        ])
        .await;
    std::fs::remove_file(&path).unwrap();
    assert_eq!(
        (&second["output"], &second["version"]),
        (&json!("{\"a\": 1}"), &json!("1.0.0"))
    );
    let existing = fixture
        .run(&["start", "Echo", "--id", id])
        .await
        .exits(1)
        .warns("exists already: Echo, Completed");
    assert_eq!(existing.out, "");
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_messages_and_cancellations_reach_the_instance() {
    let fixture = Fixture::running().await;
    for (orchestration, id) in [("Await", "waits"), ("Mailbox", "reads"), ("Await", "goes")] {
        fixture.json(&["start", orchestration, "--id", id]).await;
    }
    // `raise` waits for the first turn: an event that comes too early could be lost.
    let raised = fixture.json(&["raise", "waits", "go", "{\"by\": \"Ada\"}"]).await;
    assert_eq!(raised, json!({ "instance": "waits", "event": "go" }));
    let queued = fixture
        .run_with(&["enqueue", "reads", "notes", "-"], "a note")
        .await
        .exits(0);
    assert_eq!(queued.out, "put a message into queue notes of reads\n");
    // Events wake the functions.
    let woken = fixture.wakeups.take();
    for id in ["waits", "reads", "goes"] {
        assert!(woken.iter().any(|instance| instance == id), "{id}: {woken:?}");
    }
    fixture.json(&["cancel", "goes", "--reason", "enough"]).await;
    let waited = fixture.json(&["wait", "waits", "--timeout", "120"]).await;
    assert_eq!(waited["output"], "{\"by\": \"Ada\"}");
    assert_eq!(
        fixture.json(&["wait", "reads", "--timeout", "120"]).await["output"],
        "a note"
    );
    let cancelled = fixture
        .run(&["wait", "goes", "--timeout", "120"])
        .await
        .exits(3)
        .warns("goes: waiting");
    assert!(
        cancelled.out.contains("Cancelled") && cancelled.out.contains("enough"),
        "{cancelled:?}"
    );
    let view = fixture.json(&["status", "goes"]).await;
    assert_eq!((&view["status"], &view["output"]), (&json!("Cancelled"), &json!(null)));
    for (status, ids) in [("cancelled", json!(["goes"])), ("failed", json!([]))] {
        let list = fixture.json(&["list", "--status", status]).await;
        let listed: Vec<&serde_json::Value> = list["instances"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| &one["instance"])
            .collect();
        assert_eq!(json!(listed), ids, "{status}");
    }
    let stats = fixture.json(&["stats"]).await;
    assert_eq!(
        (&stats["instances"]["cancelled"], &stats["instances"]["failed"]),
        (&json!(1), &json!(0))
    );
    assert_eq!(
        fixture.json(&["tree", "goes"]).await["instances"][0]["status"],
        "Cancelled"
    );
    let shown = fixture.run(&["status", "waits"]).await.exits(0).out;
    assert!(
        shown.contains("output         {\n                 \"by\": \"Ada\"\n"),
        "{shown}"
    );
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_orchestration_has_its_exit_code_and_its_error_is_escaped() {
    let fixture = Fixture::running().await;
    let failed = fixture
        .run(&["start", "Unlucky", "--id", "u", "--wait", "120", "--json"])
        .await
        .exits(3);
    let view: serde_json::Value = serde_json::from_str(&failed.out).unwrap();
    assert_eq!((&view["status"], &view["output"]), (&json!("Failed"), &json!(null)));
    assert!(
        view["error"].as_str().unwrap().contains("no luck \u{1b}[31mtoday"),
        "{view}"
    );
    for command in ["status", "history"] {
        let shown = fixture.run(&[command, "u"]).await.exits(0).out;
        assert!(
            shown.contains("no luck \\u{1b}[31mtoday") && !shown.contains('\u{1b}'),
            "{shown}"
        );
    }
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn history_tree_stats_and_delete_work_on_a_family() {
    let fixture = Fixture::running().await;
    fixture
        .json(&["start", "Parent", "--id", "p", "--input", "x", "--wait", "120"])
        .await;
    let tree = fixture.json(&["tree", "p"]).await;
    let child = tree["instances"][1]["instance"].as_str().unwrap();
    assert_eq!(
        (&tree["instances"][1]["parent"], &tree["instances"][1]["depth"]),
        (&json!("p"), &json!(1))
    );
    assert_eq!(fixture.json(&["status", "p"]).await["children"], json!([child]));
    assert_eq!(fixture.json(&["status", "--", child]).await["parent"], "p");
    assert!(
        fixture
            .run(&["tree", "p"])
            .await
            .exits(0)
            .out
            .contains(&format!("└─ {child}"))
    );
    let history = fixture.json(&["history", "p"]).await;
    let kinds: Vec<&str> = history["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    let expected = [
        "OrchestrationStarted",
        "SubOrchestrationScheduled",
        "SubOrchestrationCompleted",
        "OrchestrationCompleted",
    ];
    assert_eq!(kinds, expected);
    let shown = fixture.run(&["history", "p"]).await.exits(0).out;
    assert!(
        shown.contains("OrchestrationStarted            Parent 1.0.0: x\n"),
        "{shown}"
    );
    let stats = fixture.json(&["stats"]).await;
    assert_eq!(
        stats["instances"],
        json!({
            "total": 2, "pending": 0, "running": 0, "blocked": 0, "paused": 0, "completed": 2, "failed": 0, "cancelled": 0,
        })
    );
    assert_eq!(
        (&stats["queues"]["orchestrator"], &stats["deadLetters"]),
        (&json!(0), &json!(0))
    );
    assert!(
        fixture
            .run(&["stats"])
            .await
            .exits(0)
            .out
            .contains("2: 0 pending, 0 running, 0 blocked, 0 paused, 2 completed, 0 failed, 0 cancelled")
    );
    fixture.run(&["delete", child]).await.exits(1).warns("is a child");
    assert_eq!(fixture.json(&["delete", "p"]).await["instances"], 2);
    fixture.run(&["status", "p"]).await.exits(5);
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn executions_are_separate_and_can_be_pruned() {
    let fixture = Fixture::running().await;
    let counted = fixture
        .json(&["start", "Count", "--id", "c", "--input", "2", "--wait", "120"])
        .await;
    assert_eq!(
        (&counted["execution"], &counted["executions"]),
        (&json!(3), &json!([1, 2, 3]))
    );
    let first = fixture.json(&["history", "c", "--execution", "1"]).await;
    assert_eq!(
        (&first["execution"], &first["events"][0]["input"]),
        (&json!(1), &json!("2"))
    );
    assert_eq!(fixture.json(&["history", "c"]).await["execution"], 3);
    fixture
        .run(&["history", "c", "--execution", "9"])
        .await
        .exits(5)
        .warns("it has: 1, 2, 3");
    assert_eq!(fixture.json(&["prune", "c", "--keep", "1"]).await["executions"], 2);
    fixture
        .run(&["history", "c", "--execution", "1"])
        .await
        .exits(5)
        .warns("it has: 3");
    fixture.stop().await;
}
