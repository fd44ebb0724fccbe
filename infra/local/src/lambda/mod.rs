//! Lambda, as far as a function sees it: execution environments that are real processes, and the Runtime API that they
//! take their invocations from.
//!
//! ```text
//!   invoke ──> Function (pool) ──> Environment ── Runtime API on a port of its own ──> the function's binary
//!                │  concurrency limit, warm ones first     │ /next, /response, /error, /init/error
//!                │  idle ones end after a while            │ frozen between invocations (SIGSTOP), as on Lambda
//!                └─ dead ones are replaced                 └─ killed when it overruns its timeout
//! ```
//!
//! | module | role |
//! |---|---|
//! | `function` | the pool: whom an invocation goes to, and what became of it |
//! | `environment` | one process, from its start to its end |
//! | `runtime_api` | what that process asks and answers |
//! | `process` | process groups: started so that they do not outlive this process, frozen and killed as one |
//! | `logs` | what they write, and how their invocations failed |
//!
//! What differs from Lambda: there is no memory limit, no extension, no SnapStart, and a process sees this machine's files
//! and network. Its environment variables are those that Lambda would give it and those of its settings, and none of ours.

mod environment;
mod function;
mod logs;
mod process;
mod runtime_api;

pub use function::{EnvironmentStatus, FunctionCounts, FunctionSettings, InvokeError};
pub(crate) use function::{Function, Hands};
pub use logs::{LogLine, LogSink};
pub use process::become_child;
pub(crate) use process::{Launcher, Spawner};
