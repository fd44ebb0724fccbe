//! Exactly one step per wakeup: one fetch, one execution, one commit; counted at the function's own listener.

use crate::support::*;
use cosmos::{PartitionKey, Retry};
use cosmos_emulator::RequestKind::{Batch, Patch, Query, Read, Replace};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};
use duroxide_lambda::{Limits, Wakeup, WorkTarget, WorkVersion};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tests::cloud::{Cloud, CloudOptions};
use tests::log::LogLines;
use tests::workload;
use tokio::sync::Notify;

/// How often user code ran.
#[derive(Clone, Default)]
struct Runs {
    turns: Arc<AtomicUsize>,
    activities: Arc<AtomicUsize>,
}

impl Runs {
    fn so_far(&self) -> (usize, usize) {
        (
            self.turns.load(Ordering::SeqCst),
            self.activities.load(Ordering::SeqCst),
        )
    }

    /// An orchestration of one activity and two turns.
    fn orchestrations(&self) -> OrchestrationRegistry {
        let turns = Arc::clone(&self.turns);
        let one = move |ctx: OrchestrationContext, input: String| {
            turns.fetch_add(1, Ordering::SeqCst);
            async move { ctx.schedule_activity("Say", input).await }
        };
        OrchestrationRegistry::builder()
            .register_versioned("One", "2.3.4", one)
            .build()
    }

    /// An activity that says whose it is.
    fn activities(&self) -> ActivityRegistry {
        let activities = Arc::clone(&self.activities);
        let say = move |ctx: ActivityContext, _: String| {
            activities.fetch_add(1, Ordering::SeqCst);
            async move { Ok(format!("{} {}", ctx.orchestration_name(), ctx.orchestration_version())) }
        };
        ActivityRegistry::builder().register("Say", say).build()
    }

