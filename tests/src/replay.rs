//! Orchestrations that stay in flight, as builds of one orchestrator: what the replay gate's tests record with the first, and replay with
//! the others. `replay_function` is the binary. It has no activities.

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, BackoffStrategy, Either2, OrchestrationContext, OrchestrationRegistry, RetryPolicy};
use std::time::Duration;

/// Names the build of the binary.
pub const BUILD: &str = "REPLAY_BUILD";
/// What recorded the histories.
pub const FIRST: &str = "first";

const SOON: Duration = Duration::from_millis(20);
const NEVER: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The orchestrations of a build. Each waits for a message in the end.
pub fn orchestrations(build: &str) -> OrchestrationRegistry {
    let of = |build: &str| build.to_owned();
    let order = of(build);
    let order = move |ctx: OrchestrationContext, input: String| {
        let build = order.clone();
        async move { order_of(&build, &ctx, &input).await }
    };
    let race = of(build);
    let race = move |ctx: OrchestrationContext, _: String| {
        let build = race.clone();
        async move { race_of(&build, &ctx).await }
    };
    let registry = OrchestrationRegistry::builder()
        .register("Race", race)
        .register("Rounds", rounds)
        .register("Parent", parent)
        .register("Child", child)
        .register("Signals", signals)
        .register("Retries", retries)
        .register("Joins", joins)
        .register("Steps", steps)
        .register("Short", |ctx: OrchestrationContext, input: String| async move {
            let reserved = ctx.schedule_activity("Reserve", input).await?;
            ctx.set_kv_value("reserved", reserved.as_str());
            ctx.schedule_orchestration("Child", format!("{}-after", ctx.instance_id()), "x");
            Ok(reserved)
        });
    match build {
        "version" => registry.register_versioned("Order", "2.0.0", order),
        "gone" => registry,
        _ => registry.register("Order", order),
    }
    .build()
}

/// Reserves, charges, waits, and asks for approval.
async fn order_of(build: &str, ctx: &OrchestrationContext, input: &str) -> Result<String, String> {
    match build {
        "refactored" => return refactored(ctx, input).await,
        "reordered" => {
            ctx.schedule_activity("Charge", format!("{input}:7")).await?;
            ctx.schedule_activity("Reserve", input).await?;
        }
        "renamed" => {
            ctx.schedule_activity("Reserve", input).await?;
            ctx.schedule_activity("ChargeCard", format!("{input}:7")).await?;
        }
        "input" => {
            ctx.schedule_activity("Reserve", input).await?;
            ctx.schedule_activity("Charge", format!("{input}:8")).await?;
        }
        "added" => {
            ctx.schedule_activity("Reserve", input).await?;
            ctx.schedule_activity("Notify", input).await?;
            ctx.schedule_activity("Charge", format!("{input}:7")).await?;
        }
        "child" => {
            ctx.schedule_activity("Reserve", input).await?;
            ctx.schedule_sub_orchestration("Charge", format!("{input}:7")).await?;
        }
        _ => {
            ctx.schedule_activity("Reserve", input).await?;
            ctx.schedule_activity("Charge", format!("{input}:7")).await?;
        }
    }
    match build {
        "panic" => panic!("no such luck"),
        "loops" => loop {
            std::hint::black_box(0);
        },
        "aborts" => std::process::abort(),
        "exits" => {
            eprintln!("no licence");
            std::process::exit(3);
        }
        "environment" => {
            let names: Vec<String> = std::env::vars().map(|(name, _)| name).collect();
            panic!("environment: {}", names.join(" "))
        }
        "chatty" => print!("{}", "not an answer ".repeat(20_000)),
        "ends" => return Ok("charged".to_owned()),
        "fails" => return Err("no".to_owned()),
        "continues" => return ctx.continue_as_new("again").await,
        _ => {}
    }
    if build != "no-timer" {
        let longer = if build == "longer" { NEVER } else { SOON };
        ctx.schedule_timer(longer).await;
    }
    if build == "status" {
        ctx.set_custom_status("waits");
    }
    let approval = ctx.dequeue_event("approval");
    if build == "extra" {
        let (approval, _) = ctx.join2(approval, ctx.schedule_activity("Audit", input)).await;
        return Ok(approval);
    }
    let approval = approval.await;
    if build == "later" {
        ctx.schedule_activity("Thank", &*approval).await?;
    }
    ctx.schedule_activity("Ship", approval).await
}

