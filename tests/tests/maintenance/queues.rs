//! Maintenance knows its queues: it wakes again at every run what a queue cannot hold, and nothing that merely waits in one.

use crate::due::enqueue_timer;
use crate::function::*;
use crate::support::*;
use cosmos::Clock as _;
use duroxide::providers::Provider as _;
use duroxide_lambda::internals::{Depth, Maintenance, Memory, QueueName};
use duroxide_lambda::{MaintenanceSettings, Probe, Target, Wakeup};
use std::sync::Arc;
use std::time::Duration;
use tests::turns::{activity, enqueue, start_of, turn};

/// The scene: nothing was sent for what the test queues, as if every wakeup was lost.
struct Scene {
    fixture: Fixture,
    maintenance: Maintenance,
    queue: Arc<Memory>,
}

impl Scene {
    async fn new() -> Scene {
        let fixture = Fixture::new().await;
        let (maintenance, queue) = maintenance(&fixture.provider, &fixture.clock, settings());
        let scene = Scene {
            fixture,
            maintenance,
            queue,
        };
        scene.set(0);
        scene.run_after(Duration::ZERO).await;
        scene
    }

    /// Both queues have so many messages.
    fn set(&self, waiting: u64) {
        let depth = Depth {
            waiting,
            ..Depth::default()
        };
        self.queue.set_depth(QueueName::turns(), Some(depth));
        self.queue.set_depth(QueueName::works(), Some(depth));
    }

    /// A run after some time: what it woke, and how much it held back.
    async fn run_after(&self, time: Duration) -> (Vec<Wakeup>, u64) {
        self.fixture.clock.advance(time);
        let report = run(&self.maintenance).await;
        assert_complete(&report);
        let woken = self.queue.take().into_iter().map(|delayed| delayed.wakeup).collect();
        (woken, report.reminders_held)
    }

    async fn queue_work(&self, id: u64) {
        let queued = self.fixture.provider.enqueue_for_worker(activity("busy", id)).await;
        queued.expect("it is queued");
    }

    /// A function received these wakeups: it notes their probes.
    async fn receive(&self, woken: &[Wakeup]) {
        for Probe { queue, sent_ms } in woken.iter().filter_map(|wakeup| wakeup.probe.as_ref()) {
            let noted = self.fixture.provider.note_probe(queue, *sent_ms).await;
            noted.expect("the store is there");
        }
    }
}

fn names(woken: &[Wakeup]) -> Vec<&str> {
    woken.iter().map(|wakeup| wakeup.target.instance()).collect()
}

#[tokio::test]
async fn what_an_empty_queue_cannot_hold_is_woken_by_every_run_until_it_is_served() {
    let scene = Scene::new().await;
    scene.fixture.clock.advance(Duration::from_secs(35));
    enqueue(&scene.fixture.provider, start_of("lost")).await;
    scene.queue_work(2).await;
    let due = scene.fixture.clock.now_ms();
    enqueue_timer(&scene.fixture, "timer", due + 100).await;
    scene.fixture.clock.advance(Duration::from_secs(25));
    // However often their wakeups are lost. The first run comes before the threshold, and wakes the timer.
    assert_eq!(names(&scene.run_after(Duration::ZERO).await.0), ["timer"]);
    for minute in 1..=30 {
        let (woken, held) = scene.run_after(PERIOD).await;
        assert_eq!((names(&woken).len(), held), (3, 0), "{minute}: {woken:?}");
        assert!(woken.iter().all(|wakeup| wakeup.overdue), "{woken:?}");
    }
    // Later than an hour, something else is missing than a wakeup.
    scene.run_after(PERIOD * 40).await;
    let mut counts = Vec::new();
    for _ in 0..20 {
        counts.push(scene.run_after(PERIOD).await.0.len());
    }
    assert_eq!(counts.iter().sum::<usize>(), 0, "{counts:?}");
}

#[tokio::test]
async fn what_a_queue_may_hold_is_woken_when_a_probe_came_through_and_then_at_each_further_probe() {
    let scene = Scene::new().await;
    scene.queue_work(2).await;
    scene.queue_work(3).await;
    scene.set(7);
    let (probe, held) = scene.run_after(PERIOD).await;
    assert_eq!((probe.len(), held), (1, 2), "{probe:?}");
    let now = scene.fixture.clock.now_ms();
    let expected = Probe {
        queue: "work".to_owned(),
        sent_ms: now,
    };
    assert_eq!((probe[0].probe.as_ref(), probe[0].overdue), (Some(&expected), false));
    // It is behind the seven others. Each run sends another, in case that one was lost.
    for _ in 0..3 {
        let (probes, held) = scene.run_after(PERIOD).await;
        assert_eq!((probes.len(), held), (1, 2), "{probes:?}");
    }
    scene.receive(&probe).await;
    let (woken, held) = scene.run_after(PERIOD).await;
    assert_eq!((woken.len(), held), (2, 0), "{woken:?}");
    assert!(woken.iter().all(|wakeup| wakeup.overdue));
    let carrying = woken.iter().filter(|wakeup| wakeup.probe.is_some()).count();
    assert_eq!(carrying, 1, "a reminder carries the probe: {woken:?}");
    // Now those reminders may be in the queue.
    let (probes, held) = scene.run_after(PERIOD).await;
    assert_eq!((probes.len(), held), (1, 2), "{probes:?}");
    scene.receive(&woken).await;
    assert_eq!(scene.run_after(PERIOD).await.0.len(), 2);
}

