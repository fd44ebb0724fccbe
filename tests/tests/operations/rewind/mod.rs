//! Rewind.

mod crashes;
mod effects;
mod races;
mod states;
pub mod support;
mod trees;
