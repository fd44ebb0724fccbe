//! Invariants that pause whatever happens: one module per topic.
//!
//! Most tests make turns by hand on a clock that only the test moves, so a lock expires without waiting. Where the whole
//! life of an orchestration matters, duroxide's runtime drives the provider.
//!
//! | module | topic |
//! |---|---|
//! | `fencing` | who lost a lock commits nothing, who has it commits once |
//! | `optimistic` | turns without a claim, and histories that a process knows |
//! | `exactly_once` | messages to other partitions arrive, once |
//! | `roll_forward` | slots divide instances; whoever meets an unfinished commit completes it |
//! | `order` | the messages of a turn come in the order in which they were due |
//! | `interleavings`, `early_events` | races by design and by chance |
//! | `deletion`, `admin` | trees go whole or not at all; counts, queues and pruning are exact |
//! | `starvation` | what nobody can serve hides nothing, and nothing grows for ever |
//! | `instance_ids`, `sizes`, `clocks` | any name, any size within the limits, clocks that differ |
//! | `claims_without_read`, `session_claims` | a claim in the version that a wakeup names takes nothing from anybody |
//! | `schema_versions`, `newer_documents` | two releases on one store |
//! | `summaries`, `search`, `tags` | instances as we show them, from their acceptance on; how they are found |
//! | `stored` | (no tests) a store with instance documents, for those of `search` and `numbers` |
//! | `attention` | instances that need attention, and why |
//! | `numbers` | counts by hour, what is overdue, and the end of a history: what is new costs, not what is stored |
//! | `idempotency` | one start and one event per key, whatever is lost, repeated, or deleted in between |
//! | `connection_errors`, `secrets` | errors that say what to do; no key in any log |

mod admin;
mod attention;
mod claims_without_read;
mod clocks;
mod connection_errors;
mod deletion;
mod early_events;
mod exactly_once;
mod fencing;
mod idempotency;
mod instance_ids;
mod interleavings;
mod newer_documents;
mod numbers;
mod optimistic;
mod order;
mod roll_forward;
mod schema_versions;
mod search;
mod secrets;
mod session_claims;
mod sizes;
mod starvation;
mod stored;
mod summaries;
mod tags;
