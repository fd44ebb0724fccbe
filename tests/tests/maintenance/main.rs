//! Maintenance: what was not delivered, not ended, not used any more, or given up.
//!
//! Most tests make turns by hand on a clock that only the test moves, and make one target fail at a listener of their own.

mod binary;
mod bounded;
mod crashes;
mod dead_letter_requests;
mod dead_letters;
mod disposable;
mod due;
mod expiry;
mod full_size;
mod function;
#[path = "../edges/support.rs"]
#[allow(dead_code, reason = "the edges use the rest of it")]
mod hand;
mod hanging;
mod interleaved;
mod late;
mod outbox;
mod poison;
mod queued;
mod redrive;
mod report;
mod retention;
mod retention_races;
mod session_cleanup;
mod session_suite;
mod state;
mod support;
mod sweep;
mod timers;
mod unfinished_crashes;
