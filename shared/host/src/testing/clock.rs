//! The clock of a simulation, and how duroxide's timers are put on it.
//!
//! Virtual time is tokio's paused time: it stands still while anything can run, and jumps to the next deadline when nothing can. So
//! timers of workflows, `tokio::time` in activities and duroxide's own renewals of locks all follow it.
//!
//! duroxide reads the wall clock itself in three places and lets nobody replace it: for the due time of a timer, for the time of an
//! event and for the time of a key. Times of events and keys are overwritten when a turn is committed. The due time of a timer is
//! `wall clock + delay`: [`Timers`] reads the wall clock just before and after each poll of the code, which gives the delay exactly
//! if the poll did not cross a millisecond. If it did, the turn is not committed but run again: a turn has no effects.

use duroxide::providers::WorkItem;
use duroxide::{Action, Event, EventKind, OrchestrationContext};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::runtime::Handle;
use tokio::time::Instant;

/// A poll that begins later in a millisecond than this waits for the next one.
const LATEST_BEGIN_MICROS: u64 = 900;

/// Virtual time, in milliseconds since 1970.
#[derive(Clone, Debug)]
pub(crate) struct VirtualClock {
    /// Whose time it is: other threads have real time.
    tokio: Handle,
    began: Instant,
    began_ms: u64,
}

impl VirtualClock {
    /// A clock that shows this time now. To be called within a tokio runtime.
    pub fn starting_at(began_ms: u64) -> VirtualClock {
        VirtualClock {
            tokio: Handle::current(),
            began: Instant::now(),
            began_ms,
        }
    }

    pub fn began_ms(&self) -> u64 {
        self.began_ms
    }

    pub fn now_ms(&self) -> u64 {
        let _entered = self.tokio.enter();
        self.began_ms + self.began.elapsed().as_millis() as u64
    }

    /// tokio's instant of a time.
    pub fn instant(&self, ms: u64) -> Instant {
        self.began + Duration::from_millis(ms.saturating_sub(self.began_ms))
    }
}

/// The delays of the timers that code has asked for, by instance, in the order of the code.
#[derive(Debug, Default)]
pub(super) struct Timers {
    /// With the due times on the wall clock.
    turns: Mutex<HashMap<String, Vec<(u64, Delay)>>>,
}

/// The delay of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delay {
    Exact(u64),
    /// The poll crossed a millisecond: at most this.
    AtMost(u64),
}

impl Delay {
    pub fn at_most(self) -> u64 {
        match self {
            Delay::Exact(ms) | Delay::AtMost(ms) => ms,
        }
    }
}

impl Timers {
    /// The code of an instance begins from the top.
    pub fn begin(&self, instance: &str) {
        self.turns().insert(instance.to_owned(), Vec::new());
    }

    /// Polls code, and notes the timers that it asks for. `seen` is the last action of the polls before.
    pub fn watch<T>(&self, ctx: &OrchestrationContext, seen: &mut u64, poll: impl FnOnce() -> T) -> T {
        if !ctx.is_replaying() {
            while wall_micros() % 1_000 > LATEST_BEGIN_MICROS {
                std::hint::spin_loop();
            }
        }
        let began = wall_micros() / 1_000;
        let polled = poll();
        let ended = wall_micros() / 1_000;
        let actions = ctx.get_emitted_actions();
        let delays = actions
            .iter()
            .filter(|(token, _)| token > seen)
            .filter_map(|(_, action)| match action {
                Action::CreateTimer { fire_at_ms, .. } => {
                    let delay = fire_at_ms.saturating_sub(began);
                    Some(match began == ended {
                        true => (*fire_at_ms, Delay::Exact(delay)),
                        false => (*fire_at_ms, Delay::AtMost(delay)),
                    })
                }
                _ => None,
            });
        let mut turns = self.turns();
        turns.entry(ctx.instance_id()).or_default().extend(delays);
        *seen = actions.last().map_or(*seen, |(token, _)| (*seen).max(*token));
        polled
    }

    /// The delays of the new timers of a turn, by their due times on the wall clock. They are the last that the code has asked for.
    pub fn delays(&self, instance: &str, due: &[u64]) -> Vec<Delay> {
        let turns = self.turns();
        let mut asked = turns.get(instance).map(Vec::as_slice).unwrap_or_default();
        let mut delays = Vec::new();
        for due in due.iter().rev() {
            let found = asked.iter().rposition(|(asked, _)| asked == due);
            delays.push(found.map_or(Delay::AtMost(0), |at| asked[at].1));
            asked = &asked[..found.unwrap_or(asked.len())];
        }
        delays.reverse();
        delays
    }

    fn turns(&self) -> std::sync::MutexGuard<'_, HashMap<String, Vec<(u64, Delay)>>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time of the wall clock in what a turn commits, replaced by virtual time.
pub(super) fn on_virtual_time(now: u64, delays: &[Delay], events: &mut [Event], messages: &mut [WorkItem]) {
    let mut delays = delays.iter();
    let mut due = HashMap::new();
    for event in events {
        event.timestamp_ms = now;
        match &mut event.kind {
            EventKind::TimerCreated { fire_at_ms } => {
                let delay = delays.next().map_or(0, |delay| delay.at_most());
                *fire_at_ms = now.saturating_add(delay);
                due.insert(event.event_id, *fire_at_ms);
            }
            EventKind::KeyValueSet { last_updated_at_ms, .. } => *last_updated_at_ms = now,
            _ => {}
        }
    }
    for message in messages {
        if let WorkItem::TimerFired { id, fire_at_ms, .. } = message
            && let Some(due) = due.get(id)
        {
            *fire_at_ms = *due;
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "duroxide reads the wall clock, too")]
fn wall_micros() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_micros() as u64
}
