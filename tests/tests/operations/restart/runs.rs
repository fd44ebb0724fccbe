//! Restarted instances run with the functions: the same input, each effect once more, and the ended execution stays as it was.

use duroxide::providers::{ProviderAdmin as _, WorkItem};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, EventKind, OrchestrationContext, OrchestrationRegistry};
use duroxide_cosmos::{InstanceStatus, InstanceSummary, RestartRequest, Restarted, StartRequest, Started, Tags};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tests::cloud::Cloud;
use tests::turns::enqueue;

/// Orchestrations that fail until the shop is open, and what their activities did.
#[derive(Clone, Default)]
struct Shop {
    is_open: Arc<AtomicBool>,
    done: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl Shop {
    async fn cloud(&self) -> Cloud {
        let order = |ctx: OrchestrationContext, input: String| async move {
            let runs = ctx.get_kv_value("runs").map_or(0, |runs| runs.parse().unwrap_or(0)) + 1;
            ctx.set_kv_value("runs", runs.to_string());
            ctx.set_custom_status(format!("run {runs}"));
            let sold = ctx.schedule_activity("Sell", input).await?;
            Ok(format!("{runs}:{}", sold.len()))
        };
        let parent = |ctx: OrchestrationContext, input: String| async move {
            let child = ctx.schedule_sub_orchestration("Order", input).await;
            Ok(format!("{child:?}"))
        };
        let (is_open, done) = (Arc::clone(&self.is_open), Arc::clone(&self.done));
        let sell = move |_: ActivityContext, input: String| {
            let (is_open, done) = (Arc::clone(&is_open), Arc::clone(&done));
            async move {
                *done.lock().expect("no panic").entry(input.clone()).or_default() += 1;
                match is_open.load(Ordering::SeqCst) {
                    true => Ok(input),
                    false => Err("closed".to_owned()),
                }
            }
        };
        let orchestrations = OrchestrationRegistry::builder()
            .register("Order", order)
            .register("Parent", parent)
            .build();
        let activities = ActivityRegistry::builder().register("Sell", sell).build();
        Cloud::start(orchestrations, activities).await
    }

    fn opens(&self) {
        self.is_open.store(true, Ordering::SeqCst);
    }
}

async fn start(cloud: &Cloud, instance: &str, orchestration: &str, input: &str) {
    let tags = Tags::new([("customer".to_owned(), "ada".to_owned())].into()).expect("tags");
    let started = cloud.notifying.start(StartRequest {
        instance,
        orchestration,
        version: None,
        input,
        tags: &tags,
        key: None,
    });
    assert_eq!(started.await.expect("the store answers"), Started::Accepted);
    cloud.drain().await;
}

async fn summary(cloud: &Cloud, instance: &str) -> InstanceSummary {
    let found = cloud.silent.instance_summary(instance).await;
    found.expect("the store answers").expect("it is there")
}

fn request(instance: &str) -> RestartRequest<'_> {
    RestartRequest {
        instance,
        version: None,
        key: None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_instance_is_restarted_in_place_and_its_failure_stays_readable() {
    let shop = Shop::default();
    let cloud = shop.cloud().await;
    // Longer than what the instance document holds.
    let input = "x".repeat(50_000);
    start(&cloud, "order", "Order", &input).await;
    assert_eq!(summary(&cloud, "order").await.status, InstanceStatus::Failed);
    shop.opens();
    let restarted = cloud.notifying.restart_in_place(request("order"), false).await;
    assert_eq!(
        restarted.expect("the store answers"),
        Restarted::Accepted { execution: 2 }
    );
    let running = summary(&cloud, "order").await;
    assert_eq!(
        (
            running.status,
            running.execution,
            running.custom_status,
            running.completed_at
        ),
        (InstanceStatus::Running, 2, None, None)
    );
    cloud.drain().await;
    let done = summary(&cloud, "order").await;
    assert_eq!((&done.status, done.execution), (&InstanceStatus::Completed, 2));
    assert_eq!(
        done.output.as_deref(),
        Some("2:50000"),
        "keys stay, and so does the input"
    );
    assert_eq!(done.tags["customer"], "ada");
    assert_eq!(shop.done.lock().expect("no panic")[&input], 2);

    let executions = cloud.silent.list_executions("order").await.expect("a list");
    assert_eq!(executions, [1, 2]);
    let first = cloud.silent.get_execution_info("order", 1).await.expect("it is kept");
    assert_eq!(first.status, "Failed");
    assert!(first.output.is_some_and(|output| output.contains("closed")));
    for (execution, last) in [(1, "OrchestrationFailed"), (2, "OrchestrationCompleted")] {
        let history = cloud.client.read_execution_history("order", execution).await;
        let history = history.expect("a history");
        assert!(matches!(history[0].kind, EventKind::OrchestrationStarted { .. }));
        let end = format!("{:?}", history.last().expect("an event").kind);
        assert!(end.starts_with(last), "{execution}: {end}");
    }
    // Again, and again: each is one more execution.
    let again = cloud.notifying.restart_in_place(request("order"), false).await;
    assert_eq!(again.expect("the store answers"), Restarted::Accepted { execution: 3 });
    cloud.drain().await;
    assert_eq!(summary(&cloud, "order").await.output.as_deref(), Some("3:50000"));
    let deleted = cloud
        .client
        .delete_instance("order", false)
        .await
        .expect("it is deleted");
    assert_eq!((deleted.executions_deleted, deleted.instances_deleted), (3, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_instance_has_the_input_and_the_tags_of_the_other_and_names_it() {
    let shop = Shop::default();
    let cloud = shop.cloud().await;
    let input = "y".repeat(50_000);
    start(&cloud, "order", "Order", &input).await;
    shop.opens();
    let before = summary(&cloud, "order").await;
    let restarted = cloud.notifying.restart_as_new(request("order"), "order-2").await;
    assert_eq!(
        restarted.expect("the store answers"),
        Restarted::Accepted { execution: 1 }
    );
    assert_eq!(summary(&cloud, "order-2").await.status, InstanceStatus::Pending);
    // A restart of what has had no turn takes the input from its start.
    let third = cloud.notifying.restart_as_new(request("order-2"), "order-3").await;
    assert_eq!(third.expect("the store answers"), Restarted::Accepted { execution: 1 });
    cloud.drain().await;
    for (id, from) in [("order-2", "order"), ("order-3", "order-2")] {
        let new = summary(&cloud, id).await;
        assert_eq!(new.output.as_deref(), Some("1:50000"), "{id}");
        assert_eq!(new.restarted_from.as_deref(), Some(from));
        assert_eq!(new.tags["customer"], "ada");
    }
    assert_eq!(summary(&cloud, "order").await, before, "the other is only read");
    let taken = cloud.notifying.restart_as_new(request("order"), "order-2").await;
    assert_eq!(taken.expect("the store answers"), Restarted::Taken);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_is_restarted_alone_only_and_its_parent_does_not_hear_of_it() {
    let shop = Shop::default();
    let cloud = shop.cloud().await;
    start(&cloud, "parent", "Parent", "z").await;
    let ended = summary(&cloud, "parent").await;
    assert_eq!(ended.status, InstanceStatus::Completed);
    let child = "parent::sub::2";
    assert_eq!(summary(&cloud, child).await.status, InstanceStatus::Failed);
    let refused = cloud.notifying.restart_in_place(request(child), false).await;
    let parent = "parent".to_owned();
    assert_eq!(refused.expect("the store answers"), Restarted::IsChild { parent });
    shop.opens();
    let alone = cloud.notifying.restart_in_place(request(child), true).await;
    assert_eq!(alone.expect("the store answers"), Restarted::Accepted { execution: 2 });
    cloud.drain().await;
    assert_eq!(summary(&cloud, child).await.status, InstanceStatus::Completed);
    assert_eq!(summary(&cloud, "parent").await, ended);
    assert_eq!(summary(&cloud, child).await.parent.as_deref(), Some("parent"));
    // The parent, restarted in place, has a child of its own.
    let restarted = cloud.notifying.restart_in_place(request("parent"), false).await;
    assert_eq!(
        restarted.expect("the store answers"),
        Restarted::Accepted { execution: 2 }
    );
    cloud.drain().await;
    let again = summary(&cloud, "parent").await;
    assert_eq!(again.output.as_deref(), Some("Ok(\"1:1\")"), "{again:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_came_too_late_for_the_ended_execution_does_not_reach_the_next() {
    let shop = Shop::default();
    let cloud = shop.cloud().await;
    start(&cloud, "order", "Order", "late").await;
    shop.opens();
    let cancel = WorkItem::CancelInstance {
        instance: "order".to_owned(),
        reason: "too late".to_owned(),
    };
    enqueue(&cloud.silent, cancel).await;
    let restarted = cloud.notifying.restart_in_place(request("order"), false).await;
    assert_eq!(
        restarted.expect("the store answers"),
        Restarted::Accepted { execution: 2 }
    );
    cloud.drain().await;
    assert_eq!(summary(&cloud, "order").await.status, InstanceStatus::Completed);
}
