//! One turn of one instance: fetch it (claim the lock), decide what to write (plan), write it (commit), or give it
//! back (release).
//!
//! ```text
//!   view (1 query) ──> claim ∥ history + keys ──> … the runtime runs the turn … ──> plan ──> commit (1 batch)
//! ```
//!
//! Correctness never rests on a read being fresh. The claim replaces the lock in the version that was seen; the
//! instance document must carry the lock's last commit; history and keys must be as long and as new as the
//! instance document says; a consumed message is deleted in the version that was seen. Whatever a lagging replica
//! answers, one of these refuses it.

mod batches;
mod commit;
mod fetch;
mod held;
mod item;
mod load;
mod plan;
mod release;

pub(crate) use batches::{BATCH_BYTES, BATCH_OPS, extend, lock_first, pack};
pub(crate) use commit::{Commit, Committed};
pub(crate) use fetch::TurnRequest;
pub(crate) use held::{HeldTurn, HeldTurns};
pub(crate) use plan::{Plan, check_session};
