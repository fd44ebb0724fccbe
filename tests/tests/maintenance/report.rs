//! The numbers of a report: right, and as cheap for three hundred as for ten.

use crate::due::enqueue_timer;
use crate::support::*;
use cosmos::Clock;
use cosmos_emulator::Refusing;
use duroxide::providers::{Provider, SessionFetchConfig};
use duroxide_cosmos::{Backlog, BacklogQuery, LookRequest};
use std::time::Duration;
use tests::turns::*;
use tokio::time::Instant;

/// The numbers, counted by the service. Those that are derived from a look must be the same.
async fn backlog(fixture: &Fixture, overdue_ms: u64, stuck_ms: u64) -> Backlog {
    let ask = BacklogQuery { overdue_ms, stuck_ms };
    let counted = counted(fixture, &ask).await;
    // A look that is whole, one that sees little of the future, and one that does not fit a page.
    for (ahead_ms, most) in [(3_600_000, 5_000), (0, 5_000), (3_600_000, 1)] {
        assert_eq!(
            derived(fixture, &ask, ahead_ms, most).await,
            counted,
            "{ahead_ms} {most}"
        );
    }
    counted
}

async fn counted(fixture: &Fixture, ask: &BacklogQuery) -> Backlog {
    fixture.provider.backlog(ask).await.expect("the store can be asked")
}

async fn derived(fixture: &Fixture, ask: &BacklogQuery, ahead_ms: u64, most: u32) -> Backlog {
    let now_ms = fixture.clock.now_ms();
    let request = LookRequest {
        now_ms,
        until_ms: now_ms + ahead_ms,
        most,
        deadline: Instant::now() + Duration::from_secs(60),
    };
    let look = fixture.provider.look(&request).await.expect("the store can be asked");
    let backlog = fixture.provider.backlog_of_look(&look, ask).await;
    backlog.expect("the store can be asked")
}

#[tokio::test]
async fn an_empty_store_has_nothing_to_report() {
    let fixture = Fixture::new().await;
    let now = fixture.clock.now_ms();
    assert_eq!(backlog(&fixture, now, now).await, Backlog::default());
}

#[tokio::test]
async fn due_pending_and_overdue_are_counted_apart_with_exact_boundaries() {
    let fixture = Fixture::new().await;
    let t = fixture.clock.now_ms();
    for n in 0..4 {
        enqueue_timer(&fixture, &format!("timer{n}"), t + n * 1_000).await;
    }
    fixture.clock.advance(Duration::from_millis(2_000));
    enqueue(&fixture.provider, raised("event", "")).await;
    let now = fixture.clock.now_ms();
    let report = backlog(&fixture, t + 1_000, 0).await;
    assert_eq!((report.turns_due, report.timers_pending), (4, 1), "{report:?}");
    assert_eq!(
        report.overdue_timers, 1,
        "one due at the border is not overdue: {report:?}"
    );
    assert_eq!(backlog(&fixture, t + 1_001, 0).await.overdue_timers, 2);
    assert_eq!(
        backlog(&fixture, now + 1, 0).await.overdue_timers,
        3,
        "the event is no timer"
    );
    assert_eq!((report.oldest_due_ms, report.stuck_instances), (Some(t), 0));
}

#[tokio::test]
async fn work_is_due_unless_it_is_claimed() {
    let fixture = Fixture::new().await;
    begin_with(&fixture.provider, "i", 3, named()).await;
    let t = fixture.clock.now_ms();
    assert_eq!(backlog(&fixture, 0, 0).await.works_due, 3);
    work(&fixture.provider, "i", 2).await;
    fixture.clock.advance(LOCK - Duration::from_millis(1));
    let report = backlog(&fixture, 0, 0).await;
    assert_eq!(
        (report.works_due, report.oldest_due_ms, report.timers_pending),
        (2, Some(t), 0)
    );
    fixture.clock.advance(Duration::from_millis(1));
    assert_eq!(backlog(&fixture, 0, 0).await.works_due, 3);
}

#[tokio::test]
async fn an_instance_is_stuck_when_something_waits_for_long_and_no_turn_is_under_way() {
    let fixture = Fixture::new().await;
    for name in ["stuck", "stuck", "held"] {
        enqueue(&fixture.provider, start_of(name)).await;
    }
    begin_with(&fixture.provider, "work", 2, named()).await;
    let t = fixture.clock.now_ms();
    fixture.clock.advance(Duration::from_secs(100));
    enqueue(&fixture.provider, raised("young", "")).await;
    turn(&fixture.provider, "held").await;
    assert_eq!(
        backlog(&fixture, 0, t).await.stuck_instances,
        0,
        "not before the border"
    );
    assert_eq!(
        backlog(&fixture, 0, t + 1).await.stuck_instances,
        2,
        "'stuck' once, and 'work'"
    );
    fixture.clock.advance(LATER);
    let now = fixture.clock.now_ms();
    assert_eq!(
        backlog(&fixture, 0, t + 1).await.stuck_instances,
        3,
        "the holder is gone"
    );
    assert_eq!(
        backlog(&fixture, 0, now + 1_000_000).await.stuck_instances,
        4,
        "and nothing that is not due"
    );
}

