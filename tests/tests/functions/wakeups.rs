//! The wakeups that follow a commit: one for each target that is due now, and no others.

use crate::support::*;
use cosmos::{Clock, SystemClock};
use cosmos_emulator::{Faults, Lag, RequestKind, ServerOptions};
use duroxide::providers::{Provider, WorkItem};
use duroxide::{OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};
use duroxide_lambda::{Delayed, Wakeup, WorkTarget};
use futures::StreamExt as _;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;
use tests::cloud::{Cloud, CloudOptions};
use tests::workload;

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Parent", |ctx: OrchestrationContext, how: String| async move {
            ctx.schedule_sub_orchestration_with_id("Child", "child", how).await
        })
        .register("Child", |ctx: OrchestrationContext, how: String| async move {
            match how.as_str() {
                "complete" => Ok(how),
                "fail" => Err(how),
                _ => Ok(ctx.schedule_wait("Go").await),
            }
        })
        .register("Launch", |ctx: OrchestrationContext, _: String| async move {
            ctx.schedule_orchestration("Child", "one", "complete");
            ctx.schedule_orchestration("Child", "two", "complete");
            Ok(String::new())
        })
        .register("Again", |ctx: OrchestrationContext, round: String| async move {
            match round.as_str() {
                "last" => Ok(round),
                _ => ctx.continue_as_new("last").await,
            }
        })
        .register_versioned("Upgrade", "1.0.0", |ctx: OrchestrationContext, _: String| async move {
            ctx.continue_as_new_versioned("2.0.0", "").await
        })
        .register_versioned("Upgrade", "2.0.0", |ctx: OrchestrationContext, _: String| async move {
            ctx.schedule_activity("Greet", ctx.orchestration_version()).await
        })
        .register("Timers", |ctx: OrchestrationContext, seconds: String| async move {
            let seconds = seconds.split(' ').map(|text| text.parse::<u64>().unwrap_or(0));
            let timers = seconds.map(|seconds| ctx.schedule_timer(Duration::from_secs(seconds)));
            ctx.join(timers.collect()).await;
            Ok(String::new())
        })
        .register_versioned("Wide", "1.2.3", |ctx: OrchestrationContext, width: String| async move {
            let width = width.parse::<u64>().unwrap_or(0);
            let works = (0..width).map(|n| ctx.schedule_activity("Greet", n.to_string()));
            Ok(ctx.join(works.collect()).await.len().to_string())
        })
        .build()
}

async fn cloud() -> Cloud {
    Cloud::start(orchestrations(), workload::activities()).await
}

