//! Each cause of failure in each place: what the workflow, the operator and the metrics see.
//!
//! What goes wrong in an activity reaches its workflow as an error that it can handle ([`ACTIVITIES`]); what goes wrong in a
//! turn blocks the instance until a build can go on ([`BLOCKED_TURNS`]), or fails it if its code says so ([`FAILED_TURNS`]).
//! Each line runs in each [`Place`], those of activities also with an activity that its workflow retries.
//!
//! What has no line:
//! - An abort, a kill for memory and a turn or activity that never returns end the process. For the store they are one: a
//!   claim that nobody completes (`ProcessDies`). `processes` has real processes that end in these ways.
//! - A time-out or hang of a turn: code of an orchestration does not wait, so it can only compute too long, and then its process
//!   ends with the invocation.
//! - A retried turn: only activities have retries of their own. A child that is retried is a new child.
//! - Nondeterminism in an activity: nothing replays activities.
//! - Memory that runs out in an activity that the runtime runs beside others takes those with it: they are claims that nobody
//!   completes, and one attempt the poorer.

mod code;
mod driver;

use driver::{check_activity, check_blocked_turn, check_failed_turn, check_undetected_change};
use futures::{StreamExt as _, stream};

/// Where it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Root,
    Child,
    Grandchild,
    AfterContinueAsNew,
}

impl Place {
    const ALL: [Place; 4] = [Place::Root, Place::Child, Place::Grandchild, Place::AfterContinueAsNew];

    fn orchestration(self) -> &'static str {
        match self {
            Place::Root | Place::AfterContinueAsNew => "Root",
            Place::Child => "Child",
            Place::Grandchild => "Grandchild",
        }
    }

    /// The instance in which it happens.
    fn instance(self) -> String {
        self.orchestration().to_lowercase()
    }

    /// How many instances are above it.
    fn depth(self) -> u64 {
        match self {
            Place::Root | Place::AfterContinueAsNew => 0,
            Place::Child => 1,
            Place::Grandchild => 2,
        }
    }
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Activity(ActivityFault),
    Turn(TurnFault),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivityFault {
    Error,
    Panic,
    /// Its input is of another type.
    CorruptInput,
    HugeResult,
    ProcessDies,
    /// It takes too long, and stops when it is asked to.
    TimeOut,
    /// It takes too long, and never stops by itself.
    Hang,
    /// A worker that does not register it gets it first.
    UnknownName,
    /// Nobody registers it for a week.
    UnknownForDays,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnFault {
    Error,
    Panic,
    /// Its input is of another type.
    CorruptInput,
    /// Its event is of another type.
    CorruptEvent,
    /// Its history has an event that no duroxide knows.
    CorruptHistory,
    HugeHistory,
    /// Its history is of a duroxide that no build has.
    PinnedHistory,
    /// A message says that an activity has completed that was never scheduled.
    StrayCompletion,
    ProcessDies,
    UnknownName,
    UnknownForDays,
    /// The code is not what its history was made by.
    Changed(Change),
}

/// What a changed orchestration does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Inserts,
    Removes,
    Replaces,
    OtherInput,
    OtherStatus,
    OtherKey,
    KeepsLoser,
    ReturnsEarly,
}

/// A fault in a place.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub fault: Fault,
    pub place: Place,
    pub is_retried: bool,
}

/// What is seen of a fault in an activity.
struct ActivityRow {
    fault: ActivityFault,
    /// A part of the error that the workflow handles.
    workflow: &'static str,
    /// How often one activity began.
    runs: u32,
    /// Each activity is given up: a dead letter, and counted.
    is_given_up: bool,
}

const fn activity(fault: ActivityFault, workflow: &'static str, runs: u32, is_given_up: bool) -> ActivityRow {
    ActivityRow {
        fault,
        workflow,
        runs,
        is_given_up,
    }
}

const UNKNOWN: &str = "no deployed function registers activity `Victim`; registered here: `Check`, `Fine`, `Undo`";
const UNKNOWN_FOR_DAYS: &str = "`Undo`; nobody did within 7 days";

