//! `duroxide-cosmos`: a duroxide storage provider on Azure Cosmos DB.
//!
//! All state of one orchestration instance lives in one logical partition of one container, so that a turn commits as ONE
//! transactional batch, fenced by the ETag of the instance document. A message for another instance (a child's
//! start, a child's completion) is written into that same batch as an *intent* and delivered afterwards, idempotently.
//!
//! ```text
//!   enqueue ──> message ──> fetch (claim if needed) ──> duroxide runs the turn ──> plan ──> commit ──> deliver
//!                  ^                                                                         │
//!                  └────────── work item <── worker: fetch, run, complete <──────────────────┘
//! ```
//!
//! # Layers
//!
//! A module may use modules of lower layers only; the test in `layers.rs` checks it against this table.
//!
//! | layer | modules | role |
//! |---|---|---|
//! | 1 | `build`, `clock`, `error`, `schema` | the build that a process runs; injected time and ids; errors; the definition of the container |
//! | 2 | `model`, `config`, `token` | one file per document type: its id, its fields, its serde; settings; lock tokens |
//! | 3 | `due`, `store` | pure: who has something to do after a write; the container, the clock, the instance's fence, what a step has spent |
//! | 4 | `types`, `given_up`, `reopen`, `batch`, `read`, `page`, `session`, `enqueue` | public types of the directed calls; pure: what a dead letter keeps, how an execution goes on from an earlier point; batches of operations; reads of one instance; pages of a pass; affinity sessions; enqueueing from outside, with tags and idempotency keys |
//! | 5 | `recovery` | delivers intents, rolls commits, deletions, pauses and rewinds forward, removes orphans |
//! | 6 | `turn`, `work` | fetch, commit or complete, release and renew: one turn, one activity |
//! | 7 | `admin`, `polling` | lists, infos, summaries, search, counts, pause, restart, rewind, deletion, pruning; what to try next without a wakeup |
//! | 8 | `bulk`, `examine`, `explain`, `maintain` | one action on many instances, in steps; what the store's operations cost, and whether its container is as it should be; why an instance is where it is, and what to do; the passes of the scheduled function: due items, sessions, retention, dead letters, report |
//! | 9 | `provider` | the public face: `Provider`, `ProviderAdmin`, the directed calls, the passes |
//!
//! Creating a provider starts no task, and every request belongs to a call of its user. A polling fetch claims in a task of
//! its own, which ends with the claim: a fetch that is dropped in between leaves no claim behind.

// docs.rs labels what needs a feature.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod admin;
mod batch;
mod build;
mod bulk;
mod clock;
mod config;
mod due;
mod enqueue;
mod error;
mod examine;
mod explain;
mod given_up;
#[cfg(test)]
mod layers;
mod maintain;
mod model;
mod page;
mod polling;
mod provider;
mod read;
mod recovery;
mod reopen;
mod schema;
mod session;
mod store;
mod token;
mod turn;
mod types;
mod work;

pub use admin::{
    Attention, Count, ForkOutcome, ForkPlan, ForkRequest, ForkResult, InstanceCounts, InstanceFilter, InstancePage,
    InstanceStatus, InstanceSummary, PauseOutcome, PauseResult, PlannedStep, RestartRequest, Restarted, RewindOutcome,
    RewindPlan, RewindRequest, RewindResult, SearchError, StepKind, SummaryChange,
};
pub use build::Build;
pub use bulk::{
    Batch, BatchAction, BatchCancelled, BatchCursor, BatchFailurePage, BatchPage, BatchRequest, BatchStarted,
    BatchStep, StepContext, batch_id_of_key,
};
pub use clock::{Ids, RandomIds};
pub use config::{CosmosConfig, CosmosConfigBuilder, Outbox};
pub use cosmos::{Clock, SystemClock};
pub use due::{Due, Target, TurnDecision, WorkTarget, WorkVersion};
pub use enqueue::{EventRequest, EventTarget, Raised, StartRequest, Started, instance_id_of_key};
pub use error::ConnectError;
pub use examine::{ClockReading, Examination, MeasuredOperation};
pub use explain::{Advice, Cause, Evidence, ExplainSettings, Explanation, Link, Similar, Wait, WaitKind, WokenBy};
pub use maintain::{
    Backlog, BacklogQuery, DeadLetter, DeadLetterCursor, DeadLetterFilter, DeadLetterId, DeadLetterPage,
    DeadLetterSummary, DueItem, DueKinds, DuePage, DueWindow, HourCounts, Look, LookRequest, MaintenanceState, Overdue,
    OverdueItem, OverdueKind, Overview, OverviewQuery, PassedProbe, Redriven, Redrives, Retention, Searched, Tried,
};
#[cfg(feature = "testing")]
#[doc(hidden)]
pub use model::testing;
pub use model::{
    Attempt, AttemptEnd, AwaitedProbe, BatchCounts, BatchFailure, BatchSample, BatchState, Block, BlockCause, Blocked,
    DeadLetterKind, ForkedFrom, GivenUpWork, LateUsage, Orchestration, Paused, QueueState, RemindedSpan, Rewind,
    TagError, Tags, UnfinishedSweep, Usage,
};
pub use page::{Cursor, PageRequest, PassOutcome};
pub use provider::CosmosProvider;
pub use read::{ActivityAttempts, HistoryAfter, KeysAtStart, OpenActivity, Undone};
pub use schema::container_spec;
pub use types::{ClaimedWork, Decided, Fetched, GivenUpTurn, PendingCommit, TurnItem};

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
