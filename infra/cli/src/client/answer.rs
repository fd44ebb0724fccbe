//! What a verb answers, or why it failed; and how either is told: stdout, stderr, exit code.

use duroxide::ClientError;
use duroxide::providers::ProviderError;
use local_cloud::term::text::escape_lines;
use serde_json::Value;
use std::io::{self, Write};
use std::process::ExitCode;

/// The exit codes. Wrong usage (2) is clap's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    Done = 0,
    Error = 1,
    Usage = 2,
    Failed = 3,
    TimedOut = 4,
    NotFound = 5,
}

/// A verb's answer, for programs and for people.
#[derive(Debug)]
pub(super) struct Answer {
    pub code: Code,
    pub json: Value,
    /// Without control characters but line ends.
    pub text: String,
}

impl Answer {
    pub(super) fn done(json: Value, text: impl Into<String>) -> Answer {
        Answer {
            code: Code::Done,
            json,
            text: text.into(),
        }
    }
}

/// Why a verb has no answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fail {
    pub code: Code,
    pub message: String,
}

impl Fail {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Fail {
        Fail {
            code,
            message: message.into(),
        }
    }

    pub(super) fn error(message: impl Into<String>) -> Fail {
        Fail::new(Code::Error, message)
    }

    pub(super) fn unknown(instance: &str) -> Fail {
        Fail::new(
            Code::NotFound,
            format!(
                "instance '{instance}' was not found: no turn of it has run. `duroxide-lambda list` shows what there is; one that was \
                 only just started appears with its first turn"
            ),
        )
    }
}

impl From<ProviderError> for Fail {
    fn from(error: ProviderError) -> Fail {
        Fail::error(error.message)
    }
}

impl From<ClientError> for Fail {
    fn from(error: ClientError) -> Fail {
        match error {
            ClientError::Provider(error) => error.into(),
            ClientError::InstanceNotFound { instance_id } => Fail::unknown(&instance_id),
            ClientError::InstanceStillRunning { instance_id } => Fail::error(format!(
                "instance '{instance_id}' is not over: cancel it and wait for its end, or delete it with --force"
            )),
            ClientError::CannotDeleteSubOrchestration { instance_id } => Fail::error(format!(
                "instance '{instance_id}' is the child of another: delete the instance at the root, whose children go \
                 with it (`duroxide-lambda status` shows a parent)"
            )),
            other => Fail::error(other.to_string()),
        }
    }
}

/// Tells the outcome.
pub(super) fn tell(done: Result<Answer, Fail>, json: bool) -> ExitCode {
    let code = match done {
        Ok(answer) => {
            let text = if json {
                format!("{:#}", answer.json)
            } else {
                answer.text.trim_end().to_owned()
            };
            match writeln!(io::stdout().lock(), "{text}") {
                // Whoever closed the pipe has seen enough.
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                    warn(&format!("error: the answer cannot be written: {error}"));
                    Code::Error
                }
                _ => answer.code,
            }
        }
        Err(fail) => {
            warn(&format!("error: {}", fail.message));
            fail.code
        }
    };
    ExitCode::from(code as u8)
}

/// A line on stderr. Messages quote what came from elsewhere, so they are escaped.
pub(super) fn warn(message: &str) {
    // There is nowhere else to tell that stderr is gone.
    writeln!(io::stderr().lock(), "{}", escape_lines(message)).unwrap_or_default();
}
