//! The HTTP API: its router on the real provider and the emulator, with the functions beside it.

mod audit;
mod clients;
mod cost;
mod dead_letters;
mod documents;
mod idempotency;
mod ids;
mod limits;
mod lists;
mod loopback;
mod pause;
mod roles;
mod routes;
mod served;
mod support;
mod tokens;
mod trouble;
mod waiting;
