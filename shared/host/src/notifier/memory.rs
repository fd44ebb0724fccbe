//! A notifier that keeps the wakeups in memory, for tests and benchmarks.
//!
//! It has no clock: the test that takes the wakeups decides what a delay means, and how deep the queues are. It can fail and hang on demand, to test the
//! limits of its callers.

use super::{Delayed, Depth, NotSent, Notifier, QueueName};
use async_trait::async_trait;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use tokio::sync::watch;

/// Keeps wakeups in the order in which they were sent.
#[derive(Debug, Default)]
pub struct Memory {
    state: Mutex<State>,
    held: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct State {
    notified: Vec<Delayed>,
    /// How many of `notified` were taken.
    taken: usize,
    calls: usize,
    failed: usize,
    fail_next: usize,
    fail_all: bool,
    depths: BTreeMap<QueueName, Depth>,
    depth_calls: usize,
}

impl Memory {
    /// A notifier that accepts everything.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// The wakeups since the last call.
    pub fn take(&self) -> Vec<Delayed> {
        let mut state = self.state();
        let fresh = state.notified[state.taken..].to_vec();
        state.taken = state.notified.len();
        fresh
    }

    /// All wakeups, taken or not.
    pub fn notified(&self) -> Vec<Delayed> {
        self.state().notified.clone()
    }

    /// The number of accepted wakeups.
    pub fn count(&self) -> usize {
        self.state().notified.len()
    }

    /// The number of refused wakeups.
    pub fn failed(&self) -> usize {
        self.state().failed
    }

    /// The number of calls of [`Notifier::notify`] that did not hang.
    pub fn calls(&self) -> usize {
        self.state().calls
    }

    /// Refuses the next `wakeups` wakeups.
    pub fn fail_next(&self, wakeups: usize) {
        self.state().fail_next = wakeups;
    }

    /// Refuses every wakeup, or accepts them again.
    pub fn fail_all(&self, fail: bool) {
        self.state().fail_all = fail;
    }

    /// Answers this as the depth of a queue, or that it is not known (as at first). The wakeups that are kept do not count:
    /// the test decides which of them are in a queue.
    pub fn set_depth(&self, queue: QueueName, depth: Option<Depth>) {
        let mut state = self.state();
        match depth {
            Some(depth) => drop(state.depths.insert(queue, depth)),
            None => drop(state.depths.remove(&queue)),
        }
    }

    /// The number of calls of [`Notifier::depth`].
    pub fn depth_calls(&self) -> usize {
        self.state().depth_calls
    }

    /// Lets every call hang, until [`release`](Self::release). A call that is cancelled while it hangs sends nothing.
    pub fn hold(&self) {
        self.held.send_replace(true);
    }

    /// Lets the hanging calls continue.
    pub fn release(&self) {
        self.held.send_replace(false);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the lock")
    }
}

impl State {
    /// Keeps the wakeup, or refuses it.
    fn keep(&mut self, delayed: &Delayed) -> Option<NotSent> {
        if self.fail_all || self.fail_next > 0 {
            self.fail_next = self.fail_next.saturating_sub(1);
            self.failed += 1;
            return Some(NotSent {
                wakeup: delayed.wakeup.clone(),
                reason: "this notifier fails on demand".to_owned(),
            });
        }
        self.notified.push(delayed.clone());
        None
    }
}

#[async_trait]
impl Notifier for Memory {
    async fn notify(&self, wakeups: &[Delayed]) -> Vec<NotSent> {
        let mut held = self.held.subscribe();
        held.wait_for(|held| !held)
            .await
            .expect("the sender lives as long as self");
        let mut state = self.state();
        state.calls += 1;
        wakeups.iter().filter_map(|delayed| state.keep(delayed)).collect()
    }

    async fn depth(&self, queue: &QueueName) -> Option<Depth> {
        let mut state = self.state();
        state.depth_calls += 1;
        state.depths.get(queue).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wakeup::Wakeup;
    use std::sync::Arc;
    use std::time::Duration;

    fn wakeups(names: &[&str]) -> Vec<Delayed> {
        names.iter().map(|name| Delayed::now(Wakeup::turn(*name))).collect()
    }

    #[tokio::test]
    async fn wakeups_are_taken_once_and_remembered() {
        let memory = Memory::new();
        assert!(memory.notify(&wakeups(&["a", "b"])).await.is_empty());
        assert_eq!(memory.take(), wakeups(&["a", "b"]));
        assert!(memory.take().is_empty());
        assert!(memory.notify(&wakeups(&["c"])).await.is_empty());
        assert_eq!(memory.take(), wakeups(&["c"]));
        assert_eq!(memory.notified(), wakeups(&["a", "b", "c"]));
        assert_eq!((memory.count(), memory.calls(), memory.failed()), (3, 2, 0));
    }

    #[tokio::test]
    async fn it_fails_on_demand() {
        let memory = Memory::new();
        memory.fail_next(2);
        let failed = memory.notify(&wakeups(&["a", "b", "c"])).await;
        let failed: Vec<_> = failed.iter().map(|not| not.wakeup.target.instance()).collect();
        assert_eq!(failed, ["a", "b"]);
        memory.fail_all(true);
        assert_eq!(memory.notify(&wakeups(&["d", "e"])).await.len(), 2);
        memory.fail_all(false);
        assert!(memory.notify(&wakeups(&["f"])).await.is_empty());
        assert_eq!(memory.notified(), wakeups(&["c", "f"]));
        assert_eq!(memory.failed(), 4);
    }

    #[tokio::test]
    async fn a_call_hangs_until_release_and_sends_nothing_when_cancelled() {
        let memory = Arc::new(Memory::new());
        memory.hold();
        let given_up = tokio::time::timeout(Duration::from_millis(20), memory.notify(&wakeups(&["a"]))).await;
        assert!(given_up.is_err());
        let waiting = tokio::spawn({
            let memory = Arc::clone(&memory);
            async move { memory.notify(&wakeups(&["b"])).await }
        });
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(memory.count(), 0);
        memory.release();
        assert!(waiting.await.unwrap().is_empty());
        assert_eq!(memory.notified(), wakeups(&["b"]));
    }
}
