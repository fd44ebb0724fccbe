//! Tags: a worker serves those it is configured for, and says what to set when it gets another.

use crate::activities::*;
use duroxide::providers::TagFilter;
use duroxide_lambda::internals::BatchResponse;
use duroxide_lambda::notifier::Queues;
use duroxide_lambda::{Limits, Target, Wakeup};
use std::io::Write;
use std::slice::from_ref;
use std::sync::{Arc, Mutex};
use tests::cloud::{Cloud, CloudOptions, Function};
use tracing_subscriber::fmt::MakeWriter;

/// A log that is kept.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Log;

    fn make_writer(&'a self) -> Log {
        self.clone()
    }
}

/// One invocation, and what it logged. An invocation runs on the caller's thread, only its steps elsewhere.
async fn logged(function: &Function, wakeup: &Wakeup) -> (BatchResponse, String) {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(log.clone())
        .with_ansi(false)
        .finish();
    let guard = tracing::subscriber::set_default(subscriber);
    let response = function.invoke(from_ref(wakeup)).await;
    drop(guard);
    let text = String::from_utf8(log.0.lock().expect("no panic").clone());
    (response, text.expect("UTF-8"))
}

/// The activity is refused: nothing is asked, nothing is lost, and the log says what to set.
async fn refuses(cloud: &Cloud, worker: &Function, instance: &str, activity: &str) -> Wakeup {
    let wakeup = schedule(cloud, instance, activity).await;
    let before = worker.listener.counts().requests;
    let (response, log) = logged(worker, &wakeup).await;
    failed(&response, 1);
    assert_eq!(worker.listener.counts().requests, before);
    for needed in [instance, "WORKER_TAGS", "WORKER_TAG_QUEUE_URLS"] {
        assert!(log.contains(needed), "{needed} is not in {log}");
    }
    assert_eq!(work_item(cloud, instance).await.expect("a work item")["attempts"], 0);
    assert!(cloud.queue.take().is_empty(), "the record itself comes again");
    wakeup
}

async fn serves(cloud: &Cloud, worker: &Function, instance: &str, activity: &str) {
    let wakeup = schedule(cloud, instance, activity).await;
    served(&worker.invoke(&[wakeup]).await);
    assert_output(&conclude(cloud, instance).await, "quick");
}

async fn cloud_of(tags: TagFilter) -> (Cloud, Stage) {
    let stage = Stage::default();
    let options = CloudOptions {
        tags,
        ..CloudOptions::default()
    };
    let cloud = Cloud::with(options, stage.orchestrations(), stage.activities()).await;
    (cloud, stage)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_for_one_tag_serves_that_tag_and_no_other() {
    let (cloud, stage) = cloud_of(TagFilter::tags(["gpu"])).await;
    serves(&cloud, &cloud.worker, "tagged", "Quick#gpu").await;
    let plain = refuses(&cloud, &cloud.worker, "plain", "Quick").await;
    refuses(&cloud, &cloud.worker, "other", "Quick#arm").await;
    assert_eq!(counted(&cloud.worker).get("Failed"), Some(&2));
    // What was refused is served by the worker that it is meant for.
    let another = cloud
        .another_worker("another", stage.activities(), TagFilter::DefaultOnly)
        .await;
    served(&another.invoke(&[plain]).await);
    assert_output(&conclude(&cloud, "plain").await, "quick");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_without_tags_refuses_tagged_activities() {
    let (cloud, stage) = cloud_of(TagFilter::DefaultOnly).await;
    serves(&cloud, &cloud.worker, "plain", "Quick").await;
    let tagged = refuses(&cloud, &cloud.worker, "tagged", "Quick#gpu").await;
    let another = cloud
        .another_worker("another", stage.activities(), TagFilter::tags(["gpu"]))
        .await;
    served(&another.invoke(&[tagged]).await);
    assert_output(&conclude(&cloud, "tagged").await, "quick");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_for_all_of_them_serves_them_all() {
    let (cloud, _) = cloud_of(TagFilter::default_and(["gpu", "arm"])).await;
    serves(&cloud, &cloud.worker, "plain", "Quick").await;
    serves(&cloud, &cloud.worker, "tagged", "Quick#gpu").await;
    serves(&cloud, &cloud.worker, "other", "Quick#arm").await;
    refuses(&cloud, &cloud.worker, "unknown", "Quick#riscv").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wakeup_goes_to_the_queue_of_its_tag_or_to_the_default() {
    let (cloud, _, _) = cloud(Limits::default()).await;
    let queues = Queues {
        orchestrator: "turns".to_owned(),
        worker: "works".to_owned(),
        tagged: [("gpu".to_owned(), "works-gpu".to_owned())].into(),
    };
    for (instance, activity, queue) in [
        ("plain", "Quick", "works"),
        ("tagged", "Quick#gpu", "works-gpu"),
        ("other", "Quick#arm", "works"),
    ] {
        let wakeup = schedule(&cloud, instance, activity).await;
        assert_eq!(queues.url_of(&wakeup), queue, "{activity}");
        let Target::Work(work) = &wakeup.target else {
            panic!("{wakeup:?}");
        };
        assert_eq!(work.tag.as_deref(), activity.split_once('#').map(|(_, tag)| tag));
    }
}
