//! Dead letters.

use duroxide_lambda_api::types::ProblemType;
use serde_json::{Value, json};
use tests::api::*;

/// A site with instances whose activity was tried as often as allowed.
async fn given_up(instances: &[&str]) -> Site {
    let site = Site::start().await;
    for instance in instances {
        site.started("Keys", instance, json!("x")).await;
        site.give_up(GivingUp {
            instance,
            activity: "Greet",
            reason: "it was tried 10 times",
        })
        .await;
    }
    site
}

/// The path of a listed dead letter.
fn path(listed: &Value) -> String {
    let encoded = |text: &Value| -> String {
        let text = text.as_str().expect("a text");
        text.bytes().map(|byte| format!("%{byte:02X}")).collect()
    };
    format!(
        "/v1/dead-letters/{}/{}",
        encoded(&listed["instance"]),
        encoded(&listed["id"])
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_are_listed_shown_redriven_and_discarded() {
    let site = given_up(&["a/1", "a/2"]).await;
    let list = site.get("/v1/dead-letters").await.is(200);
    let letters = list["deadLetters"].as_array().expect("a list");
    assert_eq!((letters.len(), list.get("nextCursor")), (2, None), "{list}");
    assert_eq!(
        (&letters[0]["kind"], &letters[0]["name"]),
        (&json!("poison-activity"), &json!("Greet"))
    );
    let first = site.get("/v1/dead-letters?limit=1").await.is(200);
    let cursor = first["nextCursor"].as_str().expect("a cursor");
    let second = site
        .get(&format!("/v1/dead-letters?limit=1&cursor={cursor}"))
        .await
        .is(200);
    assert_eq!(
        (&first["deadLetters"][0], &second["deadLetters"][0]),
        (&letters[0], &letters[1])
    );
    let of_one = site
        .get("/v1/dead-letters?instance=a%2F1&kind=poison-activity")
        .await
        .is(200);
    assert_eq!(of_one["deadLetters"].as_array().map(Vec::len), Some(1));
    let of_none = site.get("/v1/dead-letters?kind=poison-turn").await.is(200);
    assert_eq!(of_none["deadLetters"], json!([]));
    let shown = site.get(&path(&letters[0])).await.is(200);
    assert_eq!(
        (&shown["reason"], shown["items"].as_array().map(Vec::len)),
        (&json!("it was tried 10 times"), Some(1))
    );

    let redriven = site
        .post(&format!("{}:redrive", path(&letters[0])), json!({}))
        .await
        .is(200);
    let target = redriven["target"].as_str().expect("a new instance").to_owned();
    assert_eq!(redriven["delivered"], true);
    site.cloud.drain().await;
    let encoded = target.replace('/', "%2F");
    assert_eq!(
        site.get(&format!("/v1/instances/{encoded}")).await.is(200)["status"],
        "Completed"
    );
    site.post(&format!("{}:redrive", path(&letters[0])), json!({}))
        .await
        .is_problem(ProblemType::NotFound);

    assert_eq!(
        site.delete(&path(&letters[1])).await.is(200),
        json!({"discarded": true})
    );
    site.delete(&path(&letters[1])).await.is_problem(ProblemType::NotFound);
    site.get(&path(&letters[1])).await.is_problem(ProblemType::NotFound);
    assert_eq!(site.get("/v1/overview").await.is(200)["deadLetters"], 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_other_document_can_be_shown_or_discarded_as_a_dead_letter() {
    let site = Site::start().await;
    site.started("Echo", "a", json!(1)).await;
    site.listener.reset();
    for letter in [
        "instance",
        "h:1:1",
        "dead%3A..%2Finstance",
        "dead:%5C",
        "DEAD:t:1",
        &format!("dead:{}", "x".repeat(2000)),
    ] {
        let path = format!("/v1/dead-letters/a/{letter}");
        site.get(&path).await.is_problem(ProblemType::NotFound);
        site.delete(&path).await.is_problem(ProblemType::NotFound);
        site.post(&format!("{path}:redrive"), json!({}))
            .await
            .is_problem(ProblemType::NotFound);
    }
    site.post("/v1/dead-letters/a/dead:t:1", json!({}))
        .await
        .is_problem(ProblemType::NoSuchRoute);
    assert_eq!(site.listener.counts().requests, 0);
    site.get("/v1/instances/a").await.is(200);
}
