//! SQS, as far as functions, their event source mappings and the AWS SDKs use it.
//!
//! | module | role |
//! |---|---|
//! | `api` | the actions, over HTTP |
//! | `limits`, `protocol` | what a request may contain; the shapes of requests, messages and refusals |
//! | `service` | all queues, shared: waits for messages, moves dead letters, loses messages on purpose |
//! | `queue` | one queue: delays, visibility, receipts, dead letters; pure |
//!
//! Nothing is written to disk. A wakeup that a restart loses is sent again by maintenance.

mod api;
mod limits;
mod protocol;
mod queue;
mod service;

pub(crate) use api::SqsApi;
pub(crate) use protocol::{md5_of, system_attributes};
pub use queue::Depth;
#[cfg(test)]
pub(crate) use queue::Message;
pub(crate) use queue::{QueueSettings, Received, Redrive};
pub(crate) use service::Sqs;
pub use service::{Loss, QueueCounts};
