//! The test kit: what the test targets share.
//!
//! Every test has its own server, or, when `COSMOS_ENDPOINT` and `COSMOS_KEY` are set, its own container in that
//! account.
//!
//! There are two tiers. The quick one is `cargo test --workspace`: it needs Rust and a C compiler only. What sweeps every
//! write, takes large volumes, waits for minutes or needs a program from PyPI belongs to the exhaustive tier: mark it
//! `#[ignore = "exhaustive: <what it needs or why it is long>"]`, and give it a representative in the quick tier. No test may
//! depend on the machine's speed: wait with [`until`], not for a time.
//!
//! | module | role |
//! |---|---|
//! | `world` | one test's Cosmos DB, with a look at the raw documents |
//! | `clock` | time that a test moves |
//! | [`turns`] | work items, events and commits by hand; a runtime for whole orchestrations |
//! | [`cloud`] | orchestrator, worker and client on one world, joined by a notifier in memory |
//! | [`workload`], [`jobs`] | a mixed workload with known outputs; starting, nudging and checking it |
//! | [`api`] | the HTTP API in front of a cloud, in this process or on a port |
//! | `identity` | AWS STS and Entra ID, for functions without a key |
//! | [`cost`] | requests and round trips of an operation |
//! | [`child`] | work in a process of its own, to measure its memory |
//! | [`replay`] | builds of one orchestrator, for the replay gate |
//! | `recovery` | delivers and finishes all that is due, as maintenance does |
//! | [`log`] | the JSON log of the functions, captured |
//! | `wait`, `patient` | waiting for what must come; repeating a test that failed while the machine stalled |
//! | [`real`] | the functions' binaries under cargo-lambda and moto, or in the local cloud; Node and Chromium |

pub mod api;
pub mod child;
mod clock;
pub mod cloud;
pub mod cost;
mod identity;
pub mod jobs;
pub mod log;
mod patient;
pub mod real;
mod recovery;
pub mod replay;
pub mod turns;
mod wait;
pub mod workload;
mod world;

pub use clock::{ManualClock, ShiftedClock};
pub use identity::{Counts, Identity};
pub use patient::patiently;
pub use recovery::{Recovered, recover};
pub use wait::{PATIENCE, is_paused, until, until_crash, until_ok};
pub use world::{World, connect, refused_address};
