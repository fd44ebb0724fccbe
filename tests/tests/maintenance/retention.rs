//! Retention: whole trees, exact ages, nothing that runs, bounded pages.

use crate::hand::*;
use crate::support::*;
use duroxide::providers::{ExecutionMetadata, ProviderAdmin};
use duroxide_cosmos::{CosmosProvider, PageRequest, PassOutcome, Retention};
use std::collections::BTreeSet;
use std::time::Duration;
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
    let (mut total, mut next) = (PassOutcome::default(), page_of(most));
    loop {
        let pass = provider
            .maintain_retention(policy, next)
            .await
            .expect("it can be searched");
        assert!(
            pass.found <= u64::from(most * PARTITIONS),
            "more than asked for: {pass:?}"
        );
        total.found += pass.found;
        total.done += pass.done;
        total.failed += pass.failed;
        if pass.cursor.is_none() {
            return total;
        }
        next = PageRequest {
            cursor: pass.cursor,
            ..page_of(most)
        };
    }
}

pub async fn left(debts: &Debts) -> BTreeSet<String> {
    let all = debts.world.documents().await;
    let lasting = all.iter().filter(|doc| doc.get("ttl").is_none());
    lasting
        .filter_map(|doc| doc["pk"].as_str())
        .map(str::to_owned)
        .collect()
}

pub fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[tokio::test]
async fn nothing_is_removed_unless_somebody_asks() {
    let debts = Debts::new().await;
    plant(&debts.provider, "old", None, Some("Completed")).await;
    debts.clock.advance(AGE * 100);
    let before = snapshot(&debts.world).await;
    debts.world.listener().reset();
    assert_eq!(
        bill(&retain(&debts.provider, &Retention::default(), 10).await),
        (0, 0, 0, 0)
    );
    assert_eq!(debts.world.listener().counts().requests, 0);
    assert_eq!(snapshot(&debts.world).await, before);
}

#[tokio::test]
async fn an_instance_is_deleted_when_it_is_older_than_the_age_and_not_before() {
    let debts = Debts::new().await;
    plant(&debts.provider, "completed", None, Some("Completed")).await;
    plant(&debts.provider, "failed", None, Some("Failed")).await;
    plant(&debts.provider, "running", None, None).await;
    plant(&debts.provider, "going on", None, Some("ContinuedAsNew")).await;
    debts.clock.advance(AGE);
    plant(&debts.provider, "young", None, Some("Completed")).await;
    assert_eq!(
        bill(&retain(&debts.provider, &OLD, 10).await),
        (0, 0, 0, 0),
        "just as old as the age"
    );
    debts.clock.advance(Duration::from_millis(1));
    assert_eq!(bill(&retain(&debts.provider, &OLD, 10).await), (2, 2, 0, 0));
    assert_eq!(left(&debts).await, set(&["going on", "running", "young"]));
    assert_eq!(
        bill(&retain(&debts.provider, &OLD, 10).await),
        (0, 0, 0, 0),
        "it is done"
    );
}

#[tokio::test]
async fn a_tree_goes_as_a_whole_and_only_by_its_root() {
    let debts = Debts::new().await;
    let provider = &debts.provider;
    for (name, parent) in [("root", None), ("child", Some("root")), ("grandchild", Some("child"))] {
        plant(provider, name, parent, Some("Completed")).await;
    }
    plant(provider, "busy root", None, None).await;
    plant(provider, "its child", Some("busy root"), Some("Completed")).await;
    debts.clock.advance(AGE + AGE);
    assert_eq!(bill(&retain(provider, &OLD, 10).await), (1, 1, 0, 0), "one tree");
    assert_eq!(left(&debts).await, set(&["busy root", "its child"]));
}

#[tokio::test]
async fn a_tree_with_a_dead_letter_is_left_until_the_dead_letter_is_gone() {
    let debts = Debts::new().await;
    let provider = &debts.provider;
    // One that is alone, and one whose child could not reach somebody.
    crate::poison::poison_turn(provider, "poisoned", "[]").await;
    plant(provider, "root", None, Some("Completed")).await;
    let (listener, maker) = debts.process().await;
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
    debts.clock.advance(OVERDUE);
    assert_eq!(deliver_all(&maker, 10).await.dead, 1);
    plant(provider, "other", None, Some("Completed")).await;
    debts.clock.advance(AGE + AGE);
    assert_eq!(bill(&retain(provider, &OLD, 10).await), (3, 1, 0, 0));
    assert_eq!(left(&debts).await, set(&["child", "poisoned", "root"]));
    assert_eq!(debts.dead_letters().await.len(), 2);
    for dead_letter in provider.dead_letters(10, None).await.expect("a list").dead_letters {
        assert!(provider.discard(&dead_letter.id).await.expect("it is discarded"));
    }
    assert_eq!(bill(&retain(provider, &OLD, 10).await), (2, 2, 0, 0));
    assert_eq!(left(&debts).await, set(&[]));
}

