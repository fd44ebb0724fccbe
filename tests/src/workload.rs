//! A mixed workload for duroxide's runtime: one of each thing that an orchestration can wait for, with outputs that
//! are known beforehand, and the check that a history is sound.

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Either2, Event, EventKind, OrchestrationContext, OrchestrationRegistry};
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// What an instance needs from outside while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nudge {
    /// Nothing.
    None,
    /// The event `Go`, which counts only after the instance has subscribed.
    Event,
    /// A message in the queue `inbox`, which may come before anybody waits for it.
    Message,
}

/// One instance of the workload.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its id.
    pub instance: String,
    /// The orchestration's name.
    pub orchestration: &'static str,
    /// Its input.
    pub input: String,
    /// What it must answer.
    pub output: String,
    /// What it waits for.
    pub nudge: Nudge,
    /// How many executions it takes.
    pub executions: u64,
    /// The child that it starts.
    pub child: Option<String>,
}

const KINDS: usize = 10;
const CITIES: [&str; 3] = ["Tokyo", "Paris", "Oslo"];
/// More activities than one batch has room for.
const WIDE: usize = 120;
const LARGE: usize = 30;

/// The first `count` jobs of the workload. A large workload has one fan-out that does not fit a batch.
pub fn jobs(count: usize) -> Vec<Job> {
    (0..count).map(|n| job(n, n < KINDS && count >= LARGE)).collect()
}

fn job(n: usize, is_wide: bool) -> Job {
    let named = |orchestration: &'static str, input: String, output: String| Job {
        instance: format!("{orchestration}-{n}"),
        orchestration,
        input,
        output,
        nudge: Nudge::None,
        executions: 1,
        child: None,
    };
    match n % KINDS {
        0 => named(
            "HelloCities",
            n.to_string(),
            CITIES.map(|city| format!("Hello {city} {n}!")).join(" "),
        ),
        1 => {
            let width = if is_wide { WIDE } else { 10 };
            named("FanOut", width.to_string(), (1..=width).sum::<usize>().to_string())
        }
        2 => named("Timer", n.to_string(), format!("Hello {n}!")),
        3 => Job {
            child: Some(format!("child-of-Parent-{n}")),
            ..named("Parent", n.to_string(), format!("Hello {n}!"))
        },
        4 => Job {
            nudge: Nudge::Event,
            ..named("Event", n.to_string(), format!("Go {n}"))
        },
        5 => named("Keys", n.to_string(), format!("Hello {n}! Hello {n}!")),
        6 => Job {
            executions: 3,
            ..named("ContinueAsNew", "0".to_owned(), "Hello 0! Hello 1! Hello 2!".to_owned())
        },
        7 => named("Select", n.to_string(), format!("timer {n}")),
        8 => Job {
            nudge: Nudge::Message,
            ..named("Message", n.to_string(), format!("Go {n}"))
        },
        _ => named("Refusal", n.to_string(), format!("refused: not {n}")),
    }
}

/// The activities of the workload.
pub fn activities() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Greet", |_: ActivityContext, name: String| async move {
            Ok(format!("Hello {name}!"))
        })
        .register("Refuse", |_: ActivityContext, name: String| async move {
            Err(format!("not {name}"))
        })
        .register("Endless", |ctx: ActivityContext, _: String| async move {
            tokio::select! {
                () = ctx.cancelled() => Err("cancelled".to_owned()),
                () = tokio::time::sleep(Duration::from_secs(600)) => Ok("nobody cancelled this".to_owned()),
            }
        })
        .build()
}

/// The orchestrations of the workload.
pub fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("HelloCities", hello_cities)
        .register("FanOut", fan_out)
        .register("Timer", timer)
        .register("Parent", parent)
        .register("Child", |ctx: OrchestrationContext, name: String| async move {
            ctx.schedule_activity("Greet", name).await
        })
        .register("Event", |ctx: OrchestrationContext, _: String| async move {
            Ok(ctx.schedule_wait("Go").await)
        })
        .register("Keys", keys)
        .register("ContinueAsNew", continue_as_new)
        .register("Select", select)
        .register("Message", |ctx: OrchestrationContext, _: String| async move {
            Ok(ctx.dequeue_event("inbox").await)
        })
        .register("Refusal", |ctx: OrchestrationContext, name: String| async move {
            match ctx.schedule_activity("Refuse", name).await {
                Ok(result) => Err(format!("unexpected: {result}")),
                Err(error) => Ok(format!("refused: {error}")),
            }
        })
        .build()
}

async fn hello_cities(ctx: OrchestrationContext, n: String) -> Result<String, String> {
    let mut greetings = Vec::new();
    for city in CITIES {
        greetings.push(ctx.schedule_activity("Greet", format!("{city} {n}")).await?);
    }
    Ok(greetings.join(" "))
}

