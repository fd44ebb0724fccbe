//! The answer: public types without decisions. Times are Unix ms.

use super::cause::Cause;
use crate::admin::InstanceStatus;
use crate::model::{AttemptEnd, Blocked};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What the caller knows of the deployment. It decides what is late, and says how often a step may be tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainSettings {
    /// After this many attempts a turn or an activity is given up.
    pub max_attempts: u32,
    /// The same for single activities.
    pub activity_attempts: BTreeMap<String, u32>,
    /// A timer that is due within this time gets its wakeup from the commit; maintenance wakes later ones.
    pub wakeup_reach: Duration,
    /// What has been due for this long is woken again by maintenance.
    pub overdue: Duration,
    /// The time between two runs of maintenance.
    pub period: Duration,
    /// What has been due for this long needs attention: several wakeups did not help.
    pub stuck: Duration,
    /// The tags whose activities have a queue of their own; `None` if the caller does not know.
    pub tag_queues: Option<BTreeSet<String>>,
}

impl Default for ExplainSettings {
    /// The defaults of the functions.
    fn default() -> Self {
        ExplainSettings {
            max_attempts: 10,
            activity_attempts: BTreeMap::new(),
            wakeup_reach: Duration::from_secs(900),
            overdue: Duration::from_secs(30),
            period: Duration::from_secs(60),
            stuck: Duration::from_secs(300),
            tag_queues: None,
        }
    }
}

/// What an instance can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "duroxide's own words")]
pub enum WaitKind {
    Activity,
    Event,
    Queue,
    Timer,
    Child,
}

impl WaitKind {
    /// One word.
    pub fn name(self) -> &'static str {
        match self {
            WaitKind::Activity => "activity",
            WaitKind::Event => "event",
            WaitKind::Queue => "queue",
            WaitKind::Timer => "timer",
            WaitKind::Child => "child",
        }
    }
}

/// Who wakes the instance when a timer is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WokenBy {
    /// A delayed wakeup, which the commit sent.
    Wakeup,
    /// Maintenance, when the timer comes near.
    Maintenance,
}

/// One thing that an instance waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// What it is.
    pub kind: WaitKind,
    /// Its cause alone.
    pub cause: Cause,
    /// The event of the history that began it.
    pub id: u64,
    /// The activity, event, queue, or the orchestration of a child.
    pub name: Option<String>,
    /// The child.
    pub instance: Option<String>,
    /// As a clause: "activity `Charge`, which ...".
    pub text: String,
    /// Whether a person should do something.
    pub needs_attention: bool,
    /// Since when it waits.
    pub since: Option<u64>,
    /// When it is due: of a timer, or of the next attempt.
    pub due: Option<u64>,
    /// The attempt that runs, or that was the last.
    pub attempt: Option<u32>,
    /// How many are allowed, as far as the caller knows.
    pub max_attempts: Option<u32>,
    /// How the last attempt ended.
    pub last_end: Option<AttemptEnd>,
    /// The last error of the same activity in this execution.
    pub last_error: Option<String>,
    /// Until when an attempt has claimed it.
    pub claimed_until: Option<u64>,
    /// Why no worker runs it.
    pub blocked: Option<Blocked>,
    /// The tag of an activity.
    pub tag: Option<String>,
    /// The affinity session of an activity.
    pub session: Option<String>,
    /// Who wakes the instance for a timer.
    pub woken_by: Option<WokenBy>,
    /// It may be left over from a race that something else won: duroxide does not record that.
    pub may_be_left_over: bool,
    /// What arrived and may have been meant for it.
    pub similar: Vec<Similar>,
    pub(super) next: Vec<Advice>,
}

/// Something that arrived and may have been meant for a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Similar {
    /// [`WaitKind::Event`] or [`WaitKind::Queue`].
    pub kind: WaitKind,
    /// Its name.
    pub name: String,
    /// When it arrived.
    pub at: Option<u64>,
    /// Why it did not end the wait.
    pub why: String,
}

/// One instance on the way to the true cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The instance.
    pub instance: String,
    /// Its orchestration; empty if it is not known.
    pub orchestration: String,
    /// What it is; `None` if it does not exist.
    pub status: Option<InstanceStatus>,
    /// Its cause.
    pub cause: Cause,
    /// The same as a sentence.
    pub sentence: String,
}

/// A fact that the explanation rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// Its name.
    pub what: &'static str,
    /// Its value.
    pub value: String,
    /// The time that belongs to it.
    pub at: Option<u64>,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// For people.
    pub text: String,
    /// The arguments of the command line that does it, if one does.
    pub command: Option<Vec<String>>,
}

/// Why an instance is where it is, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The instance.
    pub instance: String,
    /// Its orchestration; empty if a newer release wrote it.
    pub orchestration: String,
    /// The version of its orchestration; `None` before the first turn.
    pub version: Option<String>,
    /// What it is.
    pub status: InstanceStatus,
    /// When it was read.
    pub at: u64,
    /// One sentence, the important fact first.
    pub sentence: String,
    /// The cause.
    pub cause: Cause,
    /// Whether a person should do something.
    pub needs_attention: bool,
    /// Since when it is so.
    pub since: Option<u64>,
    /// When something happens by itself.
    pub until: Option<u64>,
    /// What it waits for, the most important first.
    pub waits: Vec<Wait>,
    /// How many waits were left out.
    pub more_waits: usize,
    /// From this instance to the one that is the true cause.
    pub chain: Vec<Link>,
    /// What this rests on.
    pub evidence: Vec<Evidence>,
    /// What to do.
    pub next: Vec<Advice>,
}
