//! Thousands of each thing that a run repairs, and ten thousand timers that it leaves alone.

use crate::bounded::neglect;
use crate::function::*;
use crate::support::*;
use cosmos::Clock;
use cosmos_emulator::Listener;
use duroxide::providers::Provider;
use duroxide_lambda::MaintenanceSettings;
use duroxide_lambda::internals::PassName;
use duroxide_lambda::internals::{Budget, MaintenanceRequest};
use futures::StreamExt as _;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tests::turns::raised;

const MANY: usize = 10_000;
/// What a run keeps back of its time.
const RESERVED: Duration = Duration::from_secs(3);
/// So many that a batch, for which the emulator copies a whole physical partition, is no burden.
const RANGES: u32 = 12;
const BUSY: [PassName; 3] = [PassName::Outbox, PassName::Sessions, PassName::Sweep];

/// What draining takes.
#[derive(Debug)]
struct Drained {
    runs: u32,
    requests_per_item: f64,
}

/// Runs until nothing is left of `count` things of each kind. Each run has enough time or, if `is_short`, half of the time
/// that it took to make them: in proportion to the machine, and less than one run needs for all.
async fn drain(count: usize, is_short: bool) -> Drained {
    let begun = Instant::now();
    let fixture = Fixture::on(RANGES).await;
    neglect(&fixture, count).await;
    let time = if is_short {
        RESERVED + begun.elapsed() / 2
    } else {
        ENOUGH
    };
    println!("{count} of each were left in {:?}; runs of {time:?}", begun.elapsed());
    let (listener, provider) = fixture.process().await;
    let (maintenance, queue) = maintenance(&provider, &fixture.clock, MaintenanceSettings::default());
    listener.reset();
    let request = MaintenanceRequest {
        passes: BUSY.to_vec(),
        ..MaintenanceRequest::default()
    };
    let mut wakeups: BTreeMap<String, u32> = BTreeMap::new();
    // Without its state the next sweep covers the same time again.
    let (mut runs, mut is_swept_again) = (0, false);
    let mut stuck: BTreeMap<PassName, u32> = BTreeMap::new();
    loop {
        let begun = Instant::now();
        let report = maintenance.run(request.clone(), Budget::of(time)).await;
        runs += 1;
        // Everything that a run waits for ends by a timer, to which a busy machine may add.
        assert!(begun.elapsed() < time * 2, "{:?}", begun.elapsed());
        for delayed in queue.take() {
            *wakeups.entry(delayed.wakeup.target.instance().to_owned()).or_default() += 1;
        }
        let most = report.passes.values().map(|pass| pass.pages).max();
        for (pass, result) in &report.passes {
            // What has something left had its page in every round, unless the store was too slow for it.
            let is_fair = !result.left_over || result.error.is_some() || Some(result.pages + 1) >= most;
            assert!(is_fair, "{pass:?} starves: {report:?}");
            let stuck = stuck.entry(*pass).or_default();
            *stuck = if result.left_over && result.done == 0 {
                *stuck + 1
            } else {
                0
            };
            // A pass that is slower than its share has the first half of the next run. A machine that is busy for a
            // moment may cost it that too, and the store's answer.
            assert!(*stuck <= 3, "{pass:?} got nowhere in {stuck} runs: {report:?}");
        }
        is_swept_again |= report.passes[&PassName::Sweep].error.is_some();
        println!(
            "run {runs}, {:?}: {:?}",
            begun.elapsed(),
            BUSY.map(|pass| report.passes[&pass].done)
        );
        if !report.left_over {
            break;
        }
        assert!(runs < 100, "it comes to an end: {report:?}");
    }
    check(&fixture, &wakeups, count, is_swept_again).await;
    Drained {
        runs,
        requests_per_item: requests(&listener) / (3 * count) as f64,
    }
}

