//! Real parts: the functions' own binaries under `cargo lambda`'s Runtime API, and the SQS and Secrets Manager of moto.
//!
//! ```text
//!   test ── invoke ──> LambdaApi ── /next ──> Function (a process, unmodified)
//!     │                                          │ sends wakeups, reads its key
//!     └──── Queue (receive, delete) ────────> Moto <┘
//! ```
//!
//! The test plays Lambda's event source mapping: it receives a queue's messages, invokes the function with them as one
//! SQS event, and deletes what was not reported failed.
//!
//! | module | role |
//! |---|---|
//! | `venv` | programs from PyPI, installed once per target directory: `cargo-lambda`, `moto[server]`, `sam`, `checkov`, `azure-cosmos`, `schemathesis`, `openapi-python-client` |
//! | `node` | packages from npm, and Chromium |
//! | `install` | what both have in common: a folder, a lock file, commands |
//! | `build` | the functions' binaries, built as the tests were |
//! | `process` | a child process whose lines are kept, killed on drop |
//! | `lambda_api`, `function` | the Runtime API, and the functions that serve it |
//! | `local` | the local cloud as a process |
//! | `project` | a user's project, made by `duroxide-lambda new` |
//! | `deploying` | `duroxide-lambda deploy` without an account, also to moto |
//! | `moto`, `queue`, `event`, `secret` | the AWS side |
//!
//! Keep these values in a test's own variables, never in a `static`: a static is not dropped, and its process stays.

mod build;
mod deploying;
mod event;
mod function;
mod install;
mod lambda_api;
mod local;
mod moto;
mod node;
mod process;
mod project;
mod queue;
mod secret;
mod venv;

pub use build::{build, target_dir};
pub use deploying::{Deployed, Programs, stack, store};
pub use event::Batch;
pub use function::Function;
pub use lambda_api::LambdaApi;
pub use local::{Binaries, Up};
pub use moto::Moto;
pub use node::{Node, chromium};
pub use process::Process;
pub use project::Project;
pub use queue::{Fed, Queue, wake_again};
pub use secret::Secret;
pub use venv::Venv;
