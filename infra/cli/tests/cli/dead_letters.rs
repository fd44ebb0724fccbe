//! Dead letters: listed, shown, redriven, discarded.

use crate::fixture::Fixture;
use duroxide::providers::Provider as _;
use duroxide_cosmos::Fetched;
use serde_json::{Value, json};
use std::time::Duration;

/// A fixture whose instances were given up: their turns were tried as often as allowed.
async fn given_up(instances: &[&str]) -> Fixture {
    let mut fixture = Fixture::idle().await;
    for instance in instances {
        fixture
            .client()
            .start_orchestration(*instance, "Echo", "again")
            .await
            .unwrap();
        for _ in 0..10 {
            let fetched = fixture
                .store
                .fetch_turn(instance, Duration::from_secs(30), None)
                .await
                .unwrap();
            let Fetched::Ready(turn) = fetched else {
                panic!("the turn is there: {fetched:?}");
            };
            fixture
                .store
                .abandon_orchestration_item(&turn.lock_token, None, false)
                .await
                .unwrap();
        }
    }
    fixture.run_instances().await;
    for instance in instances {
        fixture.run(&["wait", instance, "--timeout", "120"]).await.exits(3);
    }
    fixture
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_listed_shown_redriven_and_discarded() {
    let fixture = given_up(&["x/1", "x/2"]).await;
    let list = fixture.json(&["dead-letters"]).await;
    let dead_letters = list["deadLetters"].as_array().unwrap();
    assert_eq!((dead_letters.len(), &list["next"]), (2, &Value::Null), "{list}");
    let id = |instance: &str| {
        let dead_letter = dead_letters
            .iter()
            .find(|dead_letter| dead_letter["instance"] == instance)
            .unwrap();
        dead_letter["id"].as_str().unwrap().to_owned()
    };
    let (one, two) = (id("x/1"), id("x/2"));
    let shown = fixture.run(&["dead-letters", "list"]).await.exits(0).out;
    assert!(shown.contains("poison-turn") && shown.contains(&one), "{shown}");
    let page = fixture.json(&["dead-letters", "--limit", "1"]).await;
    let after = page["next"].as_str().unwrap();
    let rest = fixture
        .json(&["dead-letters", "list", "--limit", "1", "--after", after])
        .await;
    assert_ne!(page["deadLetters"][0]["id"], rest["deadLetters"][0]["id"]);
    let dead_letter = fixture.json(&["dead-letters", "show", "x/1", &one]).await;
    assert_eq!(
        (&dead_letter["kind"], dead_letter["items"].as_array().unwrap().len()),
        (&json!("poison-turn"), 1)
    );
    assert!(
        fixture
            .run(&["dead-letters", "show", "x/1", &one])
            .await
            .exits(0)
            .out
            .contains("work item")
    );

    fixture.wakeups.take();
    let redriven = fixture.json(&["dead-letters", "redrive", "x/1", &one]).await;
    assert_eq!(redriven["delivered"], json!(true));
    let target = redriven["target"].as_str().unwrap();
    assert_eq!(fixture.wakeups.take(), [target]);
    assert_eq!(
        fixture.json(&["wait", target, "--timeout", "120"]).await["output"],
        "again"
    );
    assert_eq!(
        fixture.json(&["dead-letters", "discard", "x/2", &two]).await["discarded"],
        true
    );
    for verb in ["show", "redrive", "discard"] {
        fixture
            .run(&["dead-letters", verb, "x/1", &one])
            .await
            .exits(5)
            .warns("has no dead letter");
        fixture
            .run(&["dead-letters", verb, "x/1", "instance"])
            .await
            .exits(5)
            .warns("has no dead letter");
    }
    assert_eq!(fixture.run(&["dead-letters"]).await.exits(0).out, "no dead letters\n");
    fixture.stop().await;
}
