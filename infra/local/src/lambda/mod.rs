//! Lambda, as far as a function sees it: execution environments that are real processes, and the Runtime API that gives them
//! invocations.
//!
//! ```text
//!   invoke ──> Function (pool) ──> Environment ── Runtime API on a port of its own ──> the function's binary
//!                │  concurrency limit, warm first          │ /next, /response, /error, /init/error
//!                │  idle environments end after a while    │ frozen between invocations (SIGSTOP), as on Lambda
//!                └─ dead ones are replaced                 └─ killed when it overruns its timeout
//! ```
//!
//! | module | role |
//! |---|---|
//! | `function` | the pool: which environment serves an invocation |
//! | `attached` | a function whose process somebody else starts |
//! | `environment` | one process, from its start to its end |
//! | `runtime_api` | the HTTP API that the process calls |
//! | `process` | process groups: started so that they end with this process, frozen and killed as one |
//! | `logs` | the output of the processes, and reports of failed invocations |
//! | `error` | why an invocation has no answer |
//!
//! Differences from Lambda: no memory limit, no extensions, no SnapStart, and a process sees this machine's files and
//! network. It gets only the environment variables that Lambda sets and those of its settings.

mod attached;
mod environment;
mod error;
mod function;
mod logs;
mod process;
mod runtime_api;

pub(crate) use attached::Attached;
pub use error::InvokeError;
pub use function::{EnvironmentStatus, FunctionCounts};
pub(crate) use function::{Function, FunctionSettings, ProcessOptions};
pub use logs::{LogLine, LogSink};
pub use process::become_child;
pub(crate) use process::{Launcher, Spawner};
