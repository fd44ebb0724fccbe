//! The functions: one cycle per ring, whatever happens.

mod activities;
mod batches;
mod busy;
mod clients;
mod cycles;
mod deadlines;
mod early;
mod freeze;
mod hangs;
mod long_work;
mod malformed;
mod panics;
mod rings;
mod sessions;
mod support;
mod tags;
mod workloads;
