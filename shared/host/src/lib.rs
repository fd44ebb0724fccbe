//! `duroxide-lambda`: durable workflows of duroxide on AWS Lambda, one step per wakeup.
//!
//! A *wakeup* (an SQS message) starts a function. The function lets duroxide's runtime run exactly one *step*, a turn or an
//! activity, for the wakeup's target, sends wakeups for everything that the commit made due, and ends. (A wakeup for several
//! timers of one second leads to a step for each.) The store is the truth, and a lost wakeup costs time, never work.
//!
//! ```text
//!   SQS batch ─> event ─> wakeup ─> gate ─> directed fetch ─> runtime executes ─> commit ─> due ─> notifier ─> SQS
//!                                                                                   └─> disposition of the record
//! ```
//!
//! A user needs [`orchestrator`], [`worker`] (or [`Worker`], with limits for single activities) and [`maintenance`](maintenance()) for three functions, and [`client`] or a
//! [`Connection`] to start workflows. [`config`] is read from the environment; a [`Notifier`] replaces SQS.
//!
//! | module | role |
//! |---|---|
//! | `function`, `environment`, `invocation` | entry points; the warm runtime; one batch of records |
//! | `function_error`, `panics` | the names of errors that Lambda reports; panics of activities as their errors |
//! | `connection`, `notifying_provider` | for programs outside of the functions; a wakeup after each request of a client |
//! | `gate`, `delegate` | the provider that gives the runtime one step per request; how it passes on the other verbs |
//! | `wakeup`, [`notifier`], `event` | the message; how it is sent; how it arrives |
//! | `due`, `disposition` | pure: which wakeups follow a commit; what becomes of a record |
//! | `waiting` | the last second before a due time |
//! | `maintenance` | the scheduled function |
//! | [`canary`], [`doctor`] | a workflow that every deployment can run; what this process can find out about its deployment |
//! | [`replay`] | whether this build still does what recorded histories say, for a gate before a deployment |
//! | `budget`, `build`, [`config`], `aws` | time, the build, settings, AWS clients |
//! | `secret`, `web_identity` | the store's key, or what proves an application's identity to Entra ID |
//! | [`log`], `metrics` | JSON logs; metrics in CloudWatch's embedded format |
//! | `testing` | tests of workflows without a store and without waiting, behind the feature `testing` |
//! | `internals` | internals for the tests of this workspace, behind the feature `internals` |
//!
//! # Affinity sessions on Lambda
//!
//! duroxide binds the activities of one session to one worker. Here the worker is the execution environment: an activity of
//! a session that another environment owns is busy, and its wakeup is sent again until it reaches the owner or the owner's
//! lock expires ([`Limits::session_lock`]). The lock is renewed only while an activity of the session runs, because a frozen
//! environment does nothing. So affinity means that *at most one environment at a time* works on a session, and that a warm
//! environment which keeps getting the session's wakeups keeps its state. Lambda decides which environment gets a message,
//! so a certain environment cannot be reached. With many environments a session's next activity may wait until the lock
//! expires, and is woken at growing pauses meanwhile (a request and an invocation each time: a thousand activities behind
//! one owner are some sixty invocations a second). An environment serves one invocation at a time, so activities of one
//! session run side by side only within one batch. Keep in a session what can be rebuilt (a connection, a cache), never
//! what must not be lost with the process.
//!
//! # Rules for workflow code
//!
//! - Activities run *at least once*: again after a crash, and also when one ends in the moment in which it is asked to stop.
//!   Give their effects an idempotency key, as the sample does.
//! - Code that blocks its thread, in an activity or an orchestration, delays timers and lock renewals of the whole
//!   environment. Block in `tokio::task::spawn_blocking`.
//! - The client of an activity's context can start, raise and cancel. It cannot manage (list, delete, prune), because the
//!   runtime would then count all instances at every cold start. Use [`client`] for that.

// docs.rs labels what needs a feature.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod aws;
mod budget;
mod build;
pub mod canary;
pub mod config;
mod connection;
mod delegate;
mod disposition;
pub mod doctor;
mod due;
mod environment;
mod event;
mod function;
mod function_error;
mod gate;
#[cfg(feature = "internals")]
pub mod internals;
mod invocation;
pub mod log;
mod maintenance;
mod metrics;
pub mod notifier;
mod notifying_provider;
mod panics;
pub mod replay;
mod secret;
#[cfg(feature = "testing")]
pub mod testing;
mod waiting;
mod wakeup;
mod web_identity;

/// For [`delegate_provider!`].
#[doc(hidden)]
pub use async_trait::async_trait;
pub use config::{ActivityLimits, Config, ConfigError, Limits, MaintenanceSettings};
pub use connection::Connection;
pub use duroxide_cosmos::{Target, WorkTarget, WorkVersion};
pub use function::{Worker, client, connected, end_of_invocation, maintenance, orchestrator, worker};
pub use lambda_runtime::Error;
pub use maintenance::{Report as MaintenanceReport, RequestError as MaintenanceRequestError};
pub use notifier::{Delayed, NotSent, Notifier};
pub use wakeup::{Probe, Wakeup, WakeupError};

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
