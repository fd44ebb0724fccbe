//! What is due: exact windows, the order over all ranges, pages, and held work.

use crate::support::*;
use cosmos::Clock;
use duroxide::providers::{Provider, WorkItem};
use duroxide_cosmos::{CosmosProvider, Cursor, DueItem, DuePage, DueWindow, PageRequest, Target, WorkTarget};
use std::collections::BTreeSet;
use std::time::Duration;
use tests::turns::*;
use tokio::time::Instant;

pub fn timer(instance: &str, fire_at_ms: u64) -> WorkItem {
    WorkItem::TimerFired {
        instance: instance.to_owned(),
        execution_id: 1,
        id: 2,
        fire_at_ms,
    }
}

/// Queues a timer that is due then.
pub async fn enqueue_timer(fixture: &Fixture, instance: &str, fire_at_ms: u64) {
    let delay = Duration::from_millis(fire_at_ms.saturating_sub(fixture.clock.now_ms()));
    let queued = fixture
        .provider
        .enqueue_for_orchestrator(timer(instance, fire_at_ms), Some(delay))
        .await;
    queued.expect("the timer is queued");
}

pub fn window(after_ms: u64, until_ms: u64) -> DueWindow {
    DueWindow { after_ms, until_ms }
}

async fn page(provider: &CosmosProvider, windows: &[DueWindow], most: u32, cursor: Option<Cursor>) -> DuePage {
    let page = PageRequest {
        cursor,
        ..page_of(most)
    };
    provider.due(windows, page).await.expect("the queues can be asked")
}

/// All pages; each must be in order and no longer than asked for.
pub async fn all(provider: &CosmosProvider, windows: &[DueWindow], most: u32) -> Vec<DueItem> {
    let (mut items, mut cursor) = (Vec::new(), None);
    loop {
        let page = page(provider, windows, most, cursor).await;
        assert!(page.items.len() <= (most * PARTITIONS) as usize, "{}", page.items.len());
        assert!(page.items.is_sorted_by_key(|item| item.due_ms), "{:?}", page.items);
        items.extend(page.items);
        cursor = page.cursor;
        if cursor.is_none() {
            return items;
        }
    }
}

fn names(items: &[DueItem]) -> Vec<&str> {
    items.iter().map(|item| item.target.instance()).collect()
}

