//! The answer: public types without decisions. Times are Unix ms.

use crate::admin::InstanceStatus;
use crate::model::{AttemptEnd, BlockCause, Blocked};
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

/// Why an instance is where it is. [`Cause::name`] never changes its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "`meaning` says it")]
pub enum Cause {
    Completed,
    Failed,
    GivenUp,
    Cancelled,
    Deleting,
    NewerRelease,
    Blocked(BlockCause),
    TurnRunning,
    CommitUnfinished,
    FirstTurnDue,
    NextExecutionDue,
    TurnDue,
    BackingOff,
    ActivityQueued,
    ActivityRunning,
    ActivityRetrying,
    ActivityLost,
    ActivityBlocked,
    ActivityWithoutQueue,
    ActivitySession,
    ActivityMissing,
    Event,
    EventMissed,
    Queue,
    QueueMissed,
    Timer,
    TimerOverdue,
    TimerMissing,
    Child,
    ChildMissing,
    ChildTaken,
    ChildStartUndelivered,
    ChildStartGivenUp,
    ChildResultUndelivered,
    ChildResultGivenUp,
    ChildResultMissing,
    Several,
    NothingOpen,
}

impl Cause {
    /// All of them.
    pub const ALL: [Cause; 43] = [
        Cause::Completed,
        Cause::Failed,
        Cause::GivenUp,
        Cause::Cancelled,
        Cause::Deleting,
        Cause::NewerRelease,
        Cause::Blocked(BlockCause::UnknownName),
        Cause::Blocked(BlockCause::Nondeterminism),
        Cause::Blocked(BlockCause::Panic),
        Cause::Blocked(BlockCause::Crash),
        Cause::Blocked(BlockCause::History),
        Cause::Blocked(BlockCause::Unknown),
        Cause::TurnRunning,
        Cause::CommitUnfinished,
        Cause::FirstTurnDue,
        Cause::NextExecutionDue,
        Cause::TurnDue,
        Cause::BackingOff,
        Cause::ActivityQueued,
        Cause::ActivityRunning,
        Cause::ActivityRetrying,
        Cause::ActivityLost,
        Cause::ActivityBlocked,
        Cause::ActivityWithoutQueue,
        Cause::ActivitySession,
        Cause::ActivityMissing,
        Cause::Event,
        Cause::EventMissed,
        Cause::Queue,
        Cause::QueueMissed,
        Cause::Timer,
        Cause::TimerOverdue,
        Cause::TimerMissing,
        Cause::Child,
        Cause::ChildMissing,
        Cause::ChildTaken,
        Cause::ChildStartUndelivered,
        Cause::ChildStartGivenUp,
        Cause::ChildResultUndelivered,
        Cause::ChildResultGivenUp,
        Cause::ChildResultMissing,
        Cause::Several,
        Cause::NothingOpen,
    ];