/// Serves these wakeups, and answers the targets that are woken at once.
async fn notified_by(cloud: &Cloud, wakeups: &[Wakeup]) -> Vec<String> {
    serve(&cloud.orchestrator, wakeups).await;
    let notified = cloud.queue.take();
    assert!(
        notified
            .iter()
            .all(|notified| notified.delay.is_zero() && notified.wakeup.consistency_token.is_some())
    );
    let mut targets: Vec<String> = notified
        .iter()
        .map(|notified| notified.wakeup.target.instance().to_owned())
        .collect();
    targets.sort();
    targets
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wakeups_for_new_activities_are_sent_in_one_call_and_spare_a_read() {
    let cloud = cloud().await;
    let first = start(&cloud, "wide", "Wide", "25").await;
    let calls = cloud.queue.calls();
    serve(&cloud.orchestrator, &[first]).await;
    assert_eq!(cloud.queue.calls(), calls + 1);
    let notified = cloud.queue.take();
    let token = cloud
        .orchestrator
        .store
        .recent_consistency_token(usize::MAX)
        .expect("it has written");
    let (written, late) = (notified[0].wakeup.due_ms, notified[0].wakeup.late.clone());
    assert!(
        written.is_some(),
        "a reader with a late clock must know when it was written"
    );
    let versions: Vec<_> = notified
        .iter()
        .map(|notified| work_of(&notified.wakeup).written.clone())
        .collect();
    let distinct: BTreeSet<_> = versions.iter().flatten().collect();
    assert_eq!(distinct.len(), 25, "each work item has a version of its own");
    let expected = (2..27).map(|activity| {
        let work = WorkTarget {
            instance: "wide".to_owned(),
            execution: 1,
            activity,
            name: Some("Greet".to_owned()),
            written: versions[activity as usize - 2].clone(),
            ..WorkTarget::default()
        };
        Delayed::now(Wakeup {
            consistency_token: Some(token.clone()),
            due_ms: written,
            late: late.clone(),
            ..Wakeup::work(work)
        })
    });
    assert_eq!(late.len(), 1, "what the commit has cost");
    assert_eq!(notified, expected.collect::<Vec<_>>());
    serve(&cloud.worker, &plain(notified)).await;
    // Later turns know whose they are as well; here nothing is left to wake.
    let completions = plain(cloud.queue.take());
    assert!((1..=25).contains(&completions.len()), "those of one moment are one");
    assert!(completions.iter().all(|wakeup| wakeup.target == turn_of("wide")));
    assert!(completions.iter().all(|wakeup| wakeup.consistency_token.is_some()));
    serve(&cloud.orchestrator, &completions).await;
    assert_eq!(
        (output(&cloud, "wide").await.as_str(), cloud.queue.take().len()),
        ("25", 0)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_activity_wakes_its_turn_and_so_does_one_of_a_later_turn() {
    let cloud = Cloud::start(workload::orchestrations(), workload::activities()).await;
    let first = start(&cloud, "refused", "Refusal", "it").await;
    serve(&cloud.orchestrator, &[first]).await;
    serve(&cloud.worker, &plain(cloud.queue.take())).await;
    let notified = only(cloud.queue.take());
    assert_eq!(
        (notified.wakeup.target, notified.delay),
        (turn_of("refused"), Duration::ZERO)
    );

    let first = start(&cloud, "cities", "HelloCities", "1").await;
    serve(&cloud.orchestrator, &[first]).await;
    for activity in [2, 4, 6] {
        let work = only(cloud.queue.take()).wakeup;
        assert_eq!(work_of(&work).activity, activity);
        serve(&cloud.worker, &[work]).await;
        serve(&cloud.orchestrator, &plain(cloud.queue.take())).await;
    }
    assert!(output(&cloud, "cities").await.contains("Oslo"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn children_and_parents_wake_each_other() {
    for (how, said) in [("complete", "Completed"), ("fail", "Failed")] {
        let cloud = cloud().await;
        let first = start(&cloud, "parent", "Parent", how).await;
        assert_eq!(notified_by(&cloud, &[first]).await, ["child"]);
        assert_eq!(notified_by(&cloud, &[Wakeup::turn("child")]).await, ["parent"]);
        assert_eq!(notified_by(&cloud, &[Wakeup::turn("parent")]).await, [""; 0]);
        let status = status(&cloud, "parent").await;
        assert!(format!("{status:?}").starts_with(said), "{status:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_parent_wakes_its_child() {
    let cloud = cloud().await;
    let first = start(&cloud, "parent", "Parent", "wait").await;
    assert_eq!(notified_by(&cloud, &[first]).await, ["child"]);
    assert_eq!(notified_by(&cloud, &[Wakeup::turn("child")]).await, [""; 0]);
    let cancelled = cloud.client.cancel_instance("parent", "no need").await;
    cancelled.expect("it is cancelled");
    let cancel = only(cloud.queue.take()).wakeup;
    assert_eq!(notified_by(&cloud, &[cancel]).await, ["child"]);
    let notified = notified_by(&cloud, &[Wakeup::turn("child")]).await;
    assert!(notified.is_empty() || notified == ["parent"], "{notified:?}");
    for instance in ["parent", "child"] {
        let status = status(&cloud, instance).await;
        assert!(
            matches!(status, OrchestrationStatus::Failed { .. }),
            "{instance}: {status:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn detached_starts_and_the_next_execution_get_wakeups() {
    let cloud = cloud().await;
    let launch = start(&cloud, "launch", "Launch", "").await;
    assert_eq!(notified_by(&cloud, &[launch]).await, ["one", "two"]);
    let both = [Wakeup::turn("one"), Wakeup::turn("two")];
    assert_eq!(notified_by(&cloud, &both).await, [""; 0]);
    assert_eq!(output(&cloud, "two").await, "complete");
    let again = start(&cloud, "again", "Again", "first").await;
    assert_eq!(notified_by(&cloud, &[again]).await, ["again"]);
    assert_eq!(notified_by(&cloud, &[Wakeup::turn("again")]).await, [""; 0]);
    assert_eq!(output(&cloud, "again").await, "last");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_work_item_of_an_activity_has_the_version_of_its_own_execution() {
    let cloud = cloud().await;
    let started = cloud
        .client
        .start_orchestration_versioned("order", "Upgrade", "1.0.0", "");
    started.await.expect("it starts");
    serve(&cloud.orchestrator, &plain(cloud.queue.take())).await;
    serve(&cloud.orchestrator, &plain(cloud.queue.take())).await;
    let work = only(cloud.queue.take()).wakeup;
    assert_eq!(work_of(&work).execution, 2);
    let items = cloud.world.documents_of("work").await;
    let of = |item: &Value| item["of"].clone();
    assert_eq!(
        items.iter().map(of).collect::<Vec<_>>(),
        [json!({"name": "Upgrade", "version": "2.0.0"})]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timers_within_fifteen_minutes_get_a_wakeup_for_their_time_and_later_ones_do_not() {
    let cloud = cloud().await;
    let asked = SystemClock.now_ms();
    let first = start(&cloud, "timers", "Timers", "60 890 910 86400").await;
    serve(&cloud.orchestrator, &[first]).await;
    let notified = cloud.queue.take();
    assert_eq!(notified.len(), 2, "{notified:?}");
    for (notified, seconds) in notified.iter().zip([60, 890]) {
        assert_eq!(notified.wakeup.target, turn_of("timers"));
        let due = notified.wakeup.due_ms.expect("it is for later");
        let latest = SystemClock.now_ms() + seconds * 1_000;
        assert!((asked + seconds * 1_000..=latest).contains(&due));
        // The second before. The commit has taken some of it.
        let delay = notified.delay.as_millis() as u64;
        assert!(delay < seconds * 1_000 && delay + 1_050 > due - SystemClock.now_ms());
    }
}

/// One turn takes one page of messages; the one that matters comes last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_leaves_messages_behind_wakes_its_instance_again() {
    let cloud = cloud().await;
    let first = start(&cloud, "mailbox", "Child", "wait").await;
    assert_eq!(notified_by(&cloud, &[first]).await, [""; 0]);
    let message = |n: usize| WorkItem::QueueMessage {
        instance: "mailbox".to_owned(),
        name: "inbox".to_owned(),
        data: n.to_string(),
    };
    let queued = (0..1_050).map(|n| cloud.silent.enqueue_for_orchestrator(message(n), None));
    let results: Vec<_> = futures::stream::iter(queued).buffer_unordered(16).collect().await;
    assert!(results.iter().all(Result::is_ok));
    let raised = cloud.client.raise_event("mailbox", "Go", "last").await;
    raised.expect("it is raised");
    let go = only(cloud.queue.take()).wakeup;
    assert_eq!(notified_by(&cloud, &[go]).await, ["mailbox"]);
    let status = status(&cloud, "mailbox").await;
    assert!(matches!(status, OrchestrationStatus::Running { .. }), "{status:?}");
    assert_eq!(notified_by(&cloud, &[Wakeup::turn("mailbox")]).await, [""; 0]);
    assert_eq!(output(&cloud, "mailbox").await, "last");
}

/// The function reads from a replica that is half a minute and more behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_consistency_token_of_a_wakeup_makes_a_lagging_replica_show_what_the_wakeup_is_for() {
    let lag = Lag {
        min: Duration::from_secs(30),
        max: Duration::from_secs(60),
        seed: 1,
    };
    let server = ServerOptions {
        lag: Some(lag),
        ..ServerOptions::default()
    };
    let options = CloudOptions {
        server,
        ..CloudOptions::default()
    };
    let cloud = Cloud::with(options, orchestrations(), workload::activities()).await;
    let full = start(&cloud, "order", "Again", "last").await;
    let mute = Wakeup {
        consistency_token: None,
        ..full.clone()
    };
    let stale = |fresh: f64| Faults {
        stale_reads: true,
        fresh,
        ..Faults::default()
    };
    cloud.orchestrator.listener.set_faults(stale(0.0));
    serve(&cloud.orchestrator, &[mute]).await;
    assert_eq!(metrics(&cloud.orchestrator)["Nothing"], 1, "the past has no message");
    // Some requests reach a replica that is up to date; one without a consistency token would be answered by the first.
    cloud.orchestrator.listener.set_faults(stale(0.2));
    cloud.orchestrator.listener.reset();
    serve(&cloud.orchestrator, &[full]).await;
    assert_eq!(metrics(&cloud.orchestrator)["Committed"], 1);
    let turned_away = |status: Option<u16>| status == Some(404);
    let log = cloud.orchestrator.listener.log();
    assert!(log.iter().any(|record| turned_away(record.status)), "{log:?}");
    assert_eq!(output(&cloud, "order").await, "last");
}

/// A wakeup with an unreadable consistency token is served without it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_consistency_token_is_ignored() {
    let cloud = cloud().await;
    for (n, nonsense) in ["", "garbage", "0:", ":-1#5", "0:-1#x", "9999:-1#5", "\u{1f980},,;"]
        .iter()
        .enumerate()
    {
        let instance = format!("i{n}");
        let wakeup = Wakeup {
            consistency_token: Some((*nonsense).to_owned()),
            ..start(&cloud, &instance, "Again", "last").await
        };
        serve(&cloud.orchestrator, &[wakeup]).await;
        assert_eq!(output(&cloud, &instance).await, "last", "{nonsense:?}");
    }
}

/// The wakeup of a reminder: duroxide reads the history before each activity, but what it needs is in the work item.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_activity_whose_wakeup_only_names_it_reads_its_work_item_and_no_history() {
    let cloud = Cloud::start(workload::orchestrations(), workload::activities()).await;
    let first = start(&cloud, "cities", "HelloCities", "1").await;
    serve(&cloud.orchestrator, &[first]).await;
    let named = only(cloud.queue.take()).wakeup;
    let bare = Wakeup::work(WorkTarget {
        instance: "cities".to_owned(),
        execution: 1,
        activity: work_of(&named).activity,
        ..WorkTarget::default()
    });
    let (_, cost) = cost_of(&cloud.worker.listener, serve(&cloud.worker, &[bare])).await;
    cost.is_exactly(&[RequestKind::Read, RequestKind::Replace, RequestKind::Batch], 3);
}
