//! `duroxide-lambda`: durable workflows of duroxide on AWS Lambda, one step per invocation.
//!
//! A *wakeup* (an SQS message) wakes a function; the function has duroxide's runtime do exactly one fetch-execute-ack
//! cycle for the wakeup's target, wakeups for whatever the commit made due, and ends. The store is the truth and the queue
//! is a hint: a lost wakeup costs time, never work.
//!
//! ```text
//!   SQS batch ─> event ─> wakeup ─> gate ─> directed fetch ─> runtime executes ─> commit ─> plan ─> notifier ─> SQS
//!                                   └─ ticket ──────────── answer: Cycle ────────┘         └─ disposition: served,
//!                                                                                             again, failed
//! ```
//!
//! | module | role |
//! |---|---|
//! | `function`, `environment`, `invocation` | entry points; the warm runtime; one batch |
//! | `connection` | for programs outside of the functions: client, store and notifier from given parts |
//! | `gate` | the provider that gives the runtime one cycle per ticket |
//! | `wakeup`, `notifier`, `notifier`, `notifying` | the message; how it is sent; sent in time; sent for clients |
//! | `plan`, `disposition` | pure: which wakeups follow a commit; what follows from an outcome |
//! | [`maintenance`](mod@maintenance) | what a scheduled function repairs, and what it wakeups for |
//! | `budget`, `config`, `secret` | time, settings, the store's key |
//! | `delegate` | providers that are another one in all but a few verbs |
//! | `deployment` | what templates are checked against: permissions and timing |
//! | `log`, `metrics` | JSON logs; metrics in CloudWatch's embedded format |
//!
//! # Sessions on Lambda
//!
//! duroxide binds the activities of one session to one worker. Here the worker is the execution environment: an
//! activity of a session that another environment holds is busy, and is notified for again until it comes to the holder or
//! the holder's lock expires ([`Limits::session_lock`]). The lock is renewed only while an activity of the session
//! runs, because a frozen environment does nothing. So affinity means: *at most one environment at a time* works on a
//! session, and a warm environment that keeps getting the session's wakeups keeps its state. It cannot mean that a
//! certain environment is reached: Lambda decides who gets a message. With many environments a session's next activity
//! may wait for the lock to run out, and is notified for at growing pauses meanwhile (a request and an invocation each time:
//! a thousand activities behind one owner are some sixty invocations a second). An environment serves one invocation at
//! a time, so activities of one session run beside each other only within one batch. Retention in a session what is worth rebuilding (a connection, a cache), never what is
//! lost with the process.
//!
//! # What user code should know
//!
//! - Activities run *at least once*: after a crash, and also when one ends in the moment in which it is told to stop.
//!   Give their effects a key of their own, as the sample does.
//! - Code that blocks its thread, in an activity or an orchestration, stalls timers and renewals of the whole
//!   environment. Block in `tokio::task::spawn_blocking`.
//! - The client of an activity's context starts, raises and cancels, and wakeups for it. It cannot manage (list, delete,
//!   prune): the runtime would then count all instances at every cold start. Use [`client`] for that.

mod aws;
mod budget;
pub mod config;
mod connection;
mod delegate;
mod disposition;
mod due;
#[cfg_attr(not(feature = "testing"), allow(dead_code, reason = "a part is for tests"))]
mod environment;
mod event;
mod function;
mod gate;
mod invocation;
pub mod log;
mod maintenance;
mod metrics;
pub mod notifier;
mod notifying_provider;
mod secret;
#[cfg(feature = "testing")]
pub mod testing;
mod wakeup;

/// For [`delegate_provider!`].
#[doc(hidden)]
pub use async_trait::async_trait;
pub use config::{Config, ConfigError, Limits, MaintenanceSettings};
pub use connection::Connection;
pub use duroxide_cosmos::{Orchestration, Target, WorkTarget};
pub use function::{client, maintenance, orchestrator, worker};
pub use lambda_runtime::Error;
pub use notifier::{Delayed, NotSent, Notifier};
pub use wakeup::{Wakeup, WakeupError};
