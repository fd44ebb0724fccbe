//! The outbox: intents are delivered late, retried later when they fail, given up in the end, and never block others.

use crate::support::*;
use cosmos::{Clock, PartitionKey, Retry};
use cosmos_emulator::{Faults, Refusing};
use duroxide::providers::Provider as _;
use duroxide_cosmos::{Cursor, DeadLetterKind, Due, Outbox, PageRequest};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tests::connect;
use tests::turns::LOCK;
use tokio::time::Instant;

#[tokio::test]
async fn an_overdue_intent_is_delivered_with_its_target_and_not_before() {
    let fixture = Fixture::new().await;
    fixture.leave_starts_undelivered("source", &["target"]).await;
    let early = deliver_all(&fixture.provider, 10).await;
    assert_eq!(totals(&early), (0, 0, 0, 0), "its maker may still be at it");
    fixture.clock.advance(OVERDUE);
    let pass = deliver_all(&fixture.provider, 10).await;
    assert_eq!(
        (totals(&pass), pass.due.as_slice()),
        ((1, 1, 0, 0), &[Due::turn("target")][..])
    );
    assert_eq!(fixture.messages_of("target").await, 1);
    assert!(fixture.intents().await.is_empty());
}

#[tokio::test]
async fn failed_deliveries_are_retried_at_growing_intervals_and_end_as_a_dead_letter() {
    let fixture = Fixture::new().await;
    fixture.leave_starts_undelivered("source", &["broken"]).await;
    let new = &fixture.intents().await[0];
    assert!(
        new["attempts"].is_null() && new["lastError"].is_null(),
        "the maker counts nothing: {new}"
    );
    refuse(fixture.world.listener(), &["broken"], Refusing::with(403));
    fixture.clock.advance(OVERDUE);
    for (attempt, wait) in [(1, 10), (2, 20), (3, 40), (4, 40)] {
        let wait = Duration::from_secs(wait);
        let pass = deliver_all(&fixture.provider, 10).await;
        assert_eq!(totals(&pass), (1, 0, 1, 0), "attempt {attempt}");
        let intent = &fixture.intents().await[0];
        assert_eq!(intent["attempts"], attempt);
        assert!(
            intent["lastError"]
                .as_str()
                .is_some_and(|error| error.contains("forbidden")),
            "{intent}"
        );
        let left = intent["dueAt"].as_u64().map(|due| due - fixture.clock.now_ms());
        assert_eq!(left, Some(wait.as_millis() as u64), "attempt {attempt}");
        fixture.clock.advance(wait - Duration::from_millis(1));
        assert_eq!(
            deliver_all(&fixture.provider, 10).await.found,
            0,
            "attempt {attempt} came early"
        );
        fixture.clock.advance(Duration::from_millis(1));
    }
    let pass = deliver_all(&fixture.provider, 10).await;
    assert_eq!(totals(&pass), (1, 0, 0, 1));
    assert!(fixture.intents().await.is_empty());
    let page = fixture
        .provider
        .dead_letters(10, None)
        .await
        .expect("dead letters are listed");
    let [dead_letter] = page.dead_letters.as_slice() else {
        panic!("{page:?}")
    };
    assert_eq!(
        (dead_letter.kind, dead_letter.attempts),
        (DeadLetterKind::Undeliverable, 5)
    );
    assert_eq!(
        (dead_letter.id.instance.as_str(), dead_letter.target.as_deref()),
        ("source", Some("broken"))
    );
    assert_eq!(
        (dead_letter.name.as_deref(), dead_letter.at_ms),
        (Some("Sample"), fixture.clock.now_ms())
    );
    for part in ["instance 'broken'", "5 attempts", "forbidden"] {
        assert!(dead_letter.reason.contains(part), "{}", dead_letter.reason);
    }
}

#[tokio::test]
async fn what_can_never_be_delivered_is_given_up_at_once() {
    for how in [Refusing::partition_full(), Refusing::with(400), Refusing::with(413)] {
        let fixture = Fixture::new().await;
        fixture.leave_starts_undelivered("source", &["hopeless"]).await;
        refuse(fixture.world.listener(), &["hopeless"], how);
        fixture.clock.advance(OVERDUE);
        let pass = deliver_all(&fixture.provider, 10).await;
        assert_eq!(totals(&pass), (1, 0, 0, 1), "{how:?}");
        let dead_letters = fixture.dead_letters().await;
        assert_eq!((dead_letters.len(), fixture.intents().await.len()), (1, 0), "{how:?}");
        let reason = dead_letters[0]["givenUp"]["reason"].as_str().expect("a reason");
        assert!(reason.contains("can never be delivered"), "{reason}");
    }
}

