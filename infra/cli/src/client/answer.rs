//! The answer of a command, or why it failed: printed to stdout or stderr, with an exit code.

use crate::terminal::program;
use crate::terminal::text::escape_lines;
use serde_json::Value;
use std::io::{self, Write};
use std::process::ExitCode;

/// The exit codes. clap exits with `Usage` by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    Done = 0,
    Error = 1,
    Usage = 2,
    Failed = 3,
    TimedOut = 4,
    NotFound = 5,
    /// A check could not be made.
    NotRun = 6,
}

/// The answer of a command, for programs and for people.
#[derive(Debug)]
pub(super) struct Answer {
    pub code: Code,
    pub json: Value,
    /// Escaped; may have several lines.
    pub text: String,
}

impl Answer {
    /// For a command that has printed all that it has to say.
    pub(super) fn silent() -> Answer {
        Answer::done(Value::Null, "")
    }

    pub(super) fn done(json: Value, text: impl Into<String>) -> Answer {
        Answer {
            code: Code::Done,
            json,
            text: text.into(),
        }
    }
}

/// Why a command has no answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub code: Code,
    pub message: String,
}

impl Failure {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Failure {
        Failure {
            code,
            message: message.into(),
        }
    }

    pub(super) fn error(message: impl Into<String>) -> Failure {
        Failure::new(Code::Error, message)
    }

    pub(super) fn unknown(instance: &str) -> Failure {
        let message = format!(
            "instance '{instance}' was not found. `{} list` shows the instances that were started",
            program()
        );
        Failure::new(Code::NotFound, message)
    }
}

/// Prints the outcome and returns its exit code.
pub(super) fn print(outcome: Result<Answer, Failure>, json: bool) -> ExitCode {
    let code = match outcome {
        Ok(answer) => {
            let text = match json {
                true if answer.json.is_null() => String::new(),
                true => format!("{:#}", answer.json),
                false => answer.text.trim_end().to_owned(),
            };
            let written = match text.is_empty() {
                true => Ok(true),
                false => line(&text),
            };
            match written {
                Ok(_) => answer.code,
                Err(failure) => {
                    warn(&format!("error: {}", failure.message));
                    failure.code
                }
            }
        }
        Err(failure) => {
            warn(&format!("error: {}", failure.message));
            failure.code
        }
    };
    ExitCode::from(code as u8)
}

/// Prints a line to stdout, and returns whether somebody reads on: a reader that closed the pipe has seen enough.
pub(super) fn line(text: &str) -> Result<bool, Failure> {
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::error(format!("the answer cannot be written: {error}"))),
    }
}

/// Prints a message to stderr. It may quote data, so it is escaped.
pub(super) fn warn(message: &str) {
    // A closed stderr leaves no place to report that.
    writeln!(io::stderr().lock(), "{}", escape_lines(message)).unwrap_or_default();
}
