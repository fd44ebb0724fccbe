//! The attempts of an activity: when each began and how it ended. A part of the work item while the activity is open, then of the
//! message with its completion, then of the history document that the completion is in.
//!
//! A claim notes the beginning and a release or a completion the end, in writes that happen anyway. Nobody writes the end of an
//! attempt whose process was killed or frozen: the next claim notes it as lost when its lock expired.

use serde::{Deserialize, Serialize};

/// How many attempts are kept, the newest ones: a work item must not grow without end.
const MOST: usize = 20;

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttemptEnd {
    /// The activity returned a result.
    Completed,
    /// The activity returned an error or panicked.
    Failed,
    /// It was stopped, because it took longer than it may.
    TimedOut,
    /// It was released without a result, to be tried again.
    Released,
    /// Nothing was heard of it: its process was killed or frozen.
    Lost,
    /// Of a newer version of this crate.
    #[serde(other)]
    Unknown,
}

impl AttemptEnd {
    /// One word for people.
    pub fn name(self) -> &'static str {
        match self {
            AttemptEnd::Completed => "completed",
            AttemptEnd::Failed => "failed",
            AttemptEnd::TimedOut => "timed-out",
            AttemptEnd::Released => "released",
            AttemptEnd::Lost => "lost",
            AttemptEnd::Unknown => "unknown",
        }
    }
}

/// One attempt that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// Which one, from 1.
    pub number: u32,
    /// When it began (Unix ms).
    pub began: u64,
    /// When it ended (Unix ms); of a lost one, when its lock expired.
    pub ended: u64,
    /// How it ended.
    pub end: AttemptEnd,
}

/// The newest attempts of an activity that have ended, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct AttemptLog(Vec<Attempt>);

impl AttemptLog {
    pub(crate) fn add(&mut self, attempt: Attempt) {
        self.0.push(attempt);
        let surplus = self.0.len().saturating_sub(MOST);
        self.0.drain(..surplus);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn attempts(&self) -> &[Attempt] {
        &self.0
    }
}

/// The attempts of an activity that has completed, as its message and its history document have them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CompletedAttempts {
    pub execution: u64,
    pub activity: u64,
    pub log: AttemptLog,
}

impl CompletedAttempts {
    /// How many there were, and how long those took whose end is known (ms).
    pub(crate) fn totals(&self) -> (u64, u64) {
        let attempts = self.log.attempts();
        let count = attempts.last().map_or(0, |last| u64::from(last.number));
        let ended = attempts.iter().filter(|attempt| attempt.end != AttemptEnd::Lost);
        (
            count,
            ended.map(|attempt| attempt.ended.saturating_sub(attempt.began)).sum(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_attempts_are_kept() {
        let mut log = AttemptLog::default();
        for number in 1..=25 {
            let (began, ended) = (u64::from(number), u64::from(number) + 1);
            log.add(Attempt {
                number,
                began,
                ended,
                end: AttemptEnd::TimedOut,
            });
        }
        let numbers: Vec<u32> = log.attempts().iter().map(|attempt| attempt.number).collect();
        assert_eq!(numbers, Vec::from_iter(6..=25));
    }

    #[test]
    fn names_are_those_that_are_stored() {
        for end in [
            AttemptEnd::Completed,
            AttemptEnd::Failed,
            AttemptEnd::TimedOut,
            AttemptEnd::Released,
            AttemptEnd::Lost,
        ] {
            assert_eq!(serde_json::to_value(end).unwrap(), end.name());
        }
        assert_eq!(
            serde_json::from_str::<AttemptEnd>("\"something-new\"").unwrap(),
            AttemptEnd::Unknown
        );
    }
}
