//! The notifier in production: SQS standard queues.
//!
//! Wakeups are grouped by queue and sent in as few `SendMessageBatch` calls as the service's limits allow, the calls of
//! one commit side by side. FIFO queues do not fit: they have no delay per message, and their groups would block the
//! wakeups behind a busy instance.
//!
//! Invariant: every wakeup is either accepted by the service or returned as [`NotSent`].

use super::{Delayed, Depth, NotSent, Notifier, QueueName, QueueSettings};
use crate::aws;
use crate::wakeup::Wakeup;
use async_trait::async_trait;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{QueueAttributeName, SendMessageBatchRequestEntry};
use duroxide_cosmos::Target;
use duroxide_cosmos::{Ids, RandomIds};
use futures::StreamExt as _;
use futures::stream;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;
use tokio::sync::OnceCell;

/// The service's limits: the entries of one call, the bytes of all its bodies, and the delay.
const MAX_ENTRIES: usize = 10;
const MAX_BYTES: usize = 256 * 1024;
const MAX_DELAY_SECONDS: u64 = 900;

/// Calls in flight at once. Each needs a connection of its own (SQS speaks HTTP/1.1), and the TLS handshake is the most
/// expensive part of sending a wakeup.
const MAX_CALLS: usize = 16;

/// The URLs of the queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queues {
    /// For turns.
    pub orchestrator: String,
    /// For activities, except those whose tag has a queue of its own.
    pub worker: String,
    /// For the activities of a tag.
    pub tagged: BTreeMap<String, String>,
}

impl Queues {
    /// The queue of a wakeup.
    pub fn url_of(&self, wakeup: &Wakeup) -> &str {
        self.url(&self.name_of(&wakeup.target))
    }

    /// The name of a target's queue.
    fn name_of(&self, target: &Target) -> QueueName {
        let tag = match target {
            Target::Turn { .. } | Target::Batch { .. } => None,
            Target::Work(work) => work.tag.as_deref(),
        };
        let tagged = tag.filter(|tag| self.tagged.contains_key(*tag));
        tagged.map_or_else(|| QueueName::of(target), QueueName::tagged)
    }

    /// The URL of a queue. A tag whose queue was removed has the queue of all others.
    fn url(&self, queue: &QueueName) -> &str {
        if queue.is_of_turns() {
            return &self.orchestrator;
        }
        let tagged = queue.tag().and_then(|tag| self.tagged.get(tag));
        tagged.unwrap_or(&self.worker)
    }
}

/// Sends wakeups as SQS messages.
pub struct Sqs {
    client: OnceCell<Client>,
    queues: Queues,
}

impl Sqs {
    /// A notifier that makes its client from the environment with the first wakeup.
    pub fn new(queues: Queues) -> Sqs {
        Sqs {
            client: OnceCell::new(),
            queues,
        }
    }

    /// A notifier that takes endpoint, region and keys from these variables (`AWS_ENDPOINT_URL`, `AWS_REGION`,
    /// `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`) instead of the process's environment.
    pub fn from_variables(queues: Queues, get: impl Fn(&str) -> Option<String>) -> Sqs {
        Self::with_client(Client::new(&aws::given(get)), queues)
    }

    /// A notifier that uses this client.
    pub fn with_client(client: Client, queues: Queues) -> Sqs {
        Sqs {
            client: OnceCell::new_with(Some(client)),
            queues,
        }
    }

    async fn client(&self) -> &Client {
        self.client
            .get_or_init(|| async { Client::new(aws::shared().await) })
            .await
    }
}

