//! Coalescing: turn wakeups for one instance that several steps send at the same moment are one message.
//!
//! Ten activities of one instance that complete in one invocation make one turn due. Each would send its own wakeup, and
//! nine turns would find nothing to do. So each step *enters* before it begins, and the first that has such a wakeup waits
//! for the others: until none is under way, or none has come for [`QUIET`], and not longer than [`LONGEST`]. It sends the
//! wakeups of all, merged:
//!
//! ```text
//!   step 1 ──── commit ─ first ─── waits ──────────┬─ merged() ─ SQS ─┬─> its own answer
//!   step 2 ────── commit ─ joins ──────────────────┤                  ├─> its own answer
//!   step 3 ─────────────────── commit ─ joins ─────┘                  └─> its own answer
//! ```
//!
//! A step has its answer only when the message that includes its wakeup was accepted or refused, so a record is never
//! answered as served too early. What can go wrong: a message that is refused fails the wakeups of every step in it, as if
//! each had sent its own. A first step that is dropped while it waits, or that its client does not poll, leaves the others without
//! an answer; each then sends its own wakeups. A step without others under way, or without a turn wakeup that is due at once, does not wait.

use super::{BoundedNotifier, Delayed, NotSent};
use crate::wakeup::Wakeup;
use duroxide_cosmos::Target;
use std::collections::HashMap;
use std::ops::Range;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

/// How long the first step waits for the next one.
const QUIET: Duration = Duration::from_millis(5);
/// How long it waits for all of them: they come one by one from the store.
const LONGEST: Duration = Duration::from_millis(25);

/// How long a step waits for the first step to send its wakeups. Sending takes 2 s at most, unless configured otherwise.
const ANSWER: Duration = Duration::from_secs(3);

/// See the module. One for each invocation, or for each client.
#[derive(Debug)]
pub(crate) struct Coalescer {
    notifier: BoundedNotifier,
    state: Mutex<State>,
    /// Notified when a step has joined, or none is under way any more.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    under_way: usize,
    /// The wakeups that wait to be sent together. A step that is alive owns them, and sends them.
    collected: Option<Collected>,
}

#[derive(Debug)]
struct Collected {
    /// Until when the first step collects. A first that nobody polls keeps them longer; who comes then does not join.
    until: Instant,
    wakeups: Vec<Delayed>,
    /// Who waits for the answer, and which of the wakeups are its own.
    members: Vec<(Range<usize>, oneshot::Sender<Vec<NotSent>>)>,
}

impl Collected {
    fn until(until: Instant) -> Collected {
        Collected {
            until,
            wakeups: Vec::new(),
            members: Vec::new(),
        }
    }

    fn add(&mut self, wakeups: &[Delayed]) -> Range<usize> {
        let begin = self.wakeups.len();
        self.wakeups.extend_from_slice(wakeups);
        begin..self.wakeups.len()
    }
}

/// One step that may still send wakeups.
#[derive(Debug)]
pub(crate) struct UnderWay(Arc<Coalescer>);

/// How the wakeups of a step are sent.
enum Sending {
    /// By itself.
    Alone,
    /// It sends those of others, too.
    First(Range<usize>),
    /// Another step sends them.
    Joined(oneshot::Receiver<Vec<NotSent>>),
}

impl Coalescer {
    pub(crate) fn new(notifier: BoundedNotifier) -> Arc<Coalescer> {
        Arc::new(Coalescer {
            notifier,
            state: Mutex::default(),
            changed: Notify::new(),
        })
    }

    /// A step begins. Enter all steps of an invocation before the first of them runs.
    pub(crate) fn enter(self: &Arc<Self>) -> UnderWay {
        self.state().under_way += 1;
        UnderWay(Arc::clone(self))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every statement leaves the state consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides how the wakeups of a step are sent that is still counted as under way.
    fn sending(&self, wakeups: &[Delayed]) -> Sending {
        let mut state = self.state();
        let others = state.under_way.saturating_sub(1);
        match &mut state.collected {
            _ if !wakeups.iter().any(is_mergeable) => Sending::Alone,
            Some(collected) if collected.until < Instant::now() => Sending::Alone,
            Some(collected) => {
                let (sender, answer) = oneshot::channel();
                let own = collected.add(wakeups);
                collected.members.push((own, sender));
                self.changed.notify_waiters();
                Sending::Joined(answer)
            }
            None if others == 0 => Sending::Alone,
            none => Sending::First(none.insert(Collected::until(Instant::now() + LONGEST)).add(wakeups)),
        }
    }

    /// Waits for the other steps, until `end` at most.
    async fn until_quiet(&self, end: Instant) {
        loop {
            // Registered before the count is read, so that no change in between is missed.
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            let until = end.min(Instant::now() + QUIET);
            if self.state().under_way == 0 || timeout_at(until, changed).await.is_err() || Instant::now() >= end {
                return;
            }
        }
    }

    /// Sends what was collected, and answers each step. Returns the answer of the first step.
    async fn send_collected(&self, own: Range<usize>, left: Duration) -> Vec<NotSent> {
        let mut owner = Owner {
            coalescer: self,
            has_taken: false,
        };
        self.until_quiet(Instant::now() + LONGEST.min(left)).await;
        let Collected { wakeups, members, .. } = owner
            .take()
            .expect("only the first step takes what it collects, and it takes it once");
        let merged = merged(&wakeups);
        let failed = self.notifier.notify_within(left, merged.wakeups.clone()).await;
        let answer = |own: Range<usize>| merged.failures_of(&wakeups, own, &failed);
        for (of_member, member) in members {
            // A step that was dropped meanwhile needs no answer.
            member.send(answer(of_member)).unwrap_or_default();
        }
        answer(own)
    }
}

impl UnderWay {
    /// Where it has entered. A group of wakeups may take another step later, and enters again for it.
    pub(crate) fn coalescer(&self) -> &Arc<Coalescer> {
        &self.0
    }

