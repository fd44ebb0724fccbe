//! Faults that a simulation injects: failures of activities, and crashes of steps.

use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive};
use std::panic::Location;
use std::time::Duration;

/// How long a lost step takes at most to come back on Lambda: until its lock expires, or maintenance runs.
const LATE: Duration = Duration::from_secs(60);

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

    /// Whether there can be such a run.
    pub(super) fn is_possible(self) -> bool {
        self.first > 0 && self.first <= self.last
    }

    pub(super) fn words(self) -> String {
        match self.last {
            last if last == self.first => format!("run {last}"),
            u32::MAX => format!("runs {}..", self.first),
            last => format!("runs {}..={last}", self.first),
        }
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
            first: 1,
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
    /// Whether the step is delivered again late, if the simulation does not say when.
    is_late: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Turn,
    Activity(Option<String>),
}

impl Crash {
    fn new(step: Step, at: u32) -> Crash {
        Crash {
            step,
            at,
            times: 1,
            before: false,
            is_late: false,
        }
    }

    /// The n-th turn, of whatever instance, is run and not committed. Turns count from 1.
    ///
    /// # Panics
    /// When `n` is 0.
    #[track_caller]
    pub fn turn(n: u32) -> Crash {
        assert!(n > 0, "turns count from 1: there is no turn 0 that could crash");
        Crash::new(Step::Turn, n)
    }

    /// The first run of this activity has its effect, and its result is lost.
    pub fn activity(name: impl Into<String>) -> Crash {
        Crash::new(Step::Activity(Some(name.into())), 1)
    }

    /// The same for the n-th run of any activity.
    ///
    /// # Panics
    /// When `n` is 0.
    #[track_caller]
    pub fn any_activity(n: u32) -> Crash {
        assert!(n > 0, "runs count from 1: there is no run 0 that could crash");
        Crash::new(Step::Activity(None), n)
    }

    /// The n-th run of the activity instead of the first.
    ///
    /// # Panics
    /// When `n` is 0.
    #[track_caller]
    pub fn on_run(self, n: u32) -> Crash {
        assert!(n > 0, "runs count from 1: there is no run 0 that could crash");
        Crash { at: n, ..self }
    }

    /// So many times in a row. An activity that crashes 10 times is given up: it fails with an error that says so. A turn that
    /// does blocks its instance.
    ///
    /// # Panics
    /// When `times` is 0.
    #[track_caller]
    pub fn times(self, times: u32) -> Crash {
        assert!(times > 0, "a crash that happens 0 times is none: leave it out");
        Crash { times, ..self }
    }

    /// The activity is lost before it runs: it has no effect yet.
    pub fn before_it_runs(self) -> Crash {
        Crash { before: true, ..self }
    }

    /// The step is delivered again after a minute, if the simulation does not say when.
    pub(super) fn late(self) -> Crash {
        Crash { is_late: true, ..self }
    }

    /// After what time the step is delivered again, if the simulation does not say when.
    fn redelivery(&self) -> Duration {
        if self.is_late { LATE } else { Duration::ZERO }
    }

    pub(super) fn words(&self) -> String {
        let late = if self.is_late {
            ", delivered again after a minute"
        } else {
            ""
        };
        match &self.step {
            Step::Turn => format!("turn {}{late}", self.at),
            Step::Activity(None) => format!("run {} of all activities{late}", self.at),
            Step::Activity(Some(name)) => format!("run {} of activity `{name}`{late}", self.at),
        }
    }
}

/// A crash that a simulation plans, and what has happened of it.
#[derive(Debug)]
pub(super) struct Planned {
    pub crash: Crash,
    set_at: &'static Location<'static>,
    /// How many turns it still loses.
    left: u32,
    pub has_hit: bool,
}

impl Planned {
    pub fn new(crash: Crash, set_at: &'static Location<'static>) -> Planned {
        Planned {
            left: crash.times,
            crash,
            set_at,
            has_hit: false,
        }
    }

    /// After what time this turn is delivered again, if it is lost.
    pub fn hits_turn(&mut self, turn: u32) -> Option<Duration> {
        let hits = self.crash.step == Step::Turn && self.crash.at == turn && self.left > 0;
        self.left -= u32::from(hits);
        self.hit(hits)
    }

    /// After what time this activity is delivered again, if it is lost before or after it runs.
    pub fn hits_activity(&mut self, run: &Run, before: bool) -> Option<Duration> {
        let Crash { at, times, .. } = self.crash;
        let number = match &self.crash.step {
            Step::Turn => return None,
            Step::Activity(None) => run.number,
            Step::Activity(Some(name)) if *name == run.name => run.number_of_name,
            Step::Activity(Some(_)) => return None,
        };
        self.hit(self.crash.before == before && number >= at && times > number - at)
    }

    fn hit(&mut self, hits: bool) -> Option<Duration> {
        self.has_hit |= hits;
        hits.then(|| self.crash.redelivery())
    }

    /// The crash in words, if it has not happened.
    pub fn unused(&self) -> Option<String> {
        let text = || format!("a crash at {} (set at {})", self.crash.words(), self.set_at);
        (!self.has_hit).then(text)
    }
}

/// A delivery of an activity.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub name: String,
    pub number: u32,
    pub number_of_name: u32,
}
