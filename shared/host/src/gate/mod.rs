//! The gate: one step of duroxide's runtime per wakeup.
//!
//! duroxide has no call for one turn: its runtime owns dispatchers that poll. The gate is the provider that they poll.
//! Its `fetch_*` waits for a *request*, makes one directed fetch for it, and hands the runtime what it found; the
//! `ack_*` or `abandon_*` that follows answers the request with the [`Step`] that happened.
//!
//! ```text
//!   invocation --request--> fetch_* --directed fetch--> store         request: answered by
//!        ^                    | Ready                                   fetch_*    nothing, busy, deferred, failed
//!        |                    v                                         ack_*      committed, cancelled
//!        |              runtime executes                                abandon_*  abandoned
//!        |                    v                                         the next fetch_* of the same dispatcher,
//!        +------answer--- ack_* / abandon_* ----commit----> store         when the runtime gave the step up: failed
//! ```
//!
//! Between invocations all dispatchers wait in `fetch_*`, so nothing polls and nothing runs in a frozen process.
//!
//! Invariants:
//! - A request leads to at most one fetch, one execution and one commit, and is answered exactly once.
//! - `fetch_*` never answers the runtime "nothing" or an error, which would make the dispatcher sleep inside an
//!   invocation. It answers the request instead, and waits for the next.
//! - Nothing is sent to the store for a request whose budget is spent. What it had claimed is left to its lock.
//! - The runtime's background work (session renewal, session cleanup, metrics) costs no request outside a step.
//!
//! What can go wrong:
//! - A dispatcher never comes back (it cannot be aborted): the request ends with the budget of its invocation.
//! - The answer of a commit does not come in time: the step is reported as failed although it may have happened. Its
//!   wakeups are sent as if it had, and the next wakeup finds out. A commit that is known to be written is never reported
//!   as failed, even if the time ends before its messages to other instances are delivered.
//! - The build cannot go on with a turn (`block`): the instance is blocked instead, and the runtime is told that all is well.
//! - Another environment commits the same turn first, where neither has claimed it: this one has written nothing. The
//!   runtime is told that all is well, because on an error it would commit a failure of the orchestration.
//! - An activity was tried as often as allowed: the gate completes it with a failure before the runtime sees it. The runtime
//!   has no limit of its own.
//! - A renewal fails because the store does not answer: it is tried again until the lock expires, because giving up
//!   early would throw a running activity away.

mod block;
mod ending;
mod given_up;
mod open;
mod others;
mod reason;
mod request;
mod step;
mod turn;
mod verbs;
mod work;

pub(crate) use block::{cut, not_registered, without_payloads};
#[cfg(feature = "testing")]
pub(crate) use block::{defect, is_over, unknown, unknown_activity};
#[cfg(feature = "testing")]
pub(crate) use ending::cancelled;
#[cfg(feature = "testing")]
pub(crate) use reason::killed;

use crate::budget::Budget;
use crate::config::{LEAST_TIME, Limits};
use crate::due::Schedule;
use crate::notifier::Delayed;
use crate::notifying_provider::NotifyingProvider;
use crate::wakeup::recent_consistency_token;
use cosmos::Clock;
use duroxide::OrchestrationRegistry;
use duroxide::providers::{Provider as _, ProviderError};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide_cosmos::{CosmosProvider, Decided, Due, WorkTarget};
use open::OpenSteps;
use others::LastSearch;
use request::{RequestQueue, StepRequest};
use std::fmt;
use std::sync::{Arc, Once};
use std::time::Duration;
use tokio::sync::oneshot;

pub use step::{Ended, Outcome, Step};

/// How long after its start the runtime first renews an activity's lock. From then on the gate can stop it.
pub(crate) const FIRST_RENEWAL: Duration = LEAST_TIME;

/// How long an invocation waits beyond the end of its budget: a request to the store that is cut off there still
/// produces an error that names it.
const LAST_ANSWER: Duration = Duration::from_millis(100);

/// A turn to take.
#[derive(Clone, Debug)]
pub(crate) struct TurnTarget {
    pub instance: String,
    /// The execution that it is expected to belong to.
    pub execution: Option<u64>,
    /// Claim it first, and count the attempt: an earlier one may have ended its process.
    pub claims: bool,
}

/// What a step is for.
#[derive(Clone, Debug)]
pub(crate) enum StepTarget {
    Turn(TurnTarget),
    Work(WorkTarget),
}

