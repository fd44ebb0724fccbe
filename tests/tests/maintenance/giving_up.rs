//! What is given up is recorded with the failure itself, or not at all.

use crate::support::*;
use duroxide::providers::{ExecutionMetadata, Provider, ProviderAdmin, WorkItem};
use duroxide::{AppErrorKind, ErrorDetails, EventKind, PoisonMessageType};
use duroxide_cosmos::{CosmosProvider, DeadLetterKind};
use tests::turns::*;

fn poison_of(message_type: PoisonMessageType, items: &str) -> ErrorDetails {
    ErrorDetails::Poison {
        attempt_count: 11,
        max_attempts: 10,
        message_type,
        message: items.to_owned(),
    }
}

/// What duroxide commits for a turn that was fetched too often.
fn poisoned(instance: &str, items: &str) -> Decision {
    let kind = PoisonMessageType::Orchestration {
        instance: instance.to_owned(),
        execution_id: 1,
    };
    failed(instance, poison_of(kind, items))
}

fn failed(instance: &str, details: ErrorDetails) -> Decision {
    let failure = event(instance, 1, 2, EventKind::OrchestrationFailed { details });
    Decision {
        events: vec![started(instance, 1), failure],
        metadata: ended("Failed", "poison"),
        ..Decision::default()
    }
}

/// Starts an instance whose first turn is given up, with these items.
pub async fn give_up_turn(provider: &CosmosProvider, instance: &str, items: &str) {
    enqueue(provider, start_of(instance)).await;
    let turn = turn(provider, instance).await;
    commit(provider, &turn.lock_token, poisoned(instance, items))
        .await
        .expect("the failure commits");
}

/// What duroxide completes an activity with that was fetched too often.
fn poisoned_activity(instance: &str, id: u64, item: &str) -> WorkItem {
    let kind = PoisonMessageType::Activity {
        instance: instance.to_owned(),
        execution_id: 1,
        activity_name: "Act".to_owned(),
        activity_id: id,
    };
    WorkItem::ActivityFailed {
        instance: instance.to_owned(),
        execution_id: 1,
        id,
        details: poison_of(kind, item),
    }
}

/// Starts an instance with so many activities, all of which are given up.
pub async fn give_up_activities(provider: &CosmosProvider, instance: &str, count: u64) {
    begin_with(provider, instance, count, named()).await;
    for id in 2..2 + count {
        let claimed = work(provider, instance, id).await;
        let poison = poisoned_activity(instance, id, "{}");
        let failed = provider.ack_work_item(&claimed.lock_token, Some(poison)).await;
        failed.expect("it fails");
    }
}

#[tokio::test]
async fn a_given_up_turn_leaves_a_dead_letter_with_its_messages() {
    let fixture = Fixture::new().await;
    give_up_turn(&fixture.provider, "bad", "[{\"TimerFired\":{}},{\"other\":\"日本\"}]").await;
    let page = fixture
        .provider
        .dead_letters(10, None)
        .await
        .expect("dead letters are listed");
    let [summary] = page.dead_letters.as_slice() else {
        panic!("{page:?}")
    };
    assert_eq!((summary.kind, summary.attempts), (DeadLetterKind::PoisonTurn, 11));
    assert_eq!((summary.execution, summary.name.as_deref()), (Some(1), Some("Sample")));
    assert!(
        summary.reason.contains("'Sample'") && summary.reason.contains("11 times"),
        "{}",
        summary.reason
    );
    let dead_letter = fixture
        .provider
        .dead_letter(&summary.id)
        .await
        .expect("it is read")
        .expect("it is there");
    let items: Vec<&str> = dead_letter.items.iter().map(|item| item.get()).collect();
    assert_eq!(
        (items, dead_letter.omitted),
        (vec!["{\"TimerFired\":{}}", "{\"other\":\"日本\"}"], 0)
    );
}

#[tokio::test]
async fn a_given_up_activity_leaves_a_dead_letter_with_its_completion() {
    let fixture = Fixture::new().await;
    begin_with(&fixture.provider, "i", 1, named()).await;
    let claimed = work(&fixture.provider, "i", 2).await;
    let completion = poisoned_activity("i", 2, "{\"ActivityExecute\":{\"id\":2}}");
    fixture.world.listener().reset();
    fixture
        .provider
        .ack_work_item(&claimed.lock_token, Some(completion))
        .await
        .expect("it fails");
    assert_eq!(fixture.world.listener().counts().requests, 1, "it is in the same batch");
    let page = fixture
        .provider
        .dead_letters(10, None)
        .await
        .expect("dead letters are listed");
    let [dead_letter] = page.dead_letters.as_slice() else {
        panic!("{page:?}")
    };
    assert_eq!(
        (dead_letter.kind, dead_letter.name.as_deref()),
        (DeadLetterKind::PoisonActivity, Some("Act"))
    );
    assert!(
        dead_letter.reason.contains("'Act'") && dead_letter.reason.contains("never completed"),
        "{}",
        dead_letter.reason
    );
    assert_eq!(fixture.messages_of("i").await, 1, "the orchestration gets its failure");
}

