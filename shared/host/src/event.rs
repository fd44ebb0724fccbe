//! The SQS event of a function and its answer: the fields that we use.

use serde::{Deserialize, Serialize};

/// A batch of messages, as the event source mapping delivers it.
#[derive(Clone, Debug, Deserialize)]
pub struct SqsEvent {
    /// The messages.
    #[serde(rename = "Records")]
    pub records: Vec<SqsRecord>,
}

/// One message.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SqsRecord {
    /// Its id, by which the answer names it.
    pub message_id: String,
    /// The encoded wakeup.
    #[serde(default)]
    pub body: String,
    /// What the queue says about it.
    #[serde(default)]
    pub attributes: SqsAttributes,
}

/// What the queue says about a message.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct SqsAttributes {
    /// How often it was delivered, this time included: a number, as a text.
    #[serde(rename = "ApproximateReceiveCount", default)]
    pub receive_count: String,
}

impl SqsRecord {
    /// Whether it was delivered before, and not served.
    pub(crate) fn is_redelivered(&self) -> bool {
        self.attributes.receive_count.parse().is_ok_and(|count: u64| count > 1)
    }
}

/// The messages that were not served: SQS delivers only these again (`ReportBatchItemFailures`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchResponse {
    /// The failed messages.
    pub batch_item_failures: Vec<BatchItemFailure>,
}

/// One message that was not served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchItemFailure {
    /// The message id.
    pub item_identifier: String,
}

impl BatchResponse {
    /// The messages with these ids have failed.
    pub fn of(failed: impl IntoIterator<Item = String>) -> BatchResponse {
        BatchResponse {
            batch_item_failures: failed
                .into_iter()
                .map(|item_identifier| BatchItemFailure { item_identifier })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_sqs_event_is_read_and_the_answer_has_the_expected_shape() {
        let event = r#"{"Records":[{"messageId":"059f36b4","receiptHandle":"AQEB","body":"{}",
            "attributes":{"ApproximateReceiveCount":"1"},"messageAttributes":{},"md5OfBody":"e4e6","eventSource":"aws:sqs",
            "eventSourceARN":"arn:aws:sqs:eu-west-1:123456789012:turns","awsRegion":"eu-west-1"},{"messageId":"2"}]}"#;
        let event: SqsEvent = serde_json::from_str(event).unwrap();
        assert_eq!(event.records[0].message_id, "059f36b4");
        assert_eq!(
            (event.records[0].body.as_str(), event.records[1].body.as_str()),
            ("{}", "")
        );
        let answer = serde_json::to_string(&BatchResponse::of(["2".to_owned()])).unwrap();
        assert_eq!(answer, r#"{"batchItemFailures":[{"itemIdentifier":"2"}]}"#);
        let answer = serde_json::to_string(&BatchResponse::default()).unwrap();
        assert_eq!(answer, r#"{"batchItemFailures":[]}"#);
    }
}
