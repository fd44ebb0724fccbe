//! What the steps of this process have spent and no commit has counted yet, by instance.
//!
//! There are two kinds. *Late* usage has the name of what was written, and travels on with wakeups and completed activities; the instance
//! document decides whether it is added (`model/usage.rs`). *Spare* usage is that of steps which wrote nothing that counts: a turn that lost
//! its race, a fetch that found nothing. The next step of the same instance in this process takes it along; without one it is lost.
//!
//! All of it is bounded, and losing it does no harm but to the count.

use crate::model::{InstanceUsage, LateUsage, Usage};
use cosmos::Tally;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Of how many instances it is kept, the most recent ones.
const MOST_INSTANCES: usize = 1_000;
/// How many late usages of an instance are kept, the newest.
const MOST_LATE: usize = 100;
/// How many of them a wakeup or a message carries.
const CARRIED: usize = 20;

/// What one step has spent so far.
#[derive(Debug, Default)]
pub(crate) struct Spending {
    pub tally: Arc<Tally>,
    /// When it began (Unix ms); 0 if that is not known.
    pub began_ms: u64,
    /// What earlier steps have left to it.
    pub before: Usage,
}

impl Spending {
    /// Requests, request units and bytes.
    pub(crate) fn total(&self) -> Usage {
        self.before.plus(self.tally.total().into())
    }

    /// The same with the time, of a turn.
    pub(crate) fn of_turn(&self, now_ms: u64) -> Usage {
        let turn_ms = match self.began_ms {
            0 => 0,
            began_ms => now_ms.saturating_sub(began_ms),
        };
        self.total().plus(Usage {
            turn_ms,
            ..Usage::default()
        })
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Spent(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    instances: HashMap<String, OfInstance>,
    /// The same instances, the oldest first.
    order: VecDeque<String>,
}

#[derive(Debug, Default)]
struct OfInstance {
    late: Vec<LateUsage>,
    spare: Usage,
}

impl State {
    fn of(&mut self, instance: &str) -> &mut OfInstance {
        if !self.instances.contains_key(instance) {
            if self.order.len() >= MOST_INSTANCES
                && let Some(oldest) = self.order.pop_front()
            {
                self.instances.remove(&oldest);
            }
            self.order.push_back(instance.to_owned());
        }
        self.instances.entry(instance.to_owned()).or_default()
    }
}

impl Spent {
    fn state(&self) -> MutexGuard<'_, State> {
        // Every statement leaves it consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps late usage, each once.
    pub(crate) fn keep(&self, instance: &str, late: impl IntoIterator<Item = LateUsage>) {
        let mut state = self.state();
        for late in late {
            let kept = &mut state.of(instance).late;
            kept.retain(|known| !known.is_of_same(&late));
            kept.push(late);
            let surplus = kept.len().saturating_sub(MOST_LATE);
            kept.drain(..surplus);
        }
    }

    /// The late usage of an instance, for a commit.
    pub(crate) fn late(&self, instance: &str) -> Vec<LateUsage> {
        let state = self.state();
        state
            .instances
            .get(instance)
            .map_or_else(Vec::new, |of| of.late.clone())
    }

    /// The newest of it, for a wakeup or a message.
    pub(crate) fn carried(&self, instance: &str) -> Vec<LateUsage> {
        let mut late = self.late(instance);
        late.drain(..late.len().saturating_sub(CARRIED));
        late
    }

    /// Forgets late usage that a document has now.
    pub(crate) fn forget(&self, instance: &str, counted: &[LateUsage]) {
        if let Some(of) = self.state().instances.get_mut(instance) {
            of.late.retain(|late| !counted.contains(late));
        }
    }

    /// Forgets the late usage of commits that the instance does not await: another process has counted it.
    pub(crate) fn settle(&self, instance: &str, usage: &InstanceUsage) {
        if let Some(of) = self.state().instances.get_mut(instance) {
            of.late.retain(|late| late.is_of_message() || usage.awaits(late));
        }
    }

    /// Keeps usage that no document counts.
    pub(crate) fn spare(&self, instance: &str, usage: Usage) {
        if !usage.is_nothing() {
            let mut state = self.state();
            let of = state.of(instance);
            of.spare = of.spare.plus(usage);
        }
    }

    /// Takes that usage along.
    pub(crate) fn take_spare(&self, instance: &str) -> Usage {
        let mut state = self.state();
        let of = state.instances.get_mut(instance);
        of.map_or_else(Usage::default, |of| std::mem::take(&mut of.spare))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn late(name: &str) -> LateUsage {
        LateUsage::of(name, Usage::REQUEST)
    }

    #[test]
    fn late_usage_is_kept_once_until_it_is_counted() {
        let spent = Spent::default();
        spent.keep("i", [late("c1"), late("c2"), late("c1")]);
        assert_eq!(spent.late("i").len(), 2);
        let mut usage = InstanceUsage::default();
        usage.await_late("c2");
        spent.keep("i", [late("m:1")]);
        spent.settle("i", &usage);
        assert_eq!(
            spent.late("i"),
            [late("c2"), late("m:1")],
            "a turn may still consume the message"
        );
        spent.forget("i", &[late("m:1"), late("c2")]);
        assert!(spent.late("i").is_empty() && spent.late("other").is_empty());
    }

    #[test]
    fn spare_usage_is_taken_once() {
        let spent = Spent::default();
        spent.spare("i", Usage::REQUEST);
        spent.spare("i", Usage::REQUEST);
        assert_eq!(spent.take_spare("i").requests, 2);
        assert!(spent.take_spare("i").is_nothing());
    }

    #[test]
    fn it_is_bounded_by_instances_and_by_names() {
        let spent = Spent::default();
        (0..3 * MOST_INSTANCES).for_each(|n| spent.spare(&format!("i{n}"), Usage::REQUEST));
        let state = spent.state();
        assert_eq!(
            (state.instances.len(), state.order.len()),
            (MOST_INSTANCES, MOST_INSTANCES)
        );
        drop(state);
        (0..2 * MOST_LATE).for_each(|n| spent.keep("many", [late(&format!("c{n}"))]));
        assert_eq!(
            (spent.late("many").len(), spent.carried("many").len()),
            (MOST_LATE, CARRIED)
        );
    }
}
