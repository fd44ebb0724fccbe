//! What `up` shows, written by a thread of its own: a terminal that is held, or a pipe that nobody reads, holds up that
//! thread and nobody else.
//!
//! Only so much waits to be written. What does not fit is left out, and the place where it would have stood says how much.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tracing_subscriber::fmt::MakeWriter;

/// So many bytes may wait.
const ROOM: usize = 1024 * 1024;
/// How long the last lines may take.
const LAST_LINES: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Clone)]
pub(crate) struct Screen(Arc<Shared>);

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    texts: VecDeque<(Stream, String)>,
    bytes: usize,
    left_out: u64,
    /// The thread writes what it took last.
    writing: bool,
}

#[derive(Clone, Copy)]
enum Stream {
    Out,
    Trouble,
}

impl Screen {
    /// A screen of stdout and stderr.
    pub(crate) fn start() -> Screen {
        Screen::onto(io::stdout(), io::stderr())
    }

    fn onto(mut out: impl Write + Send + 'static, mut trouble: impl Write + Send + 'static) -> Screen {
        let screen = Screen(Arc::default());
        let shared = Arc::clone(&screen.0);
        std::thread::spawn(move || {
            loop {
                // Whoever closed the pipe does not want to read it; the functions go on.
                match shared.take() {
                    (Stream::Out, text) => show(&mut out, &text).unwrap_or_default(),
                    (Stream::Trouble, text) => show(&mut trouble, &text).unwrap_or_default(),
                }
            }
        });
        screen
    }

    /// Has a line written to stdout, soon. It never waits.
    pub(crate) fn say(&self, line: &str) {
        self.0.add(Stream::Out, format!("{line}\n"));
    }

    /// Waits until all is written, but not for ever.
    pub(crate) fn finish(&self) {
        let busy = |waiting: &mut Waiting| waiting.writing || !waiting.texts.is_empty() || waiting.left_out > 0;
        let written = self.0.changed.wait_timeout_while(self.0.waiting(), LAST_LINES, busy);
        // Nobody reads it: that does not keep us.
        drop(written);
    }
}

fn show(stream: &mut impl Write, text: &str) -> io::Result<()> {
    stream.write_all(text.as_bytes())?;
    stream.flush()
}

impl Shared {
    fn add(&self, stream: Stream, text: String) {
        let mut waiting = self.waiting();
        if waiting.bytes + text.len() > ROOM && !waiting.texts.is_empty() {
            waiting.left_out += 1;
            return;
        }
        if let Some(note) = waiting.note() {
            waiting.texts.push_back((Stream::Out, note));
        }
        waiting.bytes += text.len();
        waiting.texts.push_back((stream, text));
        self.changed.notify_all();
    }

    /// The next text; waits for it.
    fn take(&self) -> (Stream, String) {
        let mut waiting = self.waiting();
        waiting.writing = false;
        self.changed.notify_all();
        loop {
            if let Some((stream, text)) = waiting.texts.pop_front() {
                waiting.bytes = waiting.bytes.saturating_sub(text.len());
                waiting.writing = true;
                return (stream, text);
            }
            if let Some(note) = waiting.note() {
                waiting.writing = true;
                return (Stream::Out, note);
            }
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Its parts agree after every statement that matters: at worst a note says a wrong number.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// Says how much was left out since the last note.
    fn note(&mut self) -> Option<String> {
        let left_out = std::mem::take(&mut self.left_out);
        (left_out > 0).then(|| format!("... {left_out} lines are left out here: they were not read in time\n"))
    }
}

/// Writes to stderr what is logged, in whole records.
pub(crate) struct Trouble(Screen);

impl Write for Trouble {
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        self.0
            .0
            .add(Stream::Trouble, String::from_utf8_lossy(record).into_owned());
        Ok(record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Screen {
    type Writer = Trouble;

    fn make_writer(&self) -> Trouble {
        Trouble(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// A pipe that is read when the test says so.
    struct Held {
        reads: mpsc::Receiver<()>,
        read: mpsc::Sender<String>,
    }

    impl Write for Held {
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
    fn what_nobody_reads_holds_up_nobody_and_what_is_left_out_is_told_where_it_would_stand() {
        let (go, reads) = mpsc::channel();
        let (read, seen) = mpsc::channel();
        let screen = Screen::onto(Held { reads, read }, io::sink());
        let long = "x".repeat(1000);
        let said = 3 * ROOM / long.len();
        for _ in 0..said {
            screen.say(&long);
        }
        let next = || {
            go.send(()).unwrap();
            seen.recv().unwrap()
        };
        let (mut shown, mut left_out) = (0, 0);
        while shown + left_out < said {
            let text = next();
            match text
                .strip_prefix("... ")
                .and_then(|note| note.split_once(" lines are left out"))
            {
                Some((number, _)) => left_out += number.parse::<usize>().unwrap(),
                None => shown += 1,
            }
        }
        assert_eq!(shown + left_out, said);
        assert!(shown > 500 && left_out > 500, "{shown} {left_out}");
        screen.say("there is room again");
        assert_eq!(next(), "there is room again\n");
        screen.finish();
        assert!(screen.0.waiting().texts.is_empty());
    }

    #[test]
    fn an_end_does_not_wait_for_who_never_reads() {
        let (_go, reads) = mpsc::channel();
        let (read, _seen) = mpsc::channel();
        let screen = Screen::onto(Held { reads, read }, io::sink());
        screen.say("a line");
        screen.finish();
    }
}
