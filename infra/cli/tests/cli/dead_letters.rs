//! Dead letters: listed, shown, redriven, discarded.

use crate::cloud::Cloud;
use crate::world::{World, binary};
use duroxide::providers::Provider as _;
use duroxide_cosmos::Fetched;
use serde_json::{Value, json};
use std::time::Duration;

/// Instances whose turn was tried too often, and which the runtime then gives up.
async fn poisoned(instances: &[&str]) -> World {
    let mut world = World::still().await;
    for instance in instances {
        world
            .client()
            .start_orchestration(*instance, "Echo", "again")
            .await
            .unwrap();
        for _ in 0..10 {
            let fetched = world
                .store
                .fetch_turn(instance, Duration::from_secs(30), None)
                .await
                .unwrap();
            let Fetched::Ready(turn) = fetched else {
                panic!("the turn is there: {fetched:?}");
            };
            world
                .store
                .abandon_orchestration_item(&turn.lock_token, None, false)
                .await
                .unwrap();
        }
    }
    world.move_along().await;
    for instance in instances {
        world.run(&["wait", instance, "--timeout", "120"]).await.is(3);
    }
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_listed_shown_redriven_and_discarded() {
    let world = poisoned(&["x/1", "x/2"]).await;
    let list = world.json(&["dead-letters"]).await;
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
    let shown = world.run(&["dead-letters", "list"]).await.is(0).out;
    assert!(shown.contains("poison-turn") && shown.contains(&one), "{shown}");
    let page = world.json(&["dead-letters", "--limit", "1"]).await;
    let after = page["next"].as_str().unwrap();
    let rest = world
        .json(&["dead-letters", "list", "--limit", "1", "--after", after])
        .await;
    assert_ne!(page["deadLetters"][0]["id"], rest["deadLetters"][0]["id"]);
    let dead_letter = world.json(&["dead-letters", "show", "x/1", &one]).await;
    assert_eq!(
        (&dead_letter["kind"], dead_letter["items"].as_array().unwrap().len()),
        (&json!("poison-turn"), 1)
    );
    assert!(
        world
            .run(&["dead-letters", "show", "x/1", &one])
            .await
            .is(0)
            .out
            .contains("work item")
    );

    let cloud = Cloud::start().await;
    cloud.offer(&world.variables);
    let redrive = ["dead-letters", "redrive", "x/1", &one, "--json", "--cloud", &cloud.url];
    let redriven: Value = serde_json::from_str(&binary(&world.variables, &redrive, "").await.is(0).out).unwrap();
    assert_eq!(
        (&redriven["delivered"], &redriven["notified"]),
        (&json!(true), &json!(true))
    );
    let target = redriven["target"].as_str().unwrap();
    assert_eq!(cloud.wakeups()[0]["turn"]["instance"], target);
    assert_eq!(
        world.json(&["wait", target, "--timeout", "120"]).await["output"],
        "again"
    );
    assert_eq!(
        world.json(&["dead-letters", "discard", "x/2", &two]).await["discarded"],
        true
    );
    for verb in ["show", "redrive", "discard"] {
        world
            .run(&["dead-letters", verb, "x/1", &one])
            .await
            .is(5)
            .says("has no dead letter");
        world
            .run(&["dead-letters", verb, "x/1", "instance"])
            .await
            .is(1)
            .says("not the id of a dead letter");
    }
    assert_eq!(world.run(&["dead-letters"]).await.is(0).out, "no dead letters\n");
    world.stop().await;
}
