//! Batches: one action on many instances.

mod actions;
mod crashes;
mod functions;
mod steps;
mod support;
mod volume;