#[tokio::test]
async fn the_oldest_intent_is_as_old_as_its_commit_however_often_it_was_put_off() {
    let fixture = Fixture::new().await;
    let t = fixture.clock.now_ms();
    fixture.leave_starts_undelivered("first", &["broken"]).await;
    refuse(fixture.world.listener(), &["broken"], Refusing::with(403));
    fixture.clock.advance(OVERDUE);
    assert_eq!(deliver_all(&fixture.provider, 10).await.failed, 1);
    fixture.leave_starts_undelivered("second", &["a", "b"]).await;
    let report = backlog(&fixture, 0, 0).await;
    assert_eq!((report.outbox, report.oldest_intent_ms), (3, Some(t)), "{report:?}");
    fixture.clock.advance(MUCH_LATER);
    for _ in 0..5 {
        deliver_all(&fixture.provider, 10).await;
        fixture.clock.advance(MUCH_LATER);
    }
    let report = backlog(&fixture, 0, 0).await;
    assert_eq!(
        (report.outbox, report.oldest_intent_ms, report.dead_letters),
        (0, None, 1),
        "{report:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_report_costs_the_same_whatever_the_backlog() {
    let fixture = Fixture::new().await;
    let t = fixture.clock.now_ms();
    // The ranges are known from then on.
    backlog(&fixture, t, t).await;
    let mut costs = Vec::new();
    let mut queued: u64 = 0;
    for size in [10, 300] {
        let names: Vec<String> = (queued..size).map(|n| format!("target{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        fixture.leave_starts_undelivered(&format!("source{size}"), &names).await;
        for n in queued..size {
            enqueue_timer(&fixture, &format!("late{n}"), t).await;
            enqueue_timer(&fixture, &format!("later{n}"), t + 10_000_000).await;
            let item = activity(&format!("work{n}"), 1);
            fixture.provider.enqueue_for_worker(item).await.expect("it is queued");
        }
        queued = size;
        fixture.clock.advance(Duration::from_secs(10));
        fixture.world.listener().reset();
        let now = fixture.clock.now_ms();
        let ask = BacklogQuery {
            overdue_ms: now,
            stuck_ms: now,
        };
        let report = counted(&fixture, &ask).await;
        let counts = fixture.world.listener().counts();
        assert_eq!(backlog(&fixture, now, now).await, report);
        assert_eq!(
            (report.outbox, report.turns_due, report.works_due, report.timers_pending),
            (size, size, size, size),
            "{report:?}"
        );
        assert_eq!(
            (report.overdue_timers, report.stuck_instances),
            (size, 2 * size),
            "{report:?}"
        );
        costs.push((counts.requests, counts.cross_partition_queries));
    }
    let queries = 10 * u64::from(PARTITIONS);
    assert_eq!(costs, [(queries, queries); 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_and_many_dead_letters_and_far_intents_are_counted_alike() {
    let fixture = Fixture::new().await;
    let t = fixture.clock.now_ms();
    let mut dead_letters = 0;
    for size in [1, 40_u64] {
        let targets: Vec<String> = (0..size).map(|n| format!("broken-{size}-{n}")).collect();
        let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
        fixture
            .leave_starts_undelivered(&format!("source-{size}"), &targets)
            .await;
        refuse(fixture.world.listener(), &targets, Refusing::with(403));
        fixture.clock.advance(OVERDUE);
        assert_eq!(
            deliver_all(&fixture.provider, 100).await.failed,
            size,
            "they are put off"
        );
        fixture.world.listener().refuse_nothing();
        while dead_letters < size {
            crate::giving_up::give_up_turn(&fixture.provider, &format!("given-up-{dead_letters}"), "[]").await;
            dead_letters += 1;
        }
        enqueue_timer(&fixture, &format!("far-{size}"), t + 10_000_000_000).await;
        let report = backlog(&fixture, 0, 0).await;
        assert_eq!(report.dead_letters, size, "{report:?}");
        assert!(report.outbox >= size && report.oldest_intent_ms.is_some(), "{report:?}");
    }
}

#[tokio::test]
async fn expired_sessions_are_in_no_number() {
    let fixture = Fixture::new().await;
    let config = SessionFetchConfig {
        owner_id: "owner".to_owned(),
        lock_timeout: LOCK,
    };
    let claimed = fixture.provider.claim_session("session", &config).await;
    claimed.expect("the store can be reached");
    fixture.clock.advance(MUCH_LATER);
    let now = fixture.clock.now_ms();
    assert_eq!(backlog(&fixture, now, now).await, Backlog::default());
}
