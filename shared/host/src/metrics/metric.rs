//! Every metric. Dashboards, alarms and `docs/operations.md` use these names.

/// Makes the enum, the list of its variants and their names from one list.
macro_rules! metrics {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// One metric. Its name in CloudWatch is the variant's; each has the one dimension `Function`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Metric {
            $($(#[$doc])* $name,)*
        }

        impl Metric {
            /// All of them.
            pub const ALL: &'static [Metric] = &[$(Metric::$name),*];

            /// The name in CloudWatch.
            pub fn name(self) -> &'static str {
                match self {
                    $(Metric::$name => stringify!($name),)*
                }
            }
        }
    };
}

metrics! {
    /// Steps for a turn, whatever their outcome.
    Turns,
    /// Steps for an activity, whatever their outcome.
    Activities,
    /// Steps for a batch, whatever their outcome.
    BatchSteps,
    /// Instances that batches have handled.
    BatchInstances,
    /// Steps that committed.
    Committed,
    /// Steps that found nothing to do.
    Nothing,
    /// Steps that met a lock of another invocation.
    Busy,
    /// Turns that were thrown away, because another environment committed the same turn first.
    Raced,
    /// Steps that this build cannot go on with: turns and activities that are blocked, each time that they are tried.
    Blocked,
    /// Turns and activities that are blocked because no function registers their name.
    BlockedUnknownName,
    /// Turns that are blocked because the code does not do what the history says.
    BlockedNondeterminism,
    /// Turns that are blocked because the code panics.
    BlockedPanic,
    /// Turns that are blocked because they kill their process.
    BlockedCrash,
    /// Turns that are blocked because their history cannot be replayed.
    BlockedHistory,
    /// Steps that found their instance paused.
    Paused,
    /// Steps that were not begun, because too little of the invocation was left.
    Deferred,
    /// Steps whose work was released for a retry.
    Abandoned,
    /// Activities that outlived the invocation.
    TimedOut,
    /// Activities whose orchestration no longer wants them.
    Cancelled,
    /// Steps that failed: their wakeups are delivered again.
    Failed,
    /// Orchestrations that ended as failed, though the invocation succeeded.
    OrchestrationsFailed,
    /// Orchestrations that were cancelled.
    OrchestrationsCancelled,
    /// Turns and activities given up after the last attempt.
    GivenUp,
    /// Activities given up after the last attempt.
    ActivitiesGivenUp,
    /// SQS records that are not wakeups.
    MalformedWakeups,
    /// How long the invocation took.
    Duration,
    /// Attempts sent to Cosmos DB, retries included.
    CosmosRequests,
    /// Request units charged.
    CosmosCharge,
    /// Attempts answered with 429.
    CosmosThrottled,
    /// Wakeups that the notifier accepted.
    WakeupsSent,
    /// Wakeups that the notifier did not accept; maintenance makes up for them.
    WakeupsFailed,
    /// 1 on the first invocation of an environment.
    ColdStarts,
    /// The outbox pass: intents found.
    OutboxFound,
    /// The outbox pass: intents delivered.
    OutboxDone,
    /// The outbox pass: intents that could not be delivered this time.
    OutboxFailed,
    /// The outbox pass: intents given up, which are dead letters now.
    OutboxGivenUp,
    /// The outbox pass: 1 if the run ended before the pass.
    OutboxLeftOver,
    /// The unfinished pass: commits and deletions found half-done.
    UnfinishedFound,
    /// The unfinished pass: commits and deletions rolled forward.
    UnfinishedDone,
    /// The unfinished pass: commits and deletions that could not be rolled forward this time.
    UnfinishedFailed,
    /// The unfinished pass: 1 if the run ended before the pass.
    UnfinishedLeftOver,
    /// The sessions pass: expired affinity sessions found.
    SessionsFound,
    /// The sessions pass: expired affinity sessions removed.
    SessionsDone,
    /// The sessions pass: expired affinity sessions that could not be removed this time.
    SessionsFailed,
    /// The sessions pass: 1 if the run ended before the pass.
    SessionsLeftOver,
    /// The sweep: targets of overdue items and coming timers found.
    SweepFound,
    /// The sweep: targets woken.
    SweepDone,
    /// The sweep: targets whose wakeup failed.
    SweepFailed,
    /// The sweep: 1 if the run ended before the pass.
    SweepLeftOver,
    /// The sweep: overdue items that were not woken, because their wakeups may still be in the queue.
    RemindersHeld,
    /// The retention pass: trees and executions found that are old enough to delete.
    RetentionFound,
    /// The retention pass: trees and executions deleted.
    RetentionDone,
    /// The retention pass: trees and executions that could not be deleted this time.
    RetentionFailed,
    /// The retention pass: 1 if the run ended before the pass.
    RetentionLeftOver,
    /// Passes that got no answer from the store.
    PassesFailed,
    /// Intents in the store: messages to other instances that were not delivered.
    OutboxDepth,
    /// The age of the oldest intent.
    OldestIntentSeconds,
    /// Messages that are due.
    MessagesDue,
    /// Activities that are due.
    ActivitiesDue,
    /// How long the oldest message or activity has been due.
    OldestDueSeconds,
    /// Timers that should have fired.
    OverdueTimers,
    /// Timers that are not due yet.
    TimersPending,
    /// Instances that have been due and unlocked for long and were not served.
    StuckInstances,
    /// Dead letters in the store.
    DeadLetters,
}

impl Metric {
    /// CloudWatch's unit.
    pub(super) fn unit(self) -> &'static str {
        match self {
            Metric::Duration => "Milliseconds",
            Metric::OldestIntentSeconds | Metric::OldestDueSeconds => "Seconds",
            Metric::CosmosCharge => "None",
            _ => "Count",
        }
    }

    /// Whether every invocation of the orchestrator and of workers writes it, even when it is zero, because a rate needs the
    /// zero. A metric costs by the hour in which it is written, so maintenance, which always runs, leaves the zeros out.
    pub(super) fn is_always_written(self) -> bool {
        use Metric::*;
        matches!(
            self,
            Turns
                | Activities
                | Failed
                | OrchestrationsFailed
                | Duration
                | CosmosRequests
                | CosmosCharge
                | WakeupsFailed
        )
    }
}
