//! The local cloud: Lambda, SQS and a schedule on one machine, around the real function binaries; and the demo.
//!
//! Each module knows only modules further down in this table.
//!
//! | module | role |
//! |---|---|
//! | [`demo`] | runs orders through a [`Cloud`] while function processes are killed, and reports what happened |
//! | `cloud` | starts and stops everything: the Cosmos DB emulator, queues, functions, the AWS endpoint, the schedule |
//! | `function_url` | HTTP requests become invocations of a function |
//! | `mapping` | the event source mapping: batches of a queue become invocations of a function |
//! | `lambda` | functions as pools of processes behind the Runtime API |
//! | `sqs` | queues, and the service's JSON protocol |
//! | `binaries` | builds the function binaries with cargo |
//! | `aws` | names of resources: account, region, ARNs |
//! | `net` | requests and replies, on the HTTP server of the emulator crate |
//!
//! ```text
//!   CloudOptions ──> Cloud::start ──> Cloud { endpoint, api, variables, status, kill_next, replace, attachment, shutdown }
//! ```

mod aws;
mod binaries;
mod cloud;
pub mod demo;
mod function_url;
mod lambda;
mod mapping;
mod net;
mod sqs;

pub use binaries::{Build, BuildError};
pub use cloud::{
    Cloud, CloudError, CloudOptions, CloudStatus, FunctionStatus, Functions, QueueStatus, ReplaceError, Server, Store,
    tagged_worker,
};
pub use lambda::{EnvironmentStatus, FunctionCounts, InvokeError, LogLine, LogSink, become_child};
pub use sqs::{Depth, Loss, QueueCounts};

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
