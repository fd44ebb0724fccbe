//! Maintenance: what was not delivered, not ended, not used any more, or given up.
//!
//! Most tests make turns by hand on a clock that only the test moves, and make one target fail at a listener of their own.

mod backlog;
mod binary;
mod bounded;
mod crashes;
mod dead_letter_requests;
mod dead_letters;
mod due;
mod expiry;
mod flat;
mod full_partition;
mod full_size;
mod function;
mod giving_up;
mod hanging;
mod interleaved;
mod interval;
mod large_histories;
mod large_trees;
mod late;
mod look;
mod lost_wakeups;
mod memory;
mod no_instance;
mod outbox;
mod prune_limits;
mod pruning;
mod queued;
mod queues;
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
