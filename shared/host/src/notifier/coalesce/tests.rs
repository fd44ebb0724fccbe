use super::*;
use crate::metrics::Metrics;
use crate::notifier::memory::Memory;
use crate::wakeup::Probe;
use duroxide_cosmos::WorkTarget;
use futures::future::join_all;

fn turn(instance: &str) -> Delayed {
    Delayed::now(Wakeup::turn(instance))
}

fn work(activity: u64) -> Delayed {
    Delayed::now(Wakeup::work(WorkTarget {
        instance: "i".to_owned(),
        execution: 1,
        activity,
        ..WorkTarget::default()
    }))
}

/// A turn wakeup after changes.
fn changed(change: impl FnOnce(&mut Delayed)) -> Delayed {
    let mut delayed = turn("i");
    change(&mut delayed);
    delayed
}

fn coalescer() -> (Arc<Coalescer>, Arc<Memory>) {
    let memory = Arc::new(Memory::new());
    let notifier = Arc::clone(&memory) as Arc<dyn crate::notifier::Notifier>;
    let metrics = Arc::new(Metrics::new(None));
    (
        Coalescer::new(BoundedNotifier::new(notifier, Duration::from_secs(1), metrics)),
        memory,
    )
}

const LEFT: Duration = Duration::from_secs(10);

#[test]
fn only_turn_wakeups_of_one_instance_without_delay_and_with_the_same_past_are_one() {
    let probe = Some(Probe {
        queue: "turn".to_owned(),
        sent_ms: 1,
    });
    for (other, is_one) in [
        (turn("i"), true),
        (turn("j"), false),
        (work(2), false),
        (changed(|it| it.delay = Duration::from_millis(1)), false),
        (changed(|it| it.wakeup.tries = 1), false),
        (changed(|it| it.wakeup.overdue = true), false),
        (changed(|it| it.wakeup.probe = probe), false),
        (changed(|it| it.wakeup.execution = Some(2)), true),
        (changed(|it| it.wakeup.due_ms = Some(2)), true),
    ] {
        let merged = merged(&[turn("i"), other.clone()]);
        assert_eq!(merged.wakeups.len(), if is_one { 1 } else { 2 }, "{other:?}");
        assert_eq!(merged.places, if is_one { [0, 0] } else { [0, 1] }, "{other:?}");
    }
    assert_eq!(
        merged(&[work(2), work(2)]).places,
        [0, 1],
        "activities are left as they are"
    );
}

#[test]
fn a_merged_wakeup_has_the_newest_token_all_due_times_and_the_highest_execution() {
    let wakeup = |token: Option<&str>, dues: &[u64], execution| {
        changed(|it| {
            it.wakeup.consistency_token = token.map(str::to_owned);
            it.wakeup.set_dues(dues);
            it.wakeup.execution = execution;
        })
    };
    let all = [
        wakeup(Some("0:-1#5"), &[30, 90], Some(1)),
        wakeup(Some("0:-1#7"), &[40], None),
        wakeup(None, &[20, 40], Some(2)),
    ];
    let expected = wakeup(Some("0:-1#7"), &[20, 30, 40, 90], Some(2));
    assert_eq!(merged(&all).wakeups, [expected]);
}

#[test]
fn what_is_due_at_once_does_not_wait_for_a_timer_that_is_merged_with_it() {
    let at = |dues: &[u64]| changed(|it| it.wakeup.set_dues(dues));
    for (all, dues) in [
        ([at(&[]), at(&[])], &[][..]),
        ([at(&[]), at(&[900])], &[0, 900]),
        ([at(&[900]), at(&[])], &[0, 900]),
    ] {
        assert_eq!(merged(&all).wakeups, [at(dues)]);
    }
}

