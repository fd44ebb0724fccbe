//! Retention: whole trees, exact ages, nothing that runs, bounded pages.

use crate::support::*;
use duroxide::providers::{ExecutionMetadata, ProviderAdmin};
use duroxide_cosmos::{CosmosProvider, PageRequest, PassOutcome, Retention};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;
use tests::turns::*;
use tokio::time::Instant;

pub const AGE: Duration = Duration::from_secs(7 * 24 * 3_600);

pub const OLD: Retention = Retention {
    delete_after: Some(AGE),
    keep_executions: None,
};

/// Starts an instance, which ends with its first turn if it has a status.
pub async fn plant(provider: &CosmosProvider, instance: &str, parent: Option<&str>, status: Option<&str>) {
    let metadata = status.map_or_else(named, |status| ended(status, "out"));
    let metadata = ExecutionMetadata {
        parent_instance_id: parent.map(str::to_owned),
        ..metadata
    };
    begin_with(provider, instance, 1, metadata).await;
}

pub async fn retain(provider: &CosmosProvider, policy: &Retention, most: u32) -> PassOutcome {
    all_pages(most, |page| provider.maintain_retention(policy, page)).await
}

pub async fn left(fixture: &Fixture) -> BTreeSet<String> {
    let all = fixture.world.documents().await;
    let is_state = |doc: &Value| doc["type"] == "maintenance";
    let lasting = all.iter().filter(|doc| doc.get("ttl").is_none() && !is_state(doc));
    // A decision to delete is in a partition of its own.
    let owners = |doc: &Value| match doc["instances"].as_array() {
        Some(instances) => instances.clone(),
        None => vec![doc["pk"].clone()],
    };
    let owners = lasting.flat_map(owners);
    owners.filter_map(|owner| owner.as_str().map(str::to_owned)).collect()
}

pub fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[tokio::test]
async fn nothing_is_removed_by_default() {
    let fixture = Fixture::new().await;
    plant(&fixture.provider, "old", None, Some("Completed")).await;
    fixture.clock.advance(AGE * 100);
    let before = snapshot(&fixture.world).await;
    fixture.world.listener().reset();
    assert_eq!(
        totals(&retain(&fixture.provider, &Retention::default(), 10).await),
        (0, 0, 0, 0)
    );
    assert_eq!(fixture.world.listener().counts().requests, 0);
    assert_eq!(snapshot(&fixture.world).await, before);
}

#[tokio::test]
async fn an_instance_is_deleted_when_it_is_older_than_the_age_and_not_before() {
    let fixture = Fixture::new().await;
    plant(&fixture.provider, "completed", None, Some("Completed")).await;
    plant(&fixture.provider, "failed", None, Some("Failed")).await;
    plant(&fixture.provider, "running", None, None).await;
    plant(&fixture.provider, "going on", None, Some("ContinuedAsNew")).await;
    fixture.clock.advance(AGE);
    plant(&fixture.provider, "young", None, Some("Completed")).await;
    assert_eq!(
        totals(&retain(&fixture.provider, &OLD, 10).await),
        (0, 0, 0, 0),
        "just as old as the age"
    );
    fixture.clock.advance(Duration::from_millis(1));
    assert_eq!(totals(&retain(&fixture.provider, &OLD, 10).await), (2, 2, 0, 0));
    assert_eq!(left(&fixture).await, set(&["going on", "running", "young"]));
    assert_eq!(
        totals(&retain(&fixture.provider, &OLD, 10).await),
        (0, 0, 0, 0),
        "it is done"
    );
}

#[tokio::test]
async fn a_tree_is_deleted_whole_and_only_by_its_root() {
    let fixture = Fixture::new().await;
    let provider = &fixture.provider;
    for (name, parent) in [("root", None), ("child", Some("root")), ("grandchild", Some("child"))] {
        plant(provider, name, parent, Some("Completed")).await;
    }
    plant(provider, "busy root", None, None).await;
    plant(provider, "its child", Some("busy root"), Some("Completed")).await;
    fixture.clock.advance(AGE + AGE);
    assert_eq!(totals(&retain(provider, &OLD, 10).await), (1, 1, 0, 0), "one tree");
    assert_eq!(left(&fixture).await, set(&["busy root", "its child"]));
}