#[tokio::test]
async fn a_polling_sweep_counts_attempts_and_gives_up_like_the_pass() {
    let fixture = Fixture::new().await;
    fixture
        .leave_starts_undelivered("source", &["broken", "hopeless", "fine"])
        .await;
    let (broken, hopeless) = (header("broken"), header("hopeless"));
    fixture
        .world
        .listener()
        .refuse_when(move |request| match request.partition_key.as_ref() {
            Some(pk) if *pk == broken => Some(Refusing::with(403)),
            Some(pk) if *pk == hopeless => Some(Refusing::with(400)),
            _ => None,
        });
    fixture.clock.advance(OVERDUE);
    let polled = fixture
        .provider
        .fetch_orchestration_item(LOCK, Duration::ZERO, None)
        .await;
    let (item, _, _) = polled.expect("the poll succeeds").expect("a turn is found");
    assert_eq!(item.instance, "fine");
    assert_eq!(fixture.world.documents_of("dead-letter").await.len(), 1);
    let intents = fixture.intents().await;
    assert_eq!((intents.len(), intents[0]["attempts"].as_u64()), (1, Some(1)));
}

#[tokio::test]
async fn a_failing_delivery_hides_none_behind_it() {
    let fixture = Fixture::new().await;
    let raw = fixture.world.raw();
    let garbage = json!({ "id": "o:x", "pk": "a", "type": "intent", "queue": "repair", "lane": "turn", "dueAt": 1 });
    let pk = PartitionKey::new("a").expect("a valid partition key");
    raw.create(&pk, &garbage, Retry::Idempotent)
        .await
        .expect("it is written");
    fixture
        .leave_starts_undelivered("first", &["b1", "b2", "b3", "b4"])
        .await;
    fixture.clock.advance(Duration::from_secs(1));
    fixture.leave_starts_undelivered("second", &["t1", "t2", "t3"]).await;
    refuse(fixture.world.listener(), &["b1", "b2", "b3", "b4"], Refusing::with(403));
    fixture.clock.advance(OVERDUE);
    let pass = deliver_all(&fixture.provider, 1).await;
    assert_eq!(totals(&pass), (8, 3, 5, 0));
    let mut reached: Vec<&str> = pass.due.iter().map(|due| due.target.instance()).collect();
    reached.sort_unstable();
    assert_eq!(reached, ["t1", "t2", "t3"]);
    // The next pass meets only what cannot be read: the others are due later.
    assert_eq!(totals(&deliver_all(&fixture.provider, 1).await), (1, 0, 1, 0));
}

