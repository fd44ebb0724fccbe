//! One activity: fetch it (claim the work item), complete it, give it back, hold it longer.
//!
//! The document is its own lock, so a claim is a read and a replace, and a completion is one batch: the item is
//! deleted in the version that was claimed, and its result becomes a message of the instance. A cancelled, stolen or
//! expired item fails that batch, and its result is dropped, as it must be.

mod complete;
mod fetch;
mod release;

pub(crate) use fetch::{HeldWork, HeldWorks, WorkRequest};
