//! Clients where nobody polls: they send a wakeup for what they queue.

use crate::support::*;
use cosmos::{Clock, SystemClock};
use duroxide::providers::{Provider, WorkItem};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};
use duroxide_cosmos::{EventRequest, EventTarget, Raised, StartRequest, Started, Tags};
use duroxide_lambda::Wakeup;
use std::time::Duration;
use tests::cloud::Cloud;
use tests::workload;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_a_client_queues_is_one_request_and_one_wakeup() {
    let cloud = Cloud::start(workload::orchestrations(), workload::activities()).await;
    let client = &cloud.client;
    client.start_orchestration("a", "Event", "").await.expect("it starts");
    assert_notified(&cloud, "a");
    let versioned = client.start_orchestration_versioned("b", "Event", "1.0.0", "").await;
    versioned.expect("it starts");
    assert_notified(&cloud, "b");
    client.raise_event("a", "Go", "x").await.expect("it is raised");
    assert_notified(&cloud, "a");
    client.enqueue_event("a", "inbox", "x").await.expect("it is queued");
    assert_notified(&cloud, "a");
    client.cancel_instance("b", "no need").await.expect("it is cancelled");
    assert_notified(&cloud, "b");
    assert_eq!(cloud.client_listener.counts().requests, 5);
}

/// The requests of the API. A repetition sends the wakeup again, because that of the first may be lost; what is refused sends none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_and_an_event_with_a_key_send_a_wakeup_each_time_and_have_one_effect() {
    let cloud = Cloud::start(workload::orchestrations(), workload::activities()).await;
    let tags = Tags::default();
    let start = StartRequest {
        instance: "a",
        orchestration: "Event",
        version: None,
        input: "",
        tags: &tags,
        key: Some("k"),
    };
    let event = EventRequest {
        instance: "a",
        target: EventTarget::Event("Go"),
        data: "x",
        key: Some("k"),
    };
    for (started, raised) in [
        (Started::Accepted, Raised::Accepted),
        (Started::Repeated, Raised::Repeated),
    ] {
        assert_eq!(cloud.notifying.start(start).await.expect("an answer"), started);
        assert_notified(&cloud, "a");
        assert_eq!(cloud.notifying.raise(event).await.expect("an answer"), raised);
        assert_notified(&cloud, "a");
    }
    let taken = StartRequest { key: None, ..start };
    assert_eq!(cloud.notifying.start(taken).await.expect("an answer"), Started::Taken);
    let nobody = EventRequest {
        instance: "nobody",
        ..event
    };
    assert_eq!(
        cloud.notifying.raise(nobody).await.expect("an answer"),
        Raised::NotFound
    );
    assert!(cloud.queue.take().is_empty());
}

