//! The event source mapping: takes batches from a queue, invokes a function with them, and deletes the records that were
//! served. It knows `sqs` and `lambda`, which do not know each other.
//!
//! As on Lambda, a batch whose invocation fails comes again as a whole when its visibility timeout ends. After a partial
//! answer only the reported records do. An answer that names a record outside the batch, or is not JSON, fails the batch.

use crate::aws::{REGION, queue_arn};
use crate::lambda::{Function, InvokeError};
use crate::sqs::{Received, Sqs, md5_of, system_attributes};
use bytes::Bytes;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// How long one receive waits for messages.
const WAIT: Duration = Duration::from_secs(20);
/// The pause after an invocation whose function did not start.
const PAUSE: Duration = Duration::from_secs(1);

/// Which queue feeds a function, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MappingSettings {
    /// The queue's name.
    pub(crate) queue: String,
    /// The most messages of one invocation.
    pub(crate) batch_size: usize,
}

/// See the module. Dropping it stops the polling.
#[derive(Debug)]
pub(crate) struct Mapping {
    _pollers: JoinSet<()>,
}

impl Mapping {
    /// Polls the queue with as many pollers as the function may have environments.
    pub(crate) fn start(settings: &MappingSettings, sqs: &Arc<Sqs>, function: &Arc<Function>) -> Mapping {
        let mut pollers = JoinSet::new();
        for _ in 0..function.settings().concurrency.max(1) {
            pollers.spawn(poll(settings.clone(), Arc::clone(sqs), Arc::clone(function)));
        }
        Mapping { _pollers: pollers }
    }
}

async fn poll(settings: MappingSettings, sqs: Arc<Sqs>, function: Arc<Function>) {
    let queue = settings.queue.as_str();
    loop {
        let received = match sqs.receive(queue, settings.batch_size, None, WAIT).await {
            Ok(received) => received,
            Err(error) => {
                tracing::error!(%error, "the queue of an event source mapping does not exist");
                return;
            }
        };
        if received.is_empty() {
            continue;
        }
        let answer = function.invoke(event_of(queue, &received)).await;
        let served = served(&received, &answer);
        for message in &received {
            if served.contains(message.message.id.as_str()) {
                // An outdated receipt deletes nothing: the message became visible again and another poller has it.
                sqs.delete(queue, &message.receipt).map(drop).unwrap_or_default();
            }
        }
        // The function has logged why it failed.
        if let Err(InvokeError::Init { .. } | InvokeError::Spawn(_)) = &answer {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

fn event_of(queue: &str, received: &[Received]) -> Bytes {
    let records: Vec<Value> = received
        .iter()
        .map(|received| {
            json!({
                "messageId": received.message.id,
                "receiptHandle": received.receipt,
                "body": received.message.body,
                "attributes": system_attributes(received),
                "messageAttributes": {},
                "md5OfBody": md5_of(&received.message.body),
                "eventSource": "aws:sqs",
                "eventSourceARN": queue_arn(queue),
                "awsRegion": REGION,
            })
        })
        .collect();
    Bytes::from(json!({ "Records": records }).to_string())
}

/// The ids of the messages to delete.
fn served<'a>(received: &'a [Received], answer: &Result<Bytes, InvokeError>) -> HashSet<&'a str> {
    let all = || received.iter().map(|received| received.message.id.as_str()).collect();
    let Ok(body) = answer else {
        return HashSet::new();
    };
    let failed = match serde_json::from_slice::<Value>(body) {
        Ok(answer) => answer["batchItemFailures"].clone(),
        Err(_) if body.is_empty() => Value::Null,
        Err(_) => return HashSet::new(),
    };
    let failed = match failed {
        Value::Null => return all(),
        Value::Array(failed) => failed,
        _ => return HashSet::new(),
    };
    let mut served: HashSet<&str> = all();
    let batch = served.clone();
    for failure in &failed {
        match failure["itemIdentifier"].as_str() {
            Some(id) if batch.contains(id) => served.remove(id),
            _ => return HashSet::new(),
        };
    }
    served
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqs::Message;

    fn batch() -> Vec<Received> {
        let received = |id: &str| Received {
            message: Message {
                id: id.to_owned(),
                body: "{}".to_owned(),
                sent_ms: 1,
                receives: 2,
                first_received_ms: Some(1),
            },
            receipt: format!("receipt of {id}"),
        };
        vec![received("a"), received("b")]
    }

    #[test]
    fn an_answer_decides_which_records_are_deleted() {
        let both: &[&str] = &["a", "b"];
        for (answer, expected) in [
            (r#"{"batchItemFailures": []}"#, both),
            ("null", both),
            ("", both),
            (r#"{"other": 1}"#, both),
            (r#"{"batchItemFailures": [{"itemIdentifier": "a"}]}"#, &["b"]),
            (
                r#"{"batchItemFailures": [{"itemIdentifier": "a"}, {"itemIdentifier": "a"}]}"#,
                &["b"],
            ),
            (r#"{"batchItemFailures": [{"itemIdentifier": "c"}]}"#, &[]),
            (r#"{"batchItemFailures": [{"itemIdentifier": ""}]}"#, &[]),
            (r#"{"batchItemFailures": "all"}"#, &[]),
            ("not JSON", &[]),
        ] {
            let batch = batch();
            let mut ids: Vec<&str> = served(&batch, &Ok(Bytes::from(answer))).into_iter().collect();
            ids.sort_unstable();
            assert_eq!(ids, expected, "{answer}");
        }
        assert!(served(&batch(), &Err(InvokeError::Crashed(String::new()))).is_empty());
    }

    #[test]
    fn an_event_has_the_records_of_the_service() {
        let event: Value = serde_json::from_slice(&event_of("turns", &batch())).unwrap();
        let record = &event["Records"][1];
        assert_eq!(record["messageId"], "b");
        assert_eq!(record["attributes"]["ApproximateReceiveCount"], "2");
        assert_eq!(record["eventSourceARN"], "arn:aws:sqs:us-east-1:000000000000:turns");
        assert_eq!(record["md5OfBody"], "99914b932bd37a50b983c5e7c90ae93b");
    }
}