#[tokio::test]
async fn a_tree_with_a_running_child_is_left_untouched() {
    let debts = Debts::new().await;
    plant(&debts.provider, "root", None, Some("Failed")).await;
    plant(&debts.provider, "child", Some("root"), Some("Completed")).await;
    plant(&debts.provider, "grandchild", Some("child"), None).await;
    plant(&debts.provider, "other", None, Some("Completed")).await;
    debts.clock.advance(AGE + AGE);
    let before = snapshot(&debts.world).await;
    assert_eq!(bill(&retain(&debts.provider, &OLD, 10).await), (2, 1, 0, 0));
    let after = snapshot(&debts.world).await;
    assert!(after.iter().all(|doc| before.contains(doc)), "the tree was written to");
    assert_eq!(left(&debts).await, set(&["child", "grandchild", "root"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_are_bounded_begin_with_the_oldest_and_end_with_the_deadline() {
    let debts = Debts::new().await;
    for n in 0..24 {
        plant(&debts.provider, &format!("i{n}"), None, Some("Completed")).await;
        debts.clock.advance(Duration::from_secs(1));
    }
    debts.clock.advance(AGE + AGE);
    let late = PageRequest {
        deadline: Instant::now(),
        ..page_of(2)
    };
    let none = debts
        .provider
        .maintain_retention(&OLD, late)
        .await
        .expect("no time, no error");
    assert_eq!((none.found, none.cursor.is_some()), (0, true));
    let newest = |names: &BTreeSet<String>| names.iter().map(|name| number(name)).max();
    let pass = debts
        .provider
        .maintain_retention(&OLD, page_of(2))
        .await
        .expect("it can be searched");
    assert!(
        pass.found <= 6 && pass.done == pass.found && pass.cursor.is_some(),
        "{pass:?}"
    );
    assert_eq!(newest(&left(&debts).await), Some(23));
    assert!(!left(&debts).await.contains("i0"), "the oldest goes first");
    let rest = retain(&debts.provider, &OLD, 2).await;
    assert_eq!(pass.done + rest.done, 24);
    assert!(left(&debts).await.is_empty());
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
async fn executions_beyond_those_to_keep_are_forgotten_once() {
    let debts = Debts::new().await;
    for (name, executions) in [("one", 1), ("two", 2), ("five", 5), ("held", 4)] {
        continued(&debts.provider, name, executions).await;
    }
    enqueue(&debts.provider, raised("held", "go")).await;
    turn(&debts.provider, "held").await;
    let keep = |keep| Retention {
        keep_executions: Some(keep),
        ..Retention::default()
    };
    debts.world.listener().reset();
    assert_eq!(
        bill(&retain(&debts.provider, &keep(2), 1).await),
        (2, 1, 1, 0),
        "one is held"
    );
    // To wait for a holder is to look at the lock again and again.
    let (log, held) = (debts.world.listener().log(), header("held"));
    let looks = log
        .iter()
        .filter(|request| request.partition_key.as_ref() == Some(&held));
    assert_eq!(looks.count(), 1, "it waited for the holder");
    let executions = async |name| debts.provider.list_executions(name).await.expect("a list");
    assert_eq!(executions("five").await, [4, 5]);
    assert_eq!(executions("two").await, [1, 2]);
    debts.clock.advance(LATER);
    assert_eq!(
        bill(&retain(&debts.provider, &keep(2), 10).await),
        (1, 1, 0, 0),
        "the other is done"
    );
    assert_eq!(executions("held").await, [3, 4]);
    // None is as good as one: the current execution always stays.
    assert_eq!(bill(&retain(&debts.provider, &keep(0), 10).await), (3, 3, 0, 0));
    assert_eq!((executions("one").await, executions("five").await), (vec![1], vec![5]));
}

#[tokio::test]
async fn trees_are_deleted_first_and_executions_pruned_in_further_pages() {
    let debts = Debts::new().await;
    plant(&debts.provider, "old", None, Some("Completed")).await;
    continued(&debts.provider, "long", 6).await;
    debts.clock.advance(AGE + AGE);
    let both = Retention {
        keep_executions: Some(3),
        ..OLD
    };
    let first = debts
        .provider
        .maintain_retention(&both, page_of(10))
        .await
        .expect("it can be searched");
    assert_eq!(bill(&first), (1, 1, 0, 0));
    let second = PageRequest {
        cursor: first.cursor,
        ..page_of(10)
    };
    let second = debts
        .provider
        .maintain_retention(&both, second)
        .await
        .expect("it can be searched");
    assert_eq!((bill(&second), second.cursor.is_none()), ((1, 1, 0, 0), true));
    assert_eq!(debts.provider.list_executions("long").await.expect("a list"), [4, 5, 6]);
    assert!(!left(&debts).await.contains("old"));
}
