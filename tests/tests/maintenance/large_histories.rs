//! Histories that are too large to be loaded: their orchestrations end as given up, once, and everybody concerned learns it.

use crate::crashes::at_every_write;
use crate::support::*;
use duroxide::providers::{ExecutionMetadata, Provider, ProviderAdmin, WorkItem};
use duroxide::runtime::OrchestrationStatus;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, ErrorDetails, EventKind, OrchestrationContext, OrchestrationRegistry};
use duroxide_cosmos::{CosmosProvider, DeadLetterKind, Fetched, GivenUpTurn, Target};
use std::sync::Arc;
use tests::turns::*;
use tests::{PATIENCE, connect};

const LIMIT: u64 = 100_000;

/// One more process, which loads histories up to the limit.
async fn limited(fixture: &Fixture) -> (cosmos_emulator::Listener, Arc<CosmosProvider>) {
    let listener = fixture.world.open_listener().await;
    let config = fixture.world.builder_through(&listener).history_limit(LIMIT);
    let clock = Arc::clone(&fixture.clock);
    (listener, connect(config.clock(clock)).await)
}

fn start_of_child() -> WorkItem {
    WorkItem::StartOrchestration {
        instance: "child".to_owned(),
        orchestration: "Sample".to_owned(),
        input: "{}".to_owned(),
        version: Some("1.0.0".to_owned()),
        parent_instance: Some("parent".to_owned()),
        parent_id: Some(7),
        parent_execution_id: Some(1),
        execution_id: 1,
    }
}

/// A child with a history of so many bytes, and two activities under way; a message is due for it.
async fn plant_child(fixture: &Fixture, bytes: u64, status: Option<&str>) {
    let provider = &fixture.provider;
    begin(provider, "parent").await;
    enqueue(provider, start_of_child()).await;
    let first = turn(provider, "child").await;
    let mut start = started("child", 1);
    if let EventKind::OrchestrationStarted {
        parent_instance,
        parent_id,
        parent_execution_id,
        ..
    } = &mut start.kind
    {
        *parent_instance = Some("parent".to_owned());
        *parent_id = Some(7);
        *parent_execution_id = Some(1);
    }
    let large = EventKind::ExternalEvent {
        name: "go".to_owned(),
        data: "x".repeat(bytes as usize),
    };
    let metadata = ExecutionMetadata {
        parent_instance_id: Some("parent".to_owned()),
        ..named()
    };
    let decision = Decision {
        events: vec![
            start,
            scheduled("child", 2),
            scheduled("child", 3),
            event("child", 1, 4, large),
        ],
        work: vec![activity("child", 2), activity("child", 3)],
        metadata,
        ..Decision::default()
    };
    commit(provider, &first.lock_token, decision).await.expect("it begins");
    if let Some(status) = status {
        enqueue(provider, raised("child", "end")).await;
        let last = turn(provider, "child").await;
        let kind = match status {
            "ContinuedAsNew" => EventKind::OrchestrationContinuedAsNew { input: String::new() },
            _ => EventKind::OrchestrationCompleted { output: String::new() },
        };
        let decision = Decision {
            events: vec![event("child", 1, 5, kind)],
            metadata: ended(status, ""),
            ..Decision::default()
        };
        commit(provider, &last.lock_token, decision).await.expect("it ends");
    }
    enqueue(provider, raised("child", "the last straw")).await;
}

fn given_up(fetched: Fetched<duroxide_cosmos::TurnItem>) -> GivenUpTurn {
    match fetched {
        Fetched::GivenUp(turn) => turn,
        other => panic!("the turn is given up, not {other:?}"),
    }
}

#[tokio::test]
async fn a_history_over_the_limit_ends_its_orchestration_without_being_loaded() {
    let fixture = Fixture::new().await;
    plant_child(&fixture, 2 * LIMIT, None).await;
    let (listener, limited) = limited(&fixture).await;
    let turn = given_up(
        limited
            .fetch_turn("child", LOCK, None)
            .await
            .expect("the fetch succeeds"),
    );
    // It fits one page of the answer, which is read once; the claim and the commit do without.
    let bytes = listener.counts().response_bytes;
    assert!(bytes < 2 * LIMIT + LIMIT / 2, "{bytes} bytes were read");
    for part in [
        "'Sample'",
        "'child'",
        "execution 1",
        "100000",
        "continue as new",
        "results small",
    ] {
        assert!(turn.error.contains(part), "{part}: {}", turn.error);
    }
    let targets: Vec<&Target> = turn.due.iter().map(|due| &due.target).collect();
    let parent = Target::Turn {
        instance: "parent".to_owned(),
    };
    assert_eq!(targets, [&parent]);
    assert_ended(&fixture, &turn.error).await;
    // Whoever writes to it later is answered by duroxide, from the end of the history.
    listener.reset();
    enqueue(&fixture.provider, raised("child", "late")).await;
    let late = ready(
        limited
            .fetch_turn("child", LOCK, None)
            .await
            .expect("the fetch succeeds"),
    );
    assert!(
        listener.counts().response_bytes < 2 * LIMIT + LIMIT / 2,
        "{:?}",
        listener.counts()
    );
    let last = late.item.history.last().expect("the last event");
    assert!(matches!(last.kind, EventKind::OrchestrationFailed { .. }), "{last:?}");
    assert_eq!(late.item.messages.len(), 1, "the other one is consumed");
}

