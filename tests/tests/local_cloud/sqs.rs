//! SQS by the real AWS SDK, and the event source mapping behind it.

use crate::support::*;
use anyhow::{Context as _, Result, ensure};
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_sqs::error::ProvideErrorMetadata as _;
use aws_sdk_sqs::types::SendMessageBatchRequestEntry;
use local_cloud::{Cloud, CloudOptions, Loss};
use std::time::{Duration, Instant};

struct Stage {
    cloud: Cloud,
    client: Client,
    seen: std::path::PathBuf,
}

impl Stage {
    async fn set(name: &str, change: impl FnOnce(&mut CloudOptions)) -> Result<Stage> {
        let directory = fresh_directory(name)?;
        let seen = directory.join("seen");
        std::fs::write(&seen, "")?;
        let mut options = CloudOptions::of(fake_functions());
        options.variables = vec![
            ("BEHAVIOUR".to_owned(), "records".to_owned()),
            ("SEEN".to_owned(), seen.to_string_lossy().into_owned()),
        ];
        options.visibility = Duration::from_secs(1);
        options.concurrency = 1;
        change(&mut options);
        let cloud = Cloud::start(options).await?;
        let config = aws_sdk_sqs::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("us-east-1"))
            .endpoint_url(cloud.endpoint())
            .credentials_provider(Credentials::new("local", "local", None, None, "test"))
            .build();
        let client = Client::from_conf(config);
        Ok(Stage { cloud, client, seen })
    }

    fn url(&self, queue: &str) -> String {
        format!("{}/000000000000/{queue}", self.cloud.endpoint())
    }

    /// Each receive: body, receive count, size of the batch.
    fn seen(&self) -> Vec<(String, u32, usize)> {
        let text = std::fs::read_to_string(&self.seen).unwrap_or_default();
        let parse = |line: &str| {
            let mut parts = line.split(' ');
            Some((
                parts.next()?.to_owned(),
                parts.next()?.parse().ok()?,
                parts.next()?.parse().ok()?,
            ))
        };
        text.lines().filter_map(parse).collect()
    }

    fn count(&self, body: &str) -> usize {
        self.seen().iter().filter(|(seen, ..)| seen == body).count()
    }

    async fn send(&self, queue: &str, body: &str, delay: i32) -> Result<()> {
        let url = self.url(queue);
        let request = self.client.send_message().queue_url(url).message_body(body);
        request.delay_seconds(delay).send().await?;
        Ok(())
    }

    /// How many messages a queue has: visible, with a receiver, delayed.
    fn depth(&self, queue: &str) -> (usize, usize, usize) {
        let depth = self.cloud.status().queues[queue].depth;
        (depth.visible, depth.in_flight, depth.delayed)
    }
}

