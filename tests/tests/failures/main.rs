//! What failures mean: a crash, a time-out or a bad deployment never destroys a workflow.

mod builds;
mod cancelled;
mod cost;
mod crashes;
mod histories;
mod names;
mod refused;
mod support;
