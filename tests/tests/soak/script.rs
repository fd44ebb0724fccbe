//! Random orchestrations: a script is a list of steps, interpreted by one orchestration; and the model, which predicts what
//! a script returns.
//!
//! Every step appends one text to the result, so that a step which runs twice, not at all or out of order shows.

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Either2, OrchestrationContext, OrchestrationRegistry};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// One step of a script.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Step {
    /// One activity.
    Double(u64),
    /// One activity that only the newer build has.
    Triple(u64),
    /// Activities at once.
    FanOut(Vec<u64>),
    /// Activities of one affinity session, one after the other.
    Session(Vec<u64>),
    /// An activity that fails, and is caught.
    Refusal(u64),
    /// A timer, in ms.
    Timer(u64),
    /// An activity that nobody waits for in the end: it is cancelled.
    Abandon,
    /// A child; only the newer build may know it.
    Child { newer: bool, steps: Vec<Step> },
    /// Takes so many messages from the instance's queue.
    Receive(u64),
    /// Sets a key.
    Set(u8, u64),
    /// Reads a key.
    Get(u8),
    /// Goes on as a new execution.
    ContinueAsNew,
    /// Waits for what never comes, so that only a cancellation ends it.
    Forever,
}

/// The input of the interpreter.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Script {
    /// The results of the executions before.
    said: Vec<String>,
    steps: Vec<Step>,
}

/// What the driver does with an instance, and what must come of it.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its id.
    pub instance: String,
    /// What it runs.
    pub plot: Plot,
}

/// See [`Job`].
#[derive(Clone, Debug)]
pub enum Plot {
    /// A script that ends by itself.
    Script {
        /// Whether it is started under a name that only the newer build has.
        newer: bool,
        /// The script.
        steps: Vec<Step>,
        /// How many messages it receives.
        messages: u64,
    },
    /// A script that ends by being cancelled, and its child with it.
    Cancelled(Vec<Step>),
    /// A message against a timer of so many ms: the one that was due first wins.
    Race(u64),
}

/// One of so many jobs is large.
const LARGE_EVERY: usize = 200;
/// The queue that instances receive from.
pub const QUEUE: &str = "inbox";

/// The orchestration that interprets a script.
pub fn interpreter(newer: bool) -> &'static str {
    if newer { "Newer" } else { "Interpreter" }
}

/// The id of the child that step `n` of an execution starts.
pub fn child_id(instance: &str, said: usize) -> String {
    format!("{instance}/{said}")
}

/// `count` random jobs, the same for the same seed.
pub fn jobs(count: usize, seed: u64) -> Vec<Job> {
    let mut chance = fastrand::Rng::with_seed(seed);
    let job = |n| Job {
        instance: format!("{seed}-{n}"),
        plot: if n % LARGE_EVERY == LARGE_EVERY / 2 {
            large()
        } else {
            plot(&mut chance)
        },
    };
    (0..count).map(job).collect()
}

/// A fan-out that is larger than one batch.
fn large() -> Plot {
    Plot::Script {
        newer: false,
        steps: vec![Step::FanOut((0..110).collect())],
        messages: 0,
    }
}

fn plot(chance: &mut fastrand::Rng) -> Plot {
    match chance.u8(..100) {
        0..6 => {
            let mut steps = steps(chance, 1);
            steps.retain(|step| !matches!(step, Step::Receive(_) | Step::ContinueAsNew));
            let end = Step::Forever;
            let child = Step::Child {
                newer: false,
                steps: vec![Step::Double(1), end.clone()],
            };
            steps.push(if chance.bool() { child } else { end });
            Plot::Cancelled(steps)
        }
        6..12 => Plot::Race(chance.u64(300..2_500)),
        draw => {
            let steps = steps(chance, 0);
            let received = |step: &Step| if let Step::Receive(count) = step { *count } else { 0 };
            Plot::Script {
                newer: draw < 16,
                messages: steps.iter().map(received).sum(),
                steps,
            }
        }
    }
}

