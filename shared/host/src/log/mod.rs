//! Structured logs: one JSON object per line on stdout, which Lambda collects.
//!
//! ```json
//! {"timestamp":"2026-01-31T12:00:00.250Z","level":"INFO","target":"duroxide_lambda::invocation",
//!  "message":"a step ended","requestId":"8a3c...","instance":"order-7","execution":1,"turn":3,"outcome":"Committed"}
//! ```
//!
//! A line has the fields of its event and of all spans around it; of two with the same name, the innermost wins.
//! duroxide's `instance_id` and `execution_id` are renamed to ours, so that one query finds everything about an instance.
//! Tasks of the runtime run outside of the invocation's span, so the request id is kept for the whole process (see
//! [`invocation`]): an environment serves one invocation at a time.
//!
//! Invariant: logging never panics and never fails its caller.

mod fields;
mod layer;
mod superseded;

use cosmos::SystemClock;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

pub use layer::{JsonLayer, rfc3339};

/// Installs the process's log at a level, or with a list of `target=level`. It does nothing when a subscriber is installed
/// already.
pub fn init(level: &str) {
    // `Config` has refused a level that cannot be read; another caller gets the default.
    let filter = filter(level).unwrap_or_else(|_| Targets::new().with_default(LevelFilter::INFO));
    let layer = JsonLayer::new(io::stdout(), Arc::new(SystemClock)).with_filter(filter);
    // The error means that there is a subscriber already, which then writes the logs.
    drop(tracing_subscriber::registry().with(layer).try_init());
}

/// Reads a level or a list of `target=level`. The error completes a sentence that begins with the variable.
pub(crate) fn filter(level: &str) -> Result<Targets, String> {
    // `Targets` takes a word that is not a level for a target, which would turn off everything else.
    let parts: Vec<&str> = level.split(',').map(str::trim).collect();
    let stray = parts
        .iter()
        .find(|part| !part.contains('=') && part.parse::<LevelFilter>().is_err());
    // It does not expect spaces either: they would become a part of the target.
    let wrong = match (stray, parts.join(",").parse::<Targets>()) {
        (None, Ok(targets)) => return Ok(targets),
        (Some(word), _) => format!("{word:?} is not a level"),
        (None, Err(error)) => error.to_string(),
    };
    Err(format!(
        "is {level:?} ({wrong}): set it to off, error, warn, info, debug or trace, or to a list such as \
         info,duroxide=debug"
    ))
}

/// The invocation that the process serves now.
#[derive(Debug)]
pub(crate) struct Current(Mutex<State>);

#[derive(Debug)]
struct State {
    number: u64,
    request_id: Option<Arc<str>>,
}

static CURRENT: Current = Current::new();

impl Current {
    pub(crate) const fn new() -> Current {
        Current(Mutex::new(State {
            number: 0,
            request_id: None,
        }))
    }

    fn begin(&'static self, request_id: &str) -> Invocation {
        self.with(|state| {
            state.number += 1;
            state.request_id = Some(request_id.into());
            Invocation {
                number: state.number,
                current: self,
            }
        })
    }

    pub(crate) fn request_id(&self) -> Option<Arc<str>> {
        self.with(|state| state.request_id.clone())
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Adds this request id to every line, until the guard is dropped or the next invocation begins.
pub fn invocation(request_id: &str) -> Invocation {
    CURRENT.begin(request_id)
}

/// An invocation in progress.
#[derive(Debug)]
#[must_use = "the request id is logged only while the guard lives"]
pub struct Invocation {
    number: u64,
    current: &'static Current,
}

impl Drop for Invocation {
    fn drop(&mut self) {
        self.current.with(|state| {
            // A newer invocation has its own guard.
            if state.number == self.number {
                state.request_id = None;
            }
        });
    }
}

#[cfg(test)]
mod tests;