#[tokio::test]
async fn an_ordinary_failure_leaves_no_dead_letter() {
    let fixture = Fixture::new().await;
    enqueue(&fixture.provider, start_of("i")).await;
    let turn = turn(&fixture.provider, "i").await;
    let details = ErrorDetails::Application {
        kind: AppErrorKind::OrchestrationFailed,
        message: "no".to_owned(),
        retryable: false,
    };
    commit(&fixture.provider, &turn.lock_token, failed("i", details))
        .await
        .expect("the failure commits");
    assert!(fixture.dead_letters().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_given_up_turn_of_three_megabytes_is_recorded_without_its_payload() {
    let fixture = Fixture::new().await;
    let large = format!("\"{}\"", "語".repeat(512 * 1024));
    let items = format!("[{large},{large},\"small\"]");
    assert!(items.len() > 3 * 1024 * 1024);
    give_up_turn(&fixture.provider, "大きい/instance?#", &items).await;
    let info = fixture
        .provider
        .get_instance_info("大きい/instance?#")
        .await
        .expect("it is known");
    assert_eq!(info.status, "Failed");
    let page = fixture
        .provider
        .dead_letters(10, None)
        .await
        .expect("dead letters are listed");
    let id = &page.dead_letters[0].id;
    assert_eq!(id.instance, "大きい/instance?#");
    let dead_letter = fixture
        .provider
        .dead_letter(id)
        .await
        .expect("it is read")
        .expect("it is there");
    let kept: Vec<&str> = dead_letter.items.iter().map(|item| item.get()).collect();
    assert_eq!((kept, dead_letter.omitted), (vec!["\"small\""], 2));
}

/// Failed or not, with a dead letter or without: never one without the other.
async fn assert_together(fixture: &Fixture, instance: &str, context: &str) {
    let status = fixture
        .provider
        .get_instance_info(instance)
        .await
        .map(|info| info.status);
    let failed = status.is_ok_and(|status| status == "Failed");
    assert_eq!(fixture.dead_letters().await.len(), usize::from(failed), "{context}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: a crash at each write"]
async fn a_given_up_turn_and_its_dead_letter_are_atomic_at_every_crash() {
    // The second has more messages than a batch takes operations: its commit is staged.
    for (messages, crashes) in [(1, 1), (150, 3)] {
        for point in BOTH {
            for n in 1.. {
                let context = format!("{messages} messages, {point:?} {n}");
                let fixture = Fixture::new().await;
                enqueue(&fixture.provider, start_of("bad")).await;
                for _ in 1..messages {
                    enqueue(&fixture.provider, raised("bad", "x")).await;
                }
                let (listener, crashing) = fixture.process().await;
                let turn = match crashing.fetch_turn("bad", LOCK, None).await {
                    Ok(duroxide_cosmos::Fetched::Ready(turn)) => turn,
                    other => panic!("{context}: {other:?}"),
                };
                listener.crash_at_write(n, point);
                until_crash(&listener, commit(&crashing, &turn.lock_token, poisoned("bad", "[]"))).await;
                assert_together(&fixture, "bad", &context).await;
                fixture.clock.advance(MUCH_LATER);
                let pass = fixture
                    .provider
                    .maintain_unfinished(page_of(10))
                    .await
                    .expect("it is searched");
                assert_eq!((pass.failed, pass.cursor.is_none()), (0, true), "{context}");
                assert_together(&fixture, "bad", &context).await;
                if !listener.crashed() {
                    assert_eq!(n, crashes + 1, "{context}");
                    break;
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_given_up_activity_and_its_dead_letter_are_atomic_at_every_crash() {
    for point in BOTH {
        for n in 1.. {
            let fixture = Fixture::new().await;
            begin_with(&fixture.provider, "i", 1, ExecutionMetadata::default()).await;
            let (listener, crashing) = fixture.process().await;
            let claimed = work(&crashing, "i", 2).await;
            listener.crash_at_write(n, point);
            let completion = poisoned_activity("i", 2, "{}");
            until_crash(&listener, crashing.ack_work_item(&claimed.lock_token, Some(completion))).await;
            let completions = fixture.messages_of("i").await;
            assert_eq!(fixture.dead_letters().await.len(), completions, "{point:?} {n}");
            if !listener.crashed() {
                assert_eq!((n, completions), (2, 1), "it is one batch");
                break;
            }
        }
    }
}
