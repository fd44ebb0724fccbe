//! A shop with a memory, for tests: what was done under which key, so that a test can distinguish once from twice. Behind the feature
//! `ledger`.

use crate::shop::{Answer, Charge, Key, NoAnswer, PickUp, Recall, Refund, Release, Reserve};
use crate::{Shop, SimulatedShop};
use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// For ever, as a number of faults.
pub const ALWAYS: u32 = u32::MAX;

/// A handle on the shop; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    done: BTreeMap<Key, Answer>,
    closed: BTreeSet<Key>,
    effects: Vec<String>,
    calls: Vec<&'static str>,
    faults: BTreeMap<(&'static str, Fault), u32>,
}

/// What can go wrong with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// It never arrives.
    LostBefore,
    /// It is done, and its answer never arrives.
    LostAfter,
    /// It is done, and its worker hears nothing and waits for ever.
    Hangs,
}

impl Ledger {
    /// The next `times` calls of `step` have this fault.
    pub fn inject(&self, step: &'static str, fault: Fault, times: u32) {
        self.state().faults.insert((step, fault), times);
    }

    /// What happened in the site, each once for each time it happened: `charge a/charge`, `refund a/charge`.
    pub fn effects(&self) -> Vec<String> {
        self.state().effects.clone()
    }

    /// How often something happened in the site.
    pub fn count(&self, effect: &str) -> usize {
        self.effects().iter().filter(|happened| *happened == effect).count()
    }

    /// What happened from the first compensation on.
    pub fn undoing(&self) -> Vec<String> {
        let undoes = |effect: &String| {
            ["recall", "refund", "release"]
                .iter()
                .any(|undo| effect.starts_with(undo))
        };
        self.effects()
            .into_iter()
            .skip_while(|effect| !undoes(effect))
            .collect()
    }

    /// How often a step was called, whatever came of it.
    pub fn calls(&self, step: &str) -> usize {
        self.state().calls.iter().filter(|called| **called == step).count()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A step: done at most once per key, refused once its key was closed.
    async fn perform(
        &self,
        step: &'static str,
        key: &Key,
        answer: Result<Answer, NoAnswer>,
    ) -> Result<Answer, NoAnswer> {
        let done = self.state().perform(step, key, answer);
        self.perhaps_hang(step).await;
        done
    }

    /// A compensation: has an effect only where there was one to undo.
    async fn undo(&self, step: &'static str, of: &Key, answer: Result<(), NoAnswer>) -> Result<(), NoAnswer> {
        let undone = self.state().undo(step, of, answer);
        self.perhaps_hang(step).await;
        undone
    }

    async fn perhaps_hang(&self, step: &'static str) {
        let hangs = self.state().takes(step, Fault::Hangs);
        if hangs {
            pending::<()>().await;
        }
    }
}

impl State {
    fn perform(&mut self, step: &'static str, key: &Key, answer: Result<Answer, NoAnswer>) -> Result<Answer, NoAnswer> {
        self.begin(step)?;
        let answer = match self.done.get(key) {
            _ if self.closed.contains(key) => Answer::Refused {
                reason: format!("{key} is closed"),
            },
            Some(known) => known.clone(),
            None => answer?,
        };
        if matches!(answer, Answer::Done { .. }) && self.done.insert(key.clone(), answer.clone()).is_none() {
            self.effects.push(format!("{step} {key}"));
        }
        self.end(step)?;
        Ok(answer)
    }

    fn undo(&mut self, step: &'static str, of: &Key, answer: Result<(), NoAnswer>) -> Result<(), NoAnswer> {
        self.begin(step)?;
        answer?;
        if self.closed.insert(of.clone()) && self.done.contains_key(of) {
            self.effects.push(format!("{step} {of}"));
        }
        self.end(step)
    }

    fn begin(&mut self, step: &'static str) -> Result<(), NoAnswer> {
        self.calls.push(step);
        match self.takes(step, Fault::LostBefore) {
            true => Err(NoAnswer(format!("{step} never arrived"))),
            false => Ok(()),
        }
    }

    fn end(&mut self, step: &'static str) -> Result<(), NoAnswer> {
        match self.takes(step, Fault::LostAfter) {
            true => Err(NoAnswer(format!("the answer of {step} was lost"))),
            false => Ok(()),
        }
    }

    fn takes(&mut self, step: &'static str, fault: Fault) -> bool {
        match self.faults.get_mut(&(step, fault)) {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => false,
        }
    }
}

impl Shop for Ledger {
    async fn reserve(&self, key: &Key, ask: &Reserve) -> Result<Answer, NoAnswer> {
        self.perform("reserve", key, SimulatedShop.reserve(key, ask).await)
            .await
    }

    async fn charge(&self, key: &Key, ask: &Charge) -> Result<Answer, NoAnswer> {
        self.perform("charge", key, SimulatedShop.charge(key, ask).await).await
    }

    async fn pick_up(&self, key: &Key, ask: &PickUp) -> Result<Answer, NoAnswer> {
        self.perform("pick-up", key, SimulatedShop.pick_up(key, ask).await)
            .await
    }

    async fn release(&self, key: &Key, ask: &Release) -> Result<(), NoAnswer> {
        self.undo("release", &ask.reservation, SimulatedShop.release(key, ask).await)
            .await
    }

    async fn refund(&self, key: &Key, ask: &Refund) -> Result<(), NoAnswer> {
        self.undo("refund", &ask.charge, SimulatedShop.refund(key, ask).await)
            .await
    }

    async fn recall(&self, key: &Key, ask: &Recall) -> Result<(), NoAnswer> {
        self.undo("recall", &ask.pick_up, SimulatedShop.recall(key, ask).await)
            .await
    }
}
