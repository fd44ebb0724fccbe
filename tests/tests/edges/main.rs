//! The edges: late workers, redeliveries, strange names, sizes, wrong clocks, strangers, administration, crashes.
//!
//! Turns are made by hand on a clock that only the test moves, so a lock expires without waiting. Where a whole life
//! of an orchestration matters, duroxide's runtime drives the provider.

mod admin;
mod clocks;
mod deletion;
mod dispatch;
mod fencing;
mod ids;
mod interleavings;
mod once;
mod orphans;
mod secrets;
mod sizes;
mod starvation;
mod strangers;
mod support;
