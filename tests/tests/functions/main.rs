//! The functions: one cycle per ring, whatever happens.

mod batches;
mod busy;
mod clients;
mod cycles;
mod deadlines;
mod long_work;
mod panics;
mod rings;
mod sessions;
mod support;
mod tags;
