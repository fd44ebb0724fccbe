//! The steps of a batch: their pace, two at once, cancellation, lost wakeups, what they cost.

use super::support::*;
use crate::pause::support::Scene;
use duroxide_cosmos::{BatchCancelled, BatchStarted, BatchState, InstanceFilter, InstanceStatus, PageRequest, Target};
use std::time::Duration;
use tests::cost::cost_of;
use tests::turns::*;
use tokio::time::Instant;

/// When the next step of the batch is due, after a step.
fn next_of(step: &duroxide_cosmos::BatchStep) -> Option<u64> {
    let mut own = step.due.iter().filter(|due| matches!(due.target, Target::Batch { .. }));
    own.next().and_then(|due| due.at_ms)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_keeps_its_rate_by_the_times_of_its_steps() {
    let scene = Scene::new().await;
    running(&scene, 12).await;
    start(&scene, "b", &request(pause(), all())).await;
    let first = step(&scene.provider, "b").await;
    assert_eq!(
        (first.handled, next_of(&first)),
        (0, Some(now(&scene))),
        "it only plans"
    );
    // Four in a second. By this clock a step takes no time, so nothing is taken off but what it really took.
    let second = step(&scene.provider, "b").await;
    let next = next_of(&second).expect("a next step");
    assert_eq!(second.handled, 4);
    assert!(next <= now(&scene) + 1_000 && next > now(&scene), "{next}");
    let early = step(&scene.provider, "b").await;
    match next > now(&scene) + 500 {
        true => assert!(
            !early.advanced && early.due.is_empty(),
            "a step that comes early does nothing: {early:?}"
        ),
        false => assert!(early.advanced),
    }
    scene.clock.advance(Duration::from_secs(2));
    let third = step_with(&scene.provider, "b", 0, true).await;
    let next = next_of(&third).unwrap_or(now(&scene) + 1_000);
    assert!(next >= now(&scene) + 1_000, "the store throttles: {next}");
    scene.clock.advance(Duration::from_secs(5));
    let fourth = step_with(&scene.provider, "b", 5_000, false).await;
    let slowed = batch(&scene, "b").await;
    if !slowed.state.has_ended() {
        assert!(slowed.is_slowed);
        assert!(
            next_of(&fourth).expect("a next step") >= now(&scene) + 2_000,
            "turns are late"
        );
    }
    is_completed(&finish(&scene, &scene.provider, "b").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_costs_a_read_its_actions_a_search_and_a_write() {
    let scene = Scene::new().await;
    running(&scene, 8).await;
    start(&scene, "b", &request(cancel(), all())).await;
    step(&scene.provider, "b").await;
    scene.clock.advance(AFTER_ANY_PAUSE);
    let (listener, process) = scene.process(Duration::from_secs(30)).await;
    let (done, cost) = cost_of(&listener, step(&process, "b")).await;
    assert_eq!(done.handled, 4);
    assert!(done.due.len() == 5, "four instances and the batch: {:?}", done.due);
    let requests = cost.kinds.len();
    // One read of the job, four cancellations, one query per physical partition and their list, one write.
    assert!((7..=13).contains(&requests), "{requests}: {cost:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_steps_at_once_one_makes_progress_and_each_instance_is_handled_once() {
    let scene = Scene::new().await;
    running(&scene, 4).await;
    start(&scene, "b", &request(raise(), all())).await;
    step(&scene.provider, "b").await;
    scene.clock.advance(AFTER_ANY_PAUSE);
    let (_, other) = scene.process(Duration::from_secs(30)).await;
    let (one, two) = tokio::join!(step(&scene.provider, "b"), step(&other, "b"));
    assert_eq!(
        [one.advanced, two.advanced].into_iter().filter(|is| *is).count(),
        1,
        "{one:?} {two:?}"
    );
    let loser = if one.advanced { two } else { one };
    assert!(loser.due.is_empty(), "who lost sends no wakeup");
    scene.clock.advance(AFTER_ANY_PAUSE);
    let done = finish(&scene, &scene.provider, "b").await;
    assert_eq!(counts(&done), [4, 4, 0, 0, 0]);
    let raised = messages(&scene, "ExternalRaised").await;
    assert!(
        raised.len() == 4 && raised.iter().all(|(_, count)| *count == 1),
        "{raised:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_batch_stops_and_says_what_it_has_done() {
    let scene = Scene::new().await;
    running(&scene, 12).await;
    start(&scene, "b", &request(pause(), all())).await;
    step(&scene.provider, "b").await;
    scene.clock.advance(AFTER_ANY_PAUSE);
    step(&scene.provider, "b").await;
    let cancelled = scene.provider.cancel_batch("b").await.expect("the store answers");
    assert!(matches!(cancelled, BatchCancelled::Accepted(_)), "{cancelled:?}");
    let again = scene.provider.cancel_batch("b").await.expect("the store answers");
    assert!(
        matches!(again, BatchCancelled::Accepted(_)),
        "it may be repeated: {again:?}"
    );
    let last = step(&scene.provider, "b").await;
    assert!(last.advanced && last.due.is_empty(), "{last:?}");
    let ended = batch(&scene, "b").await;
    assert_eq!((ended.state, counts(&ended)), (BatchState::Cancelled, [4, 4, 0, 0, 0]));
    let late = scene.provider.cancel_batch("b").await.expect("the store answers");
    assert!(matches!(late, BatchCancelled::Ended(_)), "{late:?}");
    let none = scene.provider.cancel_batch("none").await.expect("the store answers");
    assert_eq!(none, BatchCancelled::NotFound);
    assert!(!step(&scene.provider, "b").await.advanced, "nothing follows");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_that_is_under_way_when_its_batch_is_cancelled_counts_what_it_does() {
    let scene = Scene::new().await;
    running(&scene, 12).await;
    start(&scene, "b", &request(pause(), all())).await;
    step(&scene.provider, "b").await;
    scene.clock.advance(AFTER_ANY_PAUSE);
    let (listener, process) = scene.process(Duration::from_secs(60)).await;
    // It has read the batch, and waits with the first instance until the batch is cancelled.
    let waits = listener.pause_when(|requests| !requests.is_empty());
    let under_way = tokio::spawn(async move { step(&process, "b").await });
    assert!(tests::is_paused(&waits, &under_way).await);
    scene.provider.cancel_batch("b").await.expect("the store answers");
    drop(waits);
    assert!(under_way.await.expect("no panic").advanced);
    let ended = batch(&scene, "b").await;
    assert_eq!((ended.state, counts(&ended)), (BatchState::Cancelled, [4, 4, 0, 0, 0]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_whose_wakeup_is_lost_is_woken_by_maintenance_and_not_before() {
    let scene = Scene::new().await;
    running(&scene, 2).await;
    start(&scene, "b", &request(pause(), all())).await;
    let woken = async || {
        let request = PageRequest {
            most: 100,
            cursor: None,
            deadline: Instant::now() + Duration::from_secs(60),
        };
        let pass = scene
            .provider
            .maintain_unfinished(request)
            .await
            .expect("the pass runs");
        assert_eq!(pass.failed, 0, "{pass:?}");
        let id = "b".to_owned();
        pass.due
            .iter()
            .filter(|due| due.target == Target::Batch { id: id.clone() })
            .count()
    };
    scene.clock.advance(Duration::from_secs(30));
    assert_eq!(woken().await, 0, "its wakeup may still be under way");
    scene.clock.advance(Duration::from_secs(30));
    assert_eq!(woken().await, 1);
    is_completed(&finish(&scene, &scene.provider, "b").await);
    scene.clock.advance(Duration::from_secs(3_600));
    assert_eq!(woken().await, 0, "nothing is due after its end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_is_begun_once_for_its_key_and_listed() {
    let scene = Scene::new().await;
    let one = request(pause(), of_status(InstanceStatus::Running));
    let start = async |id: &str, request| {
        scene
            .provider
            .start_batch(id, request)
            .await
            .expect("the store answers")
    };
    assert_eq!(start("a", &one).await, BatchStarted::Accepted);
    assert_eq!(start("a", &one).await, BatchStarted::Repeated);
    let other = request(resume(), of_status(InstanceStatus::Running));
    assert_eq!(start("a", &other).await, BatchStarted::KeyReused);
    for n in 0..5 {
        scene.clock.advance(Duration::from_secs(1));
        assert_eq!(start(&format!("b{n}"), &other).await, BatchStarted::Accepted);
    }
    assert_eq!(listed(&scene, 2).await, ["b4", "b3", "b2", "b1", "b0", "a"]);
    // Several of one moment.
    for n in 0..5 {
        assert_eq!(start(&format!("c{n}"), &other).await, BatchStarted::Accepted);
    }
    for limit in 1..7 {
        let mut names = listed(&scene, limit).await;
        assert_eq!(names[5..], ["b4", "b3", "b2", "b1", "b0", "a"], "{limit} at a time");
        names.truncate(5);
        names.sort();
        assert_eq!(names, ["c0", "c1", "c2", "c3", "c4"], "{limit} at a time");
    }
    assert_eq!(scene.provider.batch("a/b").await.expect("no such id"), None);
    assert!(scene.provider.start_batch("a/b", &other).await.is_err());
}

/// The names of all batches, so many at a time.
async fn listed(scene: &Scene, limit: u32) -> Vec<String> {
    let (mut names, mut cursor) = (Vec::new(), None);
    loop {
        let page = scene.provider.batches(cursor, limit).await.expect("a page");
        assert!(page.batches.len() <= limit as usize);
        names.extend(page.batches.into_iter().map(|batch| batch.id));
        cursor = page.next;
        if cursor.is_none() {
            return names;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_cannot_be_reached_is_tried_again_and_then_fails_alone() {
    let scene = Scene::new().await;
    running(&scene, 4).await;
    start(&scene, "b", &request(cancel(), all())).await;
    step(&scene.provider, "b").await;
    scene.clock.advance(AFTER_ANY_PAUSE);
    let (listener, process) = scene.process(Duration::from_millis(400)).await;
    listener.refuse_when(|request| {
        let is_victim = request.partition_key.as_ref().is_some_and(|pk| pk.contains("i-2"));
        is_victim.then(|| cosmos_emulator::Refusing::with(503))
    });
    let done = finish(&scene, &process, "b").await;
    is_completed(&done);
    assert_eq!(counts(&done), [4, 3, 0, 0, 1]);
    let failures = scene
        .provider
        .batch_failures("b", 0, 10)
        .await
        .expect("the store answers");
    let failures = failures.expect("it is there").failures;
    assert_eq!((failures.len(), failures[0].instance.as_str()), (1, "i-2"));
    assert_eq!(messages(&scene, "CancelInstance").await.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_with_the_name_of_the_partition_shares_nothing_with_the_batches() {
    let scene = Scene::new().await;
    begin_with(&scene.provider, "duroxide:batches", 0, ended("Completed", "out")).await;
    let filter = InstanceFilter {
        prefix: Some("duroxide:".to_owned()),
        ..all()
    };
    start(&scene, "b", &request(delete(), filter)).await;
    let done = finish(&scene, &scene.provider, "b").await;
    is_completed(&done);
    assert_eq!(counts(&done), [1, 1, 0, 0, 0]);
    assert_eq!(status(&scene, "duroxide:batches").await, None);
}
