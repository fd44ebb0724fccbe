//! Each command does what it says, for programs and for people.

use crate::world::World;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn an_orchestration_is_started_waited_for_and_shown() {
    let world = World::moving().await;
    let started = world
        .json(&["start", "Greet", "--id", "a/b ø", "--input", "Kyoto"])
        .await;
    assert_eq!(
        started,
        json!({ "instance": "a/b ø", "orchestration": "Greet", "version": null, "notified": false })
    );
    let waited = world.json(&["wait", "a/b ø", "--timeout", "120"]).await;
    assert_eq!(
        (&waited["status"], &waited["output"]),
        (&json!("Completed"), &json!("Hello, Kyoto!"))
    );
    let status = world.json(&["status", "a/b ø"]).await;
    assert_eq!(status, waited);
    assert_eq!(status["customStatus"], "greeting Kyoto");
    assert_eq!(status["keyValues"], json!({ "whom": "Kyoto" }));
    assert_eq!((&status["execution"], &status["error"]), (&json!(1), &json!(null)));
    assert!(status["events"].as_u64().unwrap() >= 4, "{status}");
    let shown = world.run(&["status", "a/b ø"]).await.is(0).out;
    for part in [
        "instance       a/b ø\n",
        "Greet 1.0.0",
        "Completed",
        "whom = Kyoto",
        "output         Hello, Kyoto!",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains('\u{1b}'), "no colours in a pipe: {shown}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn start_makes_an_id_waits_and_takes_its_input_from_anywhere() {
    let world = World::moving().await;
    let ran = world
        .run_with(
            &["start", "Echo", "--input", "-", "--wait", "120", "--json"],
            "by\nstdin",
        )
        .await
        .is(0);
    let first: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(first["output"], "by\nstdin");
    let id = first["instance"].as_str().unwrap();
    assert!(id.starts_with("Echo-") && id.len() == "Echo-".len() + 12, "{id}");
    let path = std::env::temp_dir().join(format!("way-in-{}.json", std::process::id()));
    std::fs::write(&path, "{\"a\": 1}").unwrap();
    let input = format!("@{}", path.display());
    let second = world
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
    let existing = world
        .run(&["start", "Echo", "--id", id])
        .await
        .is(1)
        .says("exists already: Echo, Completed");
    assert_eq!(existing.out, "");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_messages_and_cancellations_arrive() {
    let world = World::moving().await;
    for (orchestration, id) in [("Await", "waits"), ("Mailbox", "reads"), ("Await", "goes")] {
        world.json(&["start", orchestration, "--id", id]).await;
    }
    // One that waits for its event says so: before, the event could come too early.
    world.until_listed(3).await;
    let raised = world.json(&["raise", "waits", "go", "{\"by\": \"Ada\"}"]).await;
    assert_eq!(raised, json!({ "instance": "waits", "event": "go", "notified": false }));
    let queued = world
        .run_with(&["enqueue", "reads", "notes", "-"], "a note")
        .await
        .is(0);
    assert_eq!(queued.out, "put a message into notes of reads\n");
    world.json(&["cancel", "goes", "--reason", "enough"]).await;
    let waited = world.json(&["wait", "waits", "--timeout", "120"]).await;
    assert_eq!(waited["output"], "{\"by\": \"Ada\"}");
    assert_eq!(
        world.json(&["wait", "reads", "--timeout", "120"]).await["output"],
        "a note"
    );
    let cancelled = world
        .run(&["wait", "goes", "--timeout", "120"])
        .await
        .is(3)
        .says("goes: waiting");
    assert!(
        cancelled.out.contains("Failed") && cancelled.out.contains("enough"),
        "{cancelled:?}"
    );
    let shown = world.run(&["status", "waits"]).await.is(0).out;
    assert!(
        shown.contains("output         {\n                 \"by\": \"Ada\"\n"),
        "{shown}"
    );
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_an_exit_code_and_cannot_write_to_the_terminal() {
    let world = World::moving().await;
    let failed = world
        .run(&["start", "Unlucky", "--id", "u", "--wait", "120", "--json"])
        .await
        .is(3);
    let view: serde_json::Value = serde_json::from_str(&failed.out).unwrap();
    assert_eq!((&view["status"], &view["output"]), (&json!("Failed"), &json!(null)));
    assert!(
        view["error"].as_str().unwrap().contains("no luck \u{1b}[31mtoday"),
        "{view}"
    );
    for command in ["status", "history"] {
        let shown = world.run(&[command, "u"]).await.is(0).out;
        assert!(
            shown.contains("no luck \\u{1b}[31mtoday") && !shown.contains('\u{1b}'),
            "{shown}"
        );
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_are_listed_newest_first_by_status_and_limit() {
    let world = World::moving().await;
    for id in ["one", "two\u{7}", "three"] {
        world.json(&["start", "Echo", "--id", id, "--wait", "120"]).await;
    }
    world
        .run(&["start", "Unlucky", "--id", "four", "--wait", "120"])
        .await
        .is(3);
    let all = world.json(&["list", "--limit", "3"]).await;
    let ids = |list: &serde_json::Value| -> Vec<String> {
        let instances = list["instances"].as_array().unwrap();
        instances
            .iter()
            .map(|one| one["instance"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        (ids(&all), &all["total"]),
        (vec!["four".into(), "three".into(), "two\u{7}".into()], &json!(4))
    );
    assert_eq!(ids(&world.json(&["list", "--status", "failed"]).await), ["four"]);
    assert!(ids(&world.json(&["list", "--status", "running"]).await).is_empty());
    assert_eq!(
        world.run(&["list", "--status", "running"]).await.is(0).out,
        "no instances\n"
    );
    let shown = world.run(&["list", "--limit", "3"]).await.is(0).out;
    let lines: Vec<&str> = shown.lines().collect();
    assert!(
        lines[0].starts_with("INSTANCE") && lines[1].starts_with("four "),
        "{shown}"
    );
    assert!(
        lines[3].starts_with("two\\u{7}") && lines[4] == "3 of 4: --limit shows more",
        "{shown}"
    );
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn histories_trees_and_counts_are_shown() {
    let world = World::moving().await;
    world
        .json(&["start", "Parent", "--id", "p", "--input", "x", "--wait", "120"])
        .await;
    let tree = world.json(&["tree", "p"]).await;
    let child = tree["instances"][1]["instance"].as_str().unwrap();
    assert_eq!(
        (&tree["instances"][1]["parent"], &tree["instances"][1]["depth"]),
        (&json!("p"), &json!(1))
    );
    assert_eq!(world.json(&["status", "p"]).await["children"], json!([child]));
    assert_eq!(world.json(&["status", "--", child]).await["parent"], "p");
    assert!(
        world
            .run(&["tree", "p"])
            .await
            .is(0)
            .out
            .contains(&format!("└─ {child}"))
    );
    let history = world.json(&["history", "p"]).await;
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
    let shown = world.run(&["history", "p"]).await.is(0).out;
    assert!(
        shown.contains("OrchestrationStarted            Parent 1.0.0: x\n"),
        "{shown}"
    );
    let stats = world.json(&["stats"]).await;
    assert_eq!(
        stats["instances"],
        json!({ "total": 2, "running": 0, "completed": 2, "failed": 0 })
    );
    assert_eq!(
        (&stats["queues"]["orchestrator"], &stats["deadLetters"]),
        (&json!(0), &json!(0))
    );
    assert!(
        world
            .run(&["stats"])
            .await
            .is(0)
            .out
            .contains("2: 0 running, 2 completed, 0 failed")
    );
    world.run(&["delete", child]).await.is(1).says("child of another");
    assert_eq!(world.json(&["delete", "p"]).await["instances"], 2);
    world.run(&["status", "p"]).await.is(5);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn executions_are_told_apart_and_pruned() {
    let world = World::moving().await;
    let counted = world
        .json(&["start", "Count", "--id", "c", "--input", "2", "--wait", "120"])
        .await;
    assert_eq!(
        (&counted["execution"], &counted["executions"]),
        (&json!(3), &json!([1, 2, 3]))
    );
    let first = world.json(&["history", "c", "--execution", "1"]).await;
    assert_eq!(
        (&first["execution"], &first["events"][0]["input"]),
        (&json!(1), &json!("2"))
    );
    assert_eq!(world.json(&["history", "c"]).await["execution"], 3);
    world
        .run(&["history", "c", "--execution", "9"])
        .await
        .is(5)
        .says("kept are: 1, 2, 3");
    assert_eq!(world.json(&["prune", "c", "--keep", "1"]).await["executions"], 2);
    world
        .run(&["history", "c", "--execution", "1"])
        .await
        .is(5)
        .says("kept are: 3");
    world.stop().await;
}
