//! What this process cannot serve, read or repair does not block the rest; and what is written and removed for ever does
//! not accumulate.

use cosmos::{PartitionKey, Retry};
use cosmos_emulator::ServerOptions;
use duroxide::EventKind;
use duroxide::providers::{Provider, ProviderAdmin, PruneOptions, TagFilter, WorkItem};
use duroxide_cosmos::CosmosProvider;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tests::turns::*;
use tests::{ManualClock, World, connect, recover};

/// More than a sweep takes from a physical range, several times.
const DEAD: u64 = 450;

async fn one_range() -> World {
    World::local(ServerOptions {
        partitions: 1,
        ..ServerOptions::default()
    })
    .await
}

/// Commits a first turn with these messages and activities.
async fn begin_owing(provider: &CosmosProvider, instance: &str, messages: Vec<WorkItem>, work: Vec<WorkItem>) {
    enqueue(provider, start_of(instance)).await;
    let turn = turn(provider, instance).await;
    let decision = Decision {
        events: vec![started(instance, 1)],
        messages,
        work,
        ..Decision::default()
    };
    commit(provider, &turn.lock_token, decision).await.expect("commits");
}

/// Any turn, found without a wakeup.
async fn any_turn(provider: &CosmosProvider, poll: Duration) -> Option<(String, String)> {
    let found = provider.fetch_orchestration_item(LOCK, poll, None).await;
    found
        .expect("the fetch succeeds")
        .map(|(item, token, _)| (item.instance, token))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn activities_for_other_pools_do_not_hide_those_for_this_one() {
    serve_behind_tagged(500).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: 10,050 activities"]
async fn more_activities_for_other_pools_than_a_process_remembers_hide_none_for_this_one() {
    serve_behind_tagged(10_050).await;
}

/// Activities without a tag are served behind so many that have one.
async fn serve_behind_tagged(count: u64) {
    let world = one_range().await;
    let (provider, outside) = (world.provider().await, world.provider().await);
    let tagged = (2..2 + count).map(|id| WorkItem::ActivityExecute {
        instance: "order".to_owned(),
        execution_id: 1,
        id,
        name: "Act".to_owned(),
        input: "in".to_owned(),
        session_id: None,
        tag: Some("gpu".to_owned()),
    });
    begin_owing(&provider, "order", Vec::new(), tagged.collect()).await;
    for id in 1..=3 {
        outside
            .enqueue_for_worker(activity("plain", id))
            .await
            .expect("the activity is queued");
    }
    for poll in [Duration::ZERO, PATIENT, Duration::ZERO] {
        let found = provider
            .fetch_work_item(LOCK, poll, None, &TagFilter::DefaultOnly)
            .await
            .expect("the fetch succeeds");
        let (item, token, _) = found.expect("an activity without a tag is served");
        assert!(matches!(&item, WorkItem::ActivityExecute { instance, .. } if instance == "plain"));
        provider.ack_work_item(&token, None).await.expect("done");
    }
}

/// Documents of a newer version, in every queue that a sweep reads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_of_an_unknown_type_stop_no_fetch_and_no_recovery() {
    let world = World::start().await;
    let clock = Arc::new(ManualClock::default());
    let (provider, outside) = (world.provider_at(&clock).await, world.provider_at(&clock).await);
    for (n, queue) in ["turn", "repair", "turn", "repair"].into_iter().enumerate() {
        let instance = if n < 2 { "order" } else { "elsewhere" };
        let doc = json!({
            "id": format!("future:{queue}"), "pk": instance, "type": "hologram", "queue": queue, "lane": "turn",
            "dueAt": 1, "sortKey": "00", "beam": [1, 2, 3],
        });
        let pk = PartitionKey::new(instance).expect("a valid partition key");
        world.raw().create(&pk, &doc, Retry::Idempotent).await.expect("written");
    }
    let news = [start_of("order"), raised("order", "more")];
    for (item, poll) in news.into_iter().zip([Duration::ZERO, PATIENT]) {
        enqueue(&outside, item).await;
        let (instance, token) = any_turn(&provider, poll).await.expect("the turn is found");
        assert_eq!(instance, "order");
        provider
            .abandon_orchestration_item(&token, None, true)
            .await
            .expect("it is abandoned");
    }
    let token = turn(&provider, "order").await.lock_token;
    let decision = Decision::of(vec![started("order", 1)]);
    commit(&provider, &token, decision).await.expect("commits");
    clock.advance(REPAIRABLE);
    let recovered = recover(&provider).await;
    assert_eq!(recovered.failed, 0, "{recovered:?}");
    assert_eq!(world.documents_of("hologram").await.len(), 4, "they are left alone");
    provider.delete_instance("order", true).await.expect("deleted");
    assert_eq!(
        world.documents_of("hologram").await.len(),
        2,
        "but go with their instance"
    );
}

/// Messages that nobody can take, older than a start that another process has queued.
async fn behind_the_dead() -> (World, Arc<CosmosProvider>) {
    let world = one_range().await;
    let outside = world.provider().await;
    let dead = (0..DEAD).map(|n| enqueue(&outside, raised(&format!("dead-{n}"), "too early")));
    futures::future::join_all(dead).await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    (world, outside)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_nobody_can_take_do_not_hide_a_start() {
    let (world, outside) = behind_the_dead().await;
    for (name, poll) in [("at-once", Duration::ZERO), ("in-time", PATIENT)] {
        enqueue(&outside, start_of(name)).await;
        let idle = world.provider().await;
        let (instance, _) = any_turn(&idle, poll).await.expect("the start is found");
        assert_eq!(instance, name);
    }
}

/// The same, for a process that always has something of its own to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_nobody_can_take_do_not_hide_a_start_from_a_busy_process() {
    let (world, outside) = behind_the_dead().await;
    enqueue(&outside, start_of("wanted")).await;
    let busy = connect(world.builder().sweep_interval(Duration::from_millis(1))).await;
    begin(&busy, "busy").await;
    for id in 2..60 {
        enqueue(&busy, raised("busy", "again")).await;
        let (instance, token) = any_turn(&busy, PATIENT).await.expect("a turn");
        if instance == "wanted" {
            return;
        }
        let decision = Decision::of(vec![heard("busy", 1, id)]);
        commit(&busy, &token, decision).await.expect("commits");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("the start of another process is never found");
}

/// A document that cannot be read fails the read after the claim.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_that_fails_midway_leaves_no_lock() {
    let world = World::start().await;
    let provider = world.provider().await;
    begin(&provider, "order").await;
    let pk = PartitionKey::new("order").expect("a valid partition key");
    let doc = json!({"id": "kv:broken", "pk": "order", "type": "kv", "key": 7});
    world.raw().create(&pk, &doc, Retry::Idempotent).await.expect("written");
    let appended = provider
        .append_with_execution("order", 1, vec![heard("order", 1, 2)])
        .await;
    assert!(appended.is_err(), "the key cannot be read");
    let lock = world.document("order", "instance").await.expect("a lock");
    assert!(
        lock.get("holder").is_none() && lock.get("until").is_none(),
        "the lock is held: {lock}"
    );
    world
        .raw()
        .delete(&pk, "kv:broken", None, Retry::Idempotent)
        .await
        .expect("removed");
    let appended = provider
        .append_with_execution("order", 1, vec![heard("order", 1, 2)])
        .await;
    appended.expect("nothing is in the way");
    assert_eq!(provider.read("order").await.expect("a history").len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_by_another_process_consumes_messages_behind_many_timers() {
    const TIMERS: u64 = 1_100;
    let world = World::start().await;
    let clock = Arc::new(ManualClock::default());
    let (provider, elsewhere) = (world.provider_at(&clock).await, world.provider_at(&clock).await);
    let timers = (2..2 + TIMERS).map(|id| WorkItem::TimerFired {
        instance: "order".to_owned(),
        execution_id: 1,
        id,
        fire_at_ms: u64::from(u32::MAX) * 1_000,
    });
    begin_owing(&provider, "order", timers.collect(), Vec::new()).await;
    for data in ["1", "2"] {
        enqueue(&provider, raised("order", data)).await;
    }
    let claimed = turn(&provider, "order").await;
    assert_eq!(claimed.item.messages.len(), 2);
    let decision = Decision::of(vec![heard("order", 1, 2), heard("order", 1, 3)]);
    commit(&elsewhere, &claimed.lock_token, decision)
        .await
        .expect("commits");
    let left = world.documents_of("message").await.len() as u64;
    assert_eq!(left, TIMERS, "the timers wait, and what was taken is consumed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_is_named_twice_is_deleted_once() {
    let world = World::start().await;
    let provider = world.provider().await;
    for names in [["a", "a", "b", "a"].as_slice(), ["c", "c"].as_slice()] {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        for name in names.iter().collect::<std::collections::BTreeSet<_>>() {
            begin(&provider, name).await;
        }
        let deleted = provider.delete_instances_atomic(&names, true).await.expect("deleted");
        let expected = if names.len() == 2 { 1 } else { 2 };
        assert_eq!(
            (deleted.instances_deleted, deleted.executions_deleted),
            (expected, expected)
        );
    }
    assert!(world.documents().await.iter().all(|doc| doc.get("ttl").is_some()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn executions_known_only_by_an_append_are_pruned_and_counted() {
    let world = World::start().await;
    let provider = world.provider().await;
    enqueue(&provider, start_of("order")).await;
    let token = turn(&provider, "order").await.lock_token;
    let third = Decision {
        execution: 3,
        events: vec![started("order", 3)],
        ..Decision::default()
    };
    commit(&provider, &token, third).await.expect("commits");
    for execution in [1, 2] {
        let appended = provider.append_with_execution("order", execution, vec![started("order", execution)]);
        appended.await.expect("appended");
        enqueue(&provider, raised("order", "end")).await;
        let token = turn(&provider, "order").await.lock_token;
        let end = Decision {
            execution,
            events: vec![heard("order", execution, 2)],
            metadata: ended("Completed", "done"),
            ..Decision::default()
        };
        commit(&provider, &token, end).await.expect("commits");
    }
    assert_eq!(provider.list_executions("order").await.expect("a list"), [1, 2, 3]);
    let pruned = provider
        .prune_executions("order", PruneOptions::default())
        .await
        .expect("pruned");
    assert_eq!((pruned.executions_deleted, pruned.events_deleted), (2, 4));
    assert_eq!(provider.list_executions("order").await.expect("a list"), [3]);
    let deleted = provider.delete_instance("order", true).await.expect("deleted");
    assert_eq!((deleted.executions_deleted, deleted.events_deleted), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backlog_that_is_abandoned_repeatedly_does_not_grow_the_lock_document() {
    abandon_backlog(400, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: 3,000 messages"]
async fn a_large_backlog_that_is_abandoned_repeatedly_does_not_grow_the_lock_document() {
    abandon_backlog(3_000, 3).await;
}

/// All messages are claimed and abandoned once in so many `turns`, then they are due again.
async fn abandon_backlog(count: usize, turns: usize) {
    let world = World::start().await;
    let clock = Arc::new(ManualClock::default());
    let provider = world.provider_at(&clock).await;
    let backlog = (0..count).map(|n| raised("order", &n.to_string()));
    begin_owing(&provider, "order", backlog.collect(), Vec::new()).await;
    let (mut seen, mut largest) = (0, 0);
    for round in 0..5_usize {
        let turn = turn(&provider, "order").await;
        seen += turn.item.messages.len();
        provider
            .abandon_orchestration_item(&turn.lock_token, Some(Duration::from_secs(1)), false)
            .await
            .expect("it is abandoned");
        let lock = world.document("order", "instance").await.expect("a lock");
        largest = largest.max(lock.to_string().len());
        if (round + 1).is_multiple_of(turns) {
            clock.advance(Duration::from_secs(2));
        }
    }
    assert!(seen > count, "only {seen} messages were fetched");
    assert!(largest < 100 * 1024, "the lock has grown to {largest} bytes");
    assert_eq!(world.documents_of("message").await.len(), count, "nothing is lost");
}

/// Each execution sets a fresh key, clears that of the one before, and keeps one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_were_cleared_do_not_accumulate() {
    const EXECUTIONS: u64 = 30;
    let world = World::start().await;
    let provider = world.provider().await;
    begin(&provider, "order").await;
    let set = |key: String, value: u64| EventKind::KeyValueSet {
        key,
        value: value.to_string(),
        last_updated_at_ms: 1,
    };
    for n in 2..=EXECUTIONS {
        enqueue(&provider, raised("order", "next")).await;
        let turn = turn(&provider, "order").await;
        // What the execution before has left is what a turn of the next one sees; its own is not there yet.
        let kinds = [
            set(format!("fresh-{n}"), n),
            EventKind::KeyValueCleared {
                key: format!("fresh-{}", n - 1),
            },
            set("brief".to_owned(), n),
            EventKind::KeyValueCleared {
                key: "brief".to_owned(),
            },
            set("kept".to_owned(), n),
        ];
        let mut events = vec![started("order", n)];
        events.extend((2..).zip(kinds).map(|(id, kind)| event("order", n, id, kind)));
        let decision = Decision {
            execution: n,
            events,
            ..Decision::default()
        };
        commit(&provider, &turn.lock_token, decision).await.expect("commits");
    }
    let documents: Vec<Value> = world.documents_of("kv").await;
    assert!(
        documents.len() <= 5,
        "{} keys are stored: {documents:?}",
        documents.len()
    );
    enqueue(&provider, raised("order", "last")).await;
    let snapshot: BTreeMap<String, String> = turn(&provider, "order")
        .await
        .item
        .kv_snapshot
        .into_iter()
        .map(|(key, entry)| (key, entry.value))
        .collect();
    let before = EXECUTIONS - 1;
    let expected = [(format!("fresh-{before}"), before), ("kept".to_owned(), before)];
    let expected: BTreeMap<String, String> = expected.into_iter().map(|(key, n)| (key, n.to_string())).collect();
    assert_eq!(snapshot, expected, "what the execution before has left");
    let newest = provider.get_kv_value("order", "kept").await.expect("a value");
    assert_eq!(newest.as_deref(), Some("30"));
    let gone = provider.get_kv_value("order", "fresh-29").await.expect("an answer");
    assert_eq!(gone, None);
}