/// One to four steps. Deeper scripts start no more children, and receive nothing: the driver knows only the parents.
fn steps(chance: &mut fastrand::Rng, depth: u8) -> Vec<Step> {
    let count = chance.usize(1..=4);
    let numbers = |chance: &mut fastrand::Rng, most| (0..chance.u64(2..most)).map(|_| chance.u64(..1_000)).collect();
    let step = |chance: &mut fastrand::Rng| match chance.u8(..100) {
        0..30 => Step::Double(chance.u64(..1_000)),
        30..34 => Step::Triple(chance.u64(..1_000)),
        34..43 => Step::FanOut(numbers(chance, 6)),
        43..48 => Step::Session(numbers(chance, 4)),
        48..53 => Step::Refusal(chance.u64(..1_000)),
        53..61 => Step::Timer(chance.u64(1..600)),
        61..64 => Step::Abandon,
        64..72 if depth == 0 => Step::Child {
            newer: chance.u8(..10) == 0,
            steps: steps(chance, 1),
        },
        72..84 if depth == 0 => Step::Receive(chance.u64(1..4)),
        84..89 => Step::Set(chance.u8(..2), chance.u64(..1_000)),
        89..94 => Step::Get(chance.u8(..2)),
        94..99 => Step::ContinueAsNew,
        _ => Step::Double(0),
    };
    (0..count).map(|_| step(chance)).collect()
}

/// What a script returns, by the meaning of its steps. `received` are the messages in the order in which they were accepted.
pub fn predict(steps: &[Step], received: &mut impl Iterator<Item = String>) -> String {
    let mut keys: BTreeMap<u8, u64> = BTreeMap::new();
    let mut said = Vec::new();
    for step in steps {
        said.push(match step {
            Step::Double(n) => (2 * n).to_string(),
            Step::Triple(n) => (3 * n).to_string(),
            Step::FanOut(numbers) | Step::Session(numbers) => numbers.iter().map(|n| 2 * n).sum::<u64>().to_string(),
            Step::Refusal(n) => format!("refused {n}"),
            Step::Timer(_) => "fired".to_owned(),
            Step::Abandon => "abandoned".to_owned(),
            Step::Child { steps, .. } => format!("[{}]", predict(steps, &mut std::iter::empty())),
            Step::Receive(count) => {
                let messages: Vec<String> = received.take(*count as usize).collect();
                messages.join("+")
            }
            Step::Set(key, value) => {
                keys.insert(*key, *value);
                "set".to_owned()
            }
            Step::Get(key) => keys.get(key).map_or("none".to_owned(), u64::to_string),
            Step::ContinueAsNew => "again".to_owned(),
            Step::Forever => return "never".to_owned(),
        });
    }
    said.join(" ")
}

/// How many executions a script takes.
pub fn executions(steps: &[Step]) -> u64 {
    1 + steps.iter().filter(|step| matches!(step, Step::ContinueAsNew)).count() as u64
}

/// The children that a script starts, with their ids.
pub fn children(instance: &str, steps: &[Step]) -> Vec<(String, Vec<Step>)> {
    let child = |(n, step): (usize, &Step)| match step {
        Step::Child { steps, .. } => Some((child_id(instance, n), steps.clone())),
        _ => None,
    };
    steps.iter().enumerate().filter_map(child).collect()
}

/// The input that starts a script.
pub fn input(steps: &[Step]) -> String {
    let script = Script {
        said: Vec::new(),
        steps: steps.to_vec(),
    };
    serde_json::to_string(&script).expect("a script is JSON")
}

/// What a build of the orchestrator knows.
pub fn orchestrations(newer: bool) -> OrchestrationRegistry {
    let known = OrchestrationRegistry::builder()
        .register(interpreter(false), interpret)
        .register("Race", race);
    if newer {
        known.register(interpreter(true), interpret).build()
    } else {
        known.build()
    }
}

/// What a build of the worker knows.
pub fn activities(newer: bool) -> ActivityRegistry {
    let times = |factor: u64| {
        move |_: ActivityContext, n: String| async move {
            let n: u64 = n.parse().map_err(|_| format!("'{n}' is not a number"))?;
            Ok((factor * n).to_string())
        }
    };
    let known = ActivityRegistry::builder()
        .register("Double", times(2))
        .register("Refuse", |_: ActivityContext, n: String| async move {
            Err(format!("refused {n}"))
        })
        .register("Endless", |ctx: ActivityContext, _: String| async move {
            ctx.cancelled().await;
            Err("cancelled".to_owned())
        });
    if newer {
        known.register("Triple", times(3)).build()
    } else {
        known.build()
    }
}