/// The same in other words.
async fn refactored(ctx: &OrchestrationContext, input: &str) -> Result<String, String> {
    let amount = 3 + 4;
    for (name, input) in [("Reserve", input.to_owned()), ("Charge", format!("{input}:{amount}"))] {
        let result = ctx.schedule_activity(name, input);
        result.await.map_err(|error| format!("{name}: {error}"))?;
    }
    // Where the timer ends and what is logged are not compared.
    ctx.trace_info("charged");
    ctx.schedule_timer(SOON * 3).await;
    let approval = ctx.dequeue_event("approval").await;
    ctx.schedule_activity("Parcel", approval).await
}

/// A timer beats an activity and an event, which are not waited for any more.
async fn race_of(build: &str, ctx: &OrchestrationContext) -> Result<String, String> {
    let slow = ctx.schedule_activity("Unserved", "");
    let event = ctx.schedule_wait("too-late");
    match build {
        "keeps-loser" => {
            ctx.schedule_timer(SOON).await;
            drop(event);
            let (_, answer) = ctx.join2(slow, ctx.dequeue_event("approval")).await;
            return Ok(answer);
        }
        "drops-more" => {
            ctx.schedule_timer(SOON).await;
            drop((slow, event));
            drop(ctx.schedule_wait("more"));
        }
        _ => {
            let timer = ctx.schedule_timer(SOON);
            let both = async {
                ctx.select2(slow, event).await;
            };
            if let Either2::First(()) = ctx.select2(both, timer).await {
                return Err("the timer is first".to_owned());
            }
        }
    }
    Ok(ctx.dequeue_event("approval").await)
}

/// Three executions that add up a key.
async fn rounds(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    let round: u32 = input.parse().map_err(|_| "a number")?;
    let sum = ctx.get_kv_value("sum").unwrap_or_default();
    ctx.schedule_activity("Reserve", format!("{round} after {sum}")).await?;
    ctx.set_kv_value("sum", format!("{sum}+{round}"));
    if round < 3 {
        return ctx.continue_as_new((round + 1).to_string()).await;
    }
    // Its own value does not count when it is replayed.
    ctx.set_kv_value("sum", "all");
    Ok(ctx.dequeue_event("approval").await)
}

async fn parent(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    let quick = ctx.schedule_sub_orchestration("Child", "quick").await?;
    ctx.set_custom_status(format!("{quick} ended"));
    ctx.schedule_sub_orchestration("Child", input).await
}

async fn child(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    match input.as_str() {
        "quick" => ctx.schedule_activity("Reserve", input).await,
        _ => Ok(ctx.schedule_wait("go").await),
    }
}

/// Events, queues, keys, a custom status, the time, an id, and a start that is not waited for.
async fn signals(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    ctx.set_custom_status("begun");
    let (now, id) = ctx.join2(ctx.utc_now(), ctx.new_guid()).await;
    ctx.set_kv_value("tag:when", format!("{:?}", now?.elapsed().is_ok()));
    ctx.set_kv_value("id", id?);
    ctx.schedule_orchestration("Child", format!("{}-apart", ctx.instance_id()), "apart");
    let first = ctx.schedule_wait("ping").await;
    let message = ctx.dequeue_event("letters").await;
    ctx.clear_kv_value("id");
    ctx.set_custom_status(format!("{first} and {message}"));
    let again = ctx.dequeue_event("letters").await;
    ctx.clear_all_kv_values();
    ctx.reset_custom_status();
    ctx.schedule_activity("Reserve", again).await?;
    Ok(ctx.schedule_wait("ping").await)
}

async fn retries(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    let policy = RetryPolicy::new(3)
        .with_backoff(BackoffStrategy::Fixed { delay: SOON })
        .with_timeout(NEVER);
    let failed = ctx.schedule_activity_with_retry("Refuse", "x", policy).await;
    ctx.set_custom_status(failed.err().unwrap_or_default());
    Ok(ctx.dequeue_event("approval").await)
}

async fn joins(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    let all = (0..5).map(|n| ctx.schedule_activity("Reserve", n.to_string()));
    let results = ctx.join(all.collect::<Vec<_>>()).await;
    ctx.schedule_activity("Charge", results.len().to_string()).await?;
    Ok(ctx.dequeue_event("approval").await)
}

/// As many activities as the input says.
async fn steps(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    let count: u32 = input.parse().map_err(|_| "a number")?;
    for step in 0..count {
        ctx.schedule_activity("Step", step.to_string()).await?;
    }
    Ok(ctx.dequeue_event("approval").await)
}

/// The activities that the recorded instances need.
pub fn activities() -> ActivityRegistry {
    let names = ["Reserve", "Charge", "Step"];
    names
        .into_iter()
        .fold(ActivityRegistry::builder(), |activities, name| {
            activities.register(name, move |_: ActivityContext, input: String| async move {
                Ok(format!("{name} {input}"))
            })
        })
        .register("Refuse", |_: ActivityContext, _: String| async {
            Err::<String, _>("refused".to_owned())
        })
        .build()
}