#[tokio::test]
async fn windows_have_exact_boundaries() {
    let fixture = Fixture::new().await;
    let t = fixture.clock.now_ms() + 100_000;
    for n in 0..10 {
        enqueue_timer(&fixture, &format!("i{n}"), t + n).await;
    }
    let asked = [
        (vec![window(t + 2, t + 4)], vec!["i3", "i4"]),
        (vec![window(t, t + 1), window(t + 7, t + 8)], vec!["i1", "i8"]),
        (vec![window(0, t)], vec!["i0"]),
        // Windows that touch or overlap name nothing twice.
        (vec![window(t, t + 2), window(t + 2, t + 3)], vec!["i1", "i2", "i3"]),
        (vec![window(t, t + 2), window(t + 1, t + 3)], vec!["i1", "i2", "i3"]),
        (vec![window(t + 8, u64::MAX >> 11)], vec!["i9"]),
        (vec![window(t + 4, t + 4), window(t + 6, t + 5)], vec![]),
        (vec![], vec![]),
    ];
    for (windows, expected) in asked {
        let items = all(&fixture.provider, &windows, 100).await;
        assert_eq!(names(&items), expected, "{windows:?}");
    }
    let twenty: Vec<DueWindow> = (0..20).map(|n| window(t + n / 2, t + n / 2 + 1)).collect();
    assert_eq!(all(&fixture.provider, &twenty, 100).await.len(), 9);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_hundred_items_come_page_by_page_oldest_first_each_once_for_one_request_per_range() {
    let fixture = Fixture::new().await;
    let t = fixture.clock.now_ms();
    let mut expected = BTreeSet::new();
    for n in 0..300 {
        // Not in the order of their time, and some at the same.
        let due = t + (n * 7) % 150;
        enqueue_timer(&fixture, &format!("i{n}"), due).await;
        expected.insert((due, format!("i{n}")));
        if n == 9 || n == 299 {
            fixture.world.listener().reset();
            page(&fixture.provider, &[window(0, t + 1_000)], 5, None).await;
            let counts = fixture.world.listener().counts();
            assert_eq!(counts.cross_partition_queries, u64::from(PARTITIONS), "after {n}");
            assert!(counts.requests <= u64::from(PARTITIONS) + 1, "after {n}: {counts:?}");
        }
    }
    let first = page(&fixture.provider, &[window(0, t + 1_000)], 1, None).await;
    assert_eq!(first.items.first().map(|item| item.due_ms), Some(t));
    for most in [7, 1_000] {
        let items = all(&fixture.provider, &[window(0, t + 1_000)], most).await;
        assert_eq!(items.len(), 300, "pages of {most}");
        let found: BTreeSet<_> = items
            .into_iter()
            .map(|item| (item.due_ms, item.target.instance().to_owned()))
            .collect();
        assert_eq!(found, expected, "pages of {most}");
    }
}

#[tokio::test]
async fn changes_between_pages_hide_nothing() {
    let fixture = Fixture::new().await;
    let t = fixture.clock.now_ms();
    let start = async |name: String, due: u64| {
        let delay = Duration::from_millis(due - fixture.clock.now_ms());
        let queued = fixture.provider.enqueue_for_orchestrator(start_of(&name), Some(delay));
        queued.await.expect("it is queued");
    };
    for n in 0..30 {
        start(format!("old{n}"), t + n).await;
    }
    fixture.clock.advance(Duration::from_millis(15));
    let windows = [window(0, t + 1_000)];
    let (mut seen, mut cursor, mut served) = (BTreeSet::new(), None, 0);
    for round in 0.. {
        let page = page(&fixture.provider, &windows, 2, cursor).await;
        for item in &page.items {
            assert!(seen.insert(item.target.instance().to_owned()), "{item:?} twice");
        }
        // What was just named is served, and more comes before and behind the place.
        for item in page.items.iter().filter(|item| item.due_ms <= t + 15) {
            fixture.consume(item.target.instance()).await;
            served += 1;
        }
        for due in [t + 15, t + 900] {
            start(format!("new{round}-{due}"), due).await;
        }
        cursor = page.cursor;
        if cursor.is_none() {
            break;
        }
    }
    let old = seen.iter().filter(|name| name.starts_with("old")).count();
    assert_eq!((old, served >= 16), (30, true), "{seen:?}");
    let again = all(&fixture.provider, &windows, 3).await;
    let new = again
        .iter()
        .filter(|item| item.target.instance().starts_with("new"))
        .count();
    assert!(new >= 2, "what was added comes with the next search");
    assert!(!names(&again).contains(&"old0"), "what was served does not");
}

#[tokio::test]
async fn a_claimed_activity_is_due_when_its_lock_expires_and_not_before() {
    let fixture = Fixture::new().await;
    begin_with(&fixture.provider, "i", 1, named()).await;
    let queued = fixture.clock.now_ms();
    let activity = Target::Work(WorkTarget {
        instance: "i".to_owned(),
        execution: 1,
        activity: 2,
        ..WorkTarget::default()
    });
    let free = all(&fixture.provider, &[window(0, queued)], 10).await;
    assert_eq!(free.len(), 1);
    assert_eq!((&free[0].target, free[0].due_ms), (&activity, queued));
    fixture.clock.advance(Duration::from_secs(5));
    work(&fixture.provider, "i", 2).await;
    let until = fixture.clock.now_ms() + LOCK.as_millis() as u64;
    assert!(
        all(&fixture.provider, &[window(0, until - 1)], 10).await.is_empty(),
        "it is held"
    );
    let expired = all(&fixture.provider, &[window(until - 1, until)], 10).await;
    assert_eq!(expired.len(), 1);
    assert_eq!((&expired[0].target, expired[0].queued_ms), (&activity, Some(queued)));
    // An instance whose turn is under way is named all the same.
    enqueue(&fixture.provider, raised("i", "x")).await;
    turn(&fixture.provider, "i").await;
    let now = fixture.clock.now_ms();
    let named = all(&fixture.provider, &[window(0, now)], 10).await;
    assert!(matches!(named[0].target, Target::Turn { .. }), "{named:?}");
}

#[tokio::test]
async fn a_page_without_time_sends_no_request_and_keeps_its_cursor() {
    let fixture = Fixture::new().await;
    enqueue(&fixture.provider, start_of("i")).await;
    let windows = [window(0, fixture.clock.now_ms())];
    fixture.world.listener().reset();
    let late = PageRequest {
        deadline: Instant::now(),
        ..page_of(10)
    };
    let none = fixture.provider.due(&windows, late).await.expect("nothing is asked");
    assert_eq!((none.items.len(), fixture.world.listener().counts().requests), (0, 0));
    let rest = page(&fixture.provider, &windows, 10, none.cursor).await;
    assert_eq!(names(&rest.items), ["i"]);
}
