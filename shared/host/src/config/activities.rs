//! How often each activity is tried and how long it may take, by name; and what becomes of one that is given up.
//!
//! A user's `main.rs` may set limits in code ([`crate::Worker`]); those of the environment variables come before them.

use super::variables::Reader;
use std::collections::BTreeMap;
use std::time::Duration;

/// An activity cannot be stopped earlier: duroxide's runtime first renews its lock after this time.
pub(crate) const LEAST_TIME: Duration = Duration::from_secs(1);

const ATTEMPTS: &str = "DUROXIDE_ACTIVITY_ATTEMPTS";
const TIMEOUTS: &str = "DUROXIDE_ACTIVITY_TIMEOUTS";
const ON_GIVEN_UP: &str = "DUROXIDE_ON_ACTIVITY_GIVEN_UP";

/// What becomes of an activity that was tried as often as allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnActivityGivenUp {
    /// It fails in its orchestration, which can handle that like any other error of an activity.
    #[default]
    FailActivity,
    /// Its orchestration fails, with duroxide's poison error.
    FailOrchestration,
}

/// The limits of one activity; what is not set has the limits of all activities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActivityLimit {
    /// After this many attempts it is given up.
    pub attempts: Option<u32>,
    /// After this time an attempt is stopped.
    pub time: Option<Duration>,
}

/// The limits of single activities, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActivityLimits(BTreeMap<String, ActivityLimit>);

/// Why the limits of activities cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ActivityLimitError {
    /// Limits name an activity that is not registered.
    #[error(
        "there are limits for activity `{name}`, which this function does not register (registered: {registered}): correct the \
         name in DUROXIDE_ACTIVITY_ATTEMPTS, DUROXIDE_ACTIVITY_TIMEOUTS, or the code of the worker"
    )]
    Unknown {
        /// The name.
        name: String,
        /// The names that are registered.
        registered: String,
    },
    /// A number of attempts is zero.
    #[error("activity `{name}` may be tried 0 times: allow at least 1 attempt")]
    NoAttempts {
        /// The activity.
        name: String,
    },
    /// A time limit is shorter than the runtime can keep.
    #[error(
        "the time limit of activity `{name}` is {time:?}: set it to at least 1s, an activity cannot be stopped earlier"
    )]
    TooShort {
        /// The activity.
        name: String,
        /// The limit.
        time: Duration,
    },
}

