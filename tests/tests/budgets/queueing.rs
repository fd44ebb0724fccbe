//! What clients and idle processes cost.

use crate::*;

#[tokio::test]
async fn making_a_provider_sends_nothing() {
    let world = world().await;
    world.listener().reset();
    let provider = world.provider().await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(world.listener().counts(), Counts::default());
    enqueue(&provider, start_of("i")).await;
    assert_eq!(world.listener().counts().requests, 1, "the counter does count");
}

#[tokio::test]
async fn nothing_is_sent_while_nobody_calls() {
    let world = world().await;
    let provider = connect(world.builder().sweep_interval(Duration::from_millis(20))).await;
    begun(&provider, "i", 2).await;
    let claimed = ready(fetch_work(&provider, "i", 2).await);
    complete(&provider, &claimed, "i", 2).await;
    let waited = provider
        .fetch_orchestration_item(LOCK, Duration::from_millis(100), None)
        .await;
    assert!(
        waited.expect("the fetch succeeds").is_some(),
        "there is a turn to claim"
    );
    world.listener().reset();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(world.listener().counts(), Counts::default());
}

#[tokio::test]
async fn every_way_of_queueing_is_one_request() {
    let world = world().await;
    let provider = world.provider().await;
    let client = Client::new(Arc::clone(&provider) as Arc<dyn Provider>);
    let listener = world.listener();

    let (done, cost) = cost_of(listener, client.start_orchestration("i", "Sample", "{}")).await;
    done.expect("it starts");
    cost.is(1, 1);
    let (done, cost) = cost_of(listener, client.raise_event("i", "Go", "1")).await;
    done.expect("the event is raised");
    cost.is(1, 1);
    let (done, cost) = cost_of(listener, client.enqueue_event("i", "inbox", "1")).await;
    done.expect("the event is queued");
    cost.is(1, 1);
    let (done, cost) = cost_of(listener, client.cancel_instance("i", "enough")).await;
    done.expect("the cancellation is queued");
    cost.is(1, 1);
    let (_, cost) = cost_of(listener, enqueue(&provider, raised("i", "1"))).await;
    cost.is(1, 1);
    let work = Decision::first("i", 1).work.remove(0);
    let (done, cost) = cost_of(listener, provider.enqueue_for_worker(work)).await;
    done.expect("the activity is queued");
    cost.is(1, 1);
}

/// Tags and keys cost operations of the same batch, and an answer about the instance costs nothing more.
#[tokio::test]
async fn every_request_of_the_api_is_one_request() {
    let world = world().await;
    let provider = world.provider().await;
    let listener = world.listener();
    let tags = Tags::new([("customer".to_owned(), "ada".to_owned())].into()).expect("tags");
    for (instance, key) in [("plain", None), ("keyed", Some("k"))] {
        let start = StartRequest {
            instance,
            orchestration: "Sample",
            version: None,
            input: "{}",
            tags: &tags,
            key,
        };
        let (started, cost) = cost_of(listener, provider.start(start)).await;
        assert_eq!(started.expect("it starts"), Started::Accepted);
        cost.is(1, 1);
        for target in [EventTarget::Event("go"), EventTarget::Queue("inbox")] {
            let event = EventRequest {
                instance,
                target,
                data: "1",
                key: key.filter(|_| target == EventTarget::Event("go")),
            };
            let (raised, cost) = cost_of(listener, provider.raise(event)).await;
            assert_eq!(raised.expect("it is raised"), Raised::Accepted);
            cost.is(1, 1);
        }
        // A repetition has to look at what there is.
        let (again, cost) = cost_of(listener, provider.start(start)).await;
        let expected = if key.is_some() {
            Started::Repeated
        } else {
            Started::Taken
        };
        assert_eq!(again.expect("an answer"), expected);
        cost.is(2, 2);
    }
    let nobody = EventRequest {
        instance: "nobody",
        target: EventTarget::Event("go"),
        data: "1",
        key: None,
    };
    let (raised, cost) = cost_of(listener, provider.raise(nobody)).await;
    assert_eq!(raised.expect("an answer"), Raised::NotFound);
    cost.is(1, 1);
}

#[tokio::test]
async fn a_summary_is_one_request_and_waiting_for_a_change_one_each() {
    let world = world().await;
    let provider = world.provider().await;
    begun(&provider, "i", 1).await;
    let (summary, cost) = cost_of(world.listener(), provider.instance_summary("i")).await;
    let summary = summary.expect("it can be read").expect("an instance");
    cost.is(1, 1);
    let (same, cost) = cost_of(
        world.listener(),
        provider.instance_summary_if_changed("i", &summary.etag),
    )
    .await;
    assert_eq!(same.expect("it can be read"), SummaryChange::Unchanged);
    cost.is(1, 1);
    let (changed, cost) = cost_of(world.listener(), provider.instance_summary_if_changed("i", "\"0\"")).await;
    assert_eq!(
        changed.expect("it can be read"),
        SummaryChange::Changed(Box::new(summary))
    );
    cost.is(1, 1);
}

/// duroxide's client reads the history as well.
#[tokio::test]
async fn duroxides_status_of_an_instance_is_two_requests() {
    let world = world().await;
    let provider = world.provider().await;
    begun(&provider, "i", 1).await;
    let client = Client::new(Arc::clone(&provider) as Arc<dyn Provider>);
    let listener = world.listener();
    // duroxide's client asks for the history and then for the custom status: one request of ours for each.
    let (status, cost) = cost_of(listener, client.get_orchestration_status("i")).await;
    assert!(
        matches!(status, Ok(duroxide::OrchestrationStatus::Running { .. })),
        "{status:?}"
    );
    cost.is(2, 2);
    let (history, cost) = cost_of(listener, provider.read("i")).await;
    assert_eq!(history.expect("the history can be read").len(), 2);
    cost.is(1, 1);
    let (info, cost) = cost_of(listener, provider.get_instance_info("i")).await;
    assert_eq!(info.expect("the instance is known").status, "Running");
    cost.is(1, 1);
}

#[tokio::test]
async fn keys_and_custom_status_are_one_request_each() {
    let world = world().await;
    let provider = world.provider().await;
    enqueue(&provider, start_of("i")).await;
    let turn = ready(fetch(&provider, "i").await);
    let set = |key: &str| EventKind::KeyValueSet {
        key: key.to_owned(),
        value: format!("{key}!"),
        last_updated_at_ms: 1,
    };
    let mut decision = Decision::first("i", 0);
    decision.events.push(event(
        "i",
        1,
        2,
        EventKind::CustomStatusUpdated {
            status: Some("busy".to_owned()),
        },
    ));
    decision.events.push(event("i", 1, 3, set("a")));
    decision.events.push(event("i", 1, 4, set("b")));
    let ((), cost) = cost_of(world.listener(), commit(&provider, &turn.lock_token, decision)).await;
    cost.is(1, 1);

    let (status, cost) = cost_of(world.listener(), provider.get_custom_status("i", 0)).await;
    assert_eq!(
        status.expect("the status can be read"),
        Some((Some("busy".to_owned()), 1))
    );
    cost.is(1, 1);
    let (value, cost) = cost_of(world.listener(), provider.get_kv_value("i", "a")).await;
    assert_eq!(value.expect("the key can be read").as_deref(), Some("a!"));
    cost.is(1, 1);
    let (values, cost) = cost_of(world.listener(), provider.get_kv_all_values("i")).await;
    assert_eq!(values.expect("the keys can be read").len(), 2);
    cost.is(1, 1);
}
