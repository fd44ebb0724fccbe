//! What an invocation hands to the dispatchers: requests for one step each.

use super::step::{Outcome, Step};
use crate::budget::Budget;
use crate::notifier::Delayed;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use tokio::sync::{Notify, oneshot};

/// Where the result of a step goes.
#[derive(Debug)]
pub(super) struct Answer {
    pub to: oneshot::Sender<Step>,
    /// Wakeups that the step sends, whatever becomes of it.
    pub wakeups: Vec<Delayed>,
}

impl Answer {
    pub(super) fn reply(self, mut step: Step) {
        step.wakeups.extend(self.wakeups);
        reply(self.to, step);
    }
}

/// A request for one step.
#[derive(Debug)]
pub(super) struct StepRequest<T> {
    pub target: T,
    pub budget: Budget,
    answer: Answer,
}

impl<T> StepRequest<T> {
    pub(super) fn new(target: T, budget: Budget, answer: oneshot::Sender<Step>) -> Self {
        let answer = Answer {
            to: answer,
            wakeups: Vec::new(),
        };
        StepRequest { target, budget, answer }
    }

    /// The same, with wakeups for what its fetch has made due.
    pub(super) fn waking(mut self, wakeups: Vec<Delayed>) -> Self {
        self.answer.wakeups.extend(wakeups);
        self
    }

    /// Answers it without a step.
    pub(super) fn answer(self, outcome: Outcome) {
        self.done(Step::not_begun(outcome));
    }

    /// Answers it with a step that the fetch itself took.
    pub(super) fn done(self, step: Step) {
        self.answer.reply(step);
    }

    pub(super) fn fail(self, error: impl Into<String>) {
        self.done(Step::failed(error));
    }

    /// The parts of a request whose step begins.
    pub(super) fn split(self) -> (T, Budget, Answer) {
        (self.target, self.budget, self.answer)
    }
}

/// Answers the invocation. One that has ended has already reported its record as failed, so SQS delivers it again.
pub(super) fn reply(answer: oneshot::Sender<Step>, step: Step) {
    if let Err(step) = answer.send(step) {
        tracing::warn!(
            outcome = step.outcome.name(),
            execution = step.execution,
            number = step.number,
            "a step ended after its invocation had been answered"
        );
    }
}

/// The requests that wait for a dispatcher, first come first served.
#[derive(Debug)]
pub(super) struct RequestQueue<T> {
    queue: Mutex<VecDeque<StepRequest<T>>>,
    arrived: Notify,
}

impl<T> Default for RequestQueue<T> {
    fn default() -> Self {
        RequestQueue {
            queue: Mutex::default(),
            arrived: Notify::new(),
        }
    }
}

impl<T> RequestQueue<T> {
    pub(super) fn push(&self, request: StepRequest<T>) {
        self.queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_back(request);
        self.arrived.notify_one();
    }

    /// The next request whose invocation still waits. Dropping the future loses none.
    pub(super) async fn next(&self) -> StepRequest<T> {
        loop {
            let arrived = self.arrived.notified();
            if let Some(request) = self.take() {
                // `notify_one` leaves at most one permit for several requests: wake the next dispatcher.
                self.arrived.notify_one();
                return request;
            }
            arrived.await;
        }
    }

    fn take(&self) -> Option<StepRequest<T>> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(request) = queue.pop_front() {
            if !request.answer.to.is_closed() {
                return Some(request);
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

    fn request(target: u32) -> (StepRequest<u32>, oneshot::Receiver<Step>) {
        let (answer, answered) = oneshot::channel();
        let budget = Budget::of(Duration::from_secs(60));
        (StepRequest::new(target, budget, answer), answered)
    }

    #[tokio::test]
    async fn ten_requests_at_once_wake_ten_dispatchers() {
        let requests = Arc::new(RequestQueue::default());
        let dispatchers: Vec<_> = (0..10)
            .map(|_| {
                let requests = Arc::clone(&requests);
                tokio::spawn(async move {
                    let request: StepRequest<u32> = requests.next().await;
                    // It never takes a second one: each must be woken by itself.
                    let target = request.target;
                    request.answer(Outcome::Nothing);
                    target
                })
            })
            .collect();
        tokio::task::yield_now().await;
        let mut waiting = Vec::new();
        for target in 0..10 {
            let (request, answered) = request(target);
            requests.push(request);
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
    async fn a_request_whose_invocation_has_ended_is_skipped() {
        let requests = RequestQueue::default();
        let (gone, answered) = request(1);
        drop(answered);
        let (waiting, _answered) = request(2);
        requests.push(gone);
        requests.push(waiting);
        assert_eq!(requests.next().await.target, 2);
    }
}
