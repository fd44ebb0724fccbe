//! The client commands of the real binary, against the Cosmos DB emulator; duroxide's own runtime in this process runs the
//! instances.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod commands;
mod connection;
mod dead_letters;
mod errors;
mod fake_cloud;
mod fixture;
mod output;
mod visible;
