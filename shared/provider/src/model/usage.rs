//! What an instance has used: turns, activities, wakeups, requests to the store, time. A part of the instance document, of the message
//! of each completed activity, and of a work item that was released.
//!
//! A step counts what it has spent in the document that it writes anyway, so the count costs no request. What the write itself costs
//! is known only afterwards. It is *late usage*, with the name of what was written: it travels in the memory of the process and
//! in the wakeups that follow, and the next commit of the instance adds it. The instance document lists the names whose late
//! usage is awaited; a name is removed when its usage is added. So nothing is counted twice, however often a wakeup is delivered.
//!
//! ```text
//!   turn: commit c1 ──wakeup {late c1}──> activity: message m {usage, late c1} ──wakeup {late m}──> turn: commit c2
//!         awaited: c1                                                              adds usage of m, late c1, late m
//!                                                                                  awaited: c2
//! ```
//!
//! What is lost: the late usage of the last commit, which has no successor; that of a write whose process died before it sent
//! a wakeup; and that of the oldest names when more than [`MOST_AWAITED`] are awaited. The request of a commit itself is counted in advance.

use super::digest;
use cosmos::Tallied;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// How many names of late usage an instance awaits, the newest: its document must stay small.
const MOST_AWAITED: usize = 16;
/// How many digits of a digest name late usage, and what comes before them.
const NAME_DIGITS: usize = 8;
const OF_MESSAGE: char = 'm';
const OF_COMMIT: char = 'c';

/// Counters. Each may be left out where it is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Usage {
    /// Turns that were committed.
    #[serde(skip_serializing_if = "is_zero")]
    pub turns: u64,
    /// Activities that ended and whose result a turn took.
    #[serde(skip_serializing_if = "is_zero")]
    pub activities: u64,
    /// Attempts of those activities, lost ones included.
    #[serde(skip_serializing_if = "is_zero")]
    pub attempts: u64,
    /// Wakeups: one for each activity, message and timer that was announced.
    #[serde(skip_serializing_if = "is_zero")]
    pub wakeups: u64,
    /// Requests to the store.
    #[serde(skip_serializing_if = "is_zero")]
    pub requests: u64,
    /// Thousandths of a request unit.
    #[serde(rename = "mru", skip_serializing_if = "is_zero")]
    pub milli_request_units: u64,
    /// Bytes of the answers of the store.
    #[serde(rename = "read", skip_serializing_if = "is_zero")]
    pub bytes_read: u64,
    /// Bytes that were sent to the store.
    #[serde(rename = "written", skip_serializing_if = "is_zero")]
    pub bytes_written: u64,
    /// Time in turns, from reading to the answer of the commit.
    #[serde(skip_serializing_if = "is_zero")]
    pub turn_ms: u64,
    /// Time in attempts of activities whose end is known.
    #[serde(skip_serializing_if = "is_zero")]
    pub activity_ms: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl From<Tallied> for Usage {
    fn from(tallied: Tallied) -> Usage {
        Usage {
            requests: tallied.requests,
            milli_request_units: tallied.milli_request_units,
            bytes_read: tallied.bytes_received,
            bytes_written: tallied.bytes_sent,
            ..Usage::default()
        }
    }
}

impl Usage {
    /// One request whose charge is not known yet.
    pub(crate) const REQUEST: Usage = Usage {
        turns: 0,
        activities: 0,
        attempts: 0,
        wakeups: 0,
        requests: 1,
        milli_request_units: 0,
        bytes_read: 0,
        bytes_written: 0,
        turn_ms: 0,
        activity_ms: 0,
    };

    /// So many wakeups.
    pub(crate) fn of_wakeups(wakeups: u64) -> Usage {
        Usage {
            wakeups,
            ..Usage::default()
        }
    }

    fn with(self, other: Usage, each: fn(u64, u64) -> u64) -> Usage {
        Usage {
            turns: each(self.turns, other.turns),
            activities: each(self.activities, other.activities),
            attempts: each(self.attempts, other.attempts),
            wakeups: each(self.wakeups, other.wakeups),
            requests: each(self.requests, other.requests),
            milli_request_units: each(self.milli_request_units, other.milli_request_units),
            bytes_read: each(self.bytes_read, other.bytes_read),
            bytes_written: each(self.bytes_written, other.bytes_written),
            turn_ms: each(self.turn_ms, other.turn_ms),
            activity_ms: each(self.activity_ms, other.activity_ms),
        }
    }

    /// The sum of both.
    pub(crate) fn plus(self, other: Usage) -> Usage {
        self.with(other, u64::saturating_add)
    }

    /// What of this is not in the other.
    pub(crate) fn less(self, other: Usage) -> Usage {
        self.with(other, u64::saturating_sub)
    }

    pub(crate) fn is_nothing(&self) -> bool {
        *self == Usage::default()
    }
}

