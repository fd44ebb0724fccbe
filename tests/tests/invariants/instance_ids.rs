//! An instance may have any name: the name is a partition key and never part of a document id, a path or a query.

use cosmos_emulator::ServerOptions;
use duroxide::runtime::OrchestrationStatus;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tests::turns::*;
use tests::{PATIENCE, World};

/// A child's generated name is its parent's with `::sub::{n}` behind it.
const ROOM_FOR_A_CHILD: usize = 2_048 - 16;

fn unusual_names() -> Vec<String> {
    let mut names: Vec<String> = [
        "plain",
        "a/b",
        "a",
        "A",
        "../lock",
        "lock",
        "instance",
        "session",
        "back\\slash",
        "who?",
        "#1",
        "\"q\"",
        "it's",
        "' OR 1=1 --",
        "%2F",
        "%",
        "a%2Fb",
        "with space",
        " leading",
        "trailing ",
        "trailing",
        " ",
        "🦀",
        "👩‍👩‍👧",
        "日本",
        "\u{e9}",
        "e\u{301}",
        "{\"json\":[1]}",
        "[\"array\"]",
        "@now",
        "null",
        "a,b;c",
        "a::b",
        "line\nbreak",
        "carriage\r\nreturn",
        "tab\t",
        "control\u{1}\u{7f}",
        "\u{202e}right to left",
    ]
    .map(str::to_owned)
    .into();
    names.push("x".repeat(200));
    names.push("é".repeat(1_024));
    names.push("y".repeat(2_048));
    names
}

fn activities() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Echo", |ctx: ActivityContext, input: String| async move {
            Ok(format!("{input} in {}", ctx.session_id().unwrap_or("no session")))
        })
        .build()
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Life", |ctx: OrchestrationContext, input: String| async move {
            let name = ctx.instance_id();
            ctx.set_custom_status(format!("status of {name}"));
            ctx.set_kv_value(name.clone(), format!("value of {name}"));
            let echo = ctx
                .schedule_activity_on_session("Echo", input.clone(), name.clone())
                .await?;
            let heard = ctx.dequeue_event("news").await;
            if name.len() > ROOM_FOR_A_CHILD {
                return Ok(format!("{echo}, heard {heard}"));
            }
            let child = ctx.schedule_sub_orchestration("Child", input).await?;
            Ok(format!("{echo}, heard {heard}, {child}"))
        })
        .register("Child", |ctx: OrchestrationContext, input: String| async move {
            let echo = ctx.schedule_activity("Echo", input).await?;
            Ok(format!("child: {echo}"))
        })
        .register("Bear", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_sub_orchestration("Child", input).await
        })
        .register("Sit", |ctx: OrchestrationContext, session: String| async move {
            ctx.schedule_activity_on_session("Echo", "x", session).await
        })
        .build()
}

