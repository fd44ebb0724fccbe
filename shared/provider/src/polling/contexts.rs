//! The read before each activity: duroxide's worker reads the whole history of the instance, only to tell the activity the
//! name and version of its orchestration.
//!
//! The worker reads directly after its fetch, on the same task, so its read can be told from those of clients and of user
//! code. Where this process has committed the turn that scheduled the activity, it knows that history and answers from it.
//! Such an answer may be older than the store's by what other processes have committed since the activity was scheduled.

use crate::read::KnownHistories;
use duroxide::providers::WorkItem;
use duroxide::{Event, EventKind};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::task;
use tokio::time::Instant;

/// The worker's read comes at once. One that comes later than this is somebody else's.
const AT_ONCE: Duration = Duration::from_secs(1);

/// An activity that was fetched, and whose worker is about to read.
#[derive(Debug)]
struct Expected {
    instance: String,
    execution: u64,
    activity: u64,
    since: Instant,
}

/// The reads to come, by the task of their worker.
#[derive(Debug, Default)]
pub(crate) struct Contexts(Mutex<HashMap<task::Id, Expected>>);

impl Contexts {
    /// The calling task has fetched this activity.
    pub(crate) fn fetched(&self, item: &WorkItem) {
        let WorkItem::ActivityExecute {
            instance,
            execution_id,
            id,
            ..
        } = item
        else {
            return;
        };
        let Some(worker) = task::try_id() else { return };
        let expected = Expected {
            instance: instance.clone(),
            execution: *execution_id,
            activity: *id,
            since: Instant::now(),
        };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, expected| expected.since.elapsed() < AT_ONCE);
        all.insert(worker, expected);
    }

    /// The answer to a read of the calling task, if it is the one before an activity and the history is known.
    pub(crate) fn answer(&self, instance: &str, known: &KnownHistories) -> Option<Vec<Event>> {
        let worker = task::try_id()?;
        let expected = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&worker)?;
        if expected.instance != instance || expected.since.elapsed() >= AT_ONCE {
            return None;
        }
        let history = known
            .get(instance)
            .filter(|known| known.execution == expected.execution)?;
        let is_scheduled = |event: &Event| {
            event.event_id() == expected.activity && matches!(event.kind, EventKind::ActivityScheduled { .. })
        };
        let is_known = history.events.iter().rev().any(is_scheduled);
        is_known.then(|| history.events.as_ref().clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::KnownHistory;
    use std::sync::Arc;

    fn histories(execution: u64, activities: u64) -> KnownHistories {
        let scheduled = |id| {
            let kind = EventKind::ActivityScheduled {
                name: "Greet".to_owned(),
                input: String::new(),
                session_id: None,
                tag: None,
            };
            Event::with_event_id(id, "i", execution, None, kind)
        };
        let known = KnownHistories::new(1 << 20);
        let events = Arc::new((2..2 + activities).map(scheduled).collect());
        let history = KnownHistory {
            execution,
            head: "c".to_owned(),
            events,
            bytes: 1,
            turns: 1,
        };
        known.put("i", history);
        known
    }

    fn activity(id: u64) -> WorkItem {
        WorkItem::ActivityExecute {
            instance: "i".to_owned(),
            execution_id: 1,
            id,
            name: "Greet".to_owned(),
            input: String::new(),
            session_id: None,
            tag: None,
        }
    }

    /// Whether a read of this instance is answered, in a task that has fetched an activity.
    async fn is_answered(contexts: &Arc<Contexts>, id: u64, instance: &'static str, known: KnownHistories) -> bool {
        let contexts = Arc::clone(contexts);
        let worker = tokio::spawn(async move {
            contexts.fetched(&activity(id));
            let answered = contexts.answer(instance, &known).is_some();
            assert!(contexts.answer(instance, &known).is_none(), "one read for each fetch");
            answered
        });
        worker.await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_read_that_follows_a_fetch_is_answered() {
        let contexts = Arc::new(Contexts::default());
        assert!(is_answered(&contexts, 3, "i", histories(1, 2)).await);
        assert!(
            !is_answered(&contexts, 4, "i", histories(1, 2)).await,
            "scheduled since"
        );
        assert!(
            !is_answered(&contexts, 3, "i", histories(2, 2)).await,
            "another execution"
        );
        assert!(!is_answered(&contexts, 3, "other", histories(1, 2)).await);
        let known = histories(1, 2);
        contexts.fetched(&activity(3));
        assert!(contexts.answer("i", &known).is_none(), "not on a task");
        let late = tokio::spawn(async move {
            contexts.fetched(&activity(3));
            tokio::time::sleep(AT_ONCE).await;
            contexts.answer("i", &known).is_none()
        });
        assert!(late.await.unwrap());
    }
}
