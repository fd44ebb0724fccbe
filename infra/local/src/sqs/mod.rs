//! SQS, as far as functions and their event source mappings use it.
//!
//! | module | role |
//! |---|---|
//! | `queue` | one queue: delays, visibility, receipts, dead letters; pure |
//! | `service` | all queues, shared: waits for messages, moves dead letters, loses messages on purpose |
//! | `api` | the service's JSON protocol over HTTP, as the AWS SDKs speak it |
//! | `mapping` | the event source mapping: batches to invocations, partial failures |
//!
//! Nothing is kept on disk: the queue is a hint, and what it loses in a restart is notified again by maintenance.

mod api;
mod mapping;
mod queue;
mod service;

pub(crate) use api::{ACCOUNT, REGION, SqsApi, url};
pub(crate) use mapping::Mapping;
pub use mapping::MappingSettings;
pub use queue::{Depth, Message, QueueSettings, Received, Redrive};
pub(crate) use service::Sqs;
pub use service::{Loss, QueueCounts};
