//! The client commands of the real binary, against the real API on the Cosmos DB emulator. duroxide's own runtime in this
//! process runs the instances.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod batches;
mod commands;
mod connection;
mod dashboard;
mod dead_letters;
mod doctor;
mod errors;
mod explained;
mod fixture;
mod lists;
mod output;
mod projects;
mod repaired;
mod server;
mod signed;
mod visible;
mod watched;
