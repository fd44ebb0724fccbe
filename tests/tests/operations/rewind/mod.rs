//! Rewind.

mod crashes;
mod effects;
mod races;
mod states;
mod support;
mod trees;