#[test]
fn each_step_learns_which_of_its_own_wakeups_failed() {
    let all = [turn("a"), turn("b"), turn("a"), work(2)];
    let merged = merged(&all);
    let failed = [NotSent {
        wakeup: turn("a").wakeup,
        reason: "no".to_owned(),
    }];
    let failed_of = |own: Range<usize>| -> Vec<String> {
        let failures = merged.failures_of(&all, own, &failed);
        failures
            .iter()
            .map(|not| not.wakeup.target.instance().to_owned())
            .collect()
    };
    assert_eq!(failed_of(0..2), ["a"]);
    assert_eq!(failed_of(2..4), ["a"]);
    assert_eq!(failed_of(1..2), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn steps_that_end_within_some_milliseconds_send_one_wakeup() {
    let (coalescer, memory) = coalescer();
    let entered: Vec<UnderWay> = (0..10).map(|_| coalescer.enter()).collect();
    let steps = entered.into_iter().enumerate().map(|(n, step)| async move {
        tokio::time::sleep(Duration::from_millis(2 * n as u64)).await;
        step.notify(LEFT, vec![turn("i")]).await
    });
    let begun = Instant::now();
    assert!(join_all(steps).await.iter().all(Vec::is_empty));
    assert_eq!(memory.notified(), [turn("i")]);
    assert_eq!(begun.elapsed().as_millis(), 18, "the last one ends the waiting");
}

#[tokio::test(start_paused = true)]
async fn a_step_waits_for_others_only_while_they_are_under_way_and_not_for_long() {
    let (coalescer, memory) = coalescer();
    let begun = Instant::now();
    assert!(coalescer.enter().notify(LEFT, vec![turn("i")]).await.is_empty());
    assert_eq!((begun.elapsed(), memory.count()), (Duration::ZERO, 1), "alone");
    let long = coalescer.enter();
    assert!(coalescer.enter().notify(LEFT, vec![work(2)]).await.is_empty());
    assert_eq!(
        (begun.elapsed(), memory.count()),
        (Duration::ZERO, 2),
        "nothing to merge"
    );
    assert!(coalescer.enter().notify(LEFT, vec![turn("i")]).await.is_empty());
    assert!((QUIET..QUIET * 2).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    assert_eq!(memory.count(), 3);
    // What comes later is a wakeup of its own.
    assert!(long.notify(LEFT, vec![turn("i")]).await.is_empty());
    assert_eq!(memory.count(), 4);
}

#[tokio::test(start_paused = true)]
async fn steps_that_come_one_by_one_for_long_do_not_keep_the_first_waiting() {
    let (coalescer, memory) = coalescer();
    let entered: Vec<UnderWay> = (0..20).map(|_| coalescer.enter()).collect();
    let steps = entered.into_iter().enumerate().map(|(n, step)| async move {
        tokio::time::sleep(Duration::from_millis(4 * n as u64)).await;
        step.notify(LEFT, vec![turn("i")]).await;
        Instant::now()
    });
    let begun = Instant::now();
    let answered = join_all(steps).await;
    assert!(
        answered[0] - begun <= LONGEST + Duration::from_millis(1),
        "{:?}",
        answered[0] - begun
    );
    assert_eq!(memory.count(), 3, "76 ms are three times the longest wait");
}

#[tokio::test(start_paused = true)]
async fn no_step_has_its_answer_before_the_wakeup_was_sent_and_all_have_the_failure() {
    let (coalescer, memory) = coalescer();
    memory.hold();
    let steps: Vec<UnderWay> = (0..3).map(|_| coalescer.enter()).collect();
    let steps = steps
        .into_iter()
        .map(|step| step.notify(LEFT, vec![turn("i"), work(2)]));
    let answers = tokio::spawn(join_all(steps));
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!answers.is_finished(), "nothing was sent yet");
    memory.fail_next(1);
    memory.release();
    let answers = answers.await.expect("it ends");
    for failed in &answers {
        let failed: Vec<&Wakeup> = failed.iter().map(|failed| &failed.wakeup).collect();
        assert_eq!(failed, [&turn("i").wakeup], "the turn, not the activity");
    }
    assert_eq!(memory.count(), 3, "three activities");
}

#[tokio::test(start_paused = true)]
async fn a_step_whose_first_is_dropped_sends_its_own_wakeup() {
    let (coalescer, memory) = coalescer();
    let (first, second, third) = (coalescer.enter(), coalescer.enter(), coalescer.enter());
    let first = tokio::spawn(first.notify(LEFT, vec![turn("i")]));
    tokio::task::yield_now().await;
    let second = tokio::spawn(second.notify(LEFT, vec![turn("i")]));
    tokio::task::yield_now().await;
    first.abort();
    let second = tokio::time::timeout(LEFT, second)
        .await
        .expect("it does not wait for ever");
    assert!(second.expect("it ends").is_empty());
    assert_eq!(memory.count(), 1);
    assert!(third.notify(LEFT, vec![turn("i")]).await.is_empty());
    assert_eq!(memory.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_first_step_that_nobody_polls_holds_up_no_other() {
    let (coalescer, memory) = coalescer();
    let (first, second, third) = (coalescer.enter(), coalescer.enter(), coalescer.enter());
    let mut first = Box::pin(first.notify(LEFT, vec![turn("i")]));
    assert!(futures::poll!(&mut first).is_pending(), "it waits for others");
    let second = tokio::time::timeout(LEFT, second.notify(LEFT, vec![turn("i")])).await;
    assert!(second.expect("it does not wait for ever").is_empty());
    assert_eq!(memory.count(), 1);
    // Later ones do not wait at all.
    let begun = tokio::time::Instant::now();
    assert!(third.notify(LEFT, vec![turn("i")]).await.is_empty());
    assert_eq!((begun.elapsed(), memory.count()), (Duration::ZERO, 2));
    assert!(first.await.is_empty());
}
