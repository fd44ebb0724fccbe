//! The gate: one fetch-execute-ack cycle of duroxide's runtime per wakeup.
//!
//! duroxide has no call for one turn: its runtime owns dispatchers that poll. The gate is the provider that they poll.
//! Its `fetch_*` waits for a *ticket*, makes one directed fetch for it, and hands the runtime what it found; the
//! `ack_*` or `abandon_*` that follows answers the ticket's holder with the [`Cycle`] that happened.
//!
//! ```text
//!   invocation --ticket--> fetch_* --directed fetch--> store          ticket: answered by
//!        ^                    | Ready                                   fetch_*    nothing, busy, deferred, failed
//!        |                    v                                         ack_*      committed, cancelled
//!        |              runtime executes                                abandon_*  abandoned
//!        |                    v                                         the next fetch_* of the same dispatcher,
//!        +------answer--- ack_* / abandon_* ----commit----> store         when the runtime gave up: failed
//! ```
//!
//! Between invocations all dispatchers are parked in `fetch_*`, so nothing polls and nothing runs in a frozen process.
//!
//! Invariants:
//! - A ticket leads to at most one fetch, one execution and one commit, and is answered exactly once.
//! - `fetch_*` never answers the runtime "nothing" or an error, which would make the dispatcher sleep inside an
//!   invocation. It answers the ticket instead, and waits for the next.
//! - Nothing is sent to the store for a ticket whose budget is spent. What it held is left to its lock.
//! - The runtime's own errands (session renewal, session cleanup, metrics) cost no request outside a cycle.
//!
//! What could go wrong, and what is done: a dispatcher that never comes back (it cannot be aborted) leaves its ticket
//! to the holder's time limit; a commit whose answer does not come in time is reported as failed although it may have
//! happened, so it is notified for as if it had, and the next wakeup finds out; a lock whose renewal fails because the store is away is tried again until it
//! expires, because giving up early would throw a running activity away.

mod cycle;
mod open;
mod ticket;
mod turn;
mod verbs;
mod work;

use crate::budget::Budget;
use crate::config::Limits;
use crate::directed::Directed;
use crate::wakeup::{Target, WorkTarget};
use cosmos::Clock;
use duroxide::providers::{Provider, ProviderError};
use open::OpenCycles;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use ticket::{Ticket, Tickets};
use tokio::sync::oneshot;

pub use cycle::{Cycle, Ended, Outcome};

/// How long a holder waits beyond the budget's end: a request that is cut off there still has something to say.
const LAST_WORD: Duration = Duration::from_millis(100);

/// See the module.
pub struct Gate {
    inner: Arc<dyn Provider>,
    directed: Arc<dyn Directed>,
    clock: Arc<dyn Clock>,
    limits: Limits,
    turns: Tickets<String>,
    works: Tickets<WorkTarget>,
    open: OpenCycles,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("inner", &self.inner.name())
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl Gate {
    /// A gate in front of a provider and its directed fetches.
    pub fn new(inner: Arc<dyn Provider>, directed: Arc<dyn Directed>, clock: Arc<dyn Clock>, limits: Limits) -> Gate {
        Gate {
            inner,
            directed,
            clock,
            limits,
            turns: Tickets::default(),
            works: Tickets::default(),
            open: OpenCycles::default(),
        }
    }

    /// Has the runtime do one cycle for the target, and waits for its end or the budget's.
    pub async fn serve(&self, target: Target, budget: Budget) -> Cycle {
        let (answer, answered) = oneshot::channel();
        match target {
            Target::Turn { instance } => self.turns.push(Ticket::new(instance, budget, answer)),
            Target::Work(work) => self.works.push(Ticket::new(work, budget, answer)),
        }
        match tokio::time::timeout_at(budget.end() + LAST_WORD, answered).await {
            Ok(Ok(cycle)) => cycle,
            Ok(Err(_)) => Cycle::failed("the runtime dropped the ticket: it is shutting down"),
            Err(_) => Cycle::failed(
                "the cycle did not end within the invocation: its lock expires by itself, then another wakeup repeats it",
            ),
        }
    }

    /// Runs a request for a cycle, within its budget.
    async fn within<T>(
        budget: Budget,
        operation: &str,
        request: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<T, ProviderError> {
        if budget.is_spent() {
            return Err(too_late(operation));
        }
        match tokio::time::timeout_at(budget.end(), request).await {
            Ok(done) => done,
            Err(_) => Err(too_late(operation)),
        }
    }
}

fn too_late(operation: &str) -> ProviderError {
    let message = "the invocation's time is over: give the function a longer timeout, or see why the store is slow";
    ProviderError::permanent(operation, message)
}

/// The runtime asked for something that no open cycle covers.
fn not_open(operation: &str) -> ProviderError {
    ProviderError::permanent(
        operation,
        "the cycle of this lock has ended: its invocation was answered",
    )
}
