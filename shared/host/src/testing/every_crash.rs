//! A test with a crash at each of its steps.

use super::{Crash, Instance};

/// Runs a test without a crash, then twice for each of its turns and activities with a crash there.
///
/// The lost step is delivered again at once in the one run, and after a minute in the other, as on Lambda when a lock must expire: a
/// deadline that is shorter than that may win then. With [`redelivered_after`](super::Simulation::redelivered_after) there is one run, with
/// this time.
///
/// The test gives the crash to its simulation, and returns an instance of it: the simulation says how many steps there are. Assert in
/// the test what must hold whatever crashes.
///
/// # Panics
/// When the test panics, and when it does not give the crash to its simulation.
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
#[track_caller]
pub fn at_every_crash(mut test: impl FnMut(Option<Crash>) -> Instance) {
    let sound = test(None);
    let (turns, runs) = sound.steps();
    let all = (1..=turns).map(Crash::turn).chain((1..=runs).map(Crash::any_activity));
    for crash in all {
        run(&mut test, crash.clone());
        if !sound.has_redelivery() {
            run(&mut test, crash.late());
        }
    }
}

#[track_caller]
fn run(test: &mut impl FnMut(Option<Crash>) -> Instance, crash: Crash) {
    let named = Named(&crash);
    let ended = test(Some(crash.clone()));
    drop(named);
    assert!(
        ended.has_had(&crash),
        "the crash at {} has not happened: give `crash` to `Simulation::crashes`",
        crash.words()
    );
}

/// Names the crash at which a test fails.
struct Named<'a>(&'a Crash);

impl Drop for Named<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("this failed with a crash at {}", self.0.words());
        }
    }
}
