//! The list of instances.

use duroxide_lambda_api::types::{ProblemType, time};
use serde_json::{Value, json};
use tests::api::*;

fn ids(page: &Value) -> Vec<String> {
    let instances = page["instances"].as_array().expect("a list").iter();
    instances
        .map(|one| one["instance"].as_str().expect("an id").to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_filter_finds_its_instances_newest_first() {
    let site = Site::start().await;
    for (id, orchestration, tags) in [
        ("shop-1", "Echo", json!({"customer": "ada"})),
        ("shop-2", "Refuse", json!({"customer": "ada", "eu": "yes"})),
        ("mail-1", "Event", json!({})),
    ] {
        let path = format!("/v1/orchestrations/{orchestration}/instances");
        site.post(&path, json!({"id": id, "input": 1, "tags": tags}))
            .await
            .is(202);
        // Accepted in another millisecond than the next.
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    site.cloud.drain().await;
    site.ran("Parent", "p", json!("x")).await;
    let second = site.get("/v1/instances/shop-2").await.is(200)["createdAt"]
        .as_str()
        .expect("a time")
        .to_owned();
    for (query, expected) in [
        ("", &["p/child", "p", "mail-1", "shop-2", "shop-1"] as &[_]),
        ("status=Failed", &["shop-2"]),
        ("status=running", &["mail-1"]),
        ("name=Echo", &["shop-1"]),
        ("prefix=shop-", &["shop-2", "shop-1"]),
        ("tag=customer:ada&tag=eu:yes", &["shop-2"]),
        ("tag=customer:ada&prefix=shop", &["shop-2", "shop-1"]),
        ("parent=p", &["p/child"]),
        ("status=Blocked", &[]),
        (&format!("createdFrom={second}&createdTo={second}"), &["shop-2"]),
        (&format!("createdTo={second}"), &["shop-2", "shop-1"]),
    ] {
        let page = site.get(&format!("/v1/instances?{query}")).await.is(200);
        assert_eq!(ids(&page), expected, "{query}");
    }
    let child = site.get("/v1/instances?tag=customer:ada&name=Keys").await.is(200);
    assert_eq!(ids(&child), ["p/child"], "a workflow sets tags of its own");
    assert!(time::parse_rfc3339(&second).is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_walk_sees_each_instance_once() {
    let site = Site::start().await;
    for n in 0..7 {
        site.started("Echo", &format!("i-{n}"), json!(n)).await;
    }
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = site.get(&format!("/v1/instances?limit=3{cursor}")).await.is(200);
        seen.extend(ids(&page));
        site.started("Echo", &format!("new-{}", seen.len()), json!(0)).await;
        match page["nextCursor"].as_str() {
            Some(next) => {
                cursor = format!(
                    "&cursor={}",
                    next.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>()
                )
            }
            None => break,
        }
    }
    seen.retain(|id| id.starts_with("i-"));
    seen.sort();
    assert_eq!(seen, (0..7).map(|n| format!("i-{n}")).collect::<Vec<_>>());
    let cursor = cursor.trim_start_matches('&');
    site.get(&format!("/v1/instances?name=Other&{cursor}"))
        .await
        .is_problem(ProblemType::InvalidRequest);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_needs_attention_is_listed_with_its_reasons_and_explained_on_request() {
    let site = Site::start().await;
    site.ran("Echo", "fine", json!(1)).await;
    site.ran("Refuse", "bad", json!(1)).await;
    site.ran("Event", "waits", json!(null)).await;
    let page = site.get("/v1/instances?attention=true").await.is(200);
    assert_eq!(ids(&page), ["bad"]);
    let bad = &page["instances"][0];
    assert_eq!((&bad["attention"], bad.get("explanation")), (&json!(["failed"]), None));
    assert_eq!(page.get("truncated"), None, "it is complete");
    let page = site
        .get("/v1/instances?attention=true&explain=true&limit=50")
        .await
        .is(200);
    let sentence = page["instances"][0]["explanation"].as_str().expect("a sentence");
    assert!(
        sentence.starts_with("Failed ") && sentence.ends_with("refused: 1."),
        "{sentence}"
    );
    let page = site.get("/v1/instances?status=Running&explain=true").await.is(200);
    assert!(
        page["instances"][0]["explanation"]
            .as_str()
            .is_some_and(|text| text.starts_with("Waits for event `Go`")),
        "{page}"
    );
    assert_eq!(page["instances"][0].get("attention"), None);

    let ended = site.get("/v1/instances/bad").await.is(200)["completedAt"]
        .as_str()
        .expect("a time")
        .to_owned();
    for (query, expected) in [
        (
            format!("status=Failed&endedFrom={ended}&endedTo={ended}"),
            &["bad"] as &[_],
        ),
        ("status=Failed&endedTo=2020-01-01T00:00:00Z".to_owned(), &[]),
        ("attention=true&endedFrom=2020-01-01T00:00:00Z".to_owned(), &["bad"]),
        ("attention=true&name=Echo".to_owned(), &[]),
    ] {
        let page = site.get(&format!("/v1/instances?{query}")).await.is(200);
        assert_eq!(ids(&page), expected, "{query}");
    }
    for wrong in ["explain=true&limit=51", "attention=yes", "endedFrom=yesterday"] {
        site.get(&format!("/v1/instances?{wrong}"))
            .await
            .is_problem(ProblemType::InvalidRequest);
    }
}
