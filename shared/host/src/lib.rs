//! `duroxide-lambda`: durable workflows of duroxide on AWS Lambda, one step per invocation.
//!
//! A *ring* (an SQS message) wakes a function; the function has duroxide's runtime do exactly one fetch-execute-ack
//! cycle for the ring's target, rings for whatever the commit made due, and ends. The store is the truth and the queue
//! is a hint: a lost ring costs time, never work.
//!
//! ```text
//!   SQS batch ─> event ─> ring ─> gate ─> directed fetch ─> runtime executes ─> commit ─> plan ─> ringer ─> SQS
//!                                   └─ ticket ──────────── answer: Cycle ────────┘         └─ verdict: served,
//!                                                                                             again, failed
//! ```
//!
//! | module | role |
//! |---|---|
//! | `function`, `environment`, `invocation` | entry points; the warm runtime; one batch |
//! | `connection` | for programs outside of the functions: client, store and doorbell from given parts |
//! | `gate` | the provider that gives the runtime one cycle per ticket |
//! | `ring`, `doorbell`, `ringer`, `ringing` | the message; how it is sent; sent in time; sent for clients |
//! | `plan`, `verdict` | pure: which rings follow a commit; what follows from an outcome |
//! | [`maintenance`](mod@maintenance) | what a scheduled function repairs, and what it rings for |
//! | `budget`, `config`, `secret` | time, settings, the store's key |
//! | `delegate` | providers that are another one in all but a few verbs |
//! | `deployment` | what templates are checked against: permissions and timing |
//! | `log`, `meter` | JSON logs; metrics in CloudWatch's embedded format |
//!
//! # Sessions on Lambda
//!
//! duroxide binds the activities of one session to one worker. Here the worker is the execution environment: an
//! activity of a session that another environment holds is busy, and is rung for again until it comes to the holder or
//! the holder's lock expires ([`Limits::session_lock`]). The lock is renewed only while an activity of the session
//! runs, because a frozen environment does nothing. So affinity means: *at most one environment at a time* works on a
//! session, and a warm environment that keeps getting the session's rings keeps its state. It cannot mean that a
//! certain environment is reached: Lambda decides who gets a message. With many environments a session's next activity
//! may wait for the lock to run out, and is rung for at growing pauses meanwhile (a request and an invocation each time:
//! a thousand activities behind one owner are some sixty invocations a second). An environment serves one invocation at
//! a time, so activities of one session run beside each other only within one batch. Keep in a session what is worth rebuilding (a connection, a cache), never what is
//! lost with the process.
//!
//! # What user code should know
//!
//! - Activities run *at least once*: after a crash, and also when one ends in the moment in which it is told to stop.
//!   Give their effects a key of their own, as the sample does.
//! - Code that blocks its thread, in an activity or an orchestration, stalls timers and renewals of the whole
//!   environment. Block in `tokio::task::spawn_blocking`.
//! - The client of an activity's context starts, raises and cancels, and rings for it. It cannot manage (list, delete,
//!   prune): the runtime would then count all instances at every cold start. Use [`client`] for that.

mod aws;
mod budget;
pub mod config;
mod connection;
mod delegate;
pub mod deployment;
mod directed;
pub mod doorbell;
mod environment;
mod event;
mod function;
mod gate;
mod invocation;
pub mod log;
pub mod maintenance;
pub mod meter;
mod plan;
mod ring;
mod ringer;
mod ringing;
mod secret;
mod verdict;

/// For [`delegate_provider!`].
#[doc(hidden)]
pub use async_trait::async_trait;
pub use budget::Budget;
pub use config::{Config, Limits};
pub use connection::Connection;
pub use directed::{Directed, Undirected};
pub use doorbell::{Delayed, Doorbell};
pub use environment::{Environment, Parts, Role};
pub use event::{BatchItemFailure, BatchResponse, SqsEvent, SqsRecord};
pub use function::{client, maintenance, orchestrator, worker};
pub use gate::{Cycle, Ended, Gate, Outcome};
pub use lambda_runtime::Error;
pub use maintenance::{Maintenance, MaintenanceRequest, MaintenanceSettings, Report};
pub use ring::{Ring, RingError, Target, WorkTarget};
pub use ringer::Ringer;
pub use ringing::Ringing;
pub use secret::SecretKey;