#[tokio::test]
async fn a_tree_with_a_dead_letter_is_left_until_the_dead_letter_is_gone() {
    let fixture = Fixture::new().await;
    let provider = &fixture.provider;
    // One that is alone, and one whose child could not deliver a message.
    crate::giving_up::give_up_turn(provider, "poisoned", "[]").await;
    plant(provider, "root", None, Some("Completed")).await;
    let (listener, maker) = fixture.process().await;
    refuse(&listener, &["full"], cosmos_emulator::Refusing::partition_full());
    enqueue(provider, start_of("child")).await;
    let held = turn(&maker, "child").await;
    let decision = Decision {
        events: vec![started("child", 1)],
        messages: vec![start_of("full")],
        metadata: ExecutionMetadata {
            parent_instance_id: Some("root".to_owned()),
            ..ended("Completed", "out")
        },
        ..Decision::default()
    };
    commit(&maker, &held.lock_token, decision).await.expect("it commits");
    fixture.clock.advance(OVERDUE);
    assert_eq!(deliver_all(&maker, 10).await.dead, 1);
    plant(provider, "other", None, Some("Completed")).await;
    fixture.clock.advance(AGE + AGE);
    assert_eq!(totals(&retain(provider, &OLD, 10).await), (3, 1, 0, 0));
    assert_eq!(left(&fixture).await, set(&["child", "poisoned", "root"]));
    assert_eq!(fixture.dead_letters().await.len(), 2);
    for dead_letter in provider.dead_letters(10, None).await.expect("a list").dead_letters {
        assert!(provider.discard(&dead_letter.id).await.expect("it is discarded"));
    }
    assert_eq!(totals(&retain(provider, &OLD, 10).await), (2, 2, 0, 0));
    assert_eq!(left(&fixture).await, set(&[]));
}