#[tokio::test]
async fn a_new_item_behind_a_probe_is_held_and_an_older_one_is_woken() {
    let scene = Scene::new().await;
    scene.set(7);
    scene.queue_work(2).await;
    let (probe, _) = scene.run_after(PERIOD).await;
    scene.fixture.clock.advance(Duration::from_secs(1));
    scene.queue_work(3).await;
    scene.receive(&probe).await;
    let (woken, held) = scene.run_after(PERIOD).await;
    assert_eq!((woken.len(), held), (1, 1), "{woken:?}");
    let Target::Work(work) = &woken[0].target else {
        panic!("{woken:?}")
    };
    assert_eq!(work.activity, 2);
}

#[tokio::test]
async fn when_no_probe_ever_comes_through_items_are_woken_at_growing_ages() {
    let scene = Scene::new().await;
    scene.set(7);
    scene.queue_work(2).await;
    let mut woken_at = Vec::new();
    for minute in 1..=40 {
        let (woken, _) = scene.run_after(PERIOD).await;
        if woken.iter().any(|wakeup| wakeup.overdue) {
            woken_at.push(minute);
        }
    }
    // Ten periods of patience; then the ages of 16 and 32 minutes.
    assert_eq!(woken_at, [16, 32]);
}

#[tokio::test]
async fn a_queue_whose_depth_is_not_known_is_served_at_growing_ages_without_probes() {
    let scene = Scene::new().await;
    scene.queue.set_depth(QueueName::works(), None);
    scene.queue_work(2).await;
    let mut woken_at = Vec::new();
    for minute in 1..=20 {
        let (woken, held) = scene.run_after(PERIOD).await;
        assert!(woken.iter().all(|wakeup| wakeup.probe.is_none()) && held == 0);
        woken_at.extend((!woken.is_empty()).then_some(minute));
    }
    assert_eq!(woken_at, [1, 2, 4, 8, 16]);
}

#[tokio::test]
async fn an_activity_under_way_is_not_woken_although_the_queue_is_empty() {
    let scene = Scene::new().await;
    enqueue(&scene.fixture.provider, start_of("i")).await;
    // A turn holds its instance, and an activity its work item, for longer than the threshold.
    let lock = Duration::from_secs(600);
    scene.queue_work(2).await;
    let claimed = scene
        .fixture
        .provider
        .fetch_work_item(lock, Duration::ZERO, None, &duroxide::providers::TagFilter::Any)
        .await;
    assert!(claimed.expect("the store is there").is_some(), "it is claimed");
    drop(turn(&scene.fixture.provider, "i").await);
    for _ in 0..5 {
        let (woken, _) = scene.run_after(PERIOD).await;
        let works = woken.iter().filter(|wakeup| matches!(wakeup.target, Target::Work(_)));
        assert_eq!(works.count(), 0, "{woken:?}");
    }
    scene.fixture.clock.advance(lock);
    assert!(
        names(&scene.run_after(PERIOD).await.0).contains(&"busy"),
        "its lock has ended"
    );
}

#[tokio::test]
async fn a_run_without_overdue_items_asks_for_no_depth_and_reads_no_notes() {
    let scene = Scene::new().await;
    scene.queue_work(2).await;
    enqueue_timer(&scene.fixture, "timer", scene.fixture.clock.now_ms() + 600_000).await;
    scene.run_after(Duration::from_secs(20)).await;
    assert_eq!(scene.queue.depth_calls(), 0);
    scene.run_after(Duration::from_secs(20)).await;
    assert_eq!(scene.queue.depth_calls(), 1, "of the one queue that has overdue items");
}

#[tokio::test]
async fn a_backlog_costs_a_run_one_page_and_hides_no_lost_turn_behind_it() {
    let fixture = Fixture::on(1).await;
    let (listener, provider) = fixture.process().await;
    let small = MaintenanceSettings { page: 5, ..settings() };
    let (maintenance, queue) = maintenance(&provider, &fixture.clock, small);
    let depth = |waiting| {
        Some(Depth {
            waiting,
            ..Depth::default()
        })
    };
    queue.set_depth(QueueName::works(), depth(200));
    queue.set_depth(QueueName::turns(), depth(0));
    for id in 2..202 {
        let queued = fixture.provider.enqueue_for_worker(activity("busy", id)).await;
        queued.expect("it is queued");
        fixture.clock.advance(Duration::from_millis(1));
    }
    enqueue(&fixture.provider, start_of("lost")).await;
    fixture.clock.advance(PERIOD);
    let report = run(&maintenance).await;
    assert_complete(&report);
    let woken: Vec<Wakeup> = queue.take().into_iter().map(|delayed| delayed.wakeup).collect();
    let turns: Vec<&Wakeup> = woken.iter().filter(|wakeup| wakeup.overdue).collect();
    assert_eq!(turns.len(), 1, "{woken:?}");
    assert_eq!(turns[0].target.instance(), "lost");
    assert_eq!(woken.len(), 2, "and a probe: {woken:?}");
    // Two pages of the mixed queue at most, and one of turns.
    listener.reset();
    fixture.clock.advance(PERIOD);
    let report = run(&maintenance).await;
    let pages = report.passes[&duroxide_lambda::internals::PassName::Sweep].pages;
    assert!(pages <= 4, "{pages} pages for a backlog of 200 with pages of 5");
    assert!(report.reminders_held > 0, "{report:?}");
}
