//! Why nobody can go on with a turn or an activity, until another build serves it. A part of the instance document, or of the
//! work item of an activity.

use serde::{Deserialize, Serialize};

/// The pauses between two tries of one build.
const FIRST_PAUSE_MS: u64 = 1_000;
const LONGEST_PAUSE_MS: u64 = 300_000;

/// How many bytes of a reason are kept.
const MOST_REASON: usize = 4 * 1024;

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
    /// Since when, for this cause (Unix ms); another build that cannot go on either does not change it.
    pub since: u64,
    /// How often it was tried, by any build.
    pub tries: u32,
    /// When the same build tries again (Unix ms).
    pub until: u64,
}

/// Why a build cannot go on with a turn or an activity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// What keeps it from going on.
    pub cause: BlockCause,
    /// The same for people: what happened, and what to do. It is shown to operators, so it has no payloads.
    pub reason: String,
}

/// What is noted when `block` keeps `build` from going on, now.
pub(crate) fn noted(before: Option<&Blocked>, block: &Block, build: &str, now_ms: u64) -> Blocked {
    // Of all builds: two that cannot go on, side by side, must not try in turns.
    let tries = before.map_or(0, |before| before.tries).saturating_add(1);
    let same_cause = before.filter(|before| before.cause == block.cause);
    let mut reason = block.reason.clone();
    if reason.len() > MOST_REASON {
        reason.truncate(reason.floor_char_boundary(MOST_REASON));
        reason.push('…');
    }
    Blocked {
        cause: block.cause,
        reason,
        build: build.to_owned(),
        since: same_cause.map_or(now_ms, |before| before.since),
        tries,
        until: now_ms.saturating_add(pause_ms(tries)),
    }
}

/// The pause after so many tries.
fn pause_ms(tries: u32) -> u64 {
    let growing = FIRST_PAUSE_MS << tries.saturating_sub(1).min(16);
    growing.min(LONGEST_PAUSE_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block() -> Block {
        Block {
            cause: BlockCause::Panic,
            reason: "it panicked".to_owned(),
        }
    }

    #[test]
    fn pauses_grow_from_a_second_to_five_minutes() {
        let seconds: Vec<u64> = (1..12).map(|tries| pause_ms(tries) / 1000).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(pause_ms(u32::MAX), 300_000);
    }

    #[test]
    fn tries_and_the_time_since_are_counted_over_all_builds_and_the_time_for_each_cause() {
        let first = noted(None, &block(), "a", 1_000);
        assert_eq!((first.since, first.tries, first.until), (1_000, 1, 2_000));
        let second = noted(Some(&first), &block(), "a", 5_000);
        assert_eq!((second.since, second.tries, second.until), (1_000, 2, 7_000));
        let other = noted(Some(&second), &block(), "b", 8_000);
        assert_eq!((other.since, other.tries, other.until), (1_000, 3, 12_000));
        let unknown = Block {
            cause: BlockCause::UnknownName,
            ..block()
        };
        assert_eq!(noted(Some(&other), &unknown, "b", 20_000).since, 20_000);
    }

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let long = Block {
            reason: "語".repeat(MOST_REASON),
            ..block()
        };
        let kept = noted(None, &long, "a", 0).reason;
        assert!(kept.len() <= MOST_REASON + 3 && kept.ends_with('…'), "{}", kept.len());
    }

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
