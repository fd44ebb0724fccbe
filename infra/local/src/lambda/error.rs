//! Why an invocation has no answer.

use std::time::Duration;

/// Why an invocation has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvokeError {
    /// The process could not be started.
    #[error("the process does not start: {0}")]
    Spawn(String),
    /// The process ended, or hung, before it asked for an invocation.
    #[error("the process ended during its start: {how}{}", listed(tail))]
    Init {
        /// How it ended, or the error that it reported.
        how: String,
        /// Its last lines of output.
        tail: Vec<String>,
    },
    /// The function answered with an error.
    #[error("{kind}: {message}")]
    Failed {
        /// The function's error type.
        kind: String,
        /// The function's error message.
        message: String,
    },
    /// The process ended during the invocation.
    #[error("the process ended during the invocation: {0}")]
    Crashed(String),
    /// All environments that the function may have are busy.
    #[error("all {0} environments of the function are busy")]
    Throttled(usize),
    /// The invocation took too long and its process was killed.
    #[error("the invocation took longer than {0:?} and was killed")]
    TimedOut(Duration),
}

impl InvokeError {
    pub(super) fn failed(kind: &str, message: impl Into<String>) -> InvokeError {
        InvokeError::Failed {
            kind: kind.to_owned(),
            message: message.into(),
        }
    }

    pub(super) fn closed() -> InvokeError {
        InvokeError::Spawn("the local cloud is shutting down".to_owned())
    }
}

fn listed(tail: &[String]) -> String {
    tail.iter().map(|line| format!("\n    {line}")).collect()
}
