//! Maintenance and what paused instances hold: no reminders, no alarm, and everything is found after they are resumed.

use super::support::*;
use cosmos::Clock;
use duroxide_cosmos::{CosmosProvider, OverviewQuery, PauseOutcome};
use duroxide_lambda::internals::{BoundedNotifier, Budget, Maintenance, MaintenanceRequest, Memory, Metrics, Report};
use duroxide_lambda::{MaintenanceSettings, Notifier};
use std::sync::Arc;
use std::time::Duration;
use tests::ManualClock;
use tests::turns::*;

fn maintenance(provider: &Arc<CosmosProvider>, clock: &Arc<ManualClock>) -> (Maintenance, Arc<Memory>) {
    let queue = Arc::new(Memory::new());
    let notifier = Arc::clone(&queue) as Arc<dyn Notifier>;
    let notifier = BoundedNotifier::new(notifier, Duration::from_secs(2), Arc::new(Metrics::new(None)));
    let clock = Arc::clone(clock) as Arc<dyn Clock>;
    let settings = MaintenanceSettings::default();
    (Maintenance::new(Arc::clone(provider), notifier, clock, settings), queue)
}

async fn run(maintenance: &Maintenance) -> Report {
    let report = maintenance
        .run(MaintenanceRequest::default(), Budget::of(Duration::from_secs(60)))
        .await;
    assert!(report.passes.values().all(|pass| pass.error.is_none()), "{report:#?}");
    report
}

fn woken(queue: &Memory) -> Vec<String> {
    let mut names: Vec<String> = queue
        .take()
        .into_iter()
        .map(|delayed| delayed.wakeup.target.instance().to_owned())
        .collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn maintenance_sends_no_reminders_for_a_paused_instance_and_counts_nothing_of_it() {
    let scene = Scene::new().await;
    let now = scene.clock.now_ms();
    enqueue(&scene.provider, start_of(INSTANCE)).await;
    let first = turn(&scene.provider, INSTANCE).await;
    let decision = Decision {
        messages: vec![timer(9, now + 50_000)],
        ..Decision::first(INSTANCE, 3)
    };
    commit(&scene.provider, &first.lock_token, decision)
        .await
        .expect("it commits");
    let running = work(&scene.provider, INSTANCE, 4).await;
    enqueue(&scene.provider, raised(INSTANCE, "1")).await;
    assert_eq!(scene.pause().await, PauseOutcome::Changed);
    enqueue(&scene.provider, raised(INSTANCE, "2")).await;
    let (listener, process) = scene.process(Duration::from_secs(60)).await;
    let (maintenance, queue) = maintenance(&process, &scene.clock);
    // The process of the activity that ran has died.
    drop(running);
    let mut costs = Vec::new();
    for minute in 1..=30 {
        scene.clock.advance(Duration::from_secs(60));
        listener.reset();
        let report = run(&maintenance).await;
        costs.push(listener.counts().requests);
        let context = format!("minute {minute}: {report:#?}");
        assert_eq!(woken(&queue), [""; 0], "{context}");
        let query = OverviewQuery {
            overdue: Duration::from_secs(1),
            stuck: Duration::from_secs(1),
            ..OverviewQuery::default()
        };
        let overview = scene.provider.overview(&query).await.expect("the store answers");
        let backlog = &overview.backlog;
        assert_eq!(
            (
                backlog.stuck_instances,
                backlog.overdue_timers,
                backlog.turns_due,
                backlog.works_due,
                backlog.timers_pending
            ),
            (0, 0, 0, 0, 0),
            "{context}"
        );
        let statuses: Vec<&str> = overview.counts.iter().map(|count| count.status.name()).collect();
        assert_eq!(statuses, ["Paused"]);
    }
    assert!(costs[1] < costs[0], "what it has parked is not found again: {costs:?}");
    assert!(
        costs[2..].iter().all(|cost| cost <= &costs[29]),
        "a run costs no more than an idle one: {costs:?}"
    );
    scene.assert_consistent(true, "half an hour later").await;

    // The wakeups of the resumption are lost: maintenance finds everything.
    assert_eq!(scene.resume().await, PauseOutcome::Changed);
    scene.clock.advance(Duration::from_secs(60));
    run(&maintenance).await;
    assert_eq!(woken(&queue), vec![INSTANCE; 4], "the turn and three activities");
    let turn = turn(&scene.provider, INSTANCE).await;
    assert_eq!(events_of(&turn.item.messages), ["1", "2"]);
    assert_eq!(
        turn.item.messages.len(),
        3,
        "and the timer, once: {:?}",
        turn.item.messages
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancellation_whose_wakeup_was_lost_is_found_although_the_instance_is_paused() {
    let scene = Scene::new().await;
    begin_with(&scene.provider, INSTANCE, 1, named()).await;
    assert_eq!(scene.pause().await, PauseOutcome::Changed);
    enqueue(&scene.provider, raised(INSTANCE, "1")).await;
    enqueue(&scene.provider, cancel(INSTANCE)).await;
    let (maintenance, queue) = maintenance(&scene.provider, &scene.clock);
    scene.clock.advance(Duration::from_secs(60));
    run(&maintenance).await;
    assert_eq!(woken(&queue), [INSTANCE]);
    let turn = turn(&scene.provider, INSTANCE).await;
    assert!(
        turn.is_paused && turn.item.messages.len() == 2,
        "{:?}",
        turn.item.messages
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paused_instances_are_listed_and_counted_by_an_index() {
    let scene = Scene::new().await;
    for n in 0..6 {
        begin(&scene.provider, &format!("i{n}")).await;
    }
    for n in [1, 3, 5] {
        scene
            .provider
            .pause(&format!("i{n}"), None, false)
            .await
            .expect("it is paused");
    }
    let status = async |status: duroxide_cosmos::InstanceStatus| {
        let filter = duroxide_cosmos::InstanceFilter {
            status: Some(status),
            ..duroxide_cosmos::InstanceFilter::default()
        };
        let page = scene
            .provider
            .search(&filter, None, 10)
            .await
            .expect("an index serves it");
        let mut ids: Vec<String> = page.instances.into_iter().map(|one| one.instance).collect();
        ids.sort();
        ids
    };
    assert_eq!(
        status(duroxide_cosmos::InstanceStatus::Paused).await,
        ["i1", "i3", "i5"]
    );
    assert_eq!(
        status(duroxide_cosmos::InstanceStatus::Running).await,
        ["i0", "i2", "i4"]
    );
    let counts = scene.provider.instance_counts().await.expect("the store answers");
    assert_eq!((counts.total, counts.paused, counts.running), (6, 3, 3));
}