#[tokio::test]
async fn a_delivery_without_an_answer_ends_with_its_timeout() {
    let fixture = Fixture::new().await;
    fixture.leave_starts_undelivered("source", &["silent"]).await;
    let outbox = Outbox {
        patience: Duration::from_millis(200),
        ..few_attempts()
    };
    let clock: Arc<dyn Clock> = Arc::clone(&fixture.clock) as Arc<dyn Clock>;
    let provider = connect(fixture.world.builder().clock(clock).outbox(outbox)).await;
    refuse(fixture.world.listener(), &["silent"], Refusing::with(503));
    fixture.clock.advance(OVERDUE);
    let begun = Instant::now();
    assert_eq!(totals(&deliver_all(&provider, 10).await), (1, 0, 1, 0));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(fixture.intents().await[0]["attempts"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_at_once_deliver_once_and_count_a_failure_once() {
    let fixture = Fixture::new().await;
    let targets: Vec<String> = (0..40).map(|n| format!("t{n}")).collect();
    let names: Vec<&str> = targets.iter().map(String::as_str).collect();
    fixture.leave_starts_undelivered("source", &names).await;
    fixture.leave_starts_undelivered("other", &["broken"]).await;
    fixture.clock.advance(OVERDUE);
    let (one, two) = (fixture.process().await, fixture.process().await);
    for (listener, _) in [&one, &two] {
        refuse(listener, &["broken"], Refusing::with(403));
    }
    let (first, second) = futures::join!(deliver_all(&one.1, 7), deliver_all(&two.1, 7));
    assert!(first.done + second.done >= 40, "{first:?} {second:?}");
    fixture.assert_one_message_each(&names).await;
    let left = fixture.intents().await;
    assert_eq!((left.len(), left[0]["attempts"].as_u64()), (1, Some(1)), "{left:?}");
}

#[tokio::test]
async fn a_late_failure_does_not_undo_attempts_that_others_counted_since() {
    let fixture = Fixture::new().await;
    fixture.leave_starts_undelivered("source", &["broken"]).await;
    fixture.clock.advance(OVERDUE);
    let (listener, late) = fixture.process().await;
    for listener in [&listener, fixture.world.listener()] {
        refuse(listener, &["broken"], Refusing::with(403));
    }
    // The list of ranges, the sweep and the refused delivery were answered; the write that counts the failure is paused.
    let pause = listener.pause_when(|log| log.len() == 2 + PARTITIONS as usize);
    let noting = tokio::spawn(async move { deliver_all(&late, 10).await });
    assert!(tests::is_paused(&pause, &noting).await);
    for _ in 0..2 {
        assert_eq!(totals(&deliver_all(&fixture.provider, 10).await), (1, 0, 1, 0));
        fixture.clock.advance(few_attempts().base);
    }
    let before = fixture.intents().await;
    assert_eq!(before[0]["attempts"], 2);
    drop(pause);
    noting.await.expect("the pass ends");
    assert_eq!(fixture.intents().await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: hundreds of messages"]
async fn the_requests_for_each_message_stay_flat() {
    let mut costs = Vec::new();
    for count in [60, 300] {
        let fixture = Fixture::new().await;
        for source in 0..count / 30 {
            let targets: Vec<String> = (0..30).map(|n| format!("t{source}-{n}")).collect();
            let names: Vec<&str> = targets.iter().map(String::as_str).collect();
            fixture
                .leave_starts_undelivered(&format!("source-{source}"), &names)
                .await;
        }
        fixture.clock.advance(OVERDUE);
        fixture.world.listener().reset();
        let pass = deliver_all(&fixture.provider, 25).await;
        assert_eq!((pass.done, pass.failed), (count, 0));
        costs.push(fixture.world.listener().counts().requests as f64 / count as f64);
    }
    println!("requests for each delivered message, of 60 and 300: {costs:?}");
    assert!(costs[1] <= costs[0] * 1.1 && costs[1] < 2.0, "{costs:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_stops_at_its_deadline_and_others_finish() {
    let fixture = Fixture::new().await;
    let targets: Vec<String> = (0..150).map(|n| format!("t{n}")).collect();
    let names: Vec<&str> = targets.iter().map(String::as_str).collect();
    fixture.leave_starts_undelivered("source", &names).await;
    fixture.clock.advance(OVERDUE);
    let (listener, slow) = fixture.process().await;
    listener.set_faults(Faults {
        delay: Some(Duration::from_millis(100)),
        ..Faults::default()
    });
    let time = Duration::from_millis(600);
    let (mut pages, mut done, mut cursor) = (0, 0, None::<Cursor>);
    loop {
        let begun = Instant::now();
        let page = PageRequest {
            most: 1_000,
            cursor: cursor.clone(),
            deadline: begun + time,
        };
        let answered = slow.maintain_outbox(page).await;
        assert!(begun.elapsed() < time * 20, "a page took {:?}", begun.elapsed());
        pages += 1;
        match answered {
            Ok(pass) => {
                done += pass.done;
                cursor = pass.cursor;
                if cursor.is_none() {
                    break;
                }
            }
            // On a slow machine the search alone may take all the time.
            Err(error) => assert!(error.is_retryable(), "the outbox cannot be searched: {error}"),
        }
        assert!(pages < 100, "{done} of 150 after {pages} pages");
    }
    assert!(pages > 1, "the time was meant to be too short");
    assert!(done >= 150);
    assert!(fixture.intents().await.is_empty());
    fixture.assert_one_message_each(&names).await;
    let late = PageRequest {
        deadline: Instant::now(),
        ..page_of(10)
    };
    let pass = fixture
        .provider
        .maintain_outbox(late)
        .await
        .expect("no time is no error");
    assert!(pass.found == 0 && pass.cursor.is_some(), "{pass:?}");
}
