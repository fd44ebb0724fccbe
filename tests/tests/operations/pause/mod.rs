//! Pause and resume.

mod builds;
mod crashes;
mod functions;
mod maintenance;
mod races;
mod states;
mod support;
mod trees;
