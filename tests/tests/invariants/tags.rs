//! Tags: set with the start, set and cleared by the workflow through its keys, in the commit of its turn.

use cosmos_emulator::ServerOptions;
use duroxide::providers::{Provider, ProviderAdmin};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{Client, EventKind, OrchestrationContext, OrchestrationRegistry};
use duroxide_cosmos::{CosmosProvider, InstanceFilter, StartRequest, Started, Tags};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tests::turns::*;
use tests::{ManualClock, World};

fn tags(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

async fn start(provider: &CosmosProvider, instance: &str, pairs: &[(&str, &str)]) {
    let tags = Tags::new(tags(pairs)).expect("tags");
    let request = StartRequest {
        instance,
        orchestration: "Sample",
        version: None,
        input: "{}",
        tags: &tags,
        key: None,
    };
    assert_eq!(provider.start(request).await.expect("it starts"), Started::Accepted);
}

async fn tags_of(provider: &CosmosProvider, instance: &str) -> BTreeMap<String, String> {
    let summary = provider.instance_summary(instance).await.expect("it can be read");
    summary.expect("an instance").tags
}

async fn found(provider: &CosmosProvider, pairs: &[(&str, &str)]) -> Vec<String> {
    let filter = InstanceFilter {
        tags: tags(pairs).into_iter().collect(),
        ..InstanceFilter::default()
    };
    let page = provider.search(&filter, None, 100).await.expect("a page");
    assert_eq!(page.next, None);
    for summary in &page.instances {
        assert_eq!(summary.tags, tags_of(provider, &summary.instance).await);
    }
    page.instances.into_iter().map(|summary| summary.instance).collect()
}

/// Commits a turn that changes keys, and nothing else.
async fn change(provider: &CosmosProvider, instance: &str, first_event: u64, kinds: Vec<EventKind>) {
    enqueue(provider, raised(instance, "go")).await;
    let turn = turn(provider, instance).await;
    let events = kinds.into_iter().zip(first_event..);
    let events = events.map(|(kind, id)| event(instance, 1, id, kind)).collect();
    let decision = Decision::of(events);
    commit(provider, &turn.lock_token, decision).await.expect("it commits");
}

fn set(key: &str, value: &str) -> EventKind {
    EventKind::KeyValueSet {
        key: key.to_owned(),
        value: value.to_owned(),
        last_updated_at_ms: 1,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tags_are_set_at_the_start_and_changed_by_the_workflow() {
    let world = World::local(ServerOptions::default()).await;
    let provider = world.provider_at(&Arc::new(ManualClock::default())).await;
    start(&provider, "a", &[("customer", "ada"), ("plan", "pro")]).await;
    start(&provider, "b", &[("customer", "bob"), ("plan", "pro")]).await;
    start(&provider, "none", &[]).await;
    assert_eq!(
        found(&provider, &[("customer", "ada")]).await,
        ["a"],
        "while it is pending"
    );
    for instance in ["a", "b", "none"] {
        let turn = turn(&provider, instance).await;
        let first = Decision::first(instance, 0);
        commit(&provider, &turn.lock_token, first).await.expect("it begins");
    }
    let mut pro = found(&provider, &[("plan", "pro")]).await;
    pro.sort();
    assert_eq!(pro, ["a", "b"]);
    assert_eq!(found(&provider, &[("plan", "pro"), ("customer", "bob")]).await, ["b"]);
    for nobody in [
        ("customer", "ad"),
        ("customer", "ada "),
        ("plan", "ada"),
        ("customer:ada", "x"),
    ] {
        assert!(found(&provider, &[nobody]).await.is_empty(), "{nobody:?}");
    }

    change(
        &provider,
        "a",
        2,
        vec![set("tag:customer", "eve"), set("tag:step", "2"), set("other", "x")],
    )
    .await;
    assert_eq!(
        tags_of(&provider, "a").await,
        tags(&[("customer", "eve"), ("plan", "pro"), ("step", "2")])
    );
    assert!(found(&provider, &[("customer", "ada")]).await.is_empty());
    assert_eq!(found(&provider, &[("step", "2")]).await, ["a"]);
    assert_eq!(
        provider.get_kv_value("a", "tag:step").await.expect("a key").as_deref(),
        Some("2")
    );

    let key = "tag:step".to_owned();
    change(&provider, "a", 5, vec![EventKind::KeyValueCleared { key }]).await;
    assert_eq!(
        tags_of(&provider, "a").await,
        tags(&[("customer", "eve"), ("plan", "pro")])
    );
    change(&provider, "a", 6, vec![EventKind::KeyValuesCleared]).await;
    assert_eq!(
        tags_of(&provider, "a").await,
        tags(&[("plan", "pro")]),
        "the start's own stays"
    );

    // What cannot be a tag is a key all the same.
    let long = "x".repeat(129);
    let many = (0..20).map(|n| set(&format!("tag:t{n:02}"), "v"));
    let kinds = many.chain([set("tag:long", &long), set("tag:plan", "")]).collect();
    change(&provider, "a", 7, kinds).await;
    let kept = tags_of(&provider, "a").await;
    assert_eq!((kept.len(), kept["plan"].as_str()), (16, "pro"));
    assert_eq!(provider.get_kv_value("a", "tag:long").await.expect("a key"), Some(long));
    assert_eq!(provider.get_kv_all_values("a").await.expect("keys").len(), 22);
    provider.delete_instance("a", true).await.expect("it is deleted");
    assert_eq!(found(&provider, &[("plan", "pro")]).await, ["b"]);
}

/// A workflow and its child, which inherits nothing; the tags outlive `continue_as_new`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workflow_tags_itself_and_its_child_inherits_nothing() {
    let world = World::local(ServerOptions::default()).await;
    let provider = world.provider().await;
    let orchestrations = OrchestrationRegistry::builder()
        .register("Parent", |ctx: OrchestrationContext, input: String| async move {
            if input == "first" {
                ctx.set_kv_value("tag:customer", "ada");
                ctx.schedule_sub_orchestration_with_id("Child", "child", String::new())
                    .await?;
                return ctx.continue_as_new("second").await;
            }
            ctx.set_kv_value("tag:step", "second");
            Ok(String::new())
        })
        .register("Child", |_: OrchestrationContext, _: String| async move {
            Ok(String::new())
        })
        .build();
    let runtime = run(&provider, ActivityRegistry::builder().build(), orchestrations).await;
    let client = Client::new(Arc::clone(&provider) as Arc<dyn Provider>);
    client
        .start_orchestration("parent", "Parent", "first")
        .await
        .expect("it starts");
    let ended = client.wait_for_orchestration("parent", Duration::from_secs(120)).await;
    ended.expect("it ends");
    assert_eq!(
        tags_of(&provider, "parent").await,
        tags(&[("customer", "ada"), ("step", "second")])
    );
    assert_eq!(tags_of(&provider, "child").await, tags(&[]));
    assert_eq!(found(&provider, &[("customer", "ada")]).await, ["parent"]);
    runtime.shutdown(None).await;
}
