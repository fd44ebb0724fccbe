//! Faults that a simulation injects: failures of activities, and crashes of steps.

use super::Instance;
use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive};

/// Which runs of an activity: `2`, `1..=3`, `4..` or `..`. Runs of one name are counted from 1, over all instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runs {
    first: u32,
    last: u32,
}

impl Runs {
    pub(super) fn contain(self, run: u32) -> bool {
        (self.first..=self.last).contains(&run)
    }
}

impl From<u32> for Runs {
    fn from(run: u32) -> Runs {
        Runs { first: run, last: run }
    }
}

impl From<RangeInclusive<u32>> for Runs {
    fn from(runs: RangeInclusive<u32>) -> Runs {
        Runs {
            first: *runs.start(),
            last: *runs.end(),
        }
    }
}

impl From<Range<u32>> for Runs {
    fn from(runs: Range<u32>) -> Runs {
        Runs {
            first: runs.start,
            last: runs.end.saturating_sub(1),
        }
    }
}

impl From<RangeFrom<u32>> for Runs {
    fn from(runs: RangeFrom<u32>) -> Runs {
        Runs {
            first: runs.start,
            last: u32::MAX,
        }
    }
}

impl From<RangeFull> for Runs {
    fn from(_: RangeFull) -> Runs {
        Runs {
            first: 0,
            last: u32::MAX,
        }
    }
}

/// A process that dies in the middle of a step.
///
/// On Lambda each step is an invocation of its own, so a crash takes one step with it and nothing else. A turn that is lost
/// before its commit runs again and has had no effect. An activity that is lost before its commit has had its effect, and runs
/// again. A crash after a commit loses nothing, so there is nothing to simulate.
///
/// ```
/// use duroxide_lambda::testing::Crash;
/// let charged_and_forgotten = Crash::activity("charge");
/// let third_turn = Crash::turn(3);
/// let never_gets_through = Crash::activity("charge").times(u32::MAX);
/// let lost_on_the_way = Crash::activity("charge").on_run(2).before_it_runs();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crash {
    step: Step,
    at: u32,
    times: u32,
    before: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Turn,
    Activity(Option<String>),
}

impl Crash {
    /// The n-th turn, of whatever instance, is run and not committed. Turns count from 1.
    pub fn turn(n: u32) -> Crash {
        Crash {
            step: Step::Turn,
            at: n,
            times: 1,
            before: false,
        }
    }

    /// The first run of this activity has its effect, and its result is lost.
    pub fn activity(name: impl Into<String>) -> Crash {
        Crash {
            step: Step::Activity(Some(name.into())),
            at: 1,
            times: 1,
            before: false,
        }
    }

    /// The same for the n-th run of any activity.
    pub fn any_activity(n: u32) -> Crash {
        Crash {
            step: Step::Activity(None),
            at: n,
            times: 1,
            before: false,
        }
    }

    /// The n-th run of the activity instead of the first.
    pub fn on_run(self, n: u32) -> Crash {
        Crash { at: n, ..self }
    }

    /// So many times in a row. An activity that crashes 10 times is given up: it fails with an error that says so. A turn that
    /// does blocks its instance.
    pub fn times(self, times: u32) -> Crash {
        Crash { times, ..self }
    }

    /// The activity is lost before it runs: it has no effect yet.
    pub fn before_it_runs(self) -> Crash {
        Crash { before: true, ..self }
    }

    pub(super) fn hits_turn(&self, turn: u32) -> bool {
        self.step == Step::Turn && self.at == turn && self.times > 0
    }

    pub(super) fn hits_activity(&self, run: &Run, before: bool) -> bool {
        let number = match &self.step {
            Step::Turn => return false,
            Step::Activity(None) => run.number,
            Step::Activity(Some(name)) if *name == run.name => run.number_of_name,
            Step::Activity(Some(_)) => return false,
        };
        self.before == before && number >= self.at && self.times > number - self.at
    }

    /// A turn was lost.
    pub(super) fn used(&mut self) {
        self.times -= 1;
    }
}

/// A delivery of an activity.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub name: String,
    pub number: u32,
    pub number_of_name: u32,
}

/// Runs a test without a crash, then once for each of its turns and activities with a crash there.
///
/// The test returns an instance, whose simulation says how many steps there are. Assert in the test what must hold whatever crashes.
///
/// ```
/// # use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry, runtime::registry::ActivityRegistry};
/// # let hello = |ctx: OrchestrationContext, name: String| async move { ctx.schedule_activity("greet", name).await };
/// # let orchestrations = OrchestrationRegistry::builder().register("hello", hello).build();
/// # let greet = |_: ActivityContext, name: String| async move { Ok(format!("Hello {name}!")) };
/// # let activities = ActivityRegistry::builder().register("greet", greet).build();
/// use duroxide_lambda::testing::{Simulation, at_every_crash};
///
/// at_every_crash(|crash| {
///     let ended = Simulation::of(orchestrations.clone(), activities.clone()).crashes(crash).run("hello", "world");
///     assert_eq!(ended.expect_completed(), "Hello world!");
///     ended
/// });
/// ```
pub fn at_every_crash(mut test: impl FnMut(Option<Crash>) -> Instance) {
    let (turns, runs) = test(None).steps();
    for turn in 1..=turns {
        test(Some(Crash::turn(turn)));
    }
    for run in 1..=runs {
        test(Some(Crash::any_activity(run)));
    }
}