#[tokio::test]
async fn a_tree_with_a_running_child_is_left_untouched() {
    let fixture = Fixture::new().await;
    plant(&fixture.provider, "root", None, Some("Failed")).await;
    plant(&fixture.provider, "child", Some("root"), Some("Completed")).await;
    plant(&fixture.provider, "grandchild", Some("child"), None).await;
    plant(&fixture.provider, "other", None, Some("Completed")).await;
    fixture.clock.advance(AGE + AGE);
    let before = snapshot(&fixture.world).await;
    assert_eq!(totals(&retain(&fixture.provider, &OLD, 10).await), (2, 1, 0, 0));
    let after = snapshot(&fixture.world).await;
    let mut of_tree = after.iter().filter(|doc| !doc.contains("\"type\":\"maintenance\""));
    assert!(of_tree.all(|doc| before.contains(doc)), "the tree was written to");
    assert_eq!(left(&fixture).await, set(&["child", "grandchild", "root"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_are_bounded_begin_with_the_oldest_and_end_with_the_deadline() {
    let fixture = Fixture::new().await;
    for n in 0..24 {
        plant(&fixture.provider, &format!("i{n}"), None, Some("Completed")).await;
        fixture.clock.advance(Duration::from_secs(1));
    }
    fixture.clock.advance(AGE + AGE);
    let late = PageRequest {
        deadline: Instant::now(),
        ..page_of(2)
    };
    let none = fixture
        .provider
        .maintain_retention(&OLD, late)
        .await
        .expect("no time, no error");
    assert_eq!((none.found, none.cursor.is_some()), (0, true));
    let newest = |names: &BTreeSet<String>| names.iter().map(|name| number(name)).max();
    let pass = fixture
        .provider
        .maintain_retention(&OLD, page_of(2))
        .await
        .expect("it can be searched");
    assert!(
        pass.found <= 6 && pass.done == pass.found && pass.cursor.is_some(),
        "{pass:?}"
    );
    assert_eq!(newest(&left(&fixture).await), Some(23));
    assert!(!left(&fixture).await.contains("i0"), "the oldest goes first");
    let rest = retain(&fixture.provider, &OLD, 2).await;
    assert_eq!(pass.done + rest.done, 24);
    assert!(left(&fixture).await.is_empty());
}

fn number(name: &str) -> u64 {
    name.trim_start_matches('i').parse().expect("a number")
}

/// An instance that continued as new until this execution.
pub async fn continued(provider: &CosmosProvider, instance: &str, executions: u64) {
    plant(provider, instance, None, (executions > 1).then_some("ContinuedAsNew")).await;
    for execution in 2..=executions {
        enqueue(provider, raised(instance, "go")).await;
        let turn = turn(provider, instance).await;
        let last = execution == executions;
        let decision = Decision {
            execution,
            events: vec![started(instance, execution)],
            metadata: if last { named() } else { ended("ContinuedAsNew", "") },
            ..Decision::default()
        };
        commit(provider, &turn.lock_token, decision).await.expect("it goes on");
    }
}

#[tokio::test]
async fn executions_beyond_those_to_keep_are_pruned_once() {
    let fixture = Fixture::new().await;
    for (name, executions) in [("one", 1), ("two", 2), ("five", 5), ("held", 4)] {
        continued(&fixture.provider, name, executions).await;
    }
    enqueue(&fixture.provider, raised("held", "go")).await;
    turn(&fixture.provider, "held").await;
    let keep = |keep| Retention {
        keep_executions: Some(keep),
        ..Retention::default()
    };
    fixture.world.listener().reset();
    assert_eq!(
        totals(&retain(&fixture.provider, &keep(2), 1).await),
        (2, 1, 1, 0),
        "one is held"
    );
    // Waiting for the lock would read it again and again.
    let (log, held) = (fixture.world.listener().log(), header("held"));
    let looks = log
        .iter()
        .filter(|request| request.partition_key.as_ref() == Some(&held));
    assert_eq!(looks.count(), 1, "it waited for the lock");
    let executions = async |name| fixture.provider.list_executions(name).await.expect("a list");
    assert_eq!(executions("five").await, [4, 5]);
    assert_eq!(executions("two").await, [1, 2]);
    fixture.clock.advance(LATER);
    assert_eq!(
        totals(&retain(&fixture.provider, &keep(2), 10).await),
        (1, 1, 0, 0),
        "the other is done"
    );
    assert_eq!(executions("held").await, [3, 4]);
    // None is as good as one: the current execution always stays.
    assert_eq!(totals(&retain(&fixture.provider, &keep(0), 10).await), (3, 3, 0, 0));
    assert_eq!((executions("one").await, executions("five").await), (vec![1], vec![5]));
}

#[tokio::test]
async fn trees_are_deleted_first_and_executions_pruned_in_further_pages() {
    let fixture = Fixture::new().await;
    plant(&fixture.provider, "old", None, Some("Completed")).await;
    continued(&fixture.provider, "long", 6).await;
    fixture.clock.advance(AGE + AGE);
    let both = Retention {
        keep_executions: Some(3),
        ..OLD
    };
    let first = fixture
        .provider
        .maintain_retention(&both, page_of(10))
        .await
        .expect("it can be searched");
    assert_eq!(totals(&first), (1, 1, 0, 0));
    let second = PageRequest {
        cursor: first.cursor,
        ..page_of(10)
    };
    let second = fixture
        .provider
        .maintain_retention(&both, second)
        .await
        .expect("it can be searched");
    assert_eq!((totals(&second), second.cursor.is_none()), ((1, 1, 0, 0), true));
    assert_eq!(
        fixture.provider.list_executions("long").await.expect("a list"),
        [4, 5, 6]
    );
    assert!(!left(&fixture).await.contains("old"));
}