async fn fan_out(ctx: OrchestrationContext, width: String) -> Result<String, String> {
    let width: u64 = width.parse().map_err(|_| "not a number".to_owned())?;
    let greetings = (1..=width)
        .map(|n| ctx.schedule_activity("Greet", n.to_string()))
        .collect();
    let mut sum = 0;
    for greeting in ctx.join(greetings).await {
        let number = greeting?
            .trim_start_matches("Hello ")
            .trim_end_matches('!')
            .parse::<u64>();
        sum += number.map_err(|_| "not a number".to_owned())?;
    }
    Ok(sum.to_string())
}

async fn timer(ctx: OrchestrationContext, n: String) -> Result<String, String> {
    ctx.schedule_timer(Duration::from_millis(200)).await;
    ctx.schedule_activity("Greet", n).await
}

async fn parent(ctx: OrchestrationContext, n: String) -> Result<String, String> {
    let child = format!("child-of-{}", ctx.instance_id());
    ctx.schedule_sub_orchestration_with_id("Child", child, n).await
}

async fn keys(ctx: OrchestrationContext, n: String) -> Result<String, String> {
    ctx.set_custom_status("begun");
    let greeting = ctx.schedule_activity("Greet", n).await?;
    ctx.set_kv_value("greeting", greeting.as_str());
    ctx.set_custom_status("greeted");
    ctx.schedule_timer(Duration::from_millis(10)).await;
    let kept = ctx.get_kv_value("greeting").ok_or("the key is gone")?;
    Ok(format!("{greeting} {kept}"))
}

async fn continue_as_new(ctx: OrchestrationContext, round: String) -> Result<String, String> {
    let number: u64 = round.parse().map_err(|_| "not a number".to_owned())?;
    let greeting = ctx.schedule_activity("Greet", round).await?;
    let said = match ctx.get_kv_value("said") {
        Some(before) => format!("{before} {greeting}"),
        None => greeting,
    };
    if number == 2 {
        return Ok(said);
    }
    ctx.set_kv_value("said", said);
    ctx.continue_as_new((number + 1).to_string()).await
}

async fn select(ctx: OrchestrationContext, n: String) -> Result<String, String> {
    let endless = ctx.schedule_activity("Endless", n.as_str());
    let timer = ctx.schedule_timer(Duration::from_millis(100));
    match ctx.select2(endless, timer).await {
        Either2::First(result) => result,
        Either2::Second(()) => Ok(format!("timer {n}")),
    }
}

/// Fails unless event ids are unique and in order, and each activity has exactly one result (or was cancelled, and
/// has at most one), which names it.
#[track_caller]
pub fn assert_sound(instance: &str, history: &[Event]) {
    let ids: Vec<u64> = history.iter().map(Event::event_id).collect();
    assert!(
        ids.windows(2).all(|pair| pair[0] < pair[1]),
        "event ids of {instance} are not in order: {ids:?}"
    );
    let mut results: HashMap<u64, usize> = HashMap::new();
    let (mut scheduled, mut cancelled) = (HashSet::new(), HashSet::new());
    for event in history {
        let source = event.source_event_id();
        match &event.kind {
            EventKind::ActivityScheduled { .. } => {
                scheduled.insert(event.event_id());
            }
            EventKind::ActivityCompleted { .. } | EventKind::ActivityFailed { .. } => {
                let source = source.unwrap_or_else(|| panic!("a result in {instance} names no activity: {event:?}"));
                assert!(
                    scheduled.contains(&source),
                    "a result in {instance} comes before its activity: {event:?}"
                );
                *results.entry(source).or_default() += 1;
            }
            EventKind::ActivityCancelRequested { .. } => cancelled.extend(source),
            _ => {}
        }
    }
    for activity in scheduled {
        let count = results.get(&activity).copied().unwrap_or(0);
        let sound = count == 1 || (count == 0 && cancelled.contains(&activity));
        assert!(
            sound,
            "activity {activity} of {instance} has {count} results: {history:#?}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: u64, source: Option<u64>, kind: EventKind) -> Event {
        Event::with_event_id(id, "i", 1, source, kind)
    }

    fn scheduled(id: u64) -> Event {
        let (name, input) = ("Greet".to_owned(), String::new());
        event(
            id,
            None,
            EventKind::ActivityScheduled {
                name,
                input,
                session_id: None,
                tag: None,
            },
        )
    }

    fn completed(id: u64, source: u64) -> Event {
        event(id, Some(source), EventKind::ActivityCompleted { result: String::new() })
    }

    #[test]
    fn a_result_for_each_activity_is_sound() {
        assert_sound("i", &[scheduled(1), scheduled(2), completed(3, 2), completed(4, 1)]);
    }

    #[test]
    #[should_panic = "has 2 results"]
    fn a_result_that_is_recorded_twice_is_noticed() {
        assert_sound("i", &[scheduled(1), completed(2, 1), completed(3, 1)]);
    }

    #[test]
    #[should_panic = "has 0 results"]
    fn a_missing_result_is_noticed() {
        assert_sound("i", &[scheduled(1)]);
    }

    #[test]
    #[should_panic = "not in order"]
    fn an_event_that_is_recorded_twice_is_noticed() {
        assert_sound("i", &[scheduled(1), scheduled(1)]);
    }
}