    /// One word for programs.
    pub fn name(self) -> &'static str {
        self.words().0
    }

    /// What it means, for the documentation.
    pub fn meaning(self) -> &'static str {
        self.words().1
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Cause::Completed => ("completed", "it has ended with an output"),
            Cause::Failed => ("failed", "it has ended with an error"),
            Cause::GivenUp => (
                "given-up",
                "it has failed, because a turn or an activity of it was given up",
            ),
            Cause::Cancelled => ("cancelled", "it has ended because it was cancelled"),
            Cause::Deleting => ("deleting", "it is being deleted"),
            Cause::NewerRelease => ("newer-release", "a newer release wrote what this one cannot read"),
            Cause::Blocked(cause) => match cause {
                BlockCause::UnknownName => ("blocked-unknown-name", "no deployed build registers its orchestration"),
                BlockCause::Nondeterminism => ("blocked-nondeterminism", "its code does not do what its history says"),
                BlockCause::Panic => ("blocked-panic", "its code panics"),
                BlockCause::Crash => ("blocked-crash", "its turn ends the process each time"),
                BlockCause::History => ("blocked-history", "its history cannot be replayed"),
                BlockCause::Unknown => ("blocked-unknown", "blocked, for a cause of a newer release"),
            },
            Cause::TurnRunning => ("turn-running", "a turn has claimed it"),
            Cause::CommitUnfinished => ("commit-unfinished", "the last commit is not published completely"),
            Cause::FirstTurnDue => ("first-turn-due", "its start was accepted, and no turn has taken it"),
            Cause::NextExecutionDue => (
                "next-execution-due",
                "it has continued as new, and the next execution has not begun",
            ),
            Cause::TurnDue => ("turn-due", "messages are due, and no turn has taken them"),
            Cause::BackingOff => (
                "backing-off",
                "its messages were put off after a turn that was not committed",
            ),
            Cause::ActivityQueued => ("activity-queued", "it waits for an activity that was not begun"),
            Cause::ActivityRunning => ("activity-running", "it waits for an activity that runs"),
            Cause::ActivityRetrying => (
                "activity-retrying",
                "it waits for an activity that is between two attempts",
            ),
            Cause::ActivityLost => ("activity-lost", "it waits for an activity whose process died"),
            Cause::ActivityBlocked => (
                "activity-blocked",
                "it waits for an activity that no deployed worker can run",
            ),
            Cause::ActivityWithoutQueue => (
                "activity-without-queue",
                "it waits for an activity whose tag has no queue, as far as the API's configuration knows",
            ),
            Cause::ActivitySession => (
                "activity-session",
                "it waits for an activity whose affinity session another environment owns",
            ),
            Cause::ActivityMissing => (
                "activity-missing",
                "it waits for an activity that is not queued any more",
            ),
            Cause::Event => ("event", "it waits for an event"),
            Cause::EventMissed => (
                "event-missed",
                "it waits for an event, and a similar one arrived otherwise",
            ),
            Cause::Queue => ("queue", "it waits for a message in a queue"),
            Cause::QueueMissed => (
                "queue-missed",
                "it waits for a queue, and a similar message arrived otherwise",
            ),
            Cause::Timer => ("timer", "it waits for a timer"),
            Cause::TimerOverdue => ("timer-overdue", "a timer is due, and no turn has taken it"),
            Cause::TimerMissing => ("timer-missing", "it waits for a timer that is not queued any more"),
            Cause::Child => ("child", "it waits for a child: `chain` leads to the true cause"),
            Cause::ChildMissing => ("child-missing", "it waits for a child that does not exist"),
            Cause::ChildTaken => (
                "child-taken",
                "it waits for a child whose id belongs to another instance",
            ),
            Cause::ChildStartUndelivered => ("child-start-undelivered", "the start of a child is not delivered yet"),
            Cause::ChildStartGivenUp => ("child-start-given-up", "the start of a child became a dead letter"),
            Cause::ChildResultUndelivered => (
                "child-result-undelivered",
                "a child has ended, and its result is not delivered yet",
            ),
            Cause::ChildResultGivenUp => (
                "child-result-given-up",
                "a child has ended, and its result became a dead letter",
            ),
            Cause::ChildResultMissing => ("child-result-missing", "a child has ended, and its result is nowhere"),
            Cause::Several => ("several", "it waits for several things at once: `waits` has them"),
            Cause::NothingOpen => ("nothing-open", "nothing is due and nothing is open"),
        }
    }

    /// Whether it may be an effect of reading two parts of the partition at different times.
    pub(super) fn is_doubtful(self) -> bool {
        matches!(
            self,
            Cause::NothingOpen
                | Cause::ActivityMissing
                | Cause::TimerMissing
                | Cause::ChildMissing
                | Cause::ChildResultMissing
        )
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_in_kebab_case() {
        let names: BTreeSet<&str> = Cause::ALL.iter().map(|cause| cause.name()).collect();
        assert_eq!(names.len(), Cause::ALL.len());
        for name in names {
            assert!(
                name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'),
                "{name}"
            );
        }
    }
}
