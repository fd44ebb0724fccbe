//! The replay gate's part in an orchestrator's binary: whether this build still does what recorded histories say.
//!
//! `duroxide-lambda replay` starts the binary with [`VARIABLE`] set. Instead of serving Lambda, [`orchestrator`](crate::orchestrator())
//! then reads [`Recording`]s as lines of JSON from stdin, replays each with duroxide's own replay engine, and writes one [`Replayed`]
//! per line. It reads no other setting, opens no connection and runs no activity.
//!
//! ```text
//!   stdin: recording ──> decode ──> compare ── engine, on the history or a part of it ──> Replayed: stdout
//! ```
//!
//! | module | role |
//! |---|---|
//! | `recording` | what is replayed: the format of saved histories |
//! | `decode` | a recording as duroxide's types, or why this build cannot read it |
//! | `engine` | one run of duroxide's replay engine |
//! | `compare` | decides from runs of the engine whether the code does what was recorded, and where it does not |
//! | `asked` | what code asks the runtime for, as text |
//! | `replayed` | the answer |
//! | `serve` | the loop over stdin |
//!
//! Lines of the answer begin with the value of the variable, which the parent chooses: the binary's own code may print as well.

mod asked;
mod compare;
mod decode;
mod engine;
mod recording;
mod replayed;
mod serve;

pub use asked::{Asked, AskedKind};
#[cfg(feature = "testing")]
pub(crate) use compare::replay;
pub use recording::{FORMAT, Recording, RecordingError, SavedKey, VERSION};
pub use replayed::{Cause, Effect, Fault, Ready, Registered, Replayed};
pub(crate) use serve::{is_wanted, serve};

/// The environment variable that makes an orchestrator's binary replay histories. Its value is the first word of each answer.
pub const VARIABLE: &str = "DUROXIDE_REPLAY";
