//! Dead letters by invocation of the function: an operator lists, reads, redrives and discards them.

use crate::crashes::at_every_write;
use crate::dead_letters::{give_up, starts};
use crate::function::*;
use crate::giving_up::{give_up_activities, give_up_turn};
use crate::support::*;
use cosmos_emulator::{Faults, RequestKind};
use duroxide::providers::ProviderAdmin;
use duroxide_cosmos::{CosmosProvider, DeadLetterFilter, DeadLetterKind, Redriven};
use duroxide_lambda::internals::{Answer, PassName};
use duroxide_lambda::internals::{Budget, Maintenance, MaintenanceRequest};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// One invocation; the answer as JSON.
async fn ask(maintenance: &Maintenance, dead_letters: Value) -> Value {
    ask_within(maintenance, dead_letters, ENOUGH).await
}

async fn ask_within(maintenance: &Maintenance, dead_letters: Value, time: Duration) -> Value {
    let answer = maintenance
        .handle(&json!({ "deadLetters": dead_letters }), Budget::of(time))
        .await;
    let Ok(Answer::DeadLetters(answer)) = answer else {
        panic!("{answer:?}")
    };
    serde_json::to_value(answer).expect("an answer is JSON")
}

/// The addresses of listed dead letters, as a request names them.
fn ids(listed: &Value) -> Vec<Value> {
    let dead_letters = listed["deadLetters"]["list"]["deadLetters"].as_array().expect("a list");
    dead_letters
        .iter()
        .map(|dead_letter| json!({"instance": dead_letter["instance"], "id": dead_letter["id"]}))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_can_list_read_redrive_and_discard_dead_letters() {
    let fixture = Fixture::new().await;
    give_up(&fixture, "source", starts(&["a", "b", "c"])).await;
    fixture.clock.advance(Duration::from_secs(1));
    give_up_turn(&fixture.provider, "bad", "[]").await;
    let (maintenance, queue) = maintenance(&fixture.provider, &fixture.clock, settings());
    let first = ask(&maintenance, json!({"list": {"limit": 3}})).await;
    let next = &first["deadLetters"]["list"]["next"];
    let second = ask(&maintenance, json!({"list": {"limit": 3, "after": next}})).await;
    assert_eq!((ids(&first).len(), ids(&second).len()), (3, 1), "{first} {second}");
    assert!(second["deadLetters"]["list"]["next"].is_null());
    assert_eq!(
        first["deadLetters"]["list"]["deadLetters"][0]["kind"], "poison-turn",
        "the newest first"
    );
    let poisoned = ask(&maintenance, json!({"list": {"kind": "poison-turn"}})).await;
    assert_eq!(ids(&poisoned), ids(&first)[..1]);
    let of_source = ask(&maintenance, json!({"list": {"instance": "source"}})).await;
    assert_eq!(ids(&of_source).len(), 3);

    let read = ask(&maintenance, json!({"read": ids(&of_source)[0]})).await;
    let dead_letter = &read["deadLetters"]["read"];
    assert!(
        dead_letter["reason"]
            .as_str()
            .is_some_and(|why| why.contains("never be delivered")),
        "{read}"
    );
    assert!(dead_letter["items"][0]["StartOrchestration"].is_object(), "{read}");

    let one = ask(&maintenance, json!({"redrive": {"ids": [ids(&of_source)[0]]}})).await;
    let target = dead_letter["target"].as_str().expect("a target");
    assert_eq!(one["deadLetters"]["redrive"]["instances"], json!([target]));
    assert_eq!(
        (&one["wakeupsSent"], woken(&queue)),
        (&json!(1), vec![target.to_owned()])
    );
    let both = json!({"discard": {"ids": [ids(&of_source)[0], ids(&of_source)[1]]}});
    let gone = &ask(&maintenance, both).await["deadLetters"]["discard"];
    assert_eq!(
        (&gone["done"], &gone["gone"], &gone["failed"]),
        (&json!(1), &json!(1), &json!(0)),
        "{gone}"
    );
    assert!(ask(&maintenance, json!({"read": ids(&of_source)[1]})).await["deadLetters"]["read"].is_null());
    assert_eq!(fixture.dead_letters().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_dead_letters_are_redriven_in_pages_and_one_that_fails_stops_no_other() {
    let fixture = Fixture::new().await;
    give_up(&fixture, "source", starts(&["a", "b", "c", "d", "e"])).await;
    fixture.clock.advance(Duration::from_secs(1));
    give_up_turn(&fixture.provider, "lost", "[]").await;
    let pk = cosmos::PartitionKey::new("lost").expect("a valid partition key");
    let raw = fixture.world.raw();
    raw.delete(&pk, "instance", None, cosmos::Retry::Idempotent)
        .await
        .expect("it was there");
    let (maintenance, queue) = maintenance(&fixture.provider, &fixture.clock, settings());
    // The newest is the one that fails.
    let (mut after, mut pages, mut done) = (Value::Null, 0, 0);
    loop {
        let answer = ask(
            &maintenance,
            json!({"redrive": {"all": true, "limit": 2, "after": after}}),
        )
        .await;
        let redrive = &answer["deadLetters"]["redrive"];
        pages += 1;
        done += redrive["done"].as_u64().unwrap_or_default();
        assert_eq!(redrive["failed"], u64::from(pages == 1), "{answer}");
        if pages == 1 {
            assert_eq!(redrive["failures"][0]["instance"], "lost");
            let error = redrive["failures"][0]["error"].as_str().unwrap_or_default();
            assert!(error.contains("execution 1 of instance 'lost' not found"), "{error}");
        }
        assert_eq!(redrive["leftOver"], !redrive["next"].is_null(), "{answer}");
        after = redrive["next"].clone();
        if after.is_null() {
            break;
        }
        assert!(pages < 10, "it comes to an end");
    }
    assert_eq!((pages, done), (3, 5));
    assert_eq!(woken(&queue), ["a", "b", "c", "d", "e"]);
    fixture.assert_one_message_each(&["a", "b", "c", "d", "e"]).await;
    assert_eq!(
        fixture.dead_letters().await.len(),
        1,
        "the one that failed is still there"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_what_matches_is_redriven() {
    let fixture = Fixture::new().await;
    give_up(&fixture, "source", starts(&["a"])).await;
    give_up(&fixture, "other", starts(&["b"])).await;
    give_up_turn(&fixture.provider, "bad", "[]").await;
    let (maintenance, queue) = maintenance(&fixture.provider, &fixture.clock, settings());
    let both = json!({"redrive": {"kind": "poison-turn", "instance": "source"}});
    assert_eq!(ask(&maintenance, both).await["deadLetters"]["redrive"]["done"], 0);
    let of_other = ask(&maintenance, json!({"redrive": {"instance": "other"}})).await;
    assert_eq!(
        (&of_other["deadLetters"]["redrive"]["done"], woken(&queue)),
        (&json!(1), vec!["b".to_owned()])
    );
    let poisoned = ask(&maintenance, json!({"redrive": {"kind": "poison-turn"}})).await;
    assert_eq!(poisoned["deadLetters"]["redrive"]["done"], 1);
    assert!(woken(&queue)[0].starts_with("bad~"));
    let left = fixture.dead_letters().await;
    assert!(left.len() == 1 && left[0]["pk"] == "source", "{left:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redriving_an_execution_with_several_dead_letters_runs_it_once() {
    let fixture = Fixture::new().await;
    give_up_activities(&fixture.provider, "bad", 3).await;
    let before = fixture.dead_letters().await.len();
    let (maintenance, queue) = maintenance(&fixture.provider, &fixture.clock, settings());
    let answer = ask(&maintenance, json!({"redrive": {"all": true}})).await;
    let redrive = &answer["deadLetters"]["redrive"];
    assert_eq!((before, &redrive["done"]), (3, &json!(3)), "{answer}");
    let instances = redrive["instances"].as_array().expect("a list");
    assert_eq!((instances.len(), woken(&queue).len()), (1, 1), "{answer}");
    let again = instances[0].as_str().expect("a name");
    assert!(again.starts_with("bad~"), "{again}");
    fixture.consume(again).await;
    fixture.clock.advance(MUCH_LATER);
    deliver_all(&fixture.provider, 10).await;
    assert_eq!(fixture.messages_of(again).await, 0);
    assert!(fixture.dead_letters().await.is_empty() && fixture.intents().await.is_empty());
}

/// Dead letters of the default filter, until the given time.
async fn redrive_all(provider: &CosmosProvider, time: Duration) -> Vec<Redriven> {
    let (mut redriven, mut next) = (Vec::new(), None);
    loop {
        let deadline = Instant::now() + time;
        let page = provider
            .redrive_many(&DeadLetterFilter::default(), 2, next.as_ref(), deadline)
            .await;
        let page = page.expect("dead letters can be listed");
        redriven.extend(
            page.dead_letters
                .into_iter()
                .map(|(id, done)| done.unwrap_or_else(|error| panic!("{id:?}: {error}"))),
        );
        next = page.next;
        if next.is_none() {
            return redriven;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: a crash at each write"]
async fn redriving_many_that_crashes_at_any_write_is_completed_by_the_next_and_delivers_once() {
    let crashes = at_every_write(|n, point| async move {
        let fixture = Fixture::new().await;
        give_up(&fixture, "source", starts(&["a", "b"])).await;
        let (listener, crashing) = fixture.process().await;
        let (operator, _) = maintenance(&crashing, &fixture.clock, settings());
        listener.crash_at_write(n, point);
        until_crash(&listener, ask(&operator, json!({"redrive": {"all": true}}))).await;
        for target in ["a", "b"] {
            fixture.consume(target).await;
        }
        let (next, queue) = maintenance(&fixture.provider, &fixture.clock, settings());
        let answer = ask(&next, json!({"redrive": {"all": true}})).await;
        assert_eq!(answer["deadLetters"]["redrive"]["failed"], 0, "{point:?} {n}: {answer}");
        fixture.clock.advance(MUCH_LATER);
        assert_complete(&run(&next).await);
        let wakeups = woken(&queue);
        for target in ["a", "b"] {
            let waits = fixture.messages_of(target).await > 0;
            assert!(
                !waits || wakeups.contains(&target.to_owned()),
                "{point:?} {n}: {target} waits, and nobody knows"
            );
            fixture.consume(target).await;
            let history = fixture.provider.read_history(target).await.expect("it has begun");
            assert_eq!(history.len(), 1, "{point:?} {n}: {target} began twice");
        }
        assert!(
            fixture.dead_letters().await.is_empty() && fixture.intents().await.is_empty(),
            "{point:?} {n}"
        );
        listener.crashed()
    })
    .await;
    assert_eq!(
        crashes, 12,
        "for each dead letter a batch, a delivery, the removal of the intent"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_bulk_redrives_at_once_redrive_each_dead_letter_once() {
    let fixture = Fixture::new().await;
    let targets: Vec<String> = (0..40).map(|n| format!("t-{n}")).collect();
    let names: Vec<&str> = targets.iter().map(String::as_str).collect();
    give_up(&fixture, "source", starts(&names)).await;
    let (one, two) = (fixture.process().await.1, fixture.process().await.1);
    let (first, second) = futures::join!(redrive_all(&one, ENOUGH), redrive_all(&two, ENOUGH));
    let delivered = [first, second]
        .concat()
        .into_iter()
        .filter(|done| *done != Redriven::Gone)
        .count();
    assert_eq!(delivered, 40);
    fixture.assert_one_message_each(&names).await;
    assert!(fixture.dead_letters().await.is_empty() && fixture.intents().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redriving_many_stops_with_its_time_and_can_be_continued() {
    let fixture = Fixture::new().await;
    let targets: Vec<String> = (0..60).map(|n| format!("t-{n}")).collect();
    let names: Vec<&str> = targets.iter().map(String::as_str).collect();
    give_up(&fixture, "source", starts(&names)).await;
    let (listener, provider) = fixture.process().await;
    let (maintenance, queue) = maintenance(&provider, &fixture.clock, settings());
    listener.set_faults(Faults {
        delay: Some(Duration::from_millis(100)),
        ..Faults::default()
    });
    let (mut after, mut runs, mut wakeups) = (Value::Null, 0, Vec::new());
    loop {
        let asked = json!({"redrive": {"all": true, "after": after}});
        let answer = ask_within(&maintenance, asked, Duration::from_millis(3_900)).await;
        let redrive = &answer["deadLetters"]["redrive"];
        assert_eq!(redrive["failed"], 0, "the end of the time is no failure: {answer}");
        wakeups.extend(woken(&queue));
        runs += 1;
        after = redrive["next"].clone();
        if redrive["leftOver"] == false {
            break;
        }
        assert!(runs < 30, "it comes forward");
    }
    assert!(runs > 1, "the time was too long to show anything");
    listener.clear_faults();
    // What was cut short in the middle is an intent, or a message without a wakeup.
    fixture.clock.advance(MUCH_LATER);
    for pass in [PassName::Outbox, PassName::Sweep] {
        if pass == PassName::Sweep && targets.iter().all(|target| wakeups.contains(target)) {
            break;
        }
        let request = MaintenanceRequest {
            passes: vec![pass],
            ..MaintenanceRequest::default()
        };
        assert_complete(&maintenance.run(request, Budget::of(ENOUGH)).await);
        wakeups.extend(woken(&queue));
    }
    fixture.assert_one_message_each(&names).await;
    assert!(targets.iter().all(|target| wakeups.contains(target)), "{wakeups:?}");
    assert!(fixture.dead_letters().await.is_empty() && fixture.intents().await.is_empty());
}

#[tokio::test]
async fn unreadable_dead_letters_are_an_error_and_without_time_nothing_happens() {
    let fixture = Fixture::new().await;
    give_up(&fixture, "source", starts(&["a"])).await;
    let (listener, provider) = fixture.process().await;
    let (maintenance, queue) = maintenance(&provider, &fixture.clock, settings());
    listener.reset();
    let none = ask_within(&maintenance, json!({"redrive": {"all": true}}), Duration::ZERO).await;
    let redrive = &none["deadLetters"]["redrive"];
    assert_eq!(
        (&redrive["leftOver"], &redrive["done"]),
        (&json!(true), &json!(0)),
        "{none}"
    );
    let on = &redrive["next"];
    assert_eq!((listener.counts().requests, queue.count()), (0, 0));
    let page = provider.dead_letters_like(
        &DeadLetterFilter {
            kind: Some(DeadLetterKind::PoisonTurn),
            instance: None,
        },
        10,
        None,
    );
    assert!(page.await.expect("dead letters are listed").dead_letters.is_empty());
    listener.refuse_when(|request| {
        (request.kind == RequestKind::CrossPartitionQuery).then(|| cosmos_emulator::Refusing::with(403))
    });
    let refused = maintenance
        .handle(&json!({"deadLetters": {"list": {}}}), Budget::of(ENOUGH))
        .await;
    assert!(refused.is_err(), "{refused:?}");
    let asked = json!({"redrive": {"all": true, "after": on}});
    let redrive = &ask(&maintenance, asked.clone()).await["deadLetters"]["redrive"];
    assert!(
        redrive["error"].is_string() && redrive["leftOver"] == true && redrive["next"] == *on,
        "{redrive}"
    );
    listener.refuse_nothing();
    assert_eq!(ask(&maintenance, asked).await["deadLetters"]["redrive"]["done"], 1);
}
