//! The output of `up`, written by threads of their own: a terminal that is paused or a pipe that nobody reads blocks those
//! threads and nothing else.
//!
//! A bounded number of lines waits to be written. Lines beyond it are dropped, and a note in their place says how many.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::fmt::MakeWriter;

/// The most lines that wait to be written.
const WAITING_LINES: usize = 4096;
/// How long the end waits for the last lines.
const LAST_LINES: Duration = Duration::from_secs(2);

/// One of stdout and stderr. Clones write to the same stream.
#[derive(Clone)]
pub(crate) struct Output {
    stream: Arc<Mutex<Stream>>,
}

struct Stream {
    writer: NonBlocking,
    dropped: ErrorCounter,
    /// How many dropped lines the notes so far have reported.
    reported: usize,
}

impl Output {
    /// An output to this stream, and what waits for its last lines.
    pub(crate) fn to(stream: impl Write + Send + 'static) -> (Output, LastLines) {
        let (writer, guard) = NonBlockingBuilder::default()
            .buffered_lines_limit(WAITING_LINES)
            .finish(stream);
        let stream = Stream {
            dropped: writer.error_counter(),
            writer,
            reported: 0,
        };
        let stream = Arc::new(Mutex::new(stream));
        (Output { stream }, LastLines(Some(guard)))
    }

    /// Passes a line on to be written soon. It never waits.
    pub(crate) fn line(&self, line: &str) {
        self.write_text(format!("{line}\n").as_bytes());
    }

    fn write_text(&self, text: &[u8]) {
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        stream.report_dropped();
        stream.send(text);
    }
}

/// Waits for the last lines when it is dropped, but not for a pipe that nobody reads.
pub(crate) struct LastLines(Option<WorkerGuard>);

impl Drop for LastLines {
    fn drop(&mut self) {
        let guard = self.0.take();
        let (sender, finished) = mpsc::channel();
        // On a thread of its own: the guard reports a full queue with `println!`, which blocks on the same pipe.
        std::thread::spawn(move || {
            drop(guard);
            sender.send(()).unwrap_or_default();
        });
        // After a timeout the last lines are lost with the process; nobody reads them.
        finished.recv_timeout(LAST_LINES).unwrap_or_default();
    }
}

impl Stream {
    /// Writes a note if lines were dropped since the last one.
    fn report_dropped(&mut self) {
        let dropped = self.dropped.dropped_lines();
        if dropped == self.reported {
            return;
        }
        self.send(
            format!(
                "... {} lines were dropped here: the output was not read in time\n",
                dropped - self.reported
            )
            .as_bytes(),
        );
        self.reported = match self.dropped.dropped_lines() == dropped {
            true => dropped,
            // The note was dropped too. It does not count as a line; the next note reports the lines.
            false => self.reported + 1,
        };
    }

    fn send(&mut self, text: &[u8]) {
        // It only queues the text, or counts it as dropped.
        self.writer.write_all(text).unwrap_or_default();
    }
}

impl Write for Output {
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        self.write_text(record);
        Ok(record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Output {
    type Writer = Output;

    fn make_writer(&self) -> Output {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pipe that is read when the test says so.
    struct Pipe {
        reads: mpsc::Receiver<()>,
        read: mpsc::Sender<String>,
    }

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.reads.recv().map_err(io::Error::other)?;
            let text = String::from_utf8_lossy(bytes).into_owned();
            self.read.send(text).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_unread_pipe_blocks_nobody_and_dropped_lines_are_reported_in_their_place() {
        let (go, reads) = mpsc::channel();
        let (read, seen) = mpsc::channel();
        let (output, _guard) = Output::to(Pipe { reads, read });
        let written = 3 * WAITING_LINES;
        for number in 0..written {
            output.line(&number.to_string());
        }
        let next = || {
            go.send(()).unwrap();
            seen.recv().unwrap()
        };
        let dropped = |line: &str| {
            Some(
                line.strip_prefix("... ")?
                    .split_once(" lines")?
                    .0
                    .parse::<usize>()
                    .unwrap(),
            )
        };
        let (mut shown, mut missing) = (0, 0);
        while shown < WAITING_LINES {
            match next() {
                line if dropped(&line).is_some() => missing += dropped(&line).unwrap(),
                line => {
                    assert_eq!(line, format!("{}\n", shown + missing), "in order");
                    shown += 1;
                }
            }
        }
        output.line("there is room again");
        loop {
            match next() {
                line if line == "there is room again\n" => break,
                line => match dropped(&line) {
                    Some(lines) => missing += lines,
                    None => shown += 1,
                },
            }
        }
        assert_eq!(shown + missing, written);
        assert!(missing > WAITING_LINES, "{missing}");
    }

    #[test]
    fn the_end_does_not_wait_for_a_pipe_that_nobody_reads() {
        let (_go, reads) = mpsc::channel();
        let (read, _seen) = mpsc::channel();
        let (output, last_lines) = Output::to(Pipe { reads, read });
        for _ in 0..2 * WAITING_LINES {
            output.line("a line");
        }
        drop(last_lines);
    }
}