async fn race(ctx: OrchestrationContext, ms: String) -> Result<String, String> {
    let ms: u64 = ms.parse().map_err(|_| "not a number".to_owned())?;
    let message = ctx.dequeue_event(QUEUE);
    let timer = ctx.schedule_timer(Duration::from_millis(ms));
    match ctx.select2(message, timer).await {
        Either2::First(message) => Ok(message),
        Either2::Second(()) => Ok("timer".to_owned()),
    }
}

async fn interpret(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    let Script { mut said, steps } = serde_json::from_str(&input).map_err(|error| error.to_string())?;
    for (n, step) in steps.iter().enumerate() {
        if matches!(step, Step::ContinueAsNew) {
            said.push("again".to_owned());
            let steps = steps[n + 1..].to_vec();
            let rest = serde_json::to_string(&Script { said, steps }).map_err(|error| error.to_string())?;
            return ctx.continue_as_new(rest).await;
        }
        let heard = perform(&ctx, said.len(), step).await?;
        said.push(heard);
    }
    Ok(said.join(" "))
}

async fn perform(ctx: &OrchestrationContext, n: usize, step: &Step) -> Result<String, String> {
    match step {
        Step::Double(n) => ctx.schedule_activity("Double", n.to_string()).await,
        Step::Triple(n) => ctx.schedule_activity("Triple", n.to_string()).await,
        Step::FanOut(numbers) => {
            let doubles = numbers.iter().map(|n| ctx.schedule_activity("Double", n.to_string()));
            sum(ctx.join(doubles.collect()).await)
        }
        Step::Session(numbers) => {
            let session = format!("session-{}-{n}", ctx.instance_id());
            let mut doubled = Vec::new();
            for n in numbers {
                let double = ctx.schedule_activity_on_session("Double", n.to_string(), session.as_str());
                doubled.push(double.await);
            }
            sum(doubled)
        }
        Step::Refusal(n) => match ctx.schedule_activity("Refuse", n.to_string()).await {
            Ok(result) => Err(format!("unexpected: {result}")),
            Err(error) => Ok(error),
        },
        Step::Timer(ms) => {
            ctx.schedule_timer(Duration::from_millis(*ms)).await;
            Ok("fired".to_owned())
        }
        Step::Abandon => {
            let endless = ctx.schedule_activity("Endless", "");
            match ctx
                .select2(endless, ctx.schedule_timer(Duration::from_millis(50)))
                .await
            {
                Either2::First(result) => Err(format!("unexpected: {result:?}")),
                Either2::Second(()) => Ok("abandoned".to_owned()),
            }
        }
        Step::Child { newer, steps } => {
            let id = child_id(&ctx.instance_id(), n);
            let child = ctx.schedule_sub_orchestration_with_id(interpreter(*newer), id, input(steps));
            Ok(format!("[{}]", child.await?))
        }
        Step::Receive(count) => {
            let mut messages = Vec::new();
            for _ in 0..*count {
                messages.push(ctx.dequeue_event(QUEUE).await);
            }
            Ok(messages.join("+"))
        }
        Step::Set(key, value) => {
            ctx.set_kv_value(format!("key {key}"), value.to_string());
            Ok("set".to_owned())
        }
        Step::Get(key) => Ok(ctx.get_kv_value(&format!("key {key}")).unwrap_or("none".to_owned())),
        Step::ContinueAsNew => Err("handled by the interpreter".to_owned()),
        Step::Forever => Ok(ctx.dequeue_event("never").await),
    }
}

fn sum(numbers: Vec<Result<String, String>>) -> Result<String, String> {
    let mut sum = 0;
    for number in numbers {
        let number = number?;
        sum += number
            .parse::<u64>()
            .map_err(|_| format!("'{number}' is not a number"))?;
    }
    Ok(sum.to_string())
}
