//! The log: the functions' JSON lines, captured; and nothing on the terminal unless `RUST_LOG` is set.

use cosmos::SystemClock;
use duroxide_lambda::internals::JsonLayer;
use serde_json::Value;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt as _;

/// Keeps the log off the terminal, unless `RUST_LOG` is set. Without a subscriber of ours, duroxide's runtime installs one
/// that writes to stdout, past the capture of the test harness.
pub(crate) fn quiet_by_default() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("off"));
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_test_writer();
    // Another test of this process was first.
    drop(subscriber.try_init());
}

/// What was logged.
#[derive(Clone, Debug, Default)]
pub struct LogLines(Arc<Mutex<Vec<u8>>>);

impl LogLines {
    /// Captures the log of this thread until the guard is dropped: the test must run on one thread.
    pub fn capture() -> (LogLines, DefaultGuard) {
        let lines = LogLines::default();
        let layer = JsonLayer::new(lines.clone(), Arc::new(SystemClock));
        let guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
        (lines, guard)
    }

    /// The lines so far.
    pub fn read(&self) -> Vec<Value> {
        let bytes = self.0.lock().expect("no panic").clone();
        let text = String::from_utf8(bytes).expect("the log is text");
        text.lines()
            .map(|line| serde_json::from_str(line).expect("a line is JSON"))
            .collect()
    }
}

impl Write for LogLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
