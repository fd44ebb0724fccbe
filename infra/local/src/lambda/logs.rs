//! What functions write, and which of their invocations failed: line by line, to whoever listens. The last lines that an
//! environment wrote are kept to explain its end.

use super::function::InvokeError;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// So many lines explain an end.
const TAIL: usize = 20;

/// One line of a function, or about it.
#[derive(Clone, Debug)]
pub struct LogLine {
    /// The function's name.
    pub function: String,
    /// Which of its environments.
    pub environment: u64,
    /// What it wrote, without the line's end.
    pub text: String,
    /// The function did not write it: the cloud tells that an invocation failed.
    pub report: bool,
}

/// Where lines go.
#[derive(Clone)]
pub struct LogSink(Arc<dyn Fn(&LogLine) + Send + Sync>);

impl LogSink {
    /// Each line is handed to this, by several threads at once. It must not block.
    pub fn new(write: impl Fn(&LogLine) + Send + Sync + 'static) -> LogSink {
        LogSink(Arc::new(write))
    }

    /// Lines go nowhere.
    pub fn none() -> LogSink {
        LogSink::new(|_| {})
    }

    /// Tells that an invocation failed, as Lambda's own lines do between those of the function.
    pub(super) fn report(&self, function: &str, environment: u64, error: &InvokeError) {
        let (status, said) = match error {
            InvokeError::TimedOut(_) => ("timeout", error.to_string()),
            // The last lines of its start were told when it wrote them.
            InvokeError::Init { how, .. } => ("error", format!("it ended in its start: {how}")),
            _ => ("error", error.to_string()),
        };
        (self.0)(&LogLine {
            function: function.to_owned(),
            environment,
            text: format!("REPORT Status: {status}: {said}"),
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
        // A stream that breaks ends with its process, whose end is noticed.
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
