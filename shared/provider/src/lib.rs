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
//! | `due` | pure: who has something to do after a commit |
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
mod clock;
mod config;
mod deliver;
mod due;
mod enqueue;
mod error;
mod finish;
mod hints;
mod maintain;
mod model;
mod poison;
mod provider;
mod read;
mod repair;
mod schema;
mod scout;
mod session;
mod store;
mod token;
mod turn;
mod work;

pub use clock::{Ids, RandomIds};
pub use config::{CosmosConfig, CosmosConfigBuilder, Outbox};
pub use cosmos::{Clock, SystemClock};
pub use due::{Due, Orchestration, Target, TurnDecision, WorkTarget};
pub use error::ConnectError;
pub use maintain::{
    Backlog, BacklogQuery, Cursor, DeadLetter, DeadLetterCursor, DeadLetterFilter, DeadLetterId, DeadLetterPage,
    DeadLetterSummary, DueItem, DuePage, DueWhat, DueWindow, MaintenanceState, PageRequest, PassOutcome, Redriven,
    Redrives, Retention, Tried,
};
pub use model::{DeadLetterKind, UnfinishedSweep};
pub use provider::{ClaimedWork, CosmosProvider, Fetched, PendingCommit, TurnItem};
pub use repair::Repaired;
pub use schema::{PARTITION_KEY_PATH, container_spec};