impl fmt::Debug for Sqs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sqs")
            .field("queues", &self.queues)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Notifier for Sqs {
    async fn notify(&self, wakeups: &[Delayed]) -> Vec<NotSent> {
        if wakeups.is_empty() {
            return Vec::new();
        }
        let client = self.client().await;
        let calls: Vec<_> = calls(&self.queues, wakeups)
            .into_iter()
            .map(|call| call.send(client))
            .collect();
        let failures: Vec<Vec<NotSent>> = stream::iter(calls).buffer_unordered(MAX_CALLS).collect().await;
        failures.into_iter().flatten().collect()
    }

    fn queue_of(&self, target: &Target) -> QueueName {
        self.queues.name_of(target)
    }

    fn queues(&self) -> Vec<QueueName> {
        let tagged = self.queues.tagged.keys().map(|tag| QueueName::tagged(tag));
        [QueueName::turns(), QueueName::works()]
            .into_iter()
            .chain(tagged)
            .collect()
    }

    async fn depth(&self, queue: &QueueName) -> Option<Depth> {
        let request = self.client().await.get_queue_attributes();
        let names = [WAITING, IN_FLIGHT, DELAYED];
        let request = request
            .queue_url(self.queues.url(queue))
            .set_attribute_names(Some(names.to_vec()));
        match request.send().await {
            Ok(answer) => depth_of(answer.attributes()?),
            Err(error) => {
                let reason = aws::reason(&error);
                tracing::warn!(%queue, reason, "the depth of a queue is not known: overdue items are woken at growing ages");
                None
            }
        }
    }

    async fn settings(&self, queue: &QueueName) -> Result<Option<QueueSettings>, String> {
        let request = self.client().await.get_queue_attributes();
        let request = request
            .queue_url(self.queues.url(queue))
            .set_attribute_names(Some(vec![VISIBILITY, REDRIVE, RETENTION]));
        let answer = request.send().await.map_err(|error| aws::reason(&error))?;
        let settings = answer.attributes().and_then(settings_of);
        settings
            .map(Some)
            .ok_or_else(|| "the service answered without a visibility timeout".to_owned())
    }
}

const VISIBILITY: QueueAttributeName = QueueAttributeName::VisibilityTimeout;
const REDRIVE: QueueAttributeName = QueueAttributeName::RedrivePolicy;
const RETENTION: QueueAttributeName = QueueAttributeName::MessageRetentionPeriod;

/// The settings in an answer, if it has the visibility timeout. SQS leaves the redrive policy out of a queue that has none.
fn settings_of(attributes: &HashMap<QueueAttributeName, String>) -> Option<QueueSettings> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Redrive {
        max_receive_count: serde_json::Value,
    }
    let seconds = |name: QueueAttributeName| Some(Duration::from_secs(attributes.get(&name)?.parse().ok()?));
    let redrive = attributes.get(&REDRIVE);
    let redrive = redrive.and_then(|policy| serde_json::from_str::<Redrive>(policy).ok());
    // A number; some tools write it as a text.
    let count = redrive.and_then(|redrive| match redrive.max_receive_count {
        serde_json::Value::String(text) => text.parse().ok(),
        number => number.as_u64().and_then(|number| u32::try_from(number).ok()),
    });
    Some(QueueSettings {
        visibility: seconds(VISIBILITY)?,
        max_receives: count,
        retention: seconds(RETENTION),
    })
}

const WAITING: QueueAttributeName = QueueAttributeName::ApproximateNumberOfMessages;
const IN_FLIGHT: QueueAttributeName = QueueAttributeName::ApproximateNumberOfMessagesNotVisible;
const DELAYED: QueueAttributeName = QueueAttributeName::ApproximateNumberOfMessagesDelayed;

/// The depth in an answer, if it has all three numbers.
fn depth_of(attributes: &HashMap<QueueAttributeName, String>) -> Option<Depth> {
    let number = |name: QueueAttributeName| attributes.get(&name)?.parse().ok();
    Some(Depth {
        waiting: number(WAITING)?,
        in_flight: number(IN_FLIGHT)?,
        delayed: number(DELAYED)?,
    })
}

/// One `SendMessageBatch`. An entry's id is its place in `wakeups`.
struct Call<'a> {
    queue: &'a str,
    wakeups: Vec<(&'a Delayed, String)>,
    bytes: usize,
}

