//! What the test targets share: a strict Cosmos of their own, providers on it, a clock that can be moved, and a look at
//! the raw documents.
//!
//! Every test has its own server, or, when `COSMOS_ENDPOINT` and `COSMOS_KEY` are set, its own container in that
//! account.

mod clock;
mod world;

pub use clock::ManualClock;
pub use world::{World, connect};
