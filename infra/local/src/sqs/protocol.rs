//! The shapes of the service's JSON protocol: requests, messages in answers, and refusals.
//!
//! Refusals carry the service's own codes, so that a client's handling of them is exercised.

use super::queue::Received;
use super::service::NoQueue;
use crate::aws::ACCOUNT;
use bytes::Bytes;
use md5::{Digest, Md5};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// An error answer of the service.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) code: &'static str,
    pub(super) message: String,
}

pub(super) fn refused<T>(code: &'static str, message: impl Into<String>) -> Result<T, Refusal> {
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
pub(super) struct OfQueue {
    pub(super) queue_url: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct OfName {
    pub(super) queue_name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Send {
    pub(super) queue_url: String,
    pub(super) message_body: String,
    #[serde(default)]
    pub(super) delay_seconds: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Batch<E> {
    pub(super) queue_url: String,
    pub(super) entries: Vec<E>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct SendEntry {
    pub(super) id: String,
    pub(super) message_body: String,
    #[serde(default)]
    pub(super) delay_seconds: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Receive {
    pub(super) queue_url: String,
    pub(super) max_number_of_messages: Option<usize>,
    pub(super) visibility_timeout: Option<u32>,
    #[serde(default)]
    pub(super) wait_time_seconds: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct OfReceipt {
    pub(super) queue_url: String,
    pub(super) receipt_handle: String,
    pub(super) visibility_timeout: Option<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct DeleteEntry {
    pub(super) id: String,
    pub(super) receipt_handle: String,
}

/// The code of the older query protocol, by which the SDKs know most errors.
pub(super) fn query_code(code: &str) -> String {
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

pub(super) fn parsed<T: DeserializeOwned>(body: &Bytes) -> Result<T, Refusal> {
    serde_json::from_slice(body).or_else(|error| refused("InvalidParameterValue", format!("The request: {error}.")))
}

/// A message in the answer to a receive.
pub(super) fn described(received: &Received) -> Value {
    let message = &received.message;
    json!({
        "MessageId": message.id,
        "ReceiptHandle": received.receipt,
        "MD5OfBody": md5_of(&message.body),
        "Body": message.body,
        "Attributes": system_attributes(received),
    })
}

/// The system attributes of a message, as receivers and functions see them.
pub(crate) fn system_attributes(received: &Received) -> Value {
    let message = &received.message;
    json!({
        "ApproximateReceiveCount": message.receives.to_string(),
        "SentTimestamp": message.sent_ms.to_string(),
        "SenderId": ACCOUNT,
        "ApproximateFirstReceiveTimestamp": message.first_received_ms.unwrap_or_default().to_string(),
    })
}

/// The checksum that the SDKs verify.
pub(crate) fn md5_of(body: &str) -> String {
    Md5::digest(body.as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
