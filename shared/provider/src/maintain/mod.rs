//! Maintenance: the passes of the scheduled function, one file each. Two more passes, over the outbox and over unfinished
//! commits, are `recovery`.
//!
//! | pass | file | finds |
//! |---|---|---|
//! | sessions | `sessions` | expired affinity sessions that no queued activity names |
//! | sweep | `due`, `state`, `probes` | what is due, the state between two runs, which wakeups came through their queue |
//! | dead letters | `dead_letters`, `redrive`, `redrives` | what was given up: listed, read, discarded, redriven |
//! | retention | `retention`, `lone_children` | instances that ended long ago, earlier executions |
//! | report | `backlog`, `numbers` | numbers: counted by the service; derived from a look |
//! | (operators) | `overview`, `overdue`, `attention`, `throughput` | what needs attention; what has been due the longest; which instances have it; started and ended by hour |
//! | all | `look` | everything that waits: which passes have something to do |
//! | sweep | `paused` | what paused instances hold: neither woken nor counted |
//! | none | `blocked` | what other builds have blocked, for a build that goes on with one of them |
//!
//! A pass works in pages (see `page`), so that a caller can alternate between passes and stop when its budget ends.
//! Everything is idempotent: the next run continues a pass that was killed at any write, and two runs at once do no harm.

mod attention;
mod backlog;
mod blocked;
mod dead_letters;
mod due;
mod lone_children;
mod look;
mod numbers;
mod overdue;
mod overview;
mod paused;
mod probes;
mod redrive;
mod redrives;
mod retention;
mod sessions;
mod state;
mod throughput;

pub(crate) use attention::marked;
pub(crate) use backlog::backlog;
pub use backlog::{Backlog, BacklogQuery};
pub(crate) use blocked::blocked_by_others;
pub use dead_letters::{
    DeadLetter, DeadLetterCursor, DeadLetterFilter, DeadLetterId, DeadLetterPage, DeadLetterSummary,
};
pub(crate) use dead_letters::{dead_letter, dead_letter_count, dead_letters, discard_dead_letter};
pub(crate) use due::due;
pub use due::{DueItem, DueKinds, DuePage, DueWindow};
pub(crate) use look::look;
pub use look::{Look, LookRequest, Searched};
pub(crate) use numbers::backlog_of_look;
pub(crate) use overdue::overdue;
pub use overdue::{Overdue, OverdueItem, OverdueKind};
pub(crate) use overview::overview;
pub use overview::{Overview, OverviewQuery};
pub(crate) use paused::park_overdue;
pub use probes::PassedProbe;
pub(crate) use probes::{note_probe, passed_probes};
pub use redrive::Redriven;
pub(crate) use redrive::redrive;
pub use redrives::{Redrives, Tried};
pub(crate) use redrives::{redrive_many, redrive_until};
pub use retention::Retention;
pub(crate) use retention::retention_page;
pub(crate) use sessions::{remove_orphaned_sessions, sessions_page};
pub use state::MaintenanceState;
pub(crate) use state::{keep_maintenance_state, maintenance_state};
pub use throughput::HourCounts;
pub(crate) use throughput::throughput;
