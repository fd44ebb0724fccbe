//! The answer of a binary: for itself when it is ready, then for each history.

use super::asked::Asked;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The first line of a binary: it can replay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ready {
    /// The version of duroxide that it is built with.
    pub duroxide: String,
    /// What it registers, by name.
    pub orchestrations: Vec<Registered>,
}

/// An orchestration that a binary registers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Registered {
    /// Its name.
    pub name: String,
    /// Its versions, the oldest first.
    pub versions: Vec<String>,
}

/// What the replay of one history has shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Replayed {
    /// The instance.
    pub instance: String,
    /// The execution.
    pub execution: u64,
    /// How many events it has.
    pub events: u64,
    /// Where the build does something else; `None` if it does what was recorded.
    pub fault: Option<Fault>,
}

/// Why a build cannot go on with a history, or would go on differently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fault {
    /// What kind of fault it is.
    pub cause: Cause,
    /// What would become of the instance.
    pub effect: Effect,
    /// The event at which it shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<u64>,
    /// What was recorded there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Asked>,
    /// What the build asks for instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual: Option<Asked>,
    /// The same in words, without payloads.
    pub reason: String,
}

/// The kinds of faults. Those that block are named as in the state of a blocked instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The build does not register the orchestration, or its version.
    UnknownName,
    /// Its code does not do what the history says that it did.
    Nondeterminism,
    /// The same, where duroxide does not notice.
    Divergence,
    /// Its code panics.
    Panic,
    /// The history cannot be read by the build.
    History,
    /// The binary ended.
    Crash,
    /// The replay did not end in time.
    Timeout,
}

impl Cause {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Cause::UnknownName => "unknown-name",
            Cause::Nondeterminism => "nondeterminism",
            Cause::Divergence => "divergence",
            Cause::Panic => "panic",
            Cause::History => "history",
            Cause::Crash => "crash",
            Cause::Timeout => "timeout",
        }
    }

    /// What becomes of an instance for this cause.
    pub fn effect(self) -> Effect {
        match self {
            Cause::Divergence => Effect::Diverges,
            _ => Effect::Blocks,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What would become of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// It would be blocked until another build comes.
    Blocks,
    /// It would go on, other than its history began.
    Diverges,
}

impl Fault {
    /// A fault without a place.
    pub fn new(cause: Cause, reason: impl Into<String>) -> Fault {
        Fault {
            cause,
            effect: cause.effect(),
            event: None,
            expected: None,
            actual: None,
            reason: reason.into(),
        }
    }

    pub(super) fn at(self, event: u64) -> Fault {
        Fault {
            event: Some(event),
            ..self
        }
    }
}
