//! What each action does to instances in each state, and what a dry run says of it.

use super::support::*;
use crate::pause::support::Scene;
use duroxide_cosmos::{BatchAction, InstanceFilter, InstanceStatus, RestartRequest};
use tests::turns::*;

/// One instance of each kind. The oldest is pending.
async fn one_of_each() -> Scene {
    let scene = Scene::new().await;
    let provider = &scene.provider;
    enqueue(provider, start_of("pending")).await;
    begin(provider, "running").await;
    begin(provider, "paused").await;
    provider.pause("paused", None, false).await.expect("it is paused");
    begin_with(provider, "completed", 0, ended("Completed", "out")).await;
    fail(provider, "failed").await;
    scene
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_action_changes_what_it_can_and_a_dry_run_says_so_before_and_changes_nothing() {
    let restart_new = restart(false);
    let cases: [(BatchAction, [u64; 5]); 9] = [
        (cancel(), [5, 3, 2, 0, 0]),
        (pause(), [5, 2, 3, 0, 0]),
        (resume(), [5, 1, 4, 0, 0]),
        (raise(), [5, 3, 2, 0, 0]),
        (delete(), [5, 2, 0, 0, 3]),
        (BatchAction::Delete { force: true }, [5, 5, 0, 0, 0]),
        (rewind(), [5, 1, 0, 0, 4]),
        (restart(true), [5, 2, 0, 0, 3]),
        (restart_new, [5, 5, 0, 0, 0]),
    ];
    for (action, expected) in cases {
        let scene = one_of_each().await;
        let mut request = request(action.clone(), all());
        request.dry_run = true;
        let before = snapshot(&scene.world).await;
        let dry = run_batch(&scene, "dry", &request).await;
        is_completed(&dry);
        assert_eq!(counts(&dry), expected, "dry run of {action:?}");
        assert_eq!((dry.by_status["Paused"], dry.sample.len()), (1, 5));
        let is_own = |doc: &String| doc.contains("duroxide:batches");
        let mut after = snapshot(&scene.world).await;
        after.retain(|doc| !is_own(doc));
        assert_eq!(after, before, "a dry run of {action:?} changes nothing");

        request.dry_run = false;
        let done = run_batch(&scene, "real", &request).await;
        is_completed(&done);
        assert_eq!(counts(&done), expected, "{action:?}");
        assert_eq!(done.by.as_deref(), Some("ops"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn actions_have_their_effects() {
    let scene = one_of_each().await;
    run_batch(&scene, "pause", &request(pause(), all())).await;
    for instance in ["pending", "running", "paused"] {
        assert_eq!(
            status(&scene, instance).await,
            Some(InstanceStatus::Paused),
            "{instance}"
        );
    }
    run_batch(&scene, "resume", &request(resume(), of_status(InstanceStatus::Paused))).await;
    assert_eq!(status(&scene, "running").await, Some(InstanceStatus::Running));
    run_batch(&scene, "raise", &request(raise(), all())).await;
    let raised = messages(&scene, "ExternalRaised").await;
    let names: Vec<&str> = raised.iter().map(|(instance, _)| instance.as_str()).collect();
    assert_eq!(names, ["paused", "pending", "running"]);
    run_batch(&scene, "cancel", &request(cancel(), all())).await;
    assert_eq!(messages(&scene, "CancelInstance").await.len(), 3);
    run_batch(
        &scene,
        "again",
        &request(restart(true), of_status(InstanceStatus::Failed)),
    )
    .await;
    assert_eq!(status(&scene, "failed").await, Some(InstanceStatus::Running));
    run_batch(
        &scene,
        "delete",
        &request(delete(), of_status(InstanceStatus::Completed)),
    )
    .await;
    assert_eq!(status(&scene, "completed").await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_are_listed_by_instance_with_their_reasons() {
    let scene = Scene::new().await;
    running(&scene, 30).await;
    let done = run_batch(&scene, "b", &request(delete(), all())).await;
    assert_eq!(counts(&done), [30, 0, 0, 0, 30]);
    let (mut found, mut from) = (Vec::new(), Some(0));
    while let Some(at) = from {
        let page = scene
            .provider
            .batch_failures("b", at, 7)
            .await
            .expect("the store answers");
        let page = page.expect("it is there");
        assert!(!page.failures.is_empty());
        found.extend(page.failures);
        from = page.next;
    }
    assert!(found.iter().all(|failure| failure.reason == "it has not ended"));
    let mut names: Vec<String> = found.into_iter().map(|failure| failure.instance).collect();
    assert_eq!(names[0], "i-29", "the newest first");
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 30, "each once");
    assert_eq!(
        scene
            .provider
            .batch_failures("none", 0, 7)
            .await
            .expect("the store answers"),
        None
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_has_what_its_filter_finds_and_was_accepted_before_it() {
    let scene = Scene::new().await;
    running(&scene, 6).await;
    let filter = InstanceFilter {
        prefix: Some("i-".to_owned()),
        version: Some("1.0.0".to_owned()),
        ..all()
    };
    start(&scene, "b", &request(pause(), filter.clone())).await;
    // What comes later is not in it.
    begin(&scene.provider, "i-new").await;
    begin(&scene.provider, "other").await;
    let done = finish(&scene, &scene.provider, "b").await;
    assert_eq!((counts(&done), &done.filter), ([6, 6, 0, 0, 0], &filter));
    assert_eq!(status(&scene, "i-new").await, Some(InstanceStatus::Running));
    let none = InstanceFilter {
        version: Some("9.9.9".to_owned()),
        name: Some("Sample".to_owned()),
        ..all()
    };
    let empty = run_batch(&scene, "empty", &request(pause(), none)).await;
    is_completed(&empty);
    assert_eq!(counts(&empty), [0; 5]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_deleted_between_the_search_and_the_action_is_gone_and_children_go_with_their_root() {
    let scene = Scene::new().await;
    running(&scene, 3).await;
    start(&scene, "b", &request(cancel(), all())).await;
    step(&scene.provider, "b").await;
    use duroxide::providers::ProviderAdmin as _;
    scene
        .provider
        .delete_instance("i-1", true)
        .await
        .expect("it is deleted");
    scene.clock.advance(AFTER_ANY_PAUSE);
    let done = finish(&scene, &scene.provider, "b").await;
    assert_eq!(counts(&done), [3, 2, 0, 1, 0]);

    let scene = Scene::new().await;
    begin_with(&scene.provider, "root", 0, ended("Completed", "out")).await;
    let mut child = start_of("child");
    if let duroxide::providers::WorkItem::StartOrchestration {
        parent_instance,
        parent_id,
        ..
    } = &mut child
    {
        (*parent_instance, *parent_id) = (Some("root".to_owned()), Some(2));
    }
    enqueue(&scene.provider, child).await;
    let first = turn(&scene.provider, "child").await;
    let mut metadata = ended("Completed", "out");
    metadata.parent_instance_id = Some("root".to_owned());
    let decision = Decision {
        metadata,
        ..Decision::first("child", 0)
    };
    commit(&scene.provider, &first.lock_token, decision)
        .await
        .expect("it ends");
    let alone = RestartRequest {
        instance: "child",
        version: None,
        key: None,
    };
    let refused = scene
        .provider
        .restart_in_place(alone, false)
        .await
        .expect("the store answers");
    assert!(format!("{refused:?}").contains("root"), "{refused:?}");
    let restarted = run_batch(
        &scene,
        "r",
        &request(
            restart(true),
            InstanceFilter {
                parent: Some("root".to_owned()),
                ..all()
            },
        ),
    )
    .await;
    assert_eq!(counts(&restarted), [1, 0, 0, 0, 1], "{restarted:?}");
    let done = run_batch(&scene, "d", &request(delete(), all())).await;
    assert_eq!(counts(&done), [2, 1, 1, 0, 0], "the child goes with its root");
    assert_eq!(status(&scene, "child").await, None);
}