fn entry(id: &str, body: &str, delay: i32) -> SendMessageBatchRequestEntry {
    let entry = SendMessageBatchRequestEntry::builder().id(id).message_body(body);
    entry.delay_seconds(delay).build().expect("it is complete")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_reach_the_function_once_and_delayed_ones_after_their_delay() -> Result<()> {
    let stage = Stage::set("delays", |_| {}).await?;
    let begun = Instant::now();
    let url = stage.url("orchestrator");
    let sent = stage
        .client
        .send_message_batch()
        .queue_url(&url)
        .entries(entry("a", "now", 0))
        .entries(entry("b", "later", 2))
        .entries(entry("c", "much-later", 901))
        .send()
        .await?;
    ensure!(sent.successful().len() == 2, "{sent:?}");
    ensure!(sent.failed().len() == 1 && sent.failed()[0].id() == "c", "{sent:?}");
    ensure!(sent.failed()[0].code() == "InvalidParameterValue" && sent.failed()[0].sender_fault());
    until("the first comes", || stage.count("now") == 1).await?;
    until("the second comes", || stage.count("later") == 1).await?;
    ensure!(begun.elapsed() >= Duration::from_secs(2), "it was delayed");
    until("both are deleted", || stage.depth("orchestrator") == (0, 0, 0)).await?;
    ensure!(stage.seen().len() == 2, "{:?}", stage.seen());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_failed_records_are_delivered_again_until_they_are_dead_letters() -> Result<()> {
    let stage = Stage::set("partial", |options| options.max_receives = 3).await?;
    let url = stage.url("worker");
    stage
        .client
        .send_message_batch()
        .queue_url(&url)
        .entries(entry("a", "good", 0))
        .entries(entry("b", "bad", 0))
        .send()
        .await?;
    until("it is put aside", || stage.depth("dead-letters").0 == 1).await?;
    let receives: Vec<u32> = stage
        .seen()
        .iter()
        .filter(|(body, ..)| body == "bad")
        .map(|seen| seen.1)
        .collect();
    ensure!(receives == [1, 2, 3], "{receives:?}");
    ensure!(stage.count("good") == 1, "{:?}", stage.seen());
    let dead = stage
        .client
        .receive_message()
        .queue_url(stage.url("dead-letters"))
        .send()
        .await?;
    let dead_letter = dead.messages().first().context("the dead letter can be read")?;
    ensure!(dead_letter.body() == Some("bad"), "{dead_letter:?}");
    let receipt = dead_letter.receipt_handle().context("it has a receipt")?;
    let delete = stage.client.delete_message().queue_url(stage.url("dead-letters"));
    delete.receipt_handle(receipt).send().await?;
    ensure!(stage.depth("dead-letters") == (0, 0, 0));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_whose_invocation_fails_is_delivered_again_and_blocks_no_other() -> Result<()> {
    let stage = Stage::set("poison", |options| options.max_receives = 2).await?;
    stage.send("worker", "poison", 0).await?;
    until("it was seen", || stage.count("poison") >= 1).await?;
    stage.send("worker", "good", 0).await?;
    until("the good one is served", || stage.count("good") >= 1).await?;
    until("the bad one is put aside", || stage.depth("dead-letters").0 >= 1).await?;
    until("nothing is left", || stage.depth("worker") == (0, 0, 0)).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_the_service_refuses_get_its_error_codes() -> Result<()> {
    let stage = Stage::set("refusals", |_| {}).await?;
    let url = stage.url("orchestrator");
    let batch = |entries: Vec<SendMessageBatchRequestEntry>| {
        let request = stage.client.send_message_batch().queue_url(&url);
        request.set_entries(Some(entries)).send()
    };
    let eleven = (0..11).map(|n| entry(&n.to_string(), "x", 0)).collect();
    let large = "x".repeat(600 * 1024);
    for (entries, code) in [
        (vec![], "EmptyBatchRequest"),
        (eleven, "TooManyEntriesInBatchRequest"),
        (vec![entry("a", "x", 0), entry("a", "y", 0)], "BatchEntryIdsNotDistinct"),
        (
            vec![entry("a", &large, 0), entry("b", &large, 0)],
            "BatchRequestTooLong",
        ),
    ] {
        let error = batch(entries).await.err().context(code)?;
        ensure!(
            error.code().is_some_and(|found| found.contains(code)),
            "{code}: {error:?}"
        );
    }
    let nowhere = stage
        .client
        .send_message()
        .queue_url(stage.url("nowhere"))
        .message_body("x");
    let error = nowhere.send().await.err().context("there is no such queue")?;
    ensure!(
        error
            .as_service_error()
            .is_some_and(|error| error.is_queue_does_not_exist()),
        "{error:?}"
    );
    let change = stage.client.change_message_visibility().queue_url(&url);
    let error = change.receipt_handle("x").send().await.err();
    let error = error.context("how long it is to be hidden must be said")?;
    ensure!(error.code() == Some("MissingParameter"), "{error:?}");
    for body in ["", "\u{1}"] {
        let request = stage.client.send_message().queue_url(&url).message_body(body);
        ensure!(request.send().await.is_err(), "{body:?}");
    }
    ensure!(stage.seen().is_empty(), "nothing was sent: {:?}", stage.seen());
    let attributes = stage.client.get_queue_attributes().queue_url(&url).send().await?;
    let text = format!("{:?}", attributes.attributes());
    ensure!(
        text.contains("dead-letters") && text.contains("VisibilityTimeout"),
        "{text}"
    );
    let found = stage.client.get_queue_url().queue_name("worker").send().await?;
    ensure!(found.queue_url() == Some(stage.url("worker").as_str()), "{found:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_seed_decides_which_wakeups_are_lost() -> Result<()> {
    let stage = Stage::set("loss", |options| options.loss = Some(Loss { share: 0.5, seed: 3 })).await?;
    for number in 0..40 {
        stage.send("worker", &number.to_string(), 0).await?;
    }
    let counts = stage.cloud.status().queues["worker"].counts;
    ensure!(counts.sent == 40 && (8..=32).contains(&counts.lost), "{counts:?}");
    until("the others come", || stage.seen().len() as u64 == 40 - counts.lost).await
}
