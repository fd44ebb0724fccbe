//! SQS over HTTP: the JSON protocol of the AWS SDKs (`X-Amz-Target: AmazonSQS.…`), for the actions that senders, receivers
//! and curious people use. Signatures are not checked: whoever reaches the loopback interface may send.
//!
//! Limits are the service's: ten entries and 1 MiB a call, delays up to 900 s, names and batches that are empty or repeat an
//! id are refused with the service's own codes, so that a client's handling of them is exercised.

use super::queue::Received;
use super::service::{NoQueue, Sqs};
use crate::net::{Call, json};
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::HeaderValue;
use hyper::{Response, StatusCode};
use md5::{Digest, Md5};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// The account in queue URLs and ARNs.
pub(crate) const ACCOUNT: &str = "000000000000";
/// The region in ARNs.
pub(crate) const REGION: &str = "us-east-1";

const MOST_ENTRIES: usize = 10;
const MOST_BYTES: usize = 1024 * 1024;
const LONGEST_DELAY: u32 = 900;
const LONGEST_WAIT: u32 = 20;
const LONGEST_VISIBILITY: u32 = 43_200;

/// The ARN of a queue.
pub(crate) fn arn(queue: &str) -> String {
    format!("arn:aws:sqs:{REGION}:{ACCOUNT}:{queue}")
}

/// The URL of a queue, at the endpoint of this cloud.
pub(crate) fn url(endpoint: &str, queue: &str) -> String {
    format!("{endpoint}/{ACCOUNT}/{queue}")
}

/// See the module.
#[derive(Debug)]
pub(crate) struct SqsApi {
    sqs: Arc<Sqs>,
    endpoint: String,
}

/// What the service says no with.
#[derive(Debug)]
struct Refusal {
    code: &'static str,
    message: String,
}

fn refused<T>(code: &'static str, message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal {
        code,
        message: message.into(),
    })
}

