//! The user's registries, wrapped: orchestrations are watched for timers, activities are replaced, delayed, failed and recorded.

use super::clock::Timers;
use super::faults::Runs;
use crate::panics;
use duroxide::runtime::registry::{ActivityRegistry, VersionPolicy};
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};
use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A closure in place of an activity.
type Closure = Box<dyn FnMut(String) -> Result<String, String> + Send>;

/// One run of an activity, repeated runs included.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Call {
    /// The activity.
    pub activity: String,
    /// The instance that asked for it.
    pub instance: String,
    /// Its input.
    pub input: String,
    /// Its tag.
    pub tag: Option<String>,
    /// Which run of this name it is, from 1, over all instances.
    pub run: u32,
    /// What it returned; `None` if it has not.
    pub result: Option<Result<String, String>>,
}

/// What is done to activities, and what they did.
#[derive(Default)]
pub(super) struct Activities {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    replaced: BTreeMap<String, Arc<Mutex<Closure>>>,
    takes: BTreeMap<String, Duration>,
    fails: Vec<Failing>,
    runs: BTreeMap<String, u32>,
    calls: Vec<Call>,
}

/// Runs of an activity that fail.
struct Failing {
    name: String,
    runs: Runs,
    error: String,
    set_at: &'static Location<'static>,
    has_hit: bool,
}

impl fmt::Debug for Activities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Activities").finish_non_exhaustive()
    }
}

impl Activities {
    pub fn replace(&self, name: String, closure: Closure) {
        self.inner().replaced.insert(name, Arc::new(Mutex::new(closure)));
    }

    pub fn takes(&self, name: String, time: Duration) {
        self.inner().takes.insert(name, time);
    }

    pub fn fail(&self, name: String, runs: Runs, error: String, set_at: &'static Location<'static>) {
        self.inner().fails.push(Failing {
            name,
            runs,
            error,
            set_at,
            has_hit: false,
        });
    }

    /// The failures that have not happened.
    pub fn unused(&self) -> Vec<String> {
        let inner = self.inner();
        let unused = inner.fails.iter().filter(|failing| !failing.has_hit);
        unused
            .map(|Failing { name, runs, set_at, .. }| {
                let ran = inner.runs.get(name).copied().unwrap_or_default();
                let runs = runs.words();
                format!("a failure of {runs} of activity `{name}`, which ran {ran} times (set at {set_at})")
            })
            .collect()
    }

    pub fn calls(&self) -> Vec<Call> {
        self.inner().calls.clone()
    }

    /// The user's activities with the replaced ones, each recorded.
    pub fn wrapped(self: &Arc<Self>, activities: &ActivityRegistry) -> ActivityRegistry {
        let sound = panics::caught(&self.merged(activities));
        let mut all = ActivityRegistry::builder();
        for name in sound.list_names() {
            let Some((_, handler)) = sound.resolve_handler(&name) else {
                continue;
            };
            let kept = Arc::clone(self);
            all = all.register(name.clone(), move |ctx: ActivityContext, input: String| {
                let (kept, handler, name) = (Arc::clone(&kept), Arc::clone(&handler), name.clone());
                async move {
                    let (call, takes, error) = kept.begin(&name, &ctx, &input);
                    if let Some(time) = takes {
                        tokio::time::sleep(time).await;
                    }
                    let result = match error {
                        Some(error) => Err(error),
                        None => handler.invoke(ctx, input).await,
                    };
                    kept.end(call, &result);
                    result
                }
            });
        }
        all.build()
    }

    fn merged(&self, activities: &ActivityRegistry) -> ActivityRegistry {
        let replaced = self.inner().replaced.clone();
        let mut all = ActivityRegistry::builder();
        for name in activities.list_names() {
            if let Some((_, handler)) = activities
                .resolve_handler(&name)
                .filter(|_| !replaced.contains_key(&name))
            {
                all = all.register(name, move |ctx: ActivityContext, input: String| {
                    let handler = Arc::clone(&handler);
                    async move { handler.invoke(ctx, input).await }
                });
            }
        }
        for (name, closure) in replaced {
            all = all.register(name, move |_: ActivityContext, input: String| {
                let closure = Arc::clone(&closure);
                async move { (closure.lock().unwrap_or_else(PoisonError::into_inner))(input) }
            });
        }
        all.build()
    }

    /// Notes a run: its place in the calls, the time that it takes, the error that it has.
    fn begin(&self, name: &str, ctx: &ActivityContext, input: &str) -> (usize, Option<Duration>, Option<String>) {
        let mut inner = self.inner();
        let run = inner.runs.entry(name.to_owned()).or_default();
        *run += 1;
        let run = *run;
        inner.calls.push(Call {
            activity: name.to_owned(),
            instance: ctx.instance_id().to_owned(),
            input: input.to_owned(),
            tag: ctx.tag().map(str::to_owned),
            run,
            result: None,
        });
        let mut fails = inner.fails.iter_mut();
        let failing = fails.find(|failing| failing.name == name && failing.runs.contain(run));
        let error = failing.map(|failing| {
            failing.has_hit = true;
            failing.error.clone()
        });
        (inner.calls.len() - 1, inner.takes.get(name).copied(), error)
    }

    fn end(&self, call: usize, result: &Result<String, String>) {
        if let Some(call) = self.inner().calls.get_mut(call) {
            call.result = Some(result.clone());
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The user's orchestrations, watched for the timers that they ask for.
pub(super) fn watched(orchestrations: &OrchestrationRegistry, timers: &Arc<Timers>) -> OrchestrationRegistry {
    let mut all = OrchestrationRegistry::builder();
    for name in orchestrations.list_names() {
        let mut versions = orchestrations.list_versions(&name);
        versions.sort();
        for version in &versions {
            let Some(handler) = orchestrations.resolve_handler_exact(&name, version) else {
                continue;
            };
            let timers = Arc::clone(timers);
            let code = move |ctx: OrchestrationContext, input: String| {
                let (handler, timers) = (Arc::clone(&handler), Arc::clone(&timers));
                async move {
                    timers.begin(&ctx.instance_id());
                    let mut code = std::pin::pin!(handler.invoke(ctx.clone(), input));
                    let mut seen = 0;
                    poll_fn(|cx| timers.watch(&ctx, &mut seen, || code.as_mut().poll(cx))).await
                }
            };
            all = all.register_versioned(name.clone(), version.to_string(), code);
        }
        // The policy that chooses a version for a start without one.
        let chosen = orchestrations.resolve_version(&name);
        if let Some(version) = chosen.filter(|version| Some(version) != versions.last()) {
            all = all.set_policy(name, VersionPolicy::Exact(version));
        }
    }
    all.build()
}
