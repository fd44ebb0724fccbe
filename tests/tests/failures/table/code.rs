//! The code that fails: one workflow of up to three levels, of which one is the *victim*, in a good and in a bad build.
//!
//! `Root` handles the error of what it waits for by an activity `Undo`; `Child` and `Grandchild` pass it on. The victim of a
//! fault in an activity runs the activity `Victim`. The victim of a fault in a turn waits for an event `go` and then returns
//! [`WENT_ON`]; the bad build does something else.

use super::{ActivityFault, Case, Change, Fault, Place, TurnFault};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, BackoffStrategy, OrchestrationContext, OrchestrationRegistry, RetryPolicy};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// What a victim returns that nothing happens to.
pub const WENT_ON: &str = "went on";
/// The activity that goes wrong.
pub const VICTIM: &str = "Victim";
/// How often a retried activity is tried by its workflow.
pub const TRIES: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    Good,
    Bad,
}

/// How often each activity began.
#[derive(Clone, Debug, Default)]
pub struct Runs(Arc<Mutex<BTreeMap<String, u32>>>);

impl Runs {
    pub fn of(&self, name: &str) -> u32 {
        self.0.lock().expect("the lock").get(name).copied().unwrap_or_default()
    }

    fn note(&self, name: &str) {
        *self.0.lock().expect("the lock").entry(name.to_owned()).or_default() += 1;
    }
}

/// The orchestrations of a build.
pub fn orchestrations(case: Case, build: Build) -> OrchestrationRegistry {
    let victim = case.place.orchestration();
    let mut all = OrchestrationRegistry::builder();
    for name in ["Root", "Child", "Grandchild"] {
        let is_bad = build == Build::Bad && name == victim;
        all = match case.fault {
            Fault::Turn(TurnFault::UnknownName | TurnFault::UnknownForDays) if is_bad => all,
            Fault::Turn(TurnFault::CorruptInput) if is_bad => all.register_typed(name, expects_numbers),
            _ => all.register(name, move |ctx: OrchestrationContext, input: String| {
                run(ctx, input, name, case, build)
            }),
        };
    }
    all.build()
}

/// An orchestration that is started with numbers.
async fn expects_numbers(_: OrchestrationContext, numbers: Vec<u32>) -> Result<u32, String> {
    Ok(numbers.into_iter().sum())
}

async fn run(
    ctx: OrchestrationContext,
    input: String,
    name: &'static str,
    case: Case,
    build: Build,
) -> Result<String, String> {
    let child = match (name, case.place) {
        ("Root", Place::Child | Place::Grandchild) => Some("Child"),
        ("Child", Place::Grandchild) => Some("Grandchild"),
        _ => None,
    };
    let done = match child {
        Some(child) => {
            ctx.schedule_sub_orchestration_with_id(child, child.to_lowercase(), "\"x\"")
                .await
        }
        None if case.place == Place::AfterContinueAsNew && input != "successor" => {
            return ctx.continue_as_new("successor").await;
        }
        None => match case.fault {
            Fault::Activity(_) => run_activity(&ctx, case).await,
            Fault::Turn(fault) => return wait(&ctx, fault, build).await,
        },
    };
    match done {
        Err(error) if name == "Root" => {
            ctx.schedule_activity("Undo", "").await?;
            Ok(format!("undone: {error}"))
        }
        done => done,
    }
}

async fn run_activity(ctx: &OrchestrationContext, case: Case) -> Result<String, String> {
    if case.is_retried {
        let policy = RetryPolicy::new(TRIES).with_backoff(BackoffStrategy::None);
        return ctx.schedule_activity_with_retry(VICTIM, "", policy).await;
    }
    ctx.schedule_activity(VICTIM, "").await
}