impl ActivityLimits {
    /// The limits of an activity.
    pub fn of(&self, name: &str) -> ActivityLimit {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// All activities that have limits.
    pub fn iter(&self) -> impl Iterator<Item = (&str, ActivityLimit)> {
        self.0.iter().map(|(name, limit)| (name.as_str(), *limit))
    }

    /// The same, and this activity is given up after so many attempts.
    #[must_use]
    pub fn attempts(mut self, name: impl Into<String>, most: u32) -> ActivityLimits {
        self.0.entry(name.into()).or_default().attempts = Some(most);
        self
    }

    /// The same, and an attempt of this activity is stopped after so much time.
    #[must_use]
    pub fn time(mut self, name: impl Into<String>, time: Duration) -> ActivityLimits {
        self.0.entry(name.into()).or_default().time = Some(time);
        self
    }

    /// These limits where they are set, else the others.
    #[must_use]
    pub(crate) fn over(&self, others: &ActivityLimits) -> ActivityLimits {
        let mut merged = others.clone();
        for (name, limit) in &self.0 {
            let other = merged.0.entry(name.clone()).or_default();
            other.attempts = limit.attempts.or(other.attempts);
            other.time = limit.time.or(other.time);
        }
        merged
    }

    /// Checks the limits of a function that registers these activities: a mistyped name must not be silent.
    pub(crate) fn check(&self, mut registered: Vec<String>) -> Result<(), ActivityLimitError> {
        registered.sort();
        for (name, limit) in &self.0 {
            let name = name.clone();
            if registered.binary_search(&name).is_err() {
                let registered = registered.join(", ");
                return Err(ActivityLimitError::Unknown { name, registered });
            }
            if limit.attempts == Some(0) {
                return Err(ActivityLimitError::NoAttempts { name });
            }
            if let Some(time) = limit.time.filter(|time| *time < LEAST_TIME) {
                return Err(ActivityLimitError::TooShort { name, time });
            }
        }
        Ok(())
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> ActivityLimits {
        let mut limits = ActivityLimits::default();
        for (name, text) in entries(reader, ATTEMPTS) {
            match text.parse() {
                Ok(most) if most > 0 => limits = limits.attempts(name, most),
                _ => reader.problem(
                    ATTEMPTS,
                    format!(
                        "has for {name:?} {text:?}: set it to a whole number from 1 to {}",
                        u32::MAX
                    ),
                ),
            }
        }
        for (name, text) in entries(reader, TIMEOUTS) {
            match duration(&text) {
                Some(time) if time >= LEAST_TIME => limits = limits.time(name, time),
                Some(_) => reader.problem(
                    TIMEOUTS,
                    format!("has for {name:?} {text:?}: set it to at least 1s, an activity cannot be stopped earlier"),
                ),
                None => reader.problem(
                    TIMEOUTS,
                    format!("has for {name:?} {text:?}: set it to a number with a unit, like 1500ms, 30s or 5m"),
                ),
            }
        }
        limits
    }
}

impl OnActivityGivenUp {
    pub(super) fn read(reader: &mut Reader<'_>) -> OnActivityGivenUp {
        match reader.text(ON_GIVEN_UP).as_str() {
            "fail-activity" => OnActivityGivenUp::FailActivity,
            "fail-orchestration" => OnActivityGivenUp::FailOrchestration,
            other => {
                let reason = format!("is {other:?}: set it to fail-activity or fail-orchestration");
                reader.problem(ON_GIVEN_UP, reason);
                OnActivityGivenUp::default()
            }
        }
    }
}

/// The pairs of a list like `Charge=3,Ship=5`. A name may contain `=`, a value cannot.
fn entries(reader: &mut Reader<'_>, variable: &'static str) -> Vec<(String, String)> {
    let text = reader.optional(variable).unwrap_or_default();
    let mut entries = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        match part.rsplit_once('=') {
            Some((name, value)) if !name.trim().is_empty() => {
                entries.push((name.trim().to_owned(), value.trim().to_owned()));
            }
            _ => reader.problem(
                variable,
                format!("has {part:?}: set it to a list of names and values, like Charge=3,Ship=5"),
            ),
        }
    }
    entries
}

/// A whole number with the unit `ms`, `s` or `m`.
fn duration(text: &str) -> Option<Duration> {
    let unit = text.find(|character: char| !character.is_ascii_digit())?;
    let (number, unit) = text.split_at(unit);
    let number: u64 = number.parse().ok()?;
    let millis = match unit.trim() {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        _ => return None,
    };
    number.checked_mul(millis).map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        for (text, millis) in [("1500ms", 1_500), ("2s", 2_000), ("30 s", 30_000), ("5m", 300_000)] {
            assert_eq!(duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "2", "s", "2h", "-2s", "1.5s", "99999999999999999999s"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn configuration_comes_before_code() {
        let code = ActivityLimits::default()
            .attempts("Charge", 3)
            .time("Charge", Duration::from_secs(2));
        let configured = ActivityLimits::default().attempts("Charge", 5).attempts("Ship", 1);
        let merged = configured.over(&code);
        assert_eq!(
            (merged.of("Charge").attempts, merged.of("Charge").time),
            (Some(5), Some(Duration::from_secs(2)))
        );
        assert_eq!(merged.of("Ship").attempts, Some(1));
        assert_eq!(merged.of("Other"), ActivityLimit::default());
    }

    #[test]
    fn names_that_are_not_registered_and_limits_that_cannot_be_kept_are_refused() {
        let registered = || vec!["Ship".to_owned(), "Charge".to_owned()];
        let typo = ActivityLimits::default().attempts("Chrage", 3);
        let error = typo.check(registered()).unwrap_err().to_string();
        assert!(
            error.contains("`Chrage`") && error.contains("registered: Charge, Ship"),
            "{error}"
        );
        let short = ActivityLimits::default().time("Ship", Duration::from_millis(999));
        assert!(matches!(
            short.check(registered()),
            Err(ActivityLimitError::TooShort { .. })
        ));
        let none = ActivityLimits::default().attempts("Ship", 0);
        assert!(matches!(
            none.check(registered()),
            Err(ActivityLimitError::NoAttempts { .. })
        ));
        let fine = ActivityLimits::default().attempts("Ship", 1).time("Charge", LEAST_TIME);
        assert!(fine.check(registered()).is_ok());
    }
}