/// The faults in activities. The workflow compensates with [`ActivityRow::workflow`]; the operator sees it completed, and each
/// child on the way as failed; a dead letter for each activity that was given up.
const ACTIVITIES: [ActivityRow; 8] = {
    use ActivityFault::*;
    [
        //        the fault       the workflow sees                                                 runs  given up
        activity(Error, "no answer", 1, false),
        activity(Panic, "activity `Victim` panicked: a bug", 1, false),
        activity(CorruptInput, "expected a sequence", 0, false),
        activity(HugeResult, "over the limit", 1, false),
        activity(
            ProcessDies,
            "activity `Victim` killed its process 3 times (out of memory?)",
            0,
            true,
        ),
        activity(TimeOut, "(time limit 1 s)", 1, true),
        activity(Hang, "(time limit 1 s)", 1, true),
        activity(UnknownForDays, UNKNOWN_FOR_DAYS, 0, true),
    ]
};

/// How a blocked instance goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rescue {
    /// The good build serves it.
    AnotherBuild,
    /// No build can: an operator cancels it.
    Cancellation,
}

/// What is seen of a fault in a turn that blocks.
struct BlockedRow {
    fault: TurnFault,
    cause: &'static str,
    /// A part of the reason that the operator sees.
    reason: &'static str,
    metric: &'static str,
    rescue: Rescue,
}

const fn blocked(
    fault: TurnFault,
    cause: &'static str,
    metric: &'static str,
    reason: &'static str,
    rescue: Rescue,
) -> BlockedRow {
    BlockedRow {
        fault,
        cause,
        reason,
        metric,
        rescue,
    }
}

const fn changed(change: Change, reason: &'static str) -> BlockedRow {
    let (cause, metric) = ("nondeterminism", "BlockedNondeterminism");
    blocked(TurnFault::Changed(change), cause, metric, reason, Rescue::AnotherBuild)
}

/// The faults in turns that block. The workflow sees nothing; the operator sees `Blocked`, the cause and the reason, and no dead
/// letter; the metrics count `Blocked` and that of the cause. After the rescue the workflow goes on as if nothing had been. Each
/// of them can be cancelled, too.
const BLOCKED_TURNS: [BlockedRow; 15] = {
    use Rescue::{AnotherBuild, Cancellation};
    use TurnFault::*;
    [
        //       the fault       cause          metric           the operator reads           goes on by
        blocked(Panic, "panic", "BlockedPanic", "a bug of this build", AnotherBuild),
        blocked(CorruptEvent, "panic", "BlockedPanic", "panicked", AnotherBuild),
        blocked(
            CorruptHistory,
            "history",
            "BlockedHistory",
            "cannot be read",
            AnotherBuild,
        ),
        blocked(
            HugeHistory,
            "history",
            "BlockedHistory",
            "over the limit of 1",
            AnotherBuild,
        ),
        blocked(
            PinnedHistory,
            "history",
            "BlockedHistory",
            "pinned to duroxide 99.0.0",
            AnotherBuild,
        ),
        blocked(
            StrayCompletion,
            "nondeterminism",
            "BlockedNondeterminism",
            "completion id=99",
            Cancellation,
        ),
        blocked(ProcessDies, "crash", "BlockedCrash", "begun 3 times", AnotherBuild),
        blocked(
            UnknownName,
            "unknown-name",
            "BlockedUnknownName",
            "registers orchestration",
            AnotherBuild,
        ),
        changed(Change::Inserts, "schedule mismatch"),
        changed(Change::Removes, "history schedule but no emitted action"),
        changed(Change::Replaces, "schedule mismatch: action=CreateTimer"),
        changed(Change::OtherInput, "schedule mismatch"),
        changed(Change::OtherStatus, "custom status mismatch"),
        changed(Change::OtherKey, "kv set mismatch"),
        changed(Change::KeepsLoser, "cancellation mismatch (external waits)"),
    ]
};

/// What is seen of a fault in a turn that fails the instance.
struct FailedRow {
    fault: TurnFault,
    /// A part of the error: of the instance, and what its parent handles.
    error: &'static str,
    is_given_up: bool,
}