/// Everything is repaired, and each target woken: once, unless an intent was delivered again after its run was cut short.
async fn check(fixture: &Fixture, wakeups: &BTreeMap<String, u32>, count: usize, is_swept_again: bool) {
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for doc in fixture.world.documents().await {
        *kinds
            .entry(doc["type"].as_str().unwrap_or_default().to_owned())
            .or_default() += 1;
    }
    assert_eq!(
        (kinds.get("intent"), kinds.get("session"), kinds.get("dead-letter")),
        (None, None, None),
        "{kinds:?}"
    );
    assert_eq!(
        kinds["message"],
        2 * count,
        "delivered once, and none is lost: {kinds:?}"
    );
    let named = |prefix: &str| {
        wakeups
            .iter()
            .filter(|(name, _)| name.starts_with(prefix))
            .collect::<Vec<_>>()
    };
    assert_eq!((named("t").len(), named("lost").len()), (count, count), "all are woken");
    let twice: Vec<_> = named("lost").into_iter().filter(|(_, times)| **times > 1).collect();
    assert!(
        is_swept_again || twice.is_empty(),
        "the sweep sends one wakeup each: {twice:?}"
    );
}

fn requests(listener: &Listener) -> f64 {
    listener.counts().requests as f64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_of_each_are_drained_fairly() {
    drain(200, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: 5,000 of each; MAINTENANCE_ITEMS sets another number"]
async fn thousands_of_each_are_drained_fairly_by_runs_that_keep_their_time() {
    // The time grows with the square: for each batch the emulator copies a physical partition.
    let count = std::env::var("MAINTENANCE_ITEMS").map_or(5_000, |count| count.parse().expect("a number"));
    let few = drain(count / 20, false).await;
    let many = drain(count, true).await;
    println!("few: {few:?}, many: {many:?}");
    assert!(many.runs > 1, "the budget was too large to show anything");
    assert!(
        many.requests_per_item <= few.requests_per_item * 1.2,
        "few: {few:?}, many: {many:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: 10,000 timers"]
async fn ten_thousand_far_timers_cost_no_wakeup_until_they_are_near_and_then_one_each() {
    const FAR: Duration = Duration::from_secs(7_200);
    let fixture = Fixture::on(RANGES).await;
    let begun = fixture.clock.now_ms();
    let timers = (0..MANY).map(|n| {
        if n % 10 == 0 {
            fixture.clock.advance(Duration::from_millis(1));
        }
        fixture
            .provider
            .enqueue_for_orchestrator(raised(&format!("far-{n}"), "x"), Some(FAR))
    });
    let queued: Vec<_> = futures::stream::iter(timers).buffer_unordered(64).collect().await;
    assert!(queued.into_iter().all(|queued| queued.is_ok()));
    let (listener, provider) = fixture.process().await;
    let (maintenance, queue) = maintenance(&provider, &fixture.clock, MaintenanceSettings::default());
    let near = MaintenanceSettings::default().ahead();
    let mut costs = Vec::new();
    // A run now and then, the last of them just before the first timer is near.
    for _ in 0..5 {
        listener.reset();
        assert_complete(&run(&maintenance).await);
        costs.push(requests(&listener));
        assert_eq!(queue.count(), 0, "nothing is near");
        fixture.clock.advance((FAR - near - PERIOD) / 5);
    }
    let idle = costs[1];
    assert!(
        costs.iter().all(|cost| *cost <= idle * 1.5),
        "a run costs what an idle one does: {costs:?}"
    );
    while fixture.clock.now_ms() < begun + FAR.as_millis() as u64 - PERIOD.as_millis() as u64 {
        fixture.clock.advance(PERIOD);
        assert_complete(&run(&maintenance).await);
    }
    let wakeups = queue.take();
    let now = fixture.clock.now_ms();
    assert!(
        wakeups.iter().all(|delayed| delayed.wakeup.due_ms > Some(now)),
        "all are woken ahead"
    );
    let mut times: BTreeMap<String, u32> = BTreeMap::new();
    for delayed in &wakeups {
        *times.entry(delayed.wakeup.target.instance().to_owned()).or_default() += 1;
    }
    assert_eq!(times.len(), MANY, "all are woken");
    assert_eq!(wakeups.len(), MANY, "once each");
}
