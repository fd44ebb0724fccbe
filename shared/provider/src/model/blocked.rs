//! Why nobody can go on with a turn or an activity, until another build serves it. A part of the instance document, or of the
//! work item of an activity.

use serde::{Deserialize, Serialize};

/// What keeps a build from going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BlockCause {
    /// No function registers the orchestration, its version, or the activity.
    UnknownName,
    /// The orchestration's code does not do what its history says that it did.
    Nondeterminism,
    /// The orchestration's code panicked.
    Panic,
    /// The turn was begun as often as allowed, and ended its process each time.
    Crash,
    /// The history cannot be replayed: it is too large, corrupt, or of a newer duroxide.
    History,
    /// Of a newer version of this crate.
    #[serde(other)]
    Unknown,
}

impl BlockCause {
    /// One word for lists, logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            BlockCause::UnknownName => "unknown-name",
            BlockCause::Nondeterminism => "nondeterminism",
            BlockCause::Panic => "panic",
            BlockCause::Crash => "crash",
            BlockCause::History => "history",
            BlockCause::Unknown => "unknown",
        }
    }
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Blocked {
    /// What keeps the build from going on.
    pub cause: BlockCause,
    /// The same for people: what happened, and what to do.
    pub reason: String,
    /// The build that could not go on.
    pub build: String,
    /// Since when (Unix ms); another build that cannot go on either does not change it.
    pub since: u64,
    /// How often it was tried.
    pub tries: u32,
    /// When the same build tries again (Unix ms).
    pub until: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_are_stored() {
        for cause in [
            BlockCause::UnknownName,
            BlockCause::Nondeterminism,
            BlockCause::Panic,
            BlockCause::Crash,
            BlockCause::History,
        ] {
            assert_eq!(serde_json::to_value(cause).unwrap(), cause.name());
        }
        assert_eq!(
            serde_json::from_str::<BlockCause>("\"something-new\"").unwrap(),
            BlockCause::Unknown
        );
    }
}
