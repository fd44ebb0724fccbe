//! The strict test Cosmos: an account on `127.0.0.1`, with as many doors as a test wants.
//!
//! ```text
//!             door 1        door 2        each: a port, faults, counters, a log
//!                \            /
//!   signature -> strict checks -> faults -> service -> emulator (write region)
//!                                                   \-> emulator (lagging replica)
//!                                                   \-> journal (with a data directory)
//! ```
//!
//! | module | role |
//! |---|---|
//! | [`server`](CosmosServer) | owns the store and the doors; closes them when dropped |
//! | `door` | the way of one request through a door, and the handle that tests hold |
//! | `http`, `kind` | a request as the server sees it, and what sort of request it is |
//! | `signature`, `strict` | what the service would refuse, refused |
//! | `faults`, `hold`, `refuse`, `count`, `book` | what goes wrong on purpose, and what was asked |
//! | `service` | the service's behaviour where the emulator's differs: containers, conditions, expiry |
//! | `paging` | the pages of a query |
//! | `catalog` | what is known about each container: its key path and its index policy |
//! | `storage` | a data directory, in which what was committed survives a restart |
//! | `expiry` | when which document expires |
//! | `replica` | the schedule by which the lagging replica follows the write region |
//! | `emulator` | the only file that knows Microsoft's emulator |

mod book;
mod catalog;
mod count;
mod door;
mod emulator;
mod expiry;
mod faults;
mod hold;
mod http;
mod kind;
mod options;
mod paging;
mod refuse;
mod replica;
mod server;
mod service;
mod signature;
mod storage;
mod strict;

pub use count::{Counts, RequestRecord, sequential_rounds};
pub use door::Door;
pub use faults::{CrashPoint, Faults};
pub use hold::Hold;
pub use kind::RequestKind;
pub use options::{DEFAULT_KEY, Lag, ServerOptions, StartError};
pub use refuse::Refusing;
pub use server::CosmosServer;
pub use storage::{Recovered, StorageError};
