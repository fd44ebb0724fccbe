//! SQS over HTTP: the actions of the AWS SDKs' JSON protocol (`X-Amz-Target: AmazonSQS.…`) that senders, receivers and
//! curious people use. Signatures are not checked: whoever reaches the loopback interface may send.

use super::limits::{
    check_batch_bytes, check_body, check_ids, delay, message_count, queue_name, visibility, wait_time,
};
use super::protocol::{
    Batch, DeleteEntry, OfName, OfQueue, OfReceipt, Receive, Refusal, Send, SendEntry, described, md5_of, parsed,
    query_code, refused,
};
use super::service::Sqs;
use crate::aws::{queue_arn, queue_url};
use crate::net::{Call, json};
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::HeaderValue;
use hyper::{Response, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub(crate) struct SqsApi {
    sqs: Arc<Sqs>,
    endpoint: String,
}

impl SqsApi {
    pub(crate) fn new(sqs: Arc<Sqs>, endpoint: String) -> SqsApi {
        SqsApi { sqs, endpoint }
    }

    /// The action of a request for SQS; `None` for any other request.
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
                let urls: Vec<String> = names.iter().map(|name| queue_url(&self.endpoint, name)).collect();
                Ok(json!({ "QueueUrls": urls }))
            }
            other => refused(
                "InvalidAction",
                format!("The local cloud does not have the action {other}: its queues exist from its start."),
            ),
        }
    }

    fn send(&self, send: Send) -> Result<Value, Refusal> {
        let name = queue_name(&send.queue_url)?;
        check_body(&send.message_body)?;
        let (hidden, digest) = (delay(send.delay_seconds)?, md5_of(&send.message_body));
        let id = self.sqs.send(name, send.message_body, hidden)?;
        Ok(json!({ "MessageId": id, "MD5OfMessageBody": digest }))
    }

    fn send_batch(&self, batch: Batch<SendEntry>) -> Result<Value, Refusal> {
        let name = queue_name(&batch.queue_url)?;
        check_ids(batch.entries.iter().map(|entry| entry.id.as_str()))?;
        check_batch_bytes(batch.entries.iter().map(|entry| entry.message_body.as_str()))?;
        // First of all: a batch for a queue that does not exist fails as a whole.
        self.sqs.settings(name)?;
        let (mut successful, mut failed) = (Vec::new(), Vec::new());
        for entry in batch.entries {
            let digest = md5_of(&entry.message_body);
            let checked = check_body(&entry.message_body).and_then(|()| delay(entry.delay_seconds));
            match checked.and_then(|hidden| Ok(self.sqs.send(name, entry.message_body, hidden)?)) {
                Ok(id) => successful.push(json!({ "Id": entry.id, "MessageId": id, "MD5OfMessageBody": digest })),
                Err(Refusal { code, message }) => {
                    failed.push(json!({ "Id": entry.id, "SenderFault": true, "Code": code, "Message": message }));
                }
            }
        }
        Ok(json!({ "Successful": successful, "Failed": failed }))
    }

    async fn receive(&self, receive: Receive) -> Result<Value, Refusal> {
        let name = queue_name(&receive.queue_url)?;
        let most = message_count(receive.max_number_of_messages)?;
        let hidden = receive.visibility_timeout.map(visibility).transpose()?;
        let wait = wait_time(receive.wait_time_seconds)?;
        let received = self.sqs.receive(name, most, hidden, wait).await?;
        let messages: Vec<Value> = received.iter().map(described).collect();
        Ok(json!({ "Messages": messages }))
    }

    fn delete(&self, of: OfReceipt) -> Result<Value, Refusal> {
        self.sqs.delete(queue_name(&of.queue_url)?, &of.receipt_handle)?;
        Ok(json!({}))
    }

    fn delete_batch(&self, batch: Batch<DeleteEntry>) -> Result<Value, Refusal> {
        let name = queue_name(&batch.queue_url)?;
        check_ids(batch.entries.iter().map(|entry| entry.id.as_str()))?;
        let mut successful = Vec::new();
        for entry in &batch.entries {
            self.sqs.delete(name, &entry.receipt_handle)?;
            successful.push(json!({ "Id": entry.id }));
        }
        Ok(json!({ "Successful": successful, "Failed": [] }))
    }

    fn change_visibility(&self, of: OfReceipt) -> Result<Value, Refusal> {
        let name = queue_name(&of.queue_url)?;
        let Some(timeout) = of.visibility_timeout else {
            return refused(
                "MissingParameter",
                "The request must contain the parameter VisibilityTimeout.",
            );
        };
        let hidden = visibility(timeout)?;
        match self.sqs.change_visibility(name, &of.receipt_handle, hidden)? {
            true => Ok(json!({})),
            false => refused("MessageNotInflight", "The specified message isn't in flight."),
        }
    }

    fn queue_url(&self, of: OfName) -> Result<Value, Refusal> {
        self.sqs.settings(&of.queue_name)?;
        Ok(json!({ "QueueUrl": queue_url(&self.endpoint, &of.queue_name) }))
    }

    fn attributes(&self, of: OfQueue) -> Result<Value, Refusal> {
        let name = queue_name(&of.queue_url)?;
        let (settings, depth) = (self.sqs.settings(name)?, self.sqs.depth(name)?);
        let mut attributes = json!({
            "QueueArn": queue_arn(name),
            "VisibilityTimeout": settings.visibility.as_secs().to_string(),
            "ApproximateNumberOfMessages": depth.visible.to_string(),
            "ApproximateNumberOfMessagesNotVisible": depth.in_flight.to_string(),
            "ApproximateNumberOfMessagesDelayed": depth.delayed.to_string(),
        });
        if let Some(redrive) = settings.redrive {
            let policy = json!({
                "deadLetterTargetArn": queue_arn(&redrive.dead_letters),
                "maxReceiveCount": redrive.max_receives,
            });
            attributes["RedrivePolicy"] = Value::String(policy.to_string());
        }
        Ok(json!({ "Attributes": attributes }))
    }

    fn purge(&self, of: OfQueue) -> Result<Value, Refusal> {
        self.sqs.purge(queue_name(&of.queue_url)?)?;
        Ok(json!({}))
    }
}
