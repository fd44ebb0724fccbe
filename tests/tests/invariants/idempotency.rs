//! Idempotency keys: of all requests with one key exactly one has an effect, whatever is lost, repeated, raced, or deleted in between.

use cosmos_emulator::{Faults, ServerOptions};
use duroxide::EventKind;
use duroxide::providers::ProviderAdmin;
use duroxide_cosmos::{
    CosmosProvider, EventRequest, EventTarget, InstanceStatus, Raised, StartRequest, Started, Tags, instance_id_of_key,
};
use futures::future::join_all;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tests::turns::*;
use tests::{ManualClock, World};

const DAY: Duration = Duration::from_secs(24 * 3_600);

async fn world() -> (World, Arc<CosmosProvider>) {
    let world = World::local(ServerOptions::default()).await;
    let provider = world.provider_at(&Arc::new(ManualClock::default())).await;
    (world, provider)
}

fn start<'a>(instance: &'a str, key: Option<&'a str>, tags: &'a Tags) -> StartRequest<'a> {
    StartRequest {
        instance,
        orchestration: "Sample",
        version: Some("1.0.0"),
        input: "{}",
        tags,
        key,
    }
}

async fn started(provider: &CosmosProvider, instance: &str, key: Option<&str>) -> Started {
    let tags = Tags::default();
    provider.start(start(instance, key, &tags)).await.expect("an answer")
}

fn event<'a>(instance: &'a str, data: &'a str, key: Option<&'a str>) -> EventRequest<'a> {
    EventRequest {
        instance,
        target: EventTarget::Event("go"),
        data,
        key,
    }
}

async fn raised(provider: &CosmosProvider, data: &str, key: Option<&str>) -> Raised {
    provider.raise(event("order", data, key)).await.expect("an answer")
}

/// How many documents of a kind the world has.
async fn count(world: &World, kind: &str) -> usize {
    let documents = world.documents().await;
    documents.iter().filter(|document| document["type"] == kind).count()
}

/// Runs the first turn of an instance, which goes on.
async fn first_turn(provider: &CosmosProvider, instance: &str) {
    let turn = turn(provider, instance).await;
    let first = Decision::first(instance, 0);
    commit(provider, &turn.lock_token, first).await.expect("it begins");
}

