//! Pause and resume.

mod builds;
mod crashes;
mod functions;
mod maintenance;
mod races;
mod states;
pub mod support;
mod trees;
