//! The causes: stable words for programs, and what each means.

use crate::model::BlockCause;

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
    Paused,
    Pausing,
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
    pub const ALL: [Cause; 45] = [
        Cause::Completed,
        Cause::Failed,
        Cause::GivenUp,
        Cause::Cancelled,
        Cause::Deleting,
        Cause::NewerRelease,
        Cause::Paused,
        Cause::Pausing,
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
            Cause::Paused => ("paused", "an operator has paused it"),
            Cause::Pausing => ("pausing", "it is being paused or resumed"),
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