/// Ends an instance that has begun.
async fn end(provider: &CosmosProvider, instance: &str) {
    enqueue(provider, tests::turns::raised(instance, "end")).await;
    let turn = turn(provider, instance).await;
    let output = "out".to_owned();
    let last = Decision {
        metadata: ended("Completed", "out"),
        ..Decision::of(vec![tests::turns::event(
            instance,
            1,
            2,
            EventKind::OrchestrationCompleted { output },
        )])
    };
    commit(provider, &turn.lock_token, last).await.expect("it ends");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_answers_what_became_of_it() {
    let (world, provider) = world().await;
    assert_eq!(started(&provider, "order", Some("k")).await, Started::Accepted);
    assert_eq!(started(&provider, "order", Some("k")).await, Started::Repeated);
    assert_eq!(started(&provider, "order", Some("l")).await, Started::Taken);
    assert_eq!(started(&provider, "order", None).await, Started::Taken);
    assert_eq!(
        (count(&world, "message").await, count(&world, "instance").await),
        (1, 1)
    );
    assert_eq!(
        count(&world, "receipt").await,
        1,
        "what was refused has written nothing"
    );

    // Another request under the same key.
    let some = Tags::new(BTreeMap::from([("a".to_owned(), "b".to_owned())])).expect("tags");
    let none = Tags::default();
    let same = start("order", Some("k"), &none);
    for other in [
        StartRequest {
            orchestration: "Other",
            ..same
        },
        StartRequest { version: None, ..same },
        StartRequest { input: "[]", ..same },
        StartRequest { tags: &some, ..same },
    ] {
        assert_eq!(
            provider.start(other).await.expect("an answer"),
            Started::KeyReused,
            "{other:?}"
        );
    }
    // Neither the key nor the request is stored.
    for document in world
        .documents()
        .await
        .iter()
        .filter(|document| document["type"] == "receipt")
    {
        assert!(!document.to_string().contains("Sample"), "{document}");
    }
    // It is an instance as any other.
    first_turn(&provider, "order").await;
    let summary = provider.instance_summary("order").await.expect("it can be read");
    assert_eq!(summary.expect("an instance").status, InstanceStatus::Running);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_start_is_recognised_whatever_became_of_the_instance() {
    let (world, provider) = world().await;
    let id = instance_id_of_key("k");
    let again = || async {
        let repeated = started(&provider, &id, Some("k")).await;
        assert_eq!(repeated, Started::Repeated);
    };
    assert_eq!(started(&provider, &id, Some("k")).await, Started::Accepted);
    again().await;
    first_turn(&provider, &id).await;
    again().await;
    end(&provider, &id).await;
    again().await;
    provider.delete_instance(&id, false).await.expect("it is deleted");
    again().await;
    assert!(provider.instance_summary(&id).await.expect("it can be read").is_none());

    // Almost a day later it is still known, and for ever it is not.
    world.server().expire_as_if(DAY).await;
    again().await;
    world.server().expire_as_if(DAY + DAY).await;
    assert_eq!(started(&provider, &id, Some("k")).await, Started::Accepted);

    // Deleted while it is pending: its message goes, its receipt stays.
    let pending = [id.clone()];
    provider
        .delete_instances_atomic(&pending, true)
        .await
        .expect("it is deleted");
    again().await;
    assert_eq!(count(&world, "message").await, 0);
    assert_eq!(started(&provider, &id, Some("another")).await, Started::Accepted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_racing_starts_exactly_one_is_accepted() {
    const RACERS: usize = 40;
    let (world, provider) = world().await;
    let keyed = join_all((0..RACERS).map(|_| started(&provider, "same-key", Some("k")))).await;
    let accepted = |answers: &[Started]| answers.iter().filter(|answer| **answer == Started::Accepted).count();
    assert_eq!(accepted(&keyed), 1, "{keyed:?}");
    assert!(
        keyed
            .iter()
            .all(|answer| matches!(answer, Started::Accepted | Started::Repeated)),
        "{keyed:?}"
    );

    let keys: Vec<String> = (0..RACERS).map(|n| format!("key-{n}")).collect();
    let other = join_all(keys.iter().map(|key| started(&provider, "same-id", Some(key)))).await;
    assert_eq!(accepted(&other), 1, "{other:?}");
    assert!(
        other
            .iter()
            .all(|answer| matches!(answer, Started::Accepted | Started::Taken)),
        "{other:?}"
    );

    let unkeyed = join_all((0..RACERS).map(|_| started(&provider, "no-key", None))).await;
    assert_eq!(accepted(&unkeyed), 1, "{unkeyed:?}");
    assert_eq!(
        (count(&world, "message").await, count(&world, "instance").await),
        (3, 3)
    );
}

/// A message may be there before its instance: then there is a document that only fences.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_after_an_early_event_is_accepted_and_takes_the_event() {
    let (world, provider) = world().await;
    enqueue(&provider, tests::turns::raised("order", "early")).await;
    provider.fetch_turn("order", LOCK, None).await.expect("it is set aside");
    assert_eq!(
        world.document("order", "instance").await.expect("a fence")["aside"],
        true
    );
    let tags = Tags::new(BTreeMap::from([("a".to_owned(), "b".to_owned())])).expect("tags");
    let accepted = provider.start(start("order", Some("k"), &tags)).await;
    assert_eq!(accepted.expect("an answer"), Started::Accepted);
    assert_eq!(started(&provider, "order", None).await, Started::Taken);
    let summary = provider
        .instance_summary("order")
        .await
        .expect("it can be read")
        .expect("one");
    assert_eq!(
        (summary.status, summary.tags),
        (InstanceStatus::Pending, tags.into_map())
    );
    let turn = turn(&provider, "order").await;
    assert_eq!(
        turn.item.messages.len(),
        2,
        "the start and the event: {:?}",
        turn.item.messages
    );
}

/// Every other answer is lost, and the client repeats each request until it has one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_answers_make_one_instance_and_one_event() {
    let world = World::local(ServerOptions::default()).await;
    let clock = Arc::new(ManualClock::default());
    let listener = world.open_listener().await;
    // Within a call nothing is repeated: the client itself has to.
    let config = world
        .builder_through(&listener)
        .operation_timeout(Duration::from_secs(30))
        .clock(Arc::clone(&clock) as Arc<dyn duroxide_cosmos::Clock>);
    let provider = tests::connect(config).await;
    for seed in 0..20 {
        let faults = Faults {
            seed,
            lost_after: 0.5,
            writes_only: true,
            ..Faults::default()
        };
        let (instance, key) = (format!("order-{seed}"), format!("key-{seed}"));
        listener.set_faults(faults.clone());
        assert_eq!(
            started(&provider, &instance, None).await,
            Started::Accepted,
            "its own attempts are no others"
        );
        let answer = started(&provider, &instance, Some(&key)).await;
        assert_eq!(answer, Started::Taken);
        let keyed = format!("keyed-{seed}");
        assert_eq!(started(&provider, &keyed, Some(&key)).await, Started::Accepted);
        assert_eq!(started(&provider, &keyed, Some(&key)).await, Started::Repeated);
        for key in [None, Some(key.as_str())] {
            let answer = provider.raise(event(&keyed, "1", key)).await.expect("an answer");
            assert_eq!(answer, Raised::Accepted);
        }
        let repeated = provider.raise(event(&keyed, "1", Some(&key))).await.expect("an answer");
        assert_eq!(repeated, Raised::Repeated);
        listener.clear_faults();
        let of = |pk: &str, documents: &[Value]| {
            let messages = documents.iter().filter(|document| document["type"] == "message");
            messages.filter(|document| document["pk"] == *pk).count()
        };
        let documents = world.documents().await;
        assert_eq!(
            (of(&instance, &documents), of(&keyed, &documents)),
            (1, 3),
            "seed {seed}"
        );
    }
    assert_eq!(count(&world, "instance").await, 40);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_answers_what_became_of_it() {
    let (world, provider) = world().await;
    for key in [None, Some("k")] {
        assert_eq!(raised(&provider, "1", key).await, Raised::NotFound);
        for unknown in ["", &*"i".repeat(5_000)] {
            let answer = provider.raise(event(unknown, "1", key)).await.expect("an answer");
            assert_eq!(answer, Raised::NotFound);
        }
    }
    assert!(world.documents().await.is_empty(), "nothing is written");

    assert_eq!(started(&provider, "order", None).await, Started::Accepted);
    assert_eq!(
        raised(&provider, "1", Some("k")).await,
        Raised::Accepted,
        "also before the first turn"
    );
    assert_eq!(raised(&provider, "1", Some("k")).await, Raised::Repeated);
    assert_eq!(raised(&provider, "2", Some("k")).await, Raised::KeyReused);
    let queue = EventRequest {
        target: EventTarget::Queue("go"),
        ..event("order", "1", Some("k"))
    };
    assert_eq!(provider.raise(queue).await.expect("an answer"), Raised::KeyReused);
    let queue = EventRequest { key: None, ..queue };
    assert_eq!(provider.raise(queue).await.expect("an answer"), Raised::Accepted);
    assert_eq!(raised(&provider, "1", None).await, Raised::Accepted);
    assert_eq!(
        raised(&provider, "1", None).await,
        Raised::Accepted,
        "without a key it is another one"
    );
    assert_eq!(count(&world, "message").await, 1 + 4);

    // After the turn that took it, and for a day.
    first_turn(&provider, "order").await;
    assert_eq!(raised(&provider, "1", Some("k")).await, Raised::Repeated);
    world.server().expire_as_if(DAY).await;
    assert_eq!(raised(&provider, "1", Some("k")).await, Raised::Repeated);
    end(&provider, "order").await;
    assert_eq!(
        raised(&provider, "1", Some("k")).await,
        Raised::Repeated,
        "it was accepted in time"
    );
    let before = snapshot(&world).await;
    for key in [None, Some("late"), Some("late")] {
        assert_eq!(raised(&provider, "1", key).await, Raised::Ended);
    }
    assert_eq!(snapshot(&world).await, before, "what was refused is withdrawn");
    provider.delete_instance("order", false).await.expect("it is deleted");
    assert_eq!(raised(&provider, "1", Some("late")).await, Raised::NotFound);
    assert_eq!(raised(&provider, "1", Some("k")).await, Raised::Repeated);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_racing_events_with_one_key_exactly_one_is_accepted() {
    let (world, provider) = world().await;
    begin(&provider, "order").await;
    let answers = join_all((0..40).map(|_| raised(&provider, "1", Some("k")))).await;
    let accepted = answers.iter().filter(|answer| **answer == Raised::Accepted).count();
    assert_eq!(accepted, 1, "{answers:?}");
    assert!(
        answers
            .iter()
            .all(|answer| matches!(answer, Raised::Accepted | Raised::Repeated)),
        "{answers:?}"
    );
    assert_eq!(count(&world, "message").await, 1);
}

/// A document that only fences is no instance, and an event for it leaves nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_for_a_fence_is_withdrawn() {
    let (world, provider) = world().await;
    enqueue(&provider, tests::turns::raised("order", "early")).await;
    provider.fetch_turn("order", LOCK, None).await.expect("it is set aside");
    let before = snapshot(&world).await;
    assert_eq!(raised(&provider, "1", Some("k")).await, Raised::NotFound);
    assert_eq!(snapshot(&world).await, before);
}