/// See the module.
pub struct Gate {
    store: Arc<CosmosProvider>,
    /// The same store for activities that start or raise something: it sends the wakeups.
    client: NotifyingProvider,
    clock: Arc<dyn Clock>,
    limits: Limits,
    turns: RequestQueue<TurnTarget>,
    works: RequestQueue<WorkTarget>,
    open: OpenSteps,
    limits_checked: Once,
    searched: LastSearch,
    /// What the runtime can run: what it cannot run is blocked before it gets it.
    registered: Registered,
}

/// What a function registers.
pub(crate) struct Registered {
    pub orchestrations: OrchestrationRegistry,
    pub activities: ActivityRegistry,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("store", &self.store.name())
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl Gate {
    /// A gate in front of a store.
    pub(crate) fn new(
        store: Arc<CosmosProvider>,
        client: NotifyingProvider,
        clock: Arc<dyn Clock>,
        limits: Limits,
        registered: Registered,
    ) -> Gate {
        Gate {
            store,
            client,
            clock,
            limits,
            turns: RequestQueue::default(),
            works: RequestQueue::default(),
            open: OpenSteps::default(),
            registered,
            limits_checked: Once::new(),
            searched: LastSearch::default(),
        }
    }

    /// Has the runtime take one step for the target, and waits for its end or the budget's.
    pub(crate) async fn serve(&self, target: StepTarget, budget: Budget) -> Step {
        let (answer, answered) = oneshot::channel();
        match target {
            StepTarget::Turn(turn) => self.turns.push(StepRequest::new(turn, budget, answer)),
            StepTarget::Work(work) => self.works.push(StepRequest::new(work, budget, answer)),
        }
        match tokio::time::timeout_at(budget.end() + LAST_ANSWER, answered).await {
            Ok(Ok(step)) => step,
            Ok(Err(_)) => Step::failed("the runtime dropped the request: it is shutting down"),
            Err(_) => Step::failed(
                "the step did not end within the invocation: its lock expires, then another wakeup repeats it",
            ),
        }
    }

    /// How much of the budget must be left when a turn begins.
    pub(crate) fn turn_reserve(&self) -> Duration {
        self.limits.turn_reserve
    }

    /// How much of the budget must be left when an activity begins.
    pub(crate) fn work_reserve(&self) -> Duration {
        self.stop_reserve() + FIRST_RENEWAL
    }

    /// Logs once which activities may take longer by their time limit than this invocation, the first one, lets them.
    pub(crate) fn warn_of_long_limits(&self, budget: Budget) {
        self.limits_checked.call_once(|| {
            let most = budget.left().saturating_sub(self.stop_reserve());
            for (activity_name, limit) in self.limits.activities.iter() {
                if let Some(limit) = limit.time.filter(|limit| *limit > most) {
                    tracing::warn!(
                        activity_name,
                        limit_ms = limit.as_millis() as u64,
                        most_ms = most.as_millis() as u64,
                        "the time limit of an activity is longer than the function's timeout less its reserves, which stops it \
                         earlier: give the worker a longer timeout, or the activity a shorter limit"
                    );
                }
            }
        });
    }

    /// How much of the budget is left when a running activity is stopped.
    fn stop_reserve(&self) -> Duration {
        self.limits.cancel_grace + self.limits.commit_reserve
    }

    /// Awaits a request to the store, within the budget of its step.
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

    /// Awaits a commit within the budget of its step. One that was written counts, even when the time ends while it is
    /// published and delivered: others complete that.
    async fn committed(
        budget: Budget,
        operation: &str,
        done: impl Future<Output = Result<(), ProviderError>>,
        decided: &Decided,
    ) -> Result<(), ProviderError> {
        match Self::within(budget, operation, done).await {
            Err(error) if decided.is_set() => {
                tracing::warn!(%error, "a commit was written, and not all of it delivered; maintenance does the rest");
                Ok(())
            }
            done => done,
        }
    }

    /// The wakeups for whoever a commit made due that is written now.
    fn wakeups(&self, due: Vec<Due>) -> Vec<Delayed> {
        let schedule = Schedule {
            written_ms: self.clock.now_ms(),
            reach: self.limits.wakeup_reach,
            consistency_token: recent_consistency_token(&self.store),
        };
        let wakeups = schedule.wakeups(due).into_iter();
        wakeups.map(|delayed| delayed.with_late_usage(&self.store)).collect()
    }
}

fn too_late(operation: &str) -> ProviderError {
    let message =
        "the invocation's time is over: give the function a longer timeout, or find out why the store is slow";
    ProviderError::permanent(operation, message)
}

/// The runtime calls for a step that is not open.
fn not_open(operation: &str) -> ProviderError {
    ProviderError::permanent(
        operation,
        "the step of this lock has ended: its invocation was answered",
    )
}
