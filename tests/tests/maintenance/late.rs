//! What is delivered long after it was queued: a wakeup for it that is lost costs what any lost wakeup costs, and nobody counts
//! the time in which it was not there.

use crate::function::*;
use crate::support::*;
use cosmos::Clock;
use cosmos_emulator::Refusing;
use duroxide_cosmos::{DeadLetterId, Redriven};
use std::time::Duration;

const OUTAGE: Duration = Duration::from_secs(3 * 3_600);
const DAYS: Duration = Duration::from_secs(5 * 24 * 3_600);

/// A dead letter for a message to `target`, which is days old.
async fn old_dead_letter(debts: &Debts, target: &str) -> DeadLetterId {
    debts.owe("source", &[target]).await;
    debts.clock.advance(OVERDUE);
    let (listener, buries) = debts.process().await;
    refuse(&listener, &[target], Refusing::partition_full());
    assert_eq!(deliver_all(&buries, 10).await.dead, 1);
    debts.clock.advance(DAYS);
    let page = debts
        .provider
        .dead_letters(10, None)
        .await
        .expect("dead letters are listed");
    page.dead_letters[0].id.clone()
}

#[tokio::test]
async fn a_message_that_is_delivered_after_an_outage_and_whose_wakeup_is_lost_is_notified_by_the_next_run() {
    let debts = Debts::new().await;
    let (maintenance, bell) = maintenance(&debts.provider, &debts.clock, settings());
    debts.owe("source", &["target"]).await;
    assert_complete(&run(&maintenance).await);
    bell.take();
    debts.clock.advance(OUTAGE);
    let report = run(&maintenance).await;
    assert_complete(&report);
    let delivered = bell.take();
    let told: Vec<_> = delivered
        .iter()
        .map(|delayed| (delayed.wakeup.target.instance(), delayed.wakeup.due_ms))
        .collect();
    // A function whose clock is behind must know that it came early.
    assert!(told.contains(&("target", Some(debts.clock.now_ms()))), "{told:?}");
    let store = report.store.expect("there was time to count");
    assert_eq!(
        (store.turns_due, store.oldest_due_seconds, store.stuck_instances),
        (1, 0, 0)
    );
    // Those wakeups are lost.
    debts.clock.advance(PERIOD);
    assert_complete(&run(&maintenance).await);
    assert_eq!(notified(&bell), ["target"]);
}

#[tokio::test]
async fn a_dead_letter_that_is_redriven_after_days_and_whose_wakeup_is_lost_is_notified_by_the_next_run() {
    let debts = Debts::new().await;
    let (maintenance, bell) = maintenance(&debts.provider, &debts.clock, settings());
    let dead_letter = old_dead_letter(&debts, "target").await;
    assert_complete(&run(&maintenance).await);
    bell.take();
    debts.clock.advance(Duration::from_secs(20));
    let redriven = debts.provider.redrive(&dead_letter).await.expect("it is redriven");
    assert!(matches!(redriven, Redriven::Delivered { .. }), "{redriven:?}");
    // Nobody wakeups for it.
    debts.clock.advance(PERIOD);
    let report = run(&maintenance).await;
    assert_complete(&report);
    assert_eq!(notified(&bell), ["target"]);
    let store = report.store.expect("there was time to count");
    assert_eq!((store.oldest_due_seconds, store.stuck_instances), (60, 0));
}

#[tokio::test]
async fn a_redriven_message_is_owed_since_its_redrive() {
    let debts = Debts::new().await;
    let dead_letter = old_dead_letter(&debts, "target").await;
    refuse(debts.world.listener(), &["target"], Refusing::with(403));
    let redriven = debts.provider.redrive(&dead_letter).await.expect("it is redriven");
    assert!(matches!(redriven, Redriven::Owed { .. }), "{redriven:?}");
    debts.clock.advance(PERIOD);
    debts.owe("later", &["another"]).await;
    let (maintenance, _) = maintenance(&debts.provider, &debts.clock, settings());
    let store = run(&maintenance).await.store.expect("there was time to count");
    assert_eq!((store.outbox_depth, store.oldest_intent_seconds), (2, 60));
}
