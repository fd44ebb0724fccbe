//! Records that cannot be served: each fails alone, is counted, and is found in the log by its message id.

use crate::support::*;
use duroxide_lambda::internals::{Budget, SqsEvent, SqsRecord};
use duroxide_lambda::{Wakeup, WorkTarget};
use serde_json::Value;
use tests::cloud::{Cloud, CloudOptions, INVOCATION};
use tests::log::LogLines;
use tests::workload;

fn records(bodies: Vec<String>) -> SqsEvent {
    let record = |(n, body)| SqsRecord {
        attributes: Default::default(),
        message_id: format!("message-{n}"),
        body,
    };
    SqsEvent {
        records: bodies.into_iter().enumerate().map(record).collect(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_records_fail_alone_and_are_logged_and_counted() {
    let cloud = Cloud::start(workload::orchestrations(), workload::activities()).await;
    let good = start(&cloud, "order", "HelloCities", "1").await;
    let work = WorkTarget {
        instance: "order".to_owned(),
        execution: 1,
        activity: 2,
        ..WorkTarget::default()
    };
    let bodies = vec![
        "not JSON".to_owned(),
        good.encode(),
        String::new(),
        r#"{"v":2,"turn":{"instance":"order"}}"#.to_owned(),
        r#"{"v":1,"turn":{}}"#.to_owned(),
        r#"{"v":1,"turn":{"instance":""}}"#.to_owned(),
        "\u{1f980}".repeat(64 * 1024),
        format!(r#"{{"v":1,"turn":{{"instance":"{}"#, "x".repeat(256 * 1024)),
        Wakeup::work(work).encode(),
        r#"{"v":1}"#.to_owned(),
    ];
    let bad: Vec<String> = (0..bodies.len())
        .filter(|n| *n != 1)
        .map(|n| format!("message-{n}"))
        .collect();
    let (lines, logging) = LogLines::capture();
    let environment = &cloud.orchestrator.environment;
    let response = environment.serve(records(bodies), Budget::of(INVOCATION)).await;
    drop(logging);
    assert_eq!(failed(&response), bad);
    let counted = metrics(&cloud.orchestrator);
    assert_eq!(
        (&counted["MalformedWakeups"], &counted["Committed"]),
        (&9.into(), &1.into())
    );

    let log = lines.read();
    let refused: Vec<&Value> = log.iter().filter(|line| line["level"] == "ERROR").collect();
    let logged: Vec<&str> = refused.iter().filter_map(|line| line["message_id"].as_str()).collect();
    assert_eq!(logged, bad);
    for line in refused {
        assert!(line.to_string().len() < 1_000, "the noise is not repeated: {line}");
        assert!(
            line["reason"].as_str().is_some_and(|reason| !reason.is_empty()),
            "{line}"
        );
    }
    cloud.drain().await;
    assert!(output(&cloud, "order").await.contains("Oslo"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_wakeup_at_the_worker_fails_and_its_activities_are_served() {
    let cloud = Cloud::start(workload::orchestrations(), workload::activities()).await;
    let first = start(&cloud, "order", "HelloCities", "1").await;
    serve(&cloud.orchestrator, std::slice::from_ref(&first)).await;
    let work = only(cloud.queue.take()).wakeup;
    let bodies = vec![first.encode(), work.encode(), "noise".to_owned()];
    let environment = &cloud.worker.environment;
    let response = environment.serve(records(bodies), Budget::of(INVOCATION)).await;
    assert_eq!(failed(&response), ["message-0", "message-2"]);
    let counted = metrics(&cloud.worker);
    assert_eq!(
        (&counted["MalformedWakeups"], &counted["Committed"]),
        (&2.into(), &1.into())
    );
    cloud.drain().await;
    assert!(output(&cloud, "order").await.contains("Oslo"));
}

fn place_of(instance: &str, wakeups: &[Wakeup]) -> usize {
    let found = wakeups.iter().position(|wakeup| wakeup.target.instance() == instance);
    found.expect("a wakeup for it")
}

/// One instance has lost its history, one activity its contents: those fail, again and again, and only those.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_instance_does_not_fail_the_others_of_its_batch() {
    let mut options = CloudOptions::default();
    // What an environment knows of a history cannot break.
    options.limits.history_cache = 0;
    let cloud = Cloud::with(options, workload::orchestrations(), workload::activities()).await;
    for instance in ["sound", "broken", "good"] {
        let started = cloud.client.start_orchestration(instance, "HelloCities", "1").await;
        started.expect("it starts");
    }
    serve(&cloud.orchestrator, &plain(cloud.queue.take())).await;
    // As when they were sent again: they read before they claim.
    let works = plain(cloud.queue.take()).into_iter();
    let works: Vec<Wakeup> = works.map(|work| Wakeup::to(work.target.without_version())).collect();

    let raw = cloud.world.raw();
    let pk = cosmos::PartitionKey::new("broken").expect("a key");
    let mut work = cloud.world.document("broken", "w:1:2").await.expect("its work item");
    let item = work["item"].take();
    work["item"] = "no activity".into();
    let retry = cosmos::Retry::Idempotent;
    raw.replace(&pk, "w:1:2", &work, None, retry)
        .await
        .expect("it is written");
    let response = cloud.worker.invoke(&works).await;
    let broken = place_of("broken", &works);
    assert_eq!(failed(&response), [broken.to_string()]);
    work["item"] = item;
    raw.replace(&pk, "w:1:2", &work, None, retry)
        .await
        .expect("it is written");
    serve(&cloud.worker, &works[broken..=broken]).await;

    let turns = plain(cloud.queue.take());
    let histories = cloud.world.documents_of("history").await;
    let history = histories.iter().find(|doc| doc["pk"] == "broken").expect("its history");
    let id = history["id"].as_str().expect("an id");
    raw.delete(&pk, id, None, retry).await.expect("it is deleted");
    let response = cloud.orchestrator.invoke(&turns).await;
    assert_eq!(failed(&response), [place_of("broken", &turns).to_string()]);
    raw.create(&pk, history, retry).await.expect("it is written");
    serve(&cloud.orchestrator, &[Wakeup::turn("broken")]).await;
    cloud.drain().await;
    for instance in ["sound", "broken", "good"] {
        assert!(output(&cloud, instance).await.contains("Oslo"));
    }
}

/// Anybody who may send to the queue can forge tokens: of ranges that do not exist, until they fit no header, or of writes
/// that never happened, for which no replica can wait long enough.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_consistency_tokens_neither_disable_an_environment_nor_spread() {
    let cloud = Cloud::start(workload::orchestrations(), workload::activities()).await;
    let mut forged = Wakeup::turn("nobody");
    let ranges: Vec<String> = (1_000..60_000).map(|range| format!("{range}:-1#7")).collect();
    forged.consistency_token = Some(ranges.join(","));
    let mut forgeries = vec![forged.clone()];
    for part in ranges.chunks(500).take(40) {
        forged.consistency_token = Some(part.join(","));
        forgeries.push(forged.clone());
    }
    for some in forgeries.chunks(10) {
        let response = cloud.orchestrator.invoke(some).await;
        assert_eq!(failed(&response), [""; 0], "there is nothing to do for it");
    }
    let first = start(&cloud, "order", "HelloCities", "1").await;
    let response = cloud.orchestrator.invoke(&[first]).await;
    assert_eq!(failed(&response), [""; 0], "the environment works as before");
    let sent = cloud.queue.take();
    assert!(!sent.is_empty());
    for delayed in &sent {
        let token = delayed.wakeup.consistency_token.as_deref().unwrap_or_default();
        assert!(!token.contains(":-1#7"), "a forged token travels on: {token}");
    }
    let works: Vec<Wakeup> = sent.into_iter().map(|delayed| delayed.wakeup).collect();
    serve(&cloud.worker, &works).await;
    cloud.drain().await;
    assert!(!output(&cloud, "order").await.is_empty());
}
