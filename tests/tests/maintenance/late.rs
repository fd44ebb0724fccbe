//! Messages that are delivered long after they were queued: losing their wakeup costs what any lost wakeup costs, and the
//! time before their delivery does not count as lateness.

use crate::function::*;
use crate::support::*;
use cosmos::Clock;
use cosmos_emulator::Refusing;
use duroxide_cosmos::{DeadLetterId, Redriven};
use std::time::Duration;

const OUTAGE: Duration = Duration::from_secs(3 * 3_600);
const DAYS: Duration = Duration::from_secs(5 * 24 * 3_600);

/// A dead letter for a message to `target`, which is days old.
async fn old_dead_letter(fixture: &Fixture, target: &str) -> DeadLetterId {
    fixture.leave_starts_undelivered("source", &[target]).await;
    fixture.clock.advance(OVERDUE);
    let (listener, gives_up) = fixture.process().await;
    refuse(&listener, &[target], Refusing::partition_full());
    assert_eq!(deliver_all(&gives_up, 10).await.dead, 1);
    fixture.clock.advance(DAYS);
    let page = fixture
        .provider
        .dead_letters(10, None)
        .await
        .expect("dead letters are listed");
    page.dead_letters[0].id.clone()
}

#[tokio::test]
async fn the_next_run_wakes_the_target_of_a_late_delivery_whose_wakeup_was_lost() {
    let fixture = Fixture::new().await;
    let (maintenance, queue) = maintenance(&fixture.provider, &fixture.clock, settings());
    fixture.leave_starts_undelivered("source", &["target"]).await;
    assert_complete(&run(&maintenance).await);
    queue.take();
    fixture.clock.advance(OUTAGE);
    let report = run(&maintenance).await;
    assert_complete(&report);
    let delivered = queue.take();
    let named: Vec<_> = delivered
        .iter()
        .map(|delayed| (delayed.wakeup.target.instance(), delayed.wakeup.due_ms))
        .collect();
    // A function whose clock is behind must know that it came early.
    assert!(named.contains(&("target", Some(fixture.clock.now_ms()))), "{named:?}");
    let store = report.store.expect("there was time to count");
    assert_eq!(
        (store.messages_due, store.oldest_due_seconds, store.stuck_instances),
        (1, 0, 0)
    );
    // Those wakeups are lost.
    fixture.clock.advance(PERIOD);
    assert_complete(&run(&maintenance).await);
    assert_eq!(woken(&queue), ["target"]);
}

#[tokio::test]
async fn the_next_run_wakes_a_redriven_target_whose_wakeup_was_lost() {
    let fixture = Fixture::new().await;
    let (maintenance, queue) = maintenance(&fixture.provider, &fixture.clock, settings());
    let dead_letter = old_dead_letter(&fixture, "target").await;
    assert_complete(&run(&maintenance).await);
    queue.take();
    fixture.clock.advance(Duration::from_secs(20));
    let redriven = fixture.provider.redrive(&dead_letter).await.expect("it is redriven");
    assert!(matches!(redriven, Redriven::Delivered { .. }), "{redriven:?}");
    // No wakeup is sent for it.
    fixture.clock.advance(PERIOD);
    let report = run(&maintenance).await;
    assert_complete(&report);
    assert_eq!(woken(&queue), ["target"]);
    let store = report.store.expect("there was time to count");
    assert_eq!((store.oldest_due_seconds, store.stuck_instances), (60, 0));
}

#[tokio::test]
async fn the_age_of_a_redriven_intent_begins_with_its_redrive() {
    let fixture = Fixture::new().await;
    let dead_letter = old_dead_letter(&fixture, "target").await;
    refuse(fixture.world.listener(), &["target"], Refusing::with(403));
    let redriven = fixture.provider.redrive(&dead_letter).await.expect("it is redriven");
    assert!(matches!(redriven, Redriven::Undelivered { .. }), "{redriven:?}");
    fixture.clock.advance(PERIOD);
    fixture.leave_starts_undelivered("later", &["another"]).await;
    let (maintenance, _) = maintenance(&fixture.provider, &fixture.clock, settings());
    let store = run(&maintenance).await.store.expect("there was time to count");
    assert_eq!((store.outbox_depth, store.oldest_intent_seconds), (2, 60));
}
