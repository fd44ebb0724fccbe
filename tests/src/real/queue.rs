//! A queue in moto's SQS, and the event source mapping that empties it into a function.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{DeleteMessageBatchRequestEntry, MessageSystemAttributeName, QueueAttributeName};
use duroxide_lambda::Wakeup;
use serde_json::json;

use super::event::Batch;
use super::lambda_api::LambdaApi;
use super::moto::Moto;
use crate::World;

/// A queue of one test.
#[derive(Debug)]
pub struct Queue {
    client: Client,
    url: String,
    arn: String,
}

/// The outcome of one batch.
#[derive(Debug, Default)]
pub struct Fed {
    /// How many messages the function was invoked with; 0 when the queue had none and there was no invocation.
    pub received: usize,
    /// The ids of those that it reported failed; they stay in the queue.
    pub failed: BTreeSet<String>,
}

impl Queue {
    /// Creates a queue whose received messages stay hidden for `visibility`, in whole seconds.
    pub async fn create(moto: &Moto, name: &str, visibility: Duration) -> Result<Queue> {
        let client = moto.sqs();
        let hidden = visibility.as_secs().to_string();
        let request = client.create_queue().queue_name(name);
        let created = request
            .attributes(QueueAttributeName::VisibilityTimeout, hidden)
            .send()
            .await?;
        let url = created.queue_url().context("a created queue has a URL")?.to_owned();
        Queue::at(moto, &url).await
    }

    /// A queue that exists.
    pub async fn at(moto: &Moto, url: &str) -> Result<Queue> {
        let (client, url) = (moto.sqs(), url.to_owned());
        let arn = attributes(&client, &url, [QueueAttributeName::QueueArn])
            .await?
            .remove(0);
        Ok(Queue { client, url, arn })
    }

    /// Its URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its ARN.
    pub fn arn(&self) -> &str {
        &self.arn
    }

    /// Sends what was received `receives` times without success to `dead`.
    pub async fn dead_letter(&self, dead: &Queue, receives: u32) -> Result<()> {
        let policy = json!({ "deadLetterTargetArn": dead.arn, "maxReceiveCount": receives });
        let request = self.client.set_queue_attributes().queue_url(&self.url);
        request
            .attributes(QueueAttributeName::RedrivePolicy, policy.to_string())
            .send()
            .await?;
        Ok(())
    }

    /// Puts a message in.
    pub async fn send(&self, body: &str) -> Result<()> {
        let request = self.client.send_message().queue_url(&self.url);
        request.message_body(body).send().await?;
        Ok(())
    }

    /// How many messages it holds: visible, delayed and received but not deleted.
    pub async fn depth(&self) -> Result<usize> {
        // In one request: a message that turns visible between two would be in neither count.
        let counts = [
            QueueAttributeName::ApproximateNumberOfMessages,
            QueueAttributeName::ApproximateNumberOfMessagesDelayed,
            QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
        ];
        let values = attributes(&self.client, &self.url, counts).await?;
        let mut depth = 0;
        for value in values {
            depth += value.parse::<usize>()?;
        }
        Ok(depth)
    }

    /// Up to 10 visible messages, without waiting.
    pub async fn receive(&self) -> Result<Batch> {
        let request = self.client.receive_message().queue_url(&self.url);
        let received = request
            .max_number_of_messages(10)
            .wait_time_seconds(0)
            .message_system_attribute_names(MessageSystemAttributeName::All)
            .message_attribute_names("All")
            .send()
            .await?;
        Batch::new(&self.arn, received.messages.unwrap_or_default())
    }

    /// Deletes the messages of `batch`, except the failed.
    pub async fn delete_served(&self, batch: &Batch, failed: &BTreeSet<String>) -> Result<()> {
        let mut entries = Vec::new();
        for (n, message) in batch.messages().iter().enumerate() {
            if message.message_id().is_some_and(|id| failed.contains(id)) {
                continue;
            }
            let entry = DeleteMessageBatchRequestEntry::builder().id(n.to_string());
            entries.push(entry.set_receipt_handle(message.receipt_handle.clone()).build()?);
        }
        if entries.is_empty() {
            return Ok(());
        }
        let request = self.client.delete_message_batch().queue_url(&self.url);
        let deleted = request.set_entries(Some(entries)).send().await?;
        if !deleted.failed().is_empty() {
            bail!("messages were not deleted: {:?}", deleted.failed());
        }
        Ok(())
    }

    /// Receives one batch, invokes `function` with it and deletes what was served. When the invocation fails nothing is
    /// deleted, and the messages are delivered again after their time.
    pub async fn feed(&self, api: &LambdaApi, function: &str) -> Result<Fed> {
        let batch = self.receive().await?;
        let received = batch.messages().len();
        if received == 0 {
            return Ok(Fed::default());
        }
        let answer = api.invoke(function, batch.event()).await?;
        let failed = batch.failures(&answer);
        self.delete_served(&batch, &failed).await?;
        Ok(Fed { received, failed })
    }
}

async fn attributes<const N: usize>(client: &Client, url: &str, names: [QueueAttributeName; N]) -> Result<Vec<String>> {
    let request = client.get_queue_attributes().queue_url(url);
    let answer = request.set_attribute_names(Some(names.to_vec())).send().await?;
    let values = answer.attributes();
    let value = |name| values.and_then(|values| values.get(name)).cloned();
    let all: Option<Vec<String>> = names.iter().map(value).collect();
    all.with_context(|| format!("{url} lacks one of {names:?}"))
}

/// Sends wakeups for all that is queued, as maintenance does for what is due: a wakeup that a slow moto did not accept in
/// time is lost.
pub async fn wake_again(world: &World, turns: &Queue, works: &Queue) -> Result<()> {
    for message in world.documents_of("message").await {
        let instance = message["pk"].as_str().context("a message has an instance")?;
        turns.send(&Wakeup::turn(instance).encode()).await?;
    }
    for wakeup in world.work_wakeups().await {
        works.send(&wakeup.encode()).await?;
    }
    Ok(())
}