/// The failure, the dead letter, the answer to the parent and the cancelled activities are there, once.
async fn assert_ended(fixture: &Fixture, error: &str) {
    let info = fixture.provider.get_instance_info("child").await.expect("an instance");
    assert_eq!((info.status.as_str(), info.output.as_deref()), ("Failed", Some(error)));
    let history = fixture.provider.read("child").await.expect("a history");
    let failures = history
        .iter()
        .filter(|event| matches!(event.kind, EventKind::OrchestrationFailed { .. }));
    assert_eq!((history.len(), failures.count()), (5, 1));
    assert!(
        fixture.world.documents_of("work").await.is_empty(),
        "activities are cancelled"
    );
    assert!(fixture.intents().await.is_empty());
    let dead_letters = fixture
        .provider
        .dead_letters(10, None)
        .await
        .expect("a list")
        .dead_letters;
    let [dead_letter] = dead_letters.as_slice() else {
        panic!("one dead letter, not {dead_letters:?}")
    };
    assert_eq!(
        (dead_letter.kind, dead_letter.reason.as_str()),
        (DeadLetterKind::PoisonTurn, error)
    );
    let dead_letter = fixture.provider.dead_letter(&dead_letter.id).await;
    let items = dead_letter.expect("it is read").expect("it is there").items;
    assert_eq!(items.len(), 1);
    assert!(items[0].get().contains("the last straw"), "{items:?}");
    let parent = turn(&fixture.provider, "parent").await;
    let [
        WorkItem::SubOrchFailed {
            parent_id: 7, details, ..
        },
    ] = parent.item.messages.as_slice()
    else {
        panic!("the parent is answered, once: {:?}", parent.item.messages)
    };
    assert_eq!(details.display_message(), error);
    assert!(
        matches!(details, ErrorDetails::Application { retryable: false, .. }),
        "{details:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn giving_up_a_history_that_crashes_at_any_write_is_completed_once() {
    let crashes = at_every_write(|n, point| async move {
        let fixture = Fixture::new().await;
        plant_child(&fixture, 2 * LIMIT, None).await;
        let (listener, crashing) = limited(&fixture).await;
        listener.crash_at_write(n, point);
        until_crash(&listener, crashing.fetch_turn("child", LOCK, None)).await;
        fixture.clock.advance(MUCH_LATER);
        let (_, next) = limited(&fixture).await;
        let error = match next.fetch_turn("child", LOCK, None).await.expect("the fetch succeeds") {
            Fetched::GivenUp(turn) => turn.error,
            Fetched::Nothing => {
                let info = next.get_instance_info("child").await.expect("an instance");
                info.output.expect("its error")
            }
            other => panic!("{point:?} {n}: {other:?}"),
        };
        deliver_all(&next, 10).await;
        assert_ended(&fixture, &error).await;
        listener.crashed()
    })
    .await;
    assert!(crashes >= 4, "{crashes} crashes");
}

#[tokio::test]
async fn an_execution_that_has_ended_is_not_given_up_for_its_size() {
    for status in ["Completed", "ContinuedAsNew"] {
        let fixture = Fixture::new().await;
        plant_child(&fixture, 2 * LIMIT, Some(status)).await;
        let (listener, limited) = limited(&fixture).await;
        let turn = ready(
            limited
                .fetch_turn("child", LOCK, None)
                .await
                .expect("the fetch succeeds"),
        );
        assert!(listener.counts().response_bytes < 2 * LIMIT + LIMIT / 2, "{status}");
        assert_eq!(turn.item.history.len(), 1, "{status}: its last turn");
        let decision = Decision {
            execution: 2,
            ..Decision::of(vec![started("child", 2)])
        };
        commit(&limited, &turn.lock_token, decision).await.expect("it goes on");
        assert!(fixture.dead_letters().await.is_empty(), "{status}");
    }
}

#[tokio::test]
async fn a_history_at_the_limit_is_loaded_whole() {
    let fixture = Fixture::new().await;
    plant_child(&fixture, LIMIT / 2, None).await;
    let (_, limited) = limited(&fixture).await;
    let turn = ready(
        limited
            .fetch_turn("child", LOCK, None)
            .await
            .expect("the fetch succeeds"),
    );
    assert_eq!(turn.item.history.len(), 4);
}

/// A parent whose child collects more than fits.
fn greedy() -> (OrchestrationRegistry, ActivityRegistry) {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Parent", |ctx: OrchestrationContext, _: String| async move {
            match ctx.schedule_sub_orchestration("Greedy", "").await {
                Ok(output) => Ok(output),
                Err(error) => Ok(format!("handled: {error}")),
            }
        })
        .register("Greedy", |ctx: OrchestrationContext, _: String| async move {
            for _ in 0..20 {
                ctx.schedule_activity("Large", "").await?;
            }
            Ok("all of it".to_owned())
        })
        .build();
    let activities = ActivityRegistry::builder()
        .register("Large", |_: ActivityContext, _: String| async move {
            Ok("x".repeat(20_000))
        })
        .build();
    (orchestrations, activities)
}

fn assert_handled(status: OrchestrationStatus) {
    let OrchestrationStatus::Completed { output, .. } = status else {
        panic!("the parent completes: {status:?}")
    };
    let is_told = output.starts_with("handled: ") && output.contains("over the limit of 100000");
    assert!(is_told, "{output}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parent_handles_a_child_whose_history_is_over_the_limit() {
    let fixture = Fixture::new().await;
    let provider = connect(fixture.world.builder().history_limit(LIMIT)).await;
    let (orchestrations, activities) = greedy();
    let runtime = run(&provider, activities, orchestrations).await;
    let client = duroxide::Client::new(Arc::clone(&provider) as Arc<dyn Provider>);
    client.start_orchestration("p", "Parent", "").await.expect("it starts");
    let status = client.wait_for_orchestration("p", PATIENCE).await.expect("it ends");
    assert_handled(status);
    runtime.shutdown(Some(0)).await;
}
