//! `duroxide-cosmos`: a duroxide storage provider on Azure Cosmos DB.
//!
//! All state of one orchestration instance lives in one logical partition of one container, so that a turn commits
//! as ONE transactional batch, fenced by the ETag of the instance's lock document. What must reach another
//! instance (a child's start, a child's completion) is written into that same batch as an *intent* and paid
//! afterwards, idempotently.
//!
//! ```text
//!   enqueue ──> message ──> fetch (claim the lock) ──> duroxide runs the turn ──> plan ──> commit ──> deliver
//!                  ^                                                                         │
//!                  └────────── work item <── worker: fetch, run, complete <──────────────────┘
//! ```
//!
//! | module | role |
//! |---|---|
//! | `model` | one file per document type: its id, its fields, its serde |
//! | `turn` | fetch, plan, commit, release and renew for one instance |
//! | `work` | the same for one activity |
//! | `scout`, `hints` | which instance or work item to try next, for callers without a notifier |
//! | `deliver`, `finish`, `repair` | paying intents, rolling unfinished commits forward, finding both |
//! | `poison` | the dead letter that goes with a failure for too many attempts |
//! | `maintain` | what a scheduled function does: the outbox, unfinished commits, expired sessions, dead letters |
//! | `admin` | `ProviderAdmin`: lists, infos, metrics, deletion, pruning |
//!
//! Creating a provider starts nothing: every request is made inside a call of its user.

mod admin;
mod batch;
mod clock;
mod config;
mod due;
mod enqueue;
mod error;
mod given_up;
mod maintain;
mod model;
mod page;
mod polling;
mod provider;
mod read;
mod recovery;
mod schema;
mod session;
mod store;
mod token;
mod turn;
mod types;
mod work;

pub use clock::{Ids, RandomIds};
pub use config::{CosmosConfig, CosmosConfigBuilder, Outbox};
pub use cosmos::{Clock, SystemClock};
pub use due::{Due, Orchestration, Target, TurnDecision, WorkTarget};
pub use error::ConnectError;
pub use maintain::{
    Backlog, BacklogQuery, DeadLetter, DeadLetterCursor, DeadLetterFilter, DeadLetterId, DeadLetterPage,
    DeadLetterSummary, DueItem, DuePage, DueWhat, DueWindow, MaintenanceState, Redriven, Redrives, Retention, Tried,
};
pub use model::{DeadLetterKind, UnfinishedSweep, target_of};
pub use page::{Cursor, PageRequest, PassOutcome};
pub use provider::CosmosProvider;
pub use schema::{PARTITION_KEY_PATH, container_spec};
pub use types::{ClaimedWork, Fetched, PendingCommit, TurnItem};