#[track_caller]
fn assert_notified(cloud: &Cloud, instance: &str) {
    let notified = only(cloud.queue.take());
    assert_eq!(notified.delay, Duration::ZERO);
    let Wakeup {
        consistency_token,
        due_ms,
        ..
    } = notified.wakeup.clone();
    assert!(consistency_token.is_some_and(|token| !token.is_empty()));
    assert!(due_ms.is_some_and(|due| due <= SystemClock.now_ms()), "{due_ms:?}");
    let bare = Wakeup {
        consistency_token: None,
        due_ms: None,
        late: Vec::new(),
        ..notified.wakeup
    };
    assert_eq!(bare, Wakeup::turn(instance));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delayed_message_gets_a_delayed_wakeup() {
    let cloud = Cloud::start(workload::orchestrations(), workload::activities()).await;
    let message = |instance: &str| WorkItem::QueueMessage {
        instance: instance.to_owned(),
        name: "inbox".to_owned(),
        data: "x".to_owned(),
    };
    let minutes = |minutes: u64| Some(Duration::from_secs(60 * minutes));
    let asked = SystemClock.now_ms();
    let queued = cloud
        .notifying
        .enqueue_for_orchestrator(message("soon"), minutes(5))
        .await;
    queued.expect("it is queued");
    let notified = only(cloud.queue.take());
    let due = notified.wakeup.due_ms.expect("it is for later");
    assert_eq!(
        (&notified.wakeup.target, notified.delay),
        (&turn_of("soon"), Duration::from_secs(299))
    );
    assert!((asked + 300_000..=SystemClock.now_ms() + 300_000).contains(&due));
    let queued = cloud
        .notifying
        .enqueue_for_orchestrator(message("late"), minutes(16))
        .await;
    queued.expect("it is queued");
    assert!(
        cloud.queue.take().is_empty(),
        "beyond the reach it is left to maintenance"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_without_a_notifier_still_queues() {
    let cloud = Cloud::start(workload::orchestrations(), workload::activities()).await;
    cloud.queue.fail_all(true);
    let started = cloud.client.start_orchestration("order", "HelloCities", "1").await;
    started.expect("a lost wakeup fails no request");
    cloud.queue.fail_all(false);
    serve(&cloud.orchestrator, &[Wakeup::turn("order")]).await;
    cloud.drain().await;
    assert!(output(&cloud, "order").await.contains("Oslo"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_with_a_hanging_notifier_is_answered_in_bounded_time() {
    let cloud = Cloud::start(workload::orchestrations(), workload::activities()).await;
    cloud.queue.hold();
    let started = tokio::time::timeout(PATIENCE, cloud.client.start_orchestration("order", "HelloCities", "1")).await;
    started.expect("it does not hang").expect("it starts");
    cloud.queue.release();
    assert_eq!(cloud.queue.count(), 0);
    serve(&cloud.orchestrator, &[Wakeup::turn("order")]).await;
    assert_eq!(metrics(&cloud.orchestrator)["Committed"], 1);
}

/// An activity raises an event for its own instance's friend, and starts another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_activity_queues_by_its_client_gets_a_wakeup() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Host", |ctx: OrchestrationContext, _: String| async move {
            ctx.schedule_activity("Invite", "").await
        })
        .register("Friend", |ctx: OrchestrationContext, _: String| async move {
            Ok(ctx.schedule_wait("Go").await)
        })
        .register("Guest", |ctx: OrchestrationContext, _: String| async move {
            Ok(ctx.dequeue_event("inbox").await)
        })
        .build();
    let invite = |ctx: ActivityContext, _: String| async move {
        let client = ctx.get_client();
        let invited = async {
            client.start_orchestration("guest", "Guest", "").await?;
            client.enqueue_event("guest", "inbox", "welcome").await?;
            client.raise_event("friend", "Go", "come").await
        };
        invited.await.map_err(|error| error.to_string())?;
        Ok("invited".to_owned())
    };
    let activities = ActivityRegistry::builder().register("Invite", invite).build();
    let cloud = Cloud::start(orchestrations, activities).await;
    let friend = start(&cloud, "friend", "Friend", "").await;
    serve(&cloud.orchestrator, &[friend]).await;
    let host = start(&cloud, "host", "Host", "").await;
    serve(&cloud.orchestrator, &[host]).await;
    serve(&cloud.worker, &plain(cloud.queue.take())).await;
    let notified = cloud.queue.take();
    let targets: Vec<&str> = notified
        .iter()
        .map(|notified| notified.wakeup.target.instance())
        .collect();
    assert_eq!(targets, ["guest", "guest", "friend", "host"]);
    assert!(
        notified
            .iter()
            .all(|notified| notified.wakeup.consistency_token.is_some())
    );
    serve(&cloud.orchestrator, &plain(notified)).await;
    for (instance, said) in [("host", "invited"), ("friend", "come"), ("guest", "welcome")] {
        assert_eq!(output(&cloud, instance).await, said);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_manages_instances() {
    let cloud = Cloud::start(workload::orchestrations(), workload::activities()).await;
    let client = &cloud.client;
    client
        .start_orchestration("keys", "Keys", "1")
        .await
        .expect("it starts");
    client
        .start_orchestration("parent", "Parent", "1")
        .await
        .expect("it starts");
    client
        .start_orchestration("unwanted", "Event", "1")
        .await
        .expect("it starts");
    cloud.drain().await;
    client
        .cancel_instance("unwanted", "no need")
        .await
        .expect("it is cancelled");
    cloud.drain().await;
    assert!(matches!(
        status(&cloud, "unwanted").await,
        OrchestrationStatus::Failed { .. }
    ));
    assert!(client.has_management_capability());
    let mut all = client.list_all_instances().await.expect("a list");
    all.sort();
    assert_eq!(all, ["child-of-parent", "keys", "parent", "unwanted"]);
    let failed = client.list_instances_by_status("Failed").await.expect("a list");
    assert_eq!(failed, ["unwanted"]);
    let info = client.get_instance_info("keys").await.expect("info");
    assert_eq!(
        (info.orchestration_name.as_str(), info.status.as_str()),
        ("Keys", "Completed")
    );
    let kept = client.get_kv_value("keys", "greeting").await.expect("a value");
    assert_eq!(kept.as_deref(), Some("Hello 1!"));
    let depths = client.get_queue_depths().await.expect("depths");
    assert_eq!((depths.orchestrator_queue, depths.worker_queue), (0, 0));
    let metrics = client.get_system_metrics().await.expect("metrics");
    assert_eq!((metrics.total_instances, metrics.completed_instances), (4, 3));
    let tree = client.get_instance_tree("parent").await.expect("a tree");
    assert_eq!(tree.all_ids.len(), 2);
    client.delete_instance("parent", false).await.expect("it is deleted");
    assert!(matches!(
        status(&cloud, "child-of-parent").await,
        OrchestrationStatus::NotFound
    ));
    assert_eq!(cloud.queue.take().len(), 0, "management sends no wakeups");
}