async fn wait(ctx: &OrchestrationContext, fault: TurnFault, build: Build) -> Result<String, String> {
    if let TurnFault::Changed(change) = fault {
        before(ctx, change, build).await?;
    }
    match (fault, build) {
        (TurnFault::Changed(Change::ReturnsEarly), Build::Bad) => return Ok("cut short".to_owned()),
        (TurnFault::CorruptEvent, Build::Bad) => {
            let number: u32 = ctx.dequeue_event_typed("go").await;
            return Ok(number.to_string());
        }
        _ => ctx.dequeue_event("go").await,
    };
    match (fault, build) {
        (TurnFault::Error, Build::Bad) => Err("no such order".to_owned()),
        (TurnFault::Panic, Build::Bad) => panic!("a bug of this build"),
        _ => Ok(WENT_ON.to_owned()),
    }
}

/// What the victim does before it waits. Each change is one that duroxide's replay checks in another place.
async fn before(ctx: &OrchestrationContext, change: Change, build: Build) -> Result<(), String> {
    let is_good = build == Build::Good;
    match change {
        Change::Inserts => {
            if !is_good {
                ctx.schedule_activity("Check", "").await?;
            }
            ctx.schedule_activity("Fine", "").await?;
        }
        Change::Removes => {
            let fine = ctx.schedule_activity("Fine", "");
            if is_good {
                let (fine, check) = ctx.join2(fine, ctx.schedule_activity("Check", "")).await;
                fine.and(check)?;
            } else {
                fine.await?;
            }
        }
        Change::Replaces => {
            if is_good {
                ctx.schedule_activity("Fine", "").await?;
            } else {
                ctx.schedule_timer(std::time::Duration::from_secs(1)).await;
            }
        }
        Change::OtherInput => {
            ctx.schedule_activity("Fine", if is_good { "1" } else { "2" }).await?;
        }
        Change::OtherStatus => {
            if is_good {
                ctx.set_custom_status("checked");
            }
            ctx.schedule_activity("Fine", "").await?;
        }
        Change::OtherKey => {
            ctx.set_kv_value("state", if is_good { "1" } else { "2" });
            ctx.schedule_activity("Fine", "").await?;
        }
        Change::KeepsLoser => {
            let (fine, news) = (ctx.schedule_activity("Fine", ""), ctx.schedule_wait("news"));
            if is_good {
                ctx.select2(fine, news).await;
            } else {
                fine.await?;
                ctx.dequeue_event("go").await;
                news.await;
            }
        }
        Change::ReturnsEarly => {
            ctx.schedule_activity("Fine", "").await?;
        }
    }
    Ok(())
}

/// The activities. In a bad build of them `Victim` goes wrong, or is not registered.
pub fn activities(case: Case, build: Build, runs: &Runs) -> ActivityRegistry {
    let mut all = ActivityRegistry::builder();
    for name in ["Fine", "Check", "Undo"] {
        let runs = runs.clone();
        all = all.register(name, move |_: ActivityContext, _: String| {
            runs.note(name);
            async move { Ok(String::new()) }
        });
    }
    match (case.fault, build) {
        (Fault::Activity(ActivityFault::UnknownName | ActivityFault::UnknownForDays), Build::Bad) => all,
        (Fault::Activity(ActivityFault::CorruptInput), Build::Bad) => {
            let sum = |_: ActivityContext, numbers: Vec<u32>| async move { Ok(numbers.into_iter().sum::<u32>()) };
            all.register_typed(VICTIM, sum)
        }
        (fault, build) => {
            let runs = runs.clone();
            all.register(VICTIM, move |ctx: ActivityContext, _: String| {
                runs.note(VICTIM);
                go_wrong(ctx, fault, build)
            })
        }
    }
    .build()
}

async fn go_wrong(ctx: ActivityContext, fault: Fault, build: Build) -> Result<String, String> {
    match (fault, build) {
        (Fault::Activity(ActivityFault::Error), Build::Bad) => Err("no answer".to_owned()),
        (Fault::Activity(ActivityFault::Panic), Build::Bad) => panic!("a bug"),
        (Fault::Activity(ActivityFault::HugeResult), Build::Bad) => Ok("x".repeat(3_000_000)),
        (Fault::Activity(ActivityFault::TimeOut), Build::Bad) => {
            ctx.cancelled().await;
            Err("it was asked to stop".to_owned())
        }
        (Fault::Activity(ActivityFault::Hang), Build::Bad) => std::future::pending().await,
        _ => Ok(WENT_ON.to_owned()),
    }
}
