//! Tickets: what an invocation asks the dispatchers for.

use super::cycle::{Cycle, Outcome};
use crate::budget::Budget;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use tokio::sync::{Notify, oneshot};

/// The right to one cycle.
#[derive(Debug)]
pub(super) struct Ticket<T> {
    pub target: T,
    pub budget: Budget,
    answer: oneshot::Sender<Cycle>,
}

impl<T> Ticket<T> {
    pub(super) fn new(target: T, budget: Budget, answer: oneshot::Sender<Cycle>) -> Self {
        Ticket { target, budget, answer }
    }

    /// Ends it without a cycle.
    pub(super) fn answer(self, outcome: Outcome) {
        reply(self.answer, Cycle::not_begun(outcome));
    }

    pub(super) fn fail(self, error: impl Into<String>) {
        reply(self.answer, Cycle::failed(error));
    }

    /// The target, and who waits for the answer.
    pub(super) fn split(self) -> (T, Budget, oneshot::Sender<Cycle>) {
        (self.target, self.budget, self.answer)
    }
}

/// Answers the holder. One who has gone at the end of its budget has reported the wakeup as failed, so it comes again.
pub(super) fn reply(answer: oneshot::Sender<Cycle>, cycle: Cycle) {
    if let Err(cycle) = answer.send(cycle) {
        tracing::warn!(
            outcome = cycle.outcome.name(),
            execution = cycle.execution,
            step = cycle.step,
            "a cycle ended after its invocation was answered"
        );
    }
}

/// The tickets that wait for a dispatcher, first come first served.
#[derive(Debug)]
pub(super) struct Tickets<T> {
    queue: Mutex<VecDeque<Ticket<T>>>,
    arrived: Notify,
}

impl<T> Default for Tickets<T> {
    fn default() -> Self {
        Tickets {
            queue: Mutex::default(),
            arrived: Notify::new(),
        }
    }
}

impl<T> Tickets<T> {
    pub(super) fn push(&self, ticket: Ticket<T>) {
        self.queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_back(ticket);
        self.arrived.notify_one();
    }

    /// The next ticket whose holder still waits. Dropping the future loses none.
    pub(super) async fn next(&self) -> Ticket<T> {
        loop {
            let arrived = self.arrived.notified();
            if let Some(ticket) = self.take() {
                // `notify_one` leaves at most one permit for several tickets: wake the next dispatcher.
                self.arrived.notify_one();
                return ticket;
            }
            arrived.await;
        }
    }

    fn take(&self) -> Option<Ticket<T>> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(ticket) = queue.pop_front() {
            if !ticket.answer.is_closed() {
                return Some(ticket);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;

    fn ticket(target: u32) -> (Ticket<u32>, oneshot::Receiver<Cycle>) {
        let (answer, answered) = oneshot::channel();
        (
            Ticket::new(target, Budget::of(Duration::from_secs(60)), answer),
            answered,
        )
    }

    #[tokio::test]
    async fn ten_tickets_at_once_wake_ten_dispatchers() {
        let tickets = Arc::new(Tickets::default());
        let dispatchers: Vec<_> = (0..10)
            .map(|_| {
                let tickets = Arc::clone(&tickets);
                tokio::spawn(async move {
                    let ticket: Ticket<u32> = tickets.next().await;
                    // It never asks for a second one: each must be woken by itself.
                    let target = ticket.target;
                    ticket.answer(Outcome::Nothing);
                    target
                })
            })
            .collect();
        tokio::task::yield_now().await;
        let mut waiting = Vec::new();
        for target in 0..10 {
            let (ticket, answered) = ticket(target);
            tickets.push(ticket);
            waiting.push(answered);
        }
        let mut served = Vec::new();
        for dispatcher in dispatchers {
            let done = tokio::time::timeout(Duration::from_secs(30), dispatcher).await;
            served.push(done.expect("every dispatcher is woken").unwrap());
        }
        served.sort_unstable();
        assert_eq!(served, (0..10).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_ticket_whose_holder_has_gone_is_skipped() {
        let tickets = Tickets::default();
        let (gone, answered) = ticket(1);
        drop(answered);
        let (waiting, _answered) = ticket(2);
        tickets.push(gone);
        tickets.push(waiting);
        assert_eq!(tickets.next().await.target, 2);
    }
}