/// Splits wakeups into calls: each of one queue, within the limits. A wakeup that is too large is a call by itself, which
/// the service refuses.
fn calls<'a>(queues: &'a Queues, wakeups: &'a [Delayed]) -> Vec<Call<'a>> {
    let mut full = Vec::new();
    let mut open: BTreeMap<&str, Call<'a>> = BTreeMap::new();
    for delayed in wakeups {
        let body = delayed.wakeup.encode();
        let queue = queues.url_of(&delayed.wakeup);
        let call = open.entry(queue).or_insert_with(|| Call::to(queue));
        if !call.has_room(body.len()) {
            full.push(std::mem::replace(call, Call::to(queue)));
        }
        call.bytes += body.len();
        call.wakeups.push((delayed, body));
    }
    full.extend(open.into_values());
    full
}

impl<'a> Call<'a> {
    fn to(queue: &'a str) -> Call<'a> {
        Call {
            queue,
            wakeups: Vec::new(),
            bytes: 0,
        }
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.wakeups.is_empty() || (self.wakeups.len() < MAX_ENTRIES && self.bytes + bytes <= MAX_BYTES)
    }

    async fn send(mut self, client: &Client) -> Vec<NotSent> {
        let entries = self.wakeups.iter_mut().enumerate().map(|(id, (delayed, body))| {
            SendMessageBatchRequestEntry::builder()
                .id(id.to_string())
                .message_body(std::mem::take(body))
                .delay_seconds(seconds(delayed.delay))
                .build()
                .expect("an entry with an id and a body is complete")
        });
        let request = client
            .send_message_batch()
            .queue_url(self.queue)
            .set_entries(Some(entries.collect()));
        let trace = new_trace();
        let request = request.customize().mutate_request(move |request| {
            request.headers_mut().insert("x-amzn-trace-id", trace.clone());
        });
        let answer = match request.send().await {
            Ok(answer) => answer,
            Err(error) => {
                let reason = format!("{}: {}", self.queue, aws::reason(&error));
                return self.not_sent(|_| Some(reason.clone()));
            }
        };
        self.not_sent(|id| {
            if answer.successful().iter().any(|entry| entry.id() == id) {
                return None;
            }
            let failed = answer.failed().iter().find(|entry| entry.id() == id);
            let why = failed.map_or("the answer does not mention it".to_owned(), |entry| {
                let fault = if entry.sender_fault() { "sender" } else { "service" };
                format!(
                    "{} ({fault} fault): {}",
                    entry.code(),
                    entry.message().unwrap_or("no message")
                )
            });
            Some(format!("{}: {why}", self.queue))
        })
    }

    fn not_sent(&self, why: impl Fn(&str) -> Option<String>) -> Vec<NotSent> {
        let failed = self.wakeups.iter().enumerate().filter_map(|(id, (delayed, _))| {
            let reason = why(&id.to_string())?;
            Some(NotSent {
                wakeup: delayed.wakeup.clone(),
                reason,
            })
        });
        failed.collect()
    }
}

/// A new trace, in place of the invocation's trace that the SDK would pass on.
///
/// By that trace Lambda counts how often functions invoke each other through queues, and drops the message after sixteen
/// times as a loop. A workflow is such a loop on purpose, of thousands of turns.
fn new_trace() -> String {
    let id = RandomIds.unique();
    let hex: String = id.chars().filter(char::is_ascii_hexdigit).collect();
    let (epoch, rest) = hex.split_at_checked(8).unwrap_or((&hex, ""));
    format!("Root=1-{epoch:0>8}-{rest:0>24.24};Sampled=0")
}

/// A delay in the service's unit, within its limit. A wakeup that arrives early for that limit has a `due_ms`, and the
/// receiver sends it again.
fn seconds(delay: Duration) -> i32 {
    let whole = delay.as_secs() + u64::from(delay.subsec_nanos() > 0);
    whole.min(MAX_DELAY_SECONDS) as i32
}

#[cfg(test)]
mod tests;
