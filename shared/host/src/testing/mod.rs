//! Tests of workflows: the user's registries on duroxide's own runtime, an in-process store and a clock that skips. Behind the feature
//! `testing`.
//!
//! ```
//! use duroxide::runtime::registry::ActivityRegistry;
//! use duroxide::{OrchestrationContext, OrchestrationRegistry};
//! use duroxide_lambda::testing::Simulation;
//! use std::time::Duration;
//!
//! let remind = |ctx: OrchestrationContext, who: String| async move {
//!     ctx.schedule_timer(Duration::from_secs(30 * 86_400)).await;
//!     ctx.schedule_activity("send-mail", who).await
//! };
//! let orchestrations = OrchestrationRegistry::builder().register("remind", remind).build();
//! let activities = ActivityRegistry::builder().build();
//!
//! let mut simulation = Simulation::of(orchestrations, activities).activity("send-mail", |to| Ok(format!("sent to {to}")));
//! let ended = simulation.run("remind", "ada");
//! assert_eq!(ended.expect_completed(), "sent to ada");
//! assert_eq!(ended.inputs_of("send-mail"), ["ada"]);
//! assert_eq!(ended.elapsed(), Duration::from_secs(30 * 86_400));
//! ended.expect_deterministic();
//! ```
//!
//! # Design
//!
//! ```text
//!   Simulation ── Client ──> stage ──> MemoryStore        one thread, tokio's time paused
//!                              ^
//!                        duroxide's Runtime
//! ```
//!
//! | module | role |
//! |---|---|
//! | `simulation` | the face: set-up, driving, and when nothing can happen any more |
//! | `stage` | the provider that injects faults and does what the functions add |
//! | `store` | the in-memory provider, which adds nothing to duroxide's contract |
//! | `clock` | virtual time, and duroxide's timers on it |
//! | `registries` | orchestrations that are watched, activities that are replaced and recorded |
//! | `faults`, `every_crash` | which runs fail and which steps crash |
//! | `instance`, `history`, `waits` | what a test sees |
//!
//! What duroxide does comes from duroxide: its real `Runtime` and `Client` work on an implementation of its `Provider` that keeps
//! everything in memory and passes duroxide's own validation suite as far as it applies. Between them, `stage` injects crashes and does
//! what this project's functions add: an unknown name, nondeterminism or a panic of an orchestration *blocks* the instance until
//! [`Simulation::upgrade`] or a cancellation; an activity that has crashed ten times fails as an application error; a panic of an activity
//! is its error.
//!
//! Everything runs on one thread whose time stands still while anything can run, and jumps to the next due time when nothing can. So
//! there is no polling and no waiting, the same test takes the same order of steps each time, and a workflow that waits for what
//! nobody sends is noticed at once.
//!
//! # Time
//!
//! Timers, `ctx.utc_now()`, retries, times of events, and `tokio::time` within activities follow the virtual clock, which begins at
//! [`Simulation::starting_at`]. `ctx.new_guid()` counts. Real time remains here:
//!
//! - Code that reads `SystemTime` or `Instant` itself, or blocks its thread.
//! - `ctx.prune_kv_values_updated_before` compares with the wall clock for keys that were set in the same execution: duroxide
//!   stamps them itself when it replays.
//! - duroxide calculates a timer from the wall clock. The simulation measures what it read, and runs a turn again if the clock moved
//!   meanwhile. The delay is exact unless a single poll of the code takes more than a millisecond each time.
//!
//! # Not simulated
//!
//! - Limits of the store: sizes of payloads and histories. duroxide's own limits hold.
//! - Time limits of activities ([`ActivityLimits`](crate::ActivityLimits)), queues, and the cost of anything. An activity that does not end within 15
//!   minutes stops the simulation.
//! - Affinity sessions are always at home, since there is one process. Workers of all tags are there. 256 activities run at once.
//! - Pause, rewind, fork and the other requests of operators. Giving up what no build has registered for days: it stays blocked.
//! - Activities with real I/O: virtual time skips while they wait. Replace them.

mod clock;
mod every_crash;
mod faults;
mod history;
mod instance;
mod registries;
mod simulation;
mod stage;
mod store;
mod waits;

pub use every_crash::at_every_crash;
pub use faults::{Crash, Runs};
pub use history::History;
pub use instance::{Instance, Outcome};
pub use registries::Call;
pub use simulation::Simulation;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub use store::MemoryStore;
