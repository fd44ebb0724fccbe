//! What the test targets share: a strict Cosmos of their own, providers on it, a clock that can be moved, a look at the
//! raw documents, and a workload.
//!
//! Every test has its own server, or, when `COSMOS_ENDPOINT` and `COSMOS_KEY` are set, its own container in that
//! account.

mod clock;
pub mod cloud;
mod patient;
pub mod real;
pub mod workload;
mod world;

pub use clock::{ManualClock, ShiftedClock};
pub use patient::patiently;
pub use world::{World, connect, refused_address, until_death};