    /// The step is over: sends its wakeups, with those of others if that helps, and returns those of its own that were not
    /// accepted.
    pub(crate) async fn notify(self, left: Duration, wakeups: Vec<Delayed>) -> Vec<NotSent> {
        let coalescer = Arc::clone(&self.0);
        let sending = coalescer.sending(&wakeups);
        drop(self);
        match sending {
            Sending::Alone => coalescer.notifier.notify_within(left, wakeups).await,
            Sending::First(own) => coalescer.send_collected(own, left).await,
            Sending::Joined(answer) => match timeout(ANSWER.min(left), answer).await {
                Ok(Ok(failed)) => failed,
                // The first step was dropped, or nobody polls it. What it sends after all finds nothing to do.
                _ => coalescer.notifier.notify_within(left, wakeups).await,
            },
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.under_way = state.under_way.saturating_sub(1);
        if state.under_way == 0 {
            self.0.changed.notify_waiters();
        }
    }
}

/// Owns what is collected. If it is dropped before it takes it, those who wait for an answer learn that none comes.
struct Owner<'a> {
    coalescer: &'a Coalescer,
    has_taken: bool,
}

impl Owner<'_> {
    fn take(&mut self) -> Option<Collected> {
        self.has_taken = true;
        self.coalescer.state().collected.take()
    }
}

impl Drop for Owner<'_> {
    fn drop(&mut self) {
        if !self.has_taken {
            self.take();
        }
    }
}

/// Wakeups, of which those for one turn are one.
#[derive(Debug, PartialEq, Eq)]
struct Merged {
    wakeups: Vec<Delayed>,
    /// For each of the original wakeups, its place in `wakeups`.
    places: Vec<usize>,
}

fn is_mergeable(delayed: &Delayed) -> bool {
    matches!(delayed.wakeup.target, Target::Turn { .. }) && delayed.delay.is_zero() && delayed.wakeup.probe.is_none()
}

/// Merges turn wakeups without delay for the same instance, in the order in which their steps ended. Wakeups of another
/// history (sent again, or by maintenance) stay apart: their reader treats them differently.
fn merged(wakeups: &[Delayed]) -> Merged {
    let mut known: HashMap<(&str, u32, bool), usize> = HashMap::new();
    let mut merged = Merged {
        wakeups: Vec::with_capacity(wakeups.len()),
        places: Vec::with_capacity(wakeups.len()),
    };
    for delayed in wakeups {
        let next = merged.wakeups.len();
        let wakeup = &delayed.wakeup;
        let key = (wakeup.target.instance(), wakeup.tries, wakeup.overdue);
        let place = match is_mergeable(delayed) {
            true => *known.entry(key).or_insert(next),
            false => next,
        };
        match merged.wakeups.get_mut(place) {
            Some(first) => first.wakeup.absorb(wakeup),
            None => merged.wakeups.push(delayed.clone()),
        }
        merged.places.push(place);
    }
    merged
}

impl Wakeup {
    /// Makes this wakeup stand for a later one, too.
    fn absorb(&mut self, later: &Wakeup) {
        // A process sees more and more of the store: the later token includes the earlier.
        if later.consistency_token.is_some() {
            self.consistency_token.clone_from(&later.consistency_token);
        }
        // It lists the moments of both: what is due at once (also one without a moment) must not wait for a timer, and a
        // reader whose clock is behind the last writer's must know that it came early.
        if self.due_ms.or(later.due_ms).is_some() {
            let at_once = [self.due_ms, later.due_ms].contains(&None).then_some(0);
            let mut dues: Vec<u64> = at_once.into_iter().chain(self.dues()).chain(later.dues()).collect();
            dues.sort_unstable();
            dues.dedup();
            self.set_dues(&dues);
        }
        self.execution = self.execution.max(later.execution);
        self.add_late_usage(later);
    }
}

impl Merged {
    /// Which of a step's own wakeups were not accepted.
    fn failures_of(&self, wakeups: &[Delayed], own: Range<usize>, failed: &[NotSent]) -> Vec<NotSent> {
        let failure = |index: usize| {
            let sent = &self.wakeups[self.places[index]].wakeup;
            let failed = failed.iter().find(|failed| failed.wakeup == *sent)?;
            Some(NotSent {
                wakeup: wakeups[index].wakeup.clone(),
                reason: failed.reason.clone(),
            })
        };
        own.filter_map(failure).collect()
    }
}

#[cfg(test)]
mod tests;