impl From<NoQueue> for Refusal {
    fn from(missing: NoQueue) -> Refusal {
        Refusal {
            code: "QueueDoesNotExist",
            message: format!("The specified queue does not exist: {}.", missing.0),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct OfQueue {
    queue_url: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct OfName {
    queue_name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Send {
    queue_url: String,
    message_body: String,
    #[serde(default)]
    delay_seconds: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Batch<E> {
    queue_url: String,
    entries: Vec<E>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SendEntry {
    id: String,
    message_body: String,
    #[serde(default)]
    delay_seconds: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Receive {
    queue_url: String,
    max_number_of_messages: Option<usize>,
    visibility_timeout: Option<u32>,
    #[serde(default)]
    wait_time_seconds: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct OfReceipt {
    queue_url: String,
    receipt_handle: String,
    visibility_timeout: Option<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DeleteEntry {
    id: String,
    receipt_handle: String,
}

impl SqsApi {
    pub(crate) fn new(sqs: Arc<Sqs>, endpoint: String) -> SqsApi {
        SqsApi { sqs, endpoint }
    }

    /// Whether a request is for SQS; then its action.
    pub(crate) fn action(call: &Call) -> Option<&str> {
        call.header("x-amz-target")?.strip_prefix("AmazonSQS.")
    }

    /// Answers a request of the service.
    pub(crate) async fn answer(&self, action: &str, body: &Bytes) -> Response<Full<Bytes>> {
        match self.act(action, body).await {
            Ok(answer) => json(StatusCode::OK, &answer),
            Err(Refusal { code, message }) => {
                let error = json!({ "__type": format!("com.amazonaws.sqs#{code}"), "message": message });
                let mut response = json(StatusCode::BAD_REQUEST, &error);
                // The SDKs know most errors by the code of the older protocol, which comes in a header.
                let known = format!("{};Sender", query_code(code));
                let known = HeaderValue::from_str(&known).expect("codes are plain words");
                response.headers_mut().insert("x-amzn-query-error", known);
                response
            }
        }
    }

    async fn act(&self, action: &str, body: &Bytes) -> Result<Value, Refusal> {
        match action {
            "SendMessage" => self.send(parsed(body)?),
            "SendMessageBatch" => self.send_batch(parsed(body)?),
            "ReceiveMessage" => self.receive(parsed(body)?).await,
            "DeleteMessage" => self.delete(parsed(body)?),
            "DeleteMessageBatch" => self.delete_batch(parsed(body)?),
            "ChangeMessageVisibility" => self.change_visibility(parsed(body)?),
            "GetQueueUrl" => self.queue_url(parsed(body)?),
            "GetQueueAttributes" => self.attributes(parsed(body)?),
            "PurgeQueue" => self.purge(parsed(body)?),
            "ListQueues" => {
                let names = self.sqs.names();
                let urls: Vec<String> = names.iter().map(|name| url(&self.endpoint, name)).collect();
                Ok(json!({ "QueueUrls": urls }))
            }
            other => refused(
                "InvalidAction",
                format!("The action {other} is not part of the local cloud: its queues are made when it starts."),
            ),
        }
    }

    fn send(&self, send: Send) -> Result<Value, Refusal> {
        let name = name_of(&send.queue_url)?;
        check_body(&send.message_body)?;
        let (delay, digest) = (delay_of(send.delay_seconds)?, md5_of(&send.message_body));
        let id = self.sqs.send(name, send.message_body, delay)?;
        Ok(json!({ "MessageId": id, "MD5OfMessageBody": digest }))
    }

    fn send_batch(&self, batch: Batch<SendEntry>) -> Result<Value, Refusal> {
        let name = name_of(&batch.queue_url)?;
        check_ids(batch.entries.iter().map(|entry| entry.id.as_str()))?;
        let bytes: usize = batch.entries.iter().map(|entry| entry.message_body.len()).sum();
        if bytes > MOST_BYTES {
            let message =
                format!("Batch requests cannot be longer than {MOST_BYTES} bytes. You have sent {bytes} bytes.");
            return refused("BatchRequestTooLong", message);
        }
        // The queue is looked for first: a batch for one that does not exist fails as a whole.
        self.sqs.settings(name)?;
        let (mut successful, mut failed) = (Vec::new(), Vec::new());
        for entry in batch.entries {
            let digest = md5_of(&entry.message_body);
            let checked = check_body(&entry.message_body).and_then(|()| delay_of(entry.delay_seconds));
            match checked.and_then(|delay| Ok(self.sqs.send(name, entry.message_body, delay)?)) {
                Ok(id) => successful.push(json!({ "Id": entry.id, "MessageId": id, "MD5OfMessageBody": digest })),
                Err(Refusal { code, message }) => {
                    failed.push(json!({ "Id": entry.id, "SenderFault": true, "Code": code, "Message": message }));
                }
            }
        }
        Ok(json!({ "Successful": successful, "Failed": failed }))
    }

    async fn receive(&self, receive: Receive) -> Result<Value, Refusal> {
        let name = name_of(&receive.queue_url)?;
        let most = receive.max_number_of_messages.unwrap_or(1);
        if !(1..=MOST_ENTRIES).contains(&most) {
            return refused("InvalidParameterValue", "MaxNumberOfMessages must be from 1 to 10.");
        }
        let visibility = receive.visibility_timeout.map(visibility_of).transpose()?;
        let wait = seconds(receive.wait_time_seconds, LONGEST_WAIT, "WaitTimeSeconds")?;
        let received = self.sqs.receive(name, most, visibility, wait).await?;
        let messages: Vec<Value> = received.iter().map(message_of).collect();
        Ok(json!({ "Messages": messages }))
    }

    fn delete(&self, of: OfReceipt) -> Result<Value, Refusal> {
        self.sqs.delete(name_of(&of.queue_url)?, &of.receipt_handle)?;
        Ok(json!({}))
    }

    fn delete_batch(&self, batch: Batch<DeleteEntry>) -> Result<Value, Refusal> {
        let name = name_of(&batch.queue_url)?;
        check_ids(batch.entries.iter().map(|entry| entry.id.as_str()))?;
        let mut successful = Vec::new();
        for entry in &batch.entries {
            self.sqs.delete(name, &entry.receipt_handle)?;
            successful.push(json!({ "Id": entry.id }));
        }
        Ok(json!({ "Successful": successful, "Failed": [] }))
    }

    fn change_visibility(&self, of: OfReceipt) -> Result<Value, Refusal> {
        let name = name_of(&of.queue_url)?;
        let Some(timeout) = of.visibility_timeout else {
            return refused(
                "MissingParameter",
                "The request must contain the parameter VisibilityTimeout.",
            );
        };
        let hidden = visibility_of(timeout)?;
        match self.sqs.change_visibility(name, &of.receipt_handle, hidden)? {
            true => Ok(json!({})),
            false => refused("MessageNotInflight", "The specified message isn't in flight."),
        }
    }

    fn queue_url(&self, of: OfName) -> Result<Value, Refusal> {
        self.sqs.settings(&of.queue_name)?;
        Ok(json!({ "QueueUrl": url(&self.endpoint, &of.queue_name) }))
    }

    fn attributes(&self, of: OfQueue) -> Result<Value, Refusal> {
        let name = name_of(&of.queue_url)?;
        let (settings, depth) = (self.sqs.settings(name)?, self.sqs.depth(name)?);
        let mut attributes = json!({
            "QueueArn": arn(name),
            "VisibilityTimeout": settings.visibility.as_secs().to_string(),
            "ApproximateNumberOfMessages": depth.visible.to_string(),
            "ApproximateNumberOfMessagesNotVisible": depth.in_flight.to_string(),
            "ApproximateNumberOfMessagesDelayed": depth.delayed.to_string(),
        });
        if let Some(redrive) = settings.redrive {
            let policy = json!({
                "deadLetterTargetArn": arn(&redrive.dead_letters),
                "maxReceiveCount": redrive.max_receives,
            });
            attributes["RedrivePolicy"] = Value::String(policy.to_string());
        }
        Ok(json!({ "Attributes": attributes }))
    }

    fn purge(&self, of: OfQueue) -> Result<Value, Refusal> {
        self.sqs.purge(name_of(&of.queue_url)?)?;
        Ok(json!({}))
    }
}

fn query_code(code: &str) -> String {
    match code {
        "QueueDoesNotExist" => "AWS.SimpleQueueService.NonExistentQueue".to_owned(),
        "InvalidParameterValue"
        | "MissingParameter"
        | "InvalidAddress"
        | "InvalidAction"
        | "InvalidMessageContents" => code.to_owned(),
        other => format!("AWS.SimpleQueueService.{other}"),
    }
}

fn parsed<T: DeserializeOwned>(body: &Bytes) -> Result<T, Refusal> {
    serde_json::from_slice(body).or_else(|error| refused("InvalidParameterValue", format!("The request: {error}.")))
}

/// A queue's name is the last part of its URL, whatever host the URL names.
fn name_of(queue_url: &str) -> Result<&str, Refusal> {
    let name = queue_url.rsplit('/').next().unwrap_or_default();
    if name.is_empty() {
        return refused(
            "InvalidAddress",
            format!("The address {queue_url:?} is not valid for this endpoint."),
        );
    }
    Ok(name)
}

fn check_ids<'a>(ids: impl Iterator<Item = &'a str>) -> Result<(), Refusal> {
    let (mut seen, mut count) = (HashSet::new(), 0);
    for id in ids {
        count += 1;
        if !seen.insert(id) {
            return refused("BatchEntryIdsNotDistinct", format!("Id {id} repeated."));
        }
    }
    match count {
        0 => refused(
            "EmptyBatchRequest",
            "There should be at least one entry in the request.",
        ),
        1..=MOST_ENTRIES => Ok(()),
        _ => refused(
            "TooManyEntriesInBatchRequest",
            format!("Maximum number of entries per request are {MOST_ENTRIES}. You have sent {count}."),
        ),
    }
}

fn check_body(body: &str) -> Result<(), Refusal> {
    // What XML 1.0 cannot hold, the service does not take.
    let allowed =
        |c: char| matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
    if body.is_empty() {
        return refused(
            "MissingParameter",
            "The request must contain the parameter MessageBody.",
        );
    }
    if !body.chars().all(allowed) {
        return refused("InvalidMessageContents", "Invalid characters in the message.");
    }
    if body.len() > MOST_BYTES {
        let message =
            format!("One or more parameters are invalid. Reason: Message must be shorter than {MOST_BYTES} bytes.");
        return refused("InvalidParameterValue", message);
    }
    Ok(())
}

fn delay_of(value: u32) -> Result<Duration, Refusal> {
    seconds(value, LONGEST_DELAY, "DelaySeconds")
}

fn visibility_of(value: u32) -> Result<Duration, Refusal> {
    seconds(value, LONGEST_VISIBILITY, "VisibilityTimeout")
}

fn seconds(value: u32, most: u32, name: &str) -> Result<Duration, Refusal> {
    if value > most {
        let message = format!("Value {value} for parameter {name} is invalid. Reason: must be from 0 to {most}.");
        return refused("InvalidParameterValue", message);
    }
    Ok(Duration::from_secs(value.into()))
}

fn message_of(received: &Received) -> Value {
    let message = &received.message;
    json!({
        "MessageId": message.id,
        "ReceiptHandle": received.receipt,
        "MD5OfBody": md5_of(&message.body),
        "Body": message.body,
        "Attributes": attributes_of(received),
    })
}

/// The system attributes of a message, as receivers and functions see them.
pub(crate) fn attributes_of(received: &Received) -> Value {
    let message = &received.message;
    json!({
        "ApproximateReceiveCount": message.receives.to_string(),
        "SentTimestamp": message.sent_ms.to_string(),
        "SenderId": ACCOUNT,
        "ApproximateFirstReceiveTimestamp": message.first_received_ms.unwrap_or_default().to_string(),
    })
}

/// The checksum that clients compare.
pub(crate) fn md5_of(body: &str) -> String {
    Md5::digest(body.as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
