//! A strict Azure Cosmos DB on `127.0.0.1`, for tests and local use.
//!
//! Microsoft's in-memory emulator stores and queries documents. This crate puts a real HTTP server in front of it, refuses what the
//! service refuses, injects faults, counts requests, and can keep its data in a directory. `docs/emulator.md` describes how to
//! use it.
//!
//! ```text
//!            listener 1      listener 2            each: a port, faults, counters, a request log
//!                  \          /
//!   signature -> strict checks -> faults -> service -> emulator (write region)
//!                                                  \-> emulator (lagging replicas)
//!                                                  \-> storage (with a data directory)
//! ```
//!
//! Where to find, or add:
//!
//! | what | where |
//! |---|---|
//! | a check that refuses a request | `strict`, one file per subject |
//! | a fault | `faults` (random), `crash`, `pause`, `refuse` (chosen by a test); `pipeline` has their order |
//! | persistence | `service/durable` decides what a request changed, `storage` keeps it |
//!
//! | module | role |
//! |---|---|
//! | [`CosmosServer`] (`server`) | owns the account and its listeners |
//! | [`Listener`] (`listener`) | the handle with which tests steer a listener and read its counters |
//! | `pipeline` | the stages of one request |
//! | [`http_server`] | the HTTP server loop, also for other servers of a local cloud |
//! | `browser` | requests of web pages, which every server refuses |
//! | `http`, `kind` | a request inside this crate, and its kind |
//! | `signature`, `token`, `strict` | requests that the service refuses |
//! | `count`, `request_log` | counters and the log of requests |
//! | `service` | the service's behaviour where the emulator differs: containers, conditions, expiry |
//! | `paging` | the pages of a query |
//! | `index` | answers queries of one physical partition from a copy with indexes |
//! | `charge` | the estimated price of a request |
//! | `catalog` | the definitions of containers |
//! | `expiry` | when documents expire |
//! | `replica` | the lagging region |
//! | `emulator` | the only file that knows Microsoft's emulator |

mod browser;
mod catalog;
mod charge;
mod count;
mod crash;
mod emulator;
mod expiry;
mod faults;
mod http;
pub mod http_server;
mod index;
mod kind;
mod listener;
mod options;
mod paging;
mod pause;
mod pipeline;
mod refuse;
mod replica;
mod request_log;
mod server;
mod service;
mod signature;
mod storage;
mod strict;
mod token;

pub use count::{Counts, RequestRecord, sequential_round_trips};
pub use crash::CrashPoint;
pub use faults::Faults;
pub use kind::RequestKind;
pub use listener::Listener;
pub use options::{DEFAULT_KEY, Lag, ServerOptions, StartError};
pub use pause::Pause;
pub use refuse::Refusing;
pub use server::CosmosServer;
pub use storage::{Recovered, StorageError};
pub use token::{TokenClaims, TokenIssuer};

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