/// The faults in turns that fail the instance: its code says so, or nobody has run it for a week. A parent compensates.
const FAILED_TURNS: [FailedRow; 3] = [
    FailedRow {
        fault: TurnFault::Error,
        error: "no such order",
        is_given_up: false,
    },
    FailedRow {
        fault: TurnFault::CorruptInput,
        error: "expected a sequence",
        is_given_up: false,
    },
    FailedRow {
        fault: TurnFault::UnknownForDays,
        error: "nobody did within 7 days",
        is_given_up: true,
    },
];

/// How many cases run at once: most of them wait for a second.
const SIDE_BY_SIDE: usize = 8;

async fn in_all_places<F: Future<Output = ()>>(check: impl Fn(Place) -> F) {
    let all: Vec<F> = Place::ALL.into_iter().map(check).collect();
    stream::iter(all).buffer_unordered(SIDE_BY_SIDE).collect::<()>().await;
}

/// Checks the rows of activities with these faults, each in all places, retried and not.
async fn check_activities(faults: &[ActivityFault]) {
    let rows: Vec<&ActivityRow> = ACTIVITIES.iter().filter(|row| faults.contains(&row.fault)).collect();
    assert_eq!(rows.len(), faults.len(), "each has a row");
    let mut all = Vec::new();
    for row in rows {
        for place in Place::ALL {
            for is_retried in [false, true] {
                let fault = Fault::Activity(row.fault);
                all.push(check_activity(
                    row,
                    Case {
                        fault,
                        place,
                        is_retried,
                    },
                ));
            }
        }
    }
    stream::iter(all).buffer_unordered(SIDE_BY_SIDE).collect::<()>().await;
}

/// Checks the rows of turns with these causes, each in all places.
async fn check_blocked(is_wanted: impl Fn(TurnFault) -> bool) {
    let rows: Vec<&BlockedRow> = BLOCKED_TURNS.iter().filter(|row| is_wanted(row.fault)).collect();
    assert!(rows.len() > 1, "there are rows");
    let cases = rows
        .iter()
        .flat_map(|row| Place::ALL.map(|place| (*row, place, row.rescue)));
    // Whatever blocks, a cancellation ends it.
    let cancelled = rows.iter().map(|row| (*row, Place::Child, Rescue::Cancellation));
    let all: Vec<_> = cases
        .chain(cancelled)
        .map(|(row, place, rescue)| check_blocked_turn(row, case_of(row.fault, place), rescue))
        .collect();
    stream::iter(all).buffer_unordered(SIDE_BY_SIDE).collect::<()>().await;
}

fn case_of(fault: TurnFault, place: Place) -> Case {
    Case {
        fault: Fault::Turn(fault),
        place,
        is_retried: false,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_activity_that_fails_is_handled_by_its_workflow() {
    use ActivityFault::*;
    check_activities(&[Error, Panic, CorruptInput, HugeResult]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_activity_that_is_given_up_is_handled_by_its_workflow() {
    use ActivityFault::*;
    check_activities(&[ProcessDies, TimeOut, Hang, UnknownForDays]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_activity_that_a_worker_does_not_know_waits_for_one_that_does() {
    in_all_places(driver::check_unknown_activity).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_no_build_can_take_blocks_and_goes_on_later() {
    check_blocked(|fault| !matches!(fault, TurnFault::Changed(_))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn code_that_has_changed_blocks_and_the_old_code_goes_on() {
    check_blocked(|fault| matches!(fault, TurnFault::Changed(_))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_fails_is_handled_by_the_parent() {
    for row in &FAILED_TURNS {
        in_all_places(|place| check_failed_turn(row, case_of(row.fault, place))).await;
    }
}

/// duroxide does not notice it: see [guarantees](../../../../docs/guarantees.md).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn code_that_returns_earlier_than_its_history_completes() {
    let fault = TurnFault::Changed(Change::ReturnsEarly);
    in_all_places(|place| check_undetected_change(case_of(fault, place))).await;
}
