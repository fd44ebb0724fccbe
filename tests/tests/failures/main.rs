//! What failures mean: a crash, a time-out or a bad deployment never destroys a workflow.

mod activities;
mod builds;
mod cancelled;
mod cost;
mod crashes;
mod histories;
mod names;
mod processes;
mod refused;
mod support;
mod table;
