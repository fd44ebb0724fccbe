//! One activity: fetch its work item (claim), complete it, release it, renew the claim.
//!
//! The document is its own lock: a claim is one PATCH where its version is known, else a read and a replace; a completion is
//! one batch that deletes the item in the claimed version and creates the message with the result. That batch fails when the
//! item was cancelled or claimed by another process, and the late result is dropped.
//!
//! Files, lowest first: `owners`, `claimed`, `fetch`, `written`; `release`; `complete`.

mod claimed;
mod complete;
mod fetch;
mod owners;
mod release;
mod written;

pub(crate) use claimed::ClaimedWorks;
pub(crate) use complete::{Completion, complete};
pub(crate) use fetch::{WorkRequest, fetch};
pub(crate) use release::{block, give_back, release, renew};
pub(crate) use written::{NamedWork, fetch_candidate, fetch_written};
