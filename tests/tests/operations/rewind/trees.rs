//! Children: rewound with their parent, or alone.

use super::support::*;
use duroxide_cosmos::{InstanceStatus, RewindOutcome, RewindRequest};
use tests::cloud::Cloud;

async fn child(cloud: &Cloud, of: &str) -> String {
    let documents = cloud.world.documents_of("instance").await;
    let child = documents.iter().find(|doc| doc["parent"] == of);
    child.and_then(|doc| doc["pk"].as_str()).expect("a child").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_tree_goes_on_where_it_failed() {
    let shop = Shop::default();
    shop.break_down("ship");
    let cloud = shop.cloud().await;
    run(&cloud, "order", "Parent", "Parent:Steps:pack,ship").await;
    let middle = child(&cloud, "order").await;
    let leaf = child(&cloud, &middle).await;
    for instance in ["order", &middle, &leaf] {
        assert_failed(&summary(&cloud, instance).await);
    }
    shop.repair("ship");
    for instance in [&middle, &leaf] {
        let parent = if *instance == middle { "order" } else { &middle };
        let refused = rewind(&cloud, instance).await;
        assert_eq!(refused.outcome, RewindOutcome::HasParent(parent.to_owned()));
    }
    let plan = rewound(&cloud, "order").await.plan.expect("a plan");
    assert_eq!(
        plan.children.iter().map(|step| step.name.as_str()).collect::<Vec<_>>(),
        [&middle]
    );
    assert_eq!(output(&cloud, "order").await, "pack,ship");
    let mut done = shop.done();
    assert_eq!(done.remove("pay"), Some(2), "once in each parent");
    assert_eq!(done.remove("thank"), Some(2), "once in each parent");
    assert!(done.values().all(|count| *count == 1) && done.len() == 2, "{done:?}");
    for instance in ["order", &middle, &leaf] {
        assert_eq!(summary(&cloud, instance).await.rewinds.len(), 1, "{instance}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_that_is_rewound_alone_reports_nothing_and_its_parent_takes_its_result_later() {
    let shop = Shop::default();
    shop.break_down("ship");
    let cloud = shop.cloud().await;
    run(&cloud, "order", "Parent", "Steps:pack,ship").await;
    let leaf = child(&cloud, "order").await;
    shop.repair("ship");
    let alone = RewindRequest {
        instance: &leaf,
        alone: true,
        ..RewindRequest::default()
    };
    let result = cloud.notifying.rewind(&alone).await.expect("the store answers");
    assert_eq!(result.outcome, RewindOutcome::Rewound);
    cloud.drain().await;
    assert_eq!(output(&cloud, &leaf).await, "pack,ship");
    let parent = summary(&cloud, "order").await;
    assert_failed(&parent);
    assert!(cloud.world.documents_of("intent").await.is_empty());
    rewound(&cloud, "order").await;
    assert_eq!(output(&cloud, "order").await, "pack,ship");
    shop.assert_once(&["pay", "pack", "ship", "thank"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_that_was_deleted_is_started_again() {
    let shop = Shop::default();
    shop.break_down("ship");
    let cloud = shop.cloud().await;
    run(&cloud, "order", "Parent", "Steps:ship").await;
    let leaf = child(&cloud, "order").await;
    let pk = cosmos::PartitionKey::new(&leaf).expect("a key");
    for doc in cloud
        .world
        .documents()
        .await
        .iter()
        .filter(|doc| doc["pk"] == leaf.as_str())
    {
        let id = doc["id"].as_str().expect("an id");
        let deleted = cloud.world.raw().delete(&pk, id, None, cosmos::Retry::Idempotent).await;
        deleted.expect("it is deleted");
    }
    shop.repair("ship");
    rewound(&cloud, "order").await;
    assert_eq!(output(&cloud, "order").await, "ship");
    shop.assert_once(&["pay", "ship", "thank"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_tree_goes_on() {
    let shop = Shop::default();
    let cloud = shop.cloud().await;
    run(&cloud, "order", "Parent", "Wait:").await;
    let leaf = child(&cloud, "order").await;
    cloud
        .client
        .cancel_instance("order", "by mistake")
        .await
        .expect("accepted");
    cloud.drain().await;
    for instance in ["order", &leaf] {
        assert_eq!(
            summary(&cloud, instance).await.status,
            InstanceStatus::Cancelled,
            "{instance}"
        );
    }
    rewound(&cloud, "order").await;
    for instance in ["order", &leaf] {
        assert_eq!(
            summary(&cloud, instance).await.status,
            InstanceStatus::Running,
            "{instance}"
        );
    }
    for data in ["1", "3"] {
        cloud.client.raise_event(&leaf, "go", data).await.expect("accepted");
        cloud.drain().await;
        cloud.client.enqueue_event(&leaf, "more", "2").await.expect("accepted");
        cloud.drain().await;
    }
    assert_eq!(output(&cloud, "order").await, "1,2,3");
    shop.assert_once(&["pay", "ship", "thank"]);
}
