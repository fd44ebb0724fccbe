//! The functions: one cycle per ring, whatever happens.

mod activities;
mod adversity;
mod batches;
mod busy;
mod clients;
mod cycles;
mod deadlines;
mod doorbells;
mod early;
mod freeze;
mod hangs;
mod long_work;
mod malformed;
mod outages;
mod panics;
mod real_parts;
mod rings;
mod sessions;
mod support;
mod tags;
mod undirected;
mod workloads;