/// The whole life of one instance, from start to deletion.
async fn live(client: Client, name: String) {
    let input = format!("input of {name}");
    client
        .start_orchestration(&name, "Life", &input)
        .await
        .expect("it starts");
    let status = client
        .wait_for_status_change(&name, 0, Duration::from_millis(20), PATIENCE)
        .await;
    status.unwrap_or_else(|error| panic!("{name:?} has no custom status: {error:?}"));
    client
        .enqueue_event(&name, "news", format!("news for {name}"))
        .await
        .expect("an event is queued");
    let ended = client.wait_for_orchestration(&name, PATIENCE).await;
    let ended = ended.unwrap_or_else(|error| panic!("{name:?} does not end: {error:?}"));
    let OrchestrationStatus::Completed {
        output, custom_status, ..
    } = ended
    else {
        panic!("{name:?} ended as {ended:?}");
    };
    let mut expected = format!("{input} in {name}, heard news for {name}");
    if name.len() <= ROOM_FOR_A_CHILD {
        expected.push_str(&format!(", child: {input} in no session"));
    }
    assert_eq!(output, expected);
    assert_eq!(custom_status, Some(format!("status of {name}")));
    let value = client.get_kv_value(&name, &name).await.expect("the key can be read");
    assert_eq!(value, Some(format!("value of {name}")));
    assert_eq!(
        client
            .get_kv_all_values(&name)
            .await
            .expect("the keys can be read")
            .len(),
        1
    );
    let info = client.get_instance_info(&name).await.expect("the instance is known");
    assert_eq!((info.instance_id, info.status.as_str()), (name.clone(), "Completed"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_with_unusual_names_run_side_by_side() {
    let mut names = unusual_names();
    names.retain(|name| ["a/b", "../lock", "instance", "' OR 1=1 --", "日本", "line\nbreak"].contains(&name.as_str()));
    live_all(names).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: a whole life for each of 41 names"]
async fn instances_with_any_name_run_side_by_side() {
    live_all(unusual_names()).await;
}

async fn live_all(names: Vec<String>) {
    let world = World::start().await;
    let provider = world.provider().await;
    let runtime = run(&provider, activities(), orchestrations()).await;
    let client = Client::new(Arc::clone(&provider) as Arc<dyn duroxide::providers::Provider>);
    let lives: Vec<_> = names
        .iter()
        .map(|name| tokio::spawn(live(client.clone(), name.clone())))
        .collect();
    for life in lives {
        life.await.expect("every life is as it should be");
    }

    let listed: HashSet<String> = client.list_all_instances().await.expect("a list").into_iter().collect();
    let mut children = 0;
    for (n, name) in names.iter().enumerate() {
        assert!(listed.contains(name), "{name:?} is listed");
        let tree = client.get_instance_tree(name).await.expect("a tree");
        let expected = if name.len() <= ROOM_FOR_A_CHILD { 2 } else { 1 };
        assert_eq!(tree.all_ids.len(), expected, "{name:?}: {:?}", tree.all_ids);
        children += tree.all_ids.len() - 1;
        if n % 2 == 0 {
            let deleted = client.delete_instance(name, false).await.expect("it is deleted");
            assert_eq!(deleted.instances_deleted, expected as u64, "{name:?}");
        }
    }
    assert_eq!(listed.len(), names.len() + children);
    let left: HashSet<String> = client.list_all_instances().await.expect("a list").into_iter().collect();
    for (n, name) in names.iter().enumerate() {
        assert_eq!(left.contains(name), n % 2 == 1, "{name:?}");
    }
    runtime.shutdown(Some(1_000)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_no_partition_can_hold_is_refused_before_any_request() {
    let world = World::local(ServerOptions::default()).await;
    let provider = world.provider().await;
    let client = Client::new(Arc::clone(&provider) as Arc<dyn duroxide::providers::Provider>);
    world.listener().reset();
    for (name, bytes) in [
        (String::new(), "0"),
        ("z".repeat(2_049), "2049"),
        ("é".repeat(1_025), "2050"),
    ] {
        let error = client
            .start_orchestration(&name, "Life", "x")
            .await
            .expect_err("no instance can have this name");
        let text = error.to_string();
        assert!(!error.is_retryable(), "{text}");
        assert!(
            text.contains(&format!("{bytes} bytes")) && text.contains("2048"),
            "{text}"
        );
        let error = client
            .raise_event(&name, "e", "x")
            .await
            .expect_err("no instance can have this name");
        assert!(error.to_string().contains("2048"), "{error}");
    }
    assert_eq!(world.listener().counts().requests, 0, "{:?}", world.listener().log());
    assert!(world.documents().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_addresses_an_impossible_name_fails_with_a_reason_and_affects_no_other() {
    let world = World::start().await;
    let provider = world.provider().await;
    let runtime = run(&provider, activities(), orchestrations()).await;
    let client = Client::new(Arc::clone(&provider) as Arc<dyn duroxide::providers::Provider>);
    let long = "p".repeat(2_048);
    let cases = [
        (long.as_str(), "Bear", String::new()),
        ("long session", "Sit", "s".repeat(2_049)),
        ("no session", "Sit", String::new()),
    ];
    for (name, orchestration, input) in &cases {
        client
            .start_orchestration(*name, *orchestration, input.clone())
            .await
            .expect("it starts");
    }
    for (name, orchestration, _) in &cases {
        let ended = client.wait_for_orchestration(name, Duration::from_secs(20)).await;
        let ended = ended.unwrap_or_else(|error| panic!("{orchestration} of '{name:.20}' hangs: {error:?}"));
        match ended {
            OrchestrationStatus::Failed { details, .. } => {
                assert!(
                    details.display_message().contains("2048"),
                    "{orchestration}: {}",
                    details.display_message()
                );
            }
            // Without a name there is no session, and the activity may simply run.
            OrchestrationStatus::Completed { .. } if *name == "no session" => {}
            other => panic!("{orchestration} of '{name:.20}' ended as {other:?}"),
        }
    }
    client
        .start_orchestration("after", "Child", "x")
        .await
        .expect("it starts");
    let after = client
        .wait_for_orchestration("after", Duration::from_secs(20))
        .await
        .expect("others go on");
    assert!(matches!(after, OrchestrationStatus::Completed { .. }), "{after:?}");
    runtime.shutdown(Some(1_000)).await;
}
