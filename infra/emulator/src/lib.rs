//! The strict test Cosmos: an account on `127.0.0.1`, with as many listeners as a test wants.
//!
//! ```text
//!             listener 1        listener 2        each: a port, faults, counters, a log
//!                \            /
//!   signature -> strict checks -> faults -> service -> emulator (write region)
//!                                                   \-> emulator (lagging replica)
//!                                                   \-> journal (with a data directory)
//! ```
//!
//! | module | role |
//! |---|---|
//! | [`server`](CosmosServer) | owns the store and the listeners; closes them when dropped |
//! | `listener` | the way of one request through a listener, and the handle that tests hold |
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

mod catalog;
mod count;
mod crash;
mod emulator;
mod expiry;
mod faults;
mod http;
pub mod http_server;
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
