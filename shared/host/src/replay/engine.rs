//! One run of duroxide's replay engine: the code of an orchestration over recorded events, without a message and without effects.
//!
//! The engine polls the code, compares what it asks for with each recorded event in turn, and stops at the first that does not fit.
//! It does not say at which. [`Engine::failed_at`] and [`Engine::ended_at`] find the place by runs over the first events only.

use async_trait::async_trait;
use duroxide::providers::KvEntry;
use duroxide::runtime::OrchestrationHandler;
use duroxide::runtime::replay_engine::{ReplayEngine, TurnResult};
use duroxide::{Action, Event, EventKind, OrchestrationContext};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Code, and what it was started with.
pub(super) struct Engine {
    pub handler: Arc<dyn OrchestrationHandler>,
    pub instance: String,
    pub execution: u64,
    pub name: String,
    pub version: String,
    pub input: String,
    pub keys: HashMap<String, KvEntry>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("instance", &self.instance)
            .field("name", &self.name)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// What a run has shown.
#[derive(Debug)]
pub(super) struct Run {
    pub result: TurnResult,
    /// What the code has asked for beyond the recorded events.
    pub asked: Vec<Action>,
    /// The same as events, and its cancellations.
    pub delta: Vec<Event>,
    /// What the code has returned.
    pub ended: Option<Result<String, String>>,
}

impl Engine {
    /// Replays these events.
    pub fn run(&self, events: &[Event]) -> Run {
        let ended = Arc::default();
        let handler = Watched {
            handler: Arc::clone(&self.handler),
            ended: Arc::clone(&ended),
        };
        let mut engine = ReplayEngine::new(self.instance.clone(), self.execution, events.to_vec())
            .with_kv_snapshot(self.keys.clone());
        let result = engine.execute_orchestration(
            Arc::new(handler),
            self.input.clone(),
            self.name.clone(),
            self.version.clone(),
            "replay",
        );
        let ended = ended.lock().unwrap_or_else(PoisonError::into_inner).take();
        Run {
            result,
            asked: engine.pending_actions().to_vec(),
            delta: engine.history_delta().to_vec(),
            ended,
        }
    }

    /// Replays these events without what the engine checks after the last of them: whether all recorded cancellations were made, which a
    /// part of a turn cannot fulfil. The engine skips it for an orchestration that was cancelled.
    pub fn run_part(&self, events: &[Event]) -> Run {
        let mut events = events.to_vec();
        let last = events.last().map_or(0, |event| event.event_id);
        let cancelled = EventKind::OrchestrationCancelRequested { reason: String::new() };
        events.push(Event::with_event_id(
            last + 1,
            self.instance.clone(),
            self.execution,
            None,
            cancelled,
        ));
        self.run(&events)
    }

    /// How many events the engine takes until it fails.
    pub fn failed_at(&self, events: &[Event]) -> Option<usize> {
        first(events.len(), |count| {
            matches!(self.run_part(&events[..count]).result, TurnResult::Failed(_))
        })
    }

    /// How many events the code takes until it returns.
    pub fn ended_at(&self, events: &[Event]) -> Option<usize> {
        first(events.len(), |count| self.run_part(&events[..count]).ended.is_some())
    }
}

/// The least count from 1 for which this holds; it holds for all greater ones, too.
fn first(most: usize, holds: impl Fn(usize) -> bool) -> Option<usize> {
    if most == 0 || !holds(most) {
        return None;
    }
    let (mut below, mut at) = (0, most);
    while at - below > 1 {
        let middle = below + (at - below) / 2;
        match holds(middle) {
            true => at = middle,
            false => below = middle,
        }
    }
    Some(at)
}

/// Code whose end is noted. The engine alone does not say whether code that was cancelled had returned.
struct Watched {
    handler: Arc<dyn OrchestrationHandler>,
    ended: Arc<Mutex<Option<Result<String, String>>>>,
}

#[async_trait]
impl OrchestrationHandler for Watched {
    async fn invoke(&self, ctx: OrchestrationContext, input: String) -> Result<String, String> {
        let output = self.handler.invoke(ctx, input).await;
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(output.clone());
        output
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_count_is_found_wherever_it_is() {
        for most in 1..40 {
            for at in 1..=most {
                assert_eq!(first(most, |count| count >= at), Some(at));
            }
            assert_eq!(first(most, |_| false), None);
        }
        assert_eq!(first(0, |_| true), None);
    }
}