/// What a write has cost, with the name of what was written.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LateUsage {
    of: String,
    #[serde(flatten)]
    usage: Usage,
}

impl LateUsage {
    /// Of a commit, or of a message by its id.
    pub(crate) fn of(name: &str, usage: Usage) -> LateUsage {
        LateUsage { of: short(name), usage }
    }

    /// Whether both are of the same write.
    pub fn is_of_same(&self, other: &LateUsage) -> bool {
        self.of == other.of
    }

    /// Whether it is that of a message, which is awaited only when a turn has consumed the message.
    pub(crate) fn is_of_message(&self) -> bool {
        self.of.starts_with(OF_MESSAGE)
    }
}

/// The name in documents and wakeups.
fn short(name: &str) -> String {
    let kind = if name.starts_with("m:") { OF_MESSAGE } else { OF_COMMIT };
    format!("{kind}{}", &digest(name)[..NAME_DIGITS])
}

/// The part of the instance document.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InstanceUsage {
    #[serde(flatten)]
    pub total: Usage,
    /// The names whose late usage is not in `total`, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    awaited: Vec<String>,
    /// Counters of a newer release.
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

impl InstanceUsage {
    pub(crate) fn add(&mut self, usage: Usage) {
        self.total = self.total.plus(usage);
    }

    /// Notes a write whose late usage is to come: a commit, or a message by its id.
    pub(crate) fn await_late(&mut self, name: &str) {
        self.awaited.push(short(name));
    }

    /// Adds late usage, as far as it is awaited. Returns what was added.
    pub(crate) fn add_late<'a>(&mut self, late: impl IntoIterator<Item = &'a LateUsage>) -> Vec<LateUsage> {
        let mut added = Vec::new();
        for late in late {
            if let Some(place) = self.awaited.iter().position(|awaited| *awaited == late.of) {
                self.awaited.remove(place);
                self.add(late.usage);
                added.push(late.clone());
            }
        }
        added
    }

    /// Gives up the oldest names, so that the document stays small.
    pub(crate) fn trim(&mut self) {
        let surplus = self.awaited.len().saturating_sub(MOST_AWAITED);
        self.awaited.drain(..surplus);
    }

    pub(crate) fn awaits(&self, late: &LateUsage) -> bool {
        self.awaited.contains(&late.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(requests: u64) -> Usage {
        Usage {
            requests,
            ..Usage::default()
        }
    }

    #[test]
    fn late_usage_is_added_once_and_only_if_it_is_awaited() {
        let mut usage = InstanceUsage::default();
        usage.await_late("c1");
        usage.await_late("m:1");
        let late = [LateUsage::of("c1", requests(2)), LateUsage::of("other", requests(50))];
        assert_eq!(usage.add_late(&late), late[..1]);
        assert_eq!(usage.add_late(&late), []);
        assert_eq!((usage.total, usage.awaited.len()), (requests(2), 1));
        usage.add_late(&[LateUsage::of("m:1", requests(3)), LateUsage::of("m:1", requests(3))]);
        assert_eq!((usage.total, usage.awaited.len()), (requests(5), 0));
    }

    #[test]
    fn only_the_newest_names_are_awaited_and_the_object_stays_small() {
        let mut usage = InstanceUsage::default();
        let most = u64::MAX / 2;
        usage.add(Usage::default().with(Usage::default(), |_, _| u64::MAX / 2));
        (0..100).for_each(|n| usage.await_late(&format!("commit-{n}")));
        usage.trim();
        usage.add_late(&[
            LateUsage::of("commit-0", requests(1)),
            LateUsage::of("commit-99", requests(1)),
        ]);
        assert_eq!(usage.total.requests, most + 1, "the oldest was given up");
        let stored = serde_json::to_string(&usage).unwrap();
        assert!(stored.len() < 600, "{} bytes: {stored}", stored.len());
    }

    #[test]
    fn counters_of_a_newer_release_are_kept_and_zeros_are_left_out() {
        let text = r#"{"turns":2,"mru":1500,"awaited":["0a0b0c0d"],"joules":7}"#;
        let usage: InstanceUsage = serde_json::from_str(text).unwrap();
        assert_eq!((usage.total.turns, usage.total.milli_request_units), (2, 1_500));
        let again = serde_json::to_value(&usage).unwrap();
        assert_eq!(again, serde_json::from_str::<Value>(text).unwrap());
        assert_eq!(serde_json::to_string(&InstanceUsage::default()).unwrap(), "{}");
    }

    #[test]
    fn sums_and_differences_do_not_overflow() {
        let most = requests(u64::MAX);
        assert_eq!(most.plus(requests(1)), most);
        assert_eq!(requests(1).less(most), Usage::default());
        assert!(requests(1).less(requests(1)).is_nothing());
    }
}
