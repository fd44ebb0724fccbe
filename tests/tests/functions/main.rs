//! The functions: one step per wakeup, whatever happens.

mod activities;
mod adversity;
mod batches;
mod busy;
mod clients;
mod deadlines;
mod early;
mod fan_in;
mod freeze;
mod hangs;
mod long_work;
mod malformed;
mod notifiers;
mod open_timers;
mod optimistic;
mod outages;
mod panics;
mod real_parts;
mod sessions;
mod steps;
mod support;
mod tags;
mod timers;
mod waiting;
mod wakeups;
mod workloads;
