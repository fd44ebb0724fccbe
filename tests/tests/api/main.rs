//! The HTTP API: its router on the real provider and the emulator, with the functions beside it.

mod audit;
mod batches;
mod clients;
mod cost;
mod dashboard;
mod dead_letters;
mod doctor;
mod documents;
mod explain;
mod idempotency;
mod ids;
mod issuer;
mod limits;
mod lists;
mod loopback;
mod numbers;
mod pause;
mod rewind;
mod roles;
mod routes;
mod tokens;
mod trouble;
mod waiting;
