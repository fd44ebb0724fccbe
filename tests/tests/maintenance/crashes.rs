//! Crashes at each write of delivering, giving up and redriving; the next process completes it, once.

use crate::support::*;
use cosmos_emulator::{CrashPoint, Refusing};
use duroxide::providers::ProviderAdmin;
use duroxide_cosmos::{CosmosProvider, DeadLetterId, Redriven};
use std::collections::BTreeSet;

/// Runs `scene` for a process that crashes before and after each of its writes, until it survives. Answers how many
/// crashes there were.
pub async fn at_every_write<F: Future<Output = bool>>(scene: impl Fn(u64, CrashPoint) -> F) -> u64 {
    let scene = &scene;
    let points = BOTH.map(|point| async move {
        let mut crashes = 0;
        while scene(crashes + 1, point).await {
            crashes += 1;
            assert!(crashes < 40, "it writes for ever");
        }
        crashes
    });
    futures::future::join_all(points).await.into_iter().sum()
}

async fn only_dead_letter(provider: &CosmosProvider) -> DeadLetterId {
    let page = provider.dead_letters(10, None).await.expect("dead letters are listed");
    assert_eq!(page.dead_letters.len(), 1, "{page:?}");
    page.dead_letters[0].id.clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: a crash at each write"]
async fn a_delivery_that_crashes_at_any_write_is_completed_once() {
    let crashes = at_every_write(|n, point| async move {
        let fixture = Fixture::new().await;
        fixture.leave_starts_undelivered("one", &["a", "b"]).await;
        fixture.leave_starts_undelivered("two", &["c"]).await;
        fixture.clock.advance(OVERDUE);
        let (listener, crashing) = fixture.process().await;
        listener.crash_at_write(n, point);
        until_crash(&listener, crashing.maintain_outbox(page_of(10))).await;
        for target in ["a", "b", "c"] {
            fixture.consume(target).await;
        }
        fixture.clock.advance(MUCH_LATER);
        let pass = deliver_all(&fixture.provider, 10).await;
        assert_eq!((pass.failed, pass.dead), (0, 0), "{point:?} {n}: {pass:?}");
        for target in ["a", "b", "c"] {
            fixture.consume(target).await;
            assert_eq!(fixture.messages_of(target).await, 0, "{point:?} {n}: {target}");
            let history = fixture.provider.read_history(target).await.expect("it has begun");
            assert_eq!(history.len(), 1, "{point:?} {n}: {target} began twice");
        }
        assert!(
            fixture.intents().await.is_empty() && fixture.dead_letters().await.is_empty(),
            "{point:?} {n}"
        );
        listener.crashed()
    })
    .await;
    // Three deliveries, and a removal for each of two partitions.
    assert_eq!(crashes, 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn giving_up_that_crashes_at_any_write_leaves_one_dead_letter() {
    let crashes = at_every_write(|n, point| async move {
        let fixture = Fixture::new().await;
        fixture.leave_starts_undelivered("source", &["full"]).await;
        fixture.clock.advance(OVERDUE);
        let (listener, crashing) = fixture.process().await;
        for listener in [&listener, fixture.world.listener()] {
            refuse(listener, &["full"], Refusing::partition_full());
        }
        listener.crash_at_write(n, point);
        until_crash(&listener, crashing.maintain_outbox(page_of(10))).await;
        let (dead_letters, intents) = (fixture.dead_letters().await.len(), fixture.intents().await.len());
        assert_eq!(dead_letters + intents, 1, "{point:?} {n}: never both, never none");
        fixture.clock.advance(MUCH_LATER);
        deliver_all(&fixture.provider, 10).await;
        assert_eq!(
            (fixture.dead_letters().await.len(), fixture.intents().await.len()),
            (1, 0),
            "{point:?} {n}"
        );
        listener.crashed()
    })
    .await;
    assert_eq!(crashes, 2, "it is one batch");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_delivery_that_crashes_at_any_write_counts_at_most_once() {
    let crashes = at_every_write(|n, point| async move {
        let fixture = Fixture::new().await;
        fixture.leave_starts_undelivered("source", &["broken"]).await;
        fixture.clock.advance(OVERDUE);
        let (listener, crashing) = fixture.process().await;
        refuse(&listener, &["broken"], Refusing::with(403));
        listener.crash_at_write(n, point);
        until_crash(&listener, crashing.maintain_outbox(page_of(10))).await;
        let attempts = fixture.intents().await[0]["attempts"].as_u64().unwrap_or(0);
        let expected = u64::from(!(listener.crashed() && point == CrashPoint::BeforeApplied));
        assert_eq!(attempts, expected, "{point:?} {n}");
        fixture.clock.advance(MUCH_LATER);
        assert_eq!(deliver_all(&fixture.provider, 10).await.done, 1, "{point:?} {n}");
        listener.crashed()
    })
    .await;
    assert_eq!(crashes, 2);
}

/// A dead letter for a message to `target`.
async fn undeliverable(fixture: &Fixture, target: &str) -> DeadLetterId {
    fixture.leave_starts_undelivered("source", &[target]).await;
    fixture.clock.advance(OVERDUE);
    let (listener, gives_up) = fixture.process().await;
    refuse(&listener, &[target], Refusing::partition_full());
    assert_eq!(deliver_all(&gives_up, 10).await.dead, 1);
    only_dead_letter(&fixture.provider).await
}

/// The instances whose names begin like this.
async fn named_like(fixture: &Fixture, prefix: &str) -> BTreeSet<String> {
    let all = fixture.world.documents().await;
    let names = all.iter().filter_map(|doc| doc["pk"].as_str());
    names
        .filter(|name| name.starts_with(prefix))
        .map(str::to_owned)
        .collect()
}

/// Redrives in a process that crashes at a write, then in one that does not; answers whether it crashed. One instance whose name
/// begins with `target` must begin, once.
async fn redrive_twice(fixture: &Fixture, id: &DeadLetterId, target: &str, n: u64, point: CrashPoint) -> bool {
    let context = format!("{point:?} {n}");
    let (listener, crashing) = fixture.process().await;
    listener.crash_at_write(n, point);
    until_crash(&listener, crashing.redrive(id)).await;
    for reached in named_like(fixture, target).await {
        fixture.consume(&reached).await;
    }
    let again = fixture.provider.redrive(id).await.expect("the store is there");
    assert!(!matches!(again, Redriven::Undelivered { .. }), "{context}: {again:?}");
    fixture.clock.advance(MUCH_LATER);
    deliver_all(&fixture.provider, 10).await;
    let reached = named_like(fixture, target).await;
    assert_eq!(reached.len(), 1, "{context}: {reached:?}");
    for instance in &reached {
        fixture.consume(instance).await;
        assert_eq!(fixture.messages_of(instance).await, 0, "{context}");
        let history = fixture.provider.read_history(instance).await.expect("it has begun");
        assert_eq!(history.len(), 1, "{context}: {instance} began twice");
    }
    assert!(
        fixture.dead_letters().await.is_empty() && fixture.intents().await.is_empty(),
        "{context}"
    );
    listener.crashed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: a crash at each write"]
async fn a_redrive_of_a_message_that_crashes_at_any_write_delivers_it_once() {
    let crashes = at_every_write(|n, point| async move {
        let fixture = Fixture::new().await;
        let id = undeliverable(&fixture, "target").await;
        redrive_twice(&fixture, &id, "target", n, point).await
    })
    .await;
    assert_eq!(crashes, 6, "the batch, the delivery, the removal of the intent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: a crash at each write"]
async fn a_redrive_of_a_given_up_turn_that_crashes_at_any_write_starts_one_instance() {
    let crashes = at_every_write(|n, point| async move {
        let fixture = Fixture::new().await;
        crate::giving_up::give_up_turn(&fixture.provider, "bad", "[]").await;
        let id = only_dead_letter(&fixture.provider).await;
        redrive_twice(&fixture, &id, "bad~", n, point).await
    })
    .await;
    assert_eq!(crashes, 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_redrives_at_once_one_finds_nothing_left() {
    let fixture = Fixture::new().await;
    let id = undeliverable(&fixture, "target").await;
    let (listener, late) = fixture.process().await;
    // It has read the dead letter, and its batch is paused.
    let pause = listener.pause_when(|log| log.len() == 1);
    let dead_letter = id.clone();
    let redriving = tokio::spawn(async move { late.redrive(&dead_letter).await });
    assert!(tests::is_paused(&pause, &redriving).await);
    let first = fixture.provider.redrive(&id).await.expect("it can be redriven");
    let instance = "target".to_owned();
    assert_eq!(first, Redriven::Delivered { instance });
    fixture.consume("target").await;
    drop(pause);
    let second = redriving.await.expect("it ends").expect("it can be redriven");
    assert_eq!(second, Redriven::Gone);
    assert_eq!(fixture.messages_of("target").await, 0);
    assert!(fixture.dead_letters().await.is_empty() && fixture.intents().await.is_empty());
}
