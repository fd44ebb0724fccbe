//! The way in, as a person has it: the real binary, run against a strict Cosmos, with duroxide's own runtime in this
//! process moving the instances along.

#![allow(clippy::unwrap_used, reason = "these are tests: to panic is to fail")]

mod cloud;
mod connection;
mod dead_letters;
mod output;
mod verbs;
mod world;
mod wrong;
