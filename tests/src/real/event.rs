//! Messages of a queue as the SQS event that Lambda's event source mapping makes of them.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use aws_sdk_sqs::types::{Message, MessageAttributeValue};
use serde_json::{Map, Value, json};

/// The messages of one invocation.
#[derive(Debug)]
pub struct Batch {
    messages: Vec<Message>,
    event: Value,
}

impl Batch {
    /// The messages of the queue with this ARN as one event.
    pub(super) fn new(queue_arn: &str, messages: Vec<Message>) -> Result<Batch> {
        let records: Result<Vec<Value>> = messages.iter().map(|message| record(queue_arn, message)).collect();
        let event = json!({ "Records": records? });
        Ok(Batch { messages, event })
    }

    /// The event to invoke a function with.
    pub fn event(&self) -> &Value {
        &self.event
    }

    /// The messages themselves.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The message ids that the function's answer reports failed.
    ///
    /// As on Lambda, no list or an empty one means that all went well, and an answer that names what is not in the batch
    /// means that all failed.
    pub fn failures(&self, answer: &Value) -> BTreeSet<String> {
        let ids = || self.messages.iter().filter_map(Message::message_id).map(str::to_owned);
        let reported = match &answer["batchItemFailures"] {
            Value::Null => return BTreeSet::new(),
            Value::Array(reported) => reported,
            _ => return ids().collect(),
        };
        let known: BTreeSet<String> = ids().collect();
        let failed: Option<BTreeSet<String>> = reported
            .iter()
            .map(|failure| failure["itemIdentifier"].as_str().map(str::to_owned))
            .collect();
        failed.filter(|failed| failed.is_subset(&known)).unwrap_or(known)
    }
}

fn record(queue_arn: &str, message: &Message) -> Result<Value> {
    let region = queue_arn.split(':').nth(3).context("a queue's ARN names its region")?;
    let attributes: Map<String, Value> = message
        .attributes()
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.as_str().to_owned(), json!(value)))
        .collect();
    let message_attributes: Map<String, Value> = message
        .message_attributes()
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.clone(), message_attribute(value)))
        .collect();
    Ok(json!({
        "messageId": message.message_id().context("a received message has an id")?,
        "receiptHandle": message.receipt_handle().context("a received message has a receipt")?,
        "body": message.body().unwrap_or_default(),
        "attributes": attributes,
        "messageAttributes": message_attributes,
        "md5OfBody": message.md5_of_body().unwrap_or_default(),
        "eventSource": "aws:sqs",
        "eventSourceARN": queue_arn,
        "awsRegion": region,
    }))
}

/// Binary values are left out: no wakeup has one.
fn message_attribute(value: &MessageAttributeValue) -> Value {
    json!({
        "dataType": value.data_type(),
        "stringValue": value.string_value(),
        "stringListValues": [],
        "binaryListValues": [],
    })
}
