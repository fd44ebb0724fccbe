//! Killed at every write, before it is applied and after: the work completes, once.
//!
//! A run is a process that is killed: its listener crashes at the n-th write, after which nothing answers, and its threads
//! are dropped. Then time moves past every lock, and a new process continues. The sweep ends when a run finishes
//! without having reached its crash point, so every write of the workload has been one.

mod activity;
mod big_turns;
mod kill;
mod workflow;
