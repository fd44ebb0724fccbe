//! One turn of one instance: fetch it (read, and claim where needed), decide what to write (plan), write it (commit), or
//! release it.
//!
//! ```text
//!   view (1 query) ──> [claim] ──> … the runtime runs the turn … ──> plan ──> commit (1 batch)
//! ```
//!
//! Correctness never rests on a fresh read. Claim and commit replace the instance document in the version that was seen;
//! history and keys must be as long and as new as that document says; a consumed message is deleted in the version that
//! was seen. One of these fails whatever a lagging replica returns.
//!
//! Files, lowest first: `claimed`, `release`, `block`, `paused`, `recall`, `item`; `timers`, `plan`, `commit`; `unread`, `oversized`, `fetch`.

mod block;
mod claimed;
mod commit;
mod fetch;
mod item;
mod oversized;
mod paused;
mod plan;
mod recall;
mod release;
mod timers;
mod unread;

pub(crate) use block::block;
pub(crate) use claimed::{ClaimedTurn, ClaimedTurns, Reservation};
pub(crate) use commit::{Commit, Committed, settle};
pub(crate) use fetch::{DueTurn, Looked, TurnRequest, claim, fetch, look};
pub(crate) use plan::Plan;
pub(crate) use recall::{claim_begun, claim_idle, recall};
pub(crate) use release::{give_back, release, renew};
pub(crate) use unread::cancelled;
