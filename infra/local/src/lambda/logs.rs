//! The output of functions, line by line, and a line for each invocation that failed. The last lines of an environment are
//! kept, to explain its end.

use super::error::InvokeError;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// How many last lines are kept.
const TAIL: usize = 20;

/// One line of a function, or about it.
#[derive(Clone, Debug)]
pub struct LogLine {
    /// The function's name.
    pub function: String,
    /// Which of its environments.
    pub environment: u64,
    /// The text, without the line end.
    pub text: String,
    /// Written by the cloud, not by the function: the report of an invocation that failed.
    pub report: bool,
}

/// Takes the lines of all functions.
#[derive(Clone)]
pub struct LogSink(Arc<dyn Fn(&LogLine) + Send + Sync>);

impl LogSink {
    /// Calls this for each line, from several threads at once. It must not block.
    pub fn new(write: impl Fn(&LogLine) + Send + Sync + 'static) -> LogSink {
        LogSink(Arc::new(write))
    }

    /// Drops all lines.
    pub fn none() -> LogSink {
        LogSink::new(|_| {})
    }

    /// Reports that an invocation failed, as Lambda's own lines do between those of the function.
    pub(super) fn report(&self, function: &str, environment: u64, error: &InvokeError) {
        let (status, message) = match error {
            InvokeError::TimedOut(_) => ("timeout", error.to_string()),
            // Without the last lines, which were logged when the process wrote them.
            InvokeError::Init { how, .. } => ("error", format!("the process ended during its start: {how}")),
            _ => ("error", error.to_string()),
        };
        (self.0)(&LogLine {
            function: function.to_owned(),
            environment,
            text: format!("REPORT Status: {status}: {message}"),
            report: true,
        });
    }
}

impl fmt::Debug for LogSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogSink")
    }
}

/// The lines of one environment.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    function: String,
    environment: u64,
    sink: LogSink,
    tail: Arc<Mutex<VecDeque<String>>>,
}

impl Lines {
    pub(super) fn new(function: &str, environment: u64, sink: LogSink) -> Lines {
        Lines {
            function: function.to_owned(),
            environment,
            sink,
            tail: Arc::default(),
        }
    }

    /// Reads a stream to its end.
    pub(super) async fn read(self, stream: impl AsyncRead + Unpin) {
        let mut stream = BufReader::new(stream);
        let mut line = Vec::new();
        // A stream that breaks ends with its process, and `environment` notices that.
        while matches!(stream.read_until(b'\n', &mut line).await, Ok(read) if read > 0) {
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            line.clear();
            self.keep(&text);
            (self.sink.0)(&LogLine {
                function: self.function.clone(),
                environment: self.environment,
                text,
                report: false,
            });
        }
    }

    fn keep(&self, text: &str) {
        let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        if tail.len() == TAIL {
            tail.pop_front();
        }
        tail.push_back(text.to_owned());
    }

    /// The last lines.
    pub(super) fn tail(&self) -> Vec<String> {
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.iter().cloned().collect()
    }
}