    async fn cloud(&self) -> Cloud {
        Cloud::start(self.orchestrations(), self.activities()).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wakeup_is_one_fetch_one_execution_and_one_commit() {
    let runs = Runs::default();
    let cloud = runs.cloud().await;
    let first = start(&cloud, "order", "One", "").await;

    let (response, cost_of_first) = cost_of(&cloud.orchestrator.listener, cloud.orchestrator.invoke(&[first])).await;
    assert_eq!((failed(&response), runs.so_far()), (vec![], (1, 0)));
    cost_of_first.is_exactly(&[Query, Batch], 2);

    let work = only(cloud.queue.take()).wakeup;
    let (response, cost_of_work) = cost_of(&cloud.worker.listener, cloud.worker.invoke(&[work])).await;
    assert_eq!((failed(&response), runs.so_far()), (vec![], (1, 1)));
    cost_of_work.is_exactly(&[Patch, Batch], 2);

    let second = only(cloud.queue.take()).wakeup;
    let (response, cost_of_second) = cost_of(&cloud.orchestrator.listener, cloud.orchestrator.invoke(&[second])).await;
    assert_eq!((failed(&response), runs.so_far()), (vec![], (2, 1)));
    cost_of_second.is_exactly(&[Query, Batch], 2);

    assert_eq!(output(&cloud, "order").await, "One 2.3.4");
    assert!(cloud.queue.take().is_empty(), "what has ended wakes nobody");
    assert_eq!(cloud.worker.listener.counts().cross_partition_queries, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_wakeup_that_finds_nothing_costs_one_request_and_is_served() {
    let runs = Runs::default();
    let cloud = runs.cloud().await;
    let first = start(&cloud, "order", "One", "").await;
    serve(&cloud.orchestrator, std::slice::from_ref(&first)).await;
    let work = cloud.queue.take();
    // The same once more; one for nobody.
    assert_nothing_to_do(&cloud, &first).await;
    assert_nothing_to_do(&cloud, &Wakeup::turn("nobody")).await;
    serve(&cloud.worker, &plain(work)).await;
    let second = only(cloud.queue.take()).wakeup;
    serve(&cloud.orchestrator, std::slice::from_ref(&second)).await;
    assert_eq!(output(&cloud, "order").await, "One 2.3.4");
    for late in [first, second, Wakeup::turn("order")] {
        assert_nothing_to_do(&cloud, &late).await;
    }
    assert_eq!(runs.so_far(), (2, 1));
}

async fn assert_nothing_to_do(cloud: &Cloud, wakeup: &Wakeup) {
    let notified = cloud.queue.count();
    let (response, cost) = cost_of(
        &cloud.orchestrator.listener,
        cloud.orchestrator.invoke(std::slice::from_ref(wakeup)),
    )
    .await;
    assert_eq!(failed(&response), [""; 0]);
    cost.is_exactly(&[Query], 1);
    assert_eq!(cloud.queue.count(), notified, "it wakes nobody");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_work_wakeup_that_finds_nothing_costs_one_request_and_is_served() {
    let runs = Runs::default();
    let cloud = runs.cloud().await;
    let first = start(&cloud, "order", "One", "").await;
    serve(&cloud.orchestrator, &[first]).await;
    let done = only(cloud.queue.take()).wakeup;
    serve(&cloud.worker, std::slice::from_ref(&done)).await;
    let elsewhere = |instance: &str, activity: u64| {
        let work = WorkTarget {
            instance: instance.to_owned(),
            activity,
            ..work_of(&done).clone()
        };
        Wakeup::work(work)
    };
    let notified = cloud.queue.count();
    let unversioned = Wakeup::to(done.target.without_version());
    for (wakeup, request) in [
        (done.clone(), Patch),
        (elsewhere("order", 77), Patch),
        (elsewhere("nobody", 2), Patch),
        (unversioned, Read),
    ] {
        let (response, cost) = cost_of(&cloud.worker.listener, cloud.worker.invoke(&[wakeup])).await;
        assert_eq!(failed(&response), [""; 0]);
        cost.is_exactly(&[request], 1);
    }
    assert_eq!((runs.so_far(), cloud.queue.count()), ((1, 1), notified));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_work_wakeup_for_a_cancelled_activity_finds_nothing() {
    let cloud = Cloud::start(workload::orchestrations(), workload::activities()).await;
    let first = start(&cloud, "choice", "Select", "1").await;
    serve(&cloud.orchestrator, &[first]).await;
    let (work, timer): (Vec<Wakeup>, Vec<Wakeup>) = plain(cloud.queue.take())
        .into_iter()
        .partition(|wakeup| wakeup.target != turn_of("choice"));
    until("the timer wins", async || {
        serve(&cloud.orchestrator, &timer).await;
        let status = status(&cloud, "choice").await;
        matches!(status, OrchestrationStatus::Completed { .. })
    })
    .await;
    let (response, cost) = cost_of(&cloud.worker.listener, cloud.worker.invoke(&work)).await;
    assert_eq!(failed(&response), [""; 0]);
    cost.is_exactly(&[Patch], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_work_wakeup_without_a_usable_version_reads_and_claims() {
    let runs = Runs::default();
    let cloud = runs.cloud().await;
    for (instance, schema) in [("none", None), ("another", Some(99))] {
        let first = start(&cloud, instance, "One", "").await;
        serve(&cloud.orchestrator, &[first]).await;
        let wakeup = only(cloud.queue.take()).wakeup;
        let mut work = work_of(&wakeup).clone();
        work.written = work
            .written
            .zip(schema)
            .map(|(written, schema)| WorkVersion { schema, ..written });
        let (response, cost) = cost_of(&cloud.worker.listener, cloud.worker.invoke(&[Wakeup::work(work)])).await;
        assert_eq!(failed(&response), [""; 0]);
        cost.is_exactly(&[Read, Replace, Batch], 3);
        serve(&cloud.orchestrator, &plain(cloud.queue.take())).await;
        assert_eq!(output(&cloud, instance).await, "One 2.3.4");
    }
}

/// On one thread, whose log is captured.
#[tokio::test]
async fn the_log_of_an_activity_names_it() {
    let (lines, _guard) = LogLines::capture();
    let cloud = Runs::default().cloud().await;
    let first = start(&cloud, "order", "One", "").await;
    serve(&cloud.orchestrator, &[first]).await;
    serve(&cloud.worker, &plain(cloud.queue.take())).await;
    let ended: Vec<Value> = lines.read();
    let ended = ended.iter().filter(|line| line["message"] == "a step ended");
    let names: Vec<_> = ended.map(|line| (&line["activity"], &line["activity_name"])).collect();
    let nothing = Value::Null;
    assert_eq!(names, [(&nothing, &nothing), (&2.into(), &"Say".into())]);
}

/// The activities beyond the first batch are published after the decision.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_activity_of_a_large_fan_out_takes_two_requests() {
    const WIDTH: usize = 250;
    let wide = |ctx: OrchestrationContext, _: String| async move {
        let works = (0..WIDTH).map(|n| ctx.schedule_activity("Say", n.to_string()));
        Ok(ctx.join(works.collect()).await.len().to_string())
    };
    let orchestrations = OrchestrationRegistry::builder().register("Wide", wide).build();
    let cloud = Cloud::start(orchestrations, Runs::default().activities()).await;
    let first = start(&cloud, "wide", "Wide", "").await;
    serve(&cloud.orchestrator, &[first]).await;
    let works = plain(cloud.queue.take());
    assert_eq!(works.len(), WIDTH);
    for batch in works.chunks(10) {
        serve(&cloud.worker, batch).await;
    }
    let counts = cloud.worker.listener.counts();
    let expected = WIDTH as u64;
    assert_eq!(
        (counts.patches, counts.batches, counts.requests),
        (expected, expected, 2 * expected)
    );
}

/// SQS delivers the first wakeup again while its activity runs, or two batches have it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wakeup_beside_one_without_the_version_reads_first() {
    let runs = Runs::default();
    let cloud = runs.cloud().await;
    let first = start(&cloud, "order", "One", "").await;
    serve(&cloud.orchestrator, &[first]).await;
    let wakeup = only(cloud.queue.take()).wakeup;
    let resent = Wakeup::to(wakeup.target.without_version());
    for batch in [[wakeup.clone(), resent.clone()], [resent, wakeup]] {
        let (response, cost) = cost_of(&cloud.worker.listener, cloud.worker.invoke(&batch)).await;
        assert_eq!(failed(&response), [""; 0]);
        assert_eq!(cost.kinds[0], Read, "{cost:?}");
    }
    assert_eq!(runs.so_far(), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_work_item_of_an_earlier_release_without_its_orchestration_costs_a_read_and_loses_no_information() {
    let runs = Runs::default();
    let cloud = runs.cloud().await;
    let first = start(&cloud, "order", "One", "").await;
    serve(&cloud.orchestrator, &[first]).await;
    let wakeup = only(cloud.queue.take()).wakeup;
    let mut item = cloud.world.documents_of("work").await.remove(0);
    let of = item.as_object_mut().and_then(|item| item.remove("of"));
    assert!(of.is_some(), "this release writes it");
    let (pk, id) = (
        PartitionKey::new("order").unwrap(),
        item["id"].as_str().unwrap_or_default(),
    );
    let written = cloud.world.raw().replace(&pk, id, &item, None, Retry::Idempotent).await;
    written.expect("it is written");
    let resent = Wakeup::to(wakeup.target.without_version());
    let (response, cost) = cost_of(&cloud.worker.listener, cloud.worker.invoke(&[resent])).await;
    assert_eq!(failed(&response), [""; 0]);
    assert_eq!(cost.counts.queries, 1, "the history is read: {cost:?}");
    cloud.drain().await;
    assert_eq!(output(&cloud, "order").await, "One 2.3.4");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_activity_reads_comes_from_the_store() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Look", |ctx: OrchestrationContext, other: String| async move {
            ctx.set_custom_status("looking");
            ctx.schedule_activity("Look", other).await
        })
        .register(
            "Given",
            |_: OrchestrationContext, input: String| async move { Ok(input) },
        )
        .build();
    let look = |ctx: ActivityContext, other: String| async move {
        let client = ctx.get_client();
        let mine = client.get_orchestration_status(ctx.instance_id()).await;
        let other = client.get_orchestration_status(&other).await;
        Ok(format!("{:?}; {:?}", mine.expect("a status"), other.expect("a status")))
    };
    let activities = ActivityRegistry::builder().register("Look", look).build();
    let cloud = Cloud::start(orchestrations, activities).await;
    for (instance, orchestration, input) in [("given", "Given", "a result"), ("looking", "Look", "given")] {
        let started = cloud.client.start_orchestration(instance, orchestration, input).await;
        started.expect("it starts");
        cloud.drain().await;
    }
    let seen = output(&cloud, "looking").await;
    let (mine, other) = seen.split_once("; ").expect("two statuses");
    assert!(mine.contains("Running") && mine.contains("looking"), "{mine}");
    assert!(other.contains("Completed") && other.contains("a result"), "{other}");
}

/// The gate's own answer to the runtime would be that it runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_activity_sees_the_end_of_its_own_orchestration() {
    let (begun, ended) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (seen, mut statuses) = tokio::sync::mpsc::unbounded_channel();
    let (begin, end) = (Arc::clone(&begun), Arc::clone(&ended));
    let look = move |ctx: ActivityContext, _: String| {
        let (begin, end, seen) = (Arc::clone(&begin), Arc::clone(&end), seen.clone());
        async move {
            begin.notify_one();
            end.notified().await;
            let status = ctx.get_client().get_orchestration_status(ctx.instance_id()).await;
            seen.send(status.expect("a status"))
                .map_err(|error| error.to_string())?;
            Ok(String::new())
        }
    };
    let activities = ActivityRegistry::builder().register("Say", look).build();
    let cloud = Cloud::start(Runs::default().orchestrations(), activities).await;
    let first = start(&cloud, "order", "One", "").await;
    serve(&cloud.orchestrator, &[first]).await;
    let work = plain(cloud.queue.take());
    let meanwhile = async {
        begun.notified().await;
        let cancelled = cloud.client.cancel_instance("order", "no need").await;
        cancelled.expect("it is cancelled");
        serve(&cloud.orchestrator, &plain(cloud.queue.take())).await;
        ended.notify_one();
    };
    futures::join!(cloud.worker.invoke(&work), meanwhile);
    let seen_status = statuses.recv().await.expect("it looked");
    assert!(
        matches!(seen_status, OrchestrationStatus::Failed { .. }),
        "{seen_status:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_runtime_is_started_once() {
    let dispatchers = Arc::new(Mutex::new(BTreeSet::new()));
    let seen = Arc::clone(&dispatchers);
    let orchestrations = OrchestrationRegistry::builder()
        .register("Dispatcher", move |_: OrchestrationContext, _: String| {
            // A turn runs on the task of its dispatcher.
            let dispatcher = tokio::task::id().to_string();
            seen.lock().expect("no panic").insert(dispatcher);
            async move { Ok(String::new()) }
        })
        .build();
    let options = CloudOptions {
        limits: Limits {
            concurrency: 1,
            ..Limits::default()
        },
        ..CloudOptions::default()
    };
    let cloud = Cloud::with(options, orchestrations, workload::activities()).await;
    for n in 0..10 {
        let wakeup = start(&cloud, &format!("i{n}"), "Dispatcher", "").await;
        serve(&cloud.orchestrator, &[wakeup]).await;
    }
    let dispatchers = dispatchers.lock().expect("no panic").clone();
    assert_eq!(
        dispatchers.len(),
        1,
        "ten invocations had one dispatcher: {dispatchers:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_may_have_any_name() {
    let cloud = Cloud::start(workload::orchestrations(), workload::activities()).await;
    let names = [
        "a/b\\c?d#e\"f%25 '",
        "Zürich ☃ 日本 \u{1f980}",
        "\u{fffe}\u{ffff}",
        "tab\tand\nline",
        " ",
    ];
    for name in names {
        let started = cloud.client.start_orchestration(name, "Parent", "you").await;
        started.expect("it starts");
    }
    cloud.drain().await;
    for name in names {
        assert_eq!(output(&cloud, name).await, "Hello you!", "{name:?}");
    }
}
