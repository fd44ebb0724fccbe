//! Maintenance: one run repairs whatever a crash, a lost wakeup or a half-done delivery left behind.
//!
//! A run takes one *page* of each pass in turn, and goes round until no pass has anything left or the budget is nearly
//! spent. Each page has an equal share of the time that is left, so neither a long queue nor a slow answer of one pass
//! keeps the others from theirs. A pass for which its share was too short all the time comes first in the next run of a warm
//! environment, with half of the time. The passes and their idempotence are the store's (`duroxide_cosmos`); here is the order,
//! the time, and the notifying:
//!
//! ```text
//!   payload ─> request ─> rounds: outbox │ unfinished │ sessions │ sweep │ retention ─> state kept ─> report
//!                                    └──── targets ────┴──> wakeups <──┘
//! ```
//!
//! | module | role |
//! |---|---|
//! | `request` | what the schedule or a direct invocation asks for |
//! | `rounds` | the passes in lock-step |
//! | `reminders` | pure: which due items are notified, and when again |
//! | `sweep`, `calls` | the sweep's phases; the wakeups of a run |
//! | `report` | the answer, the log, the metrics |
//! | `dead letters` | beside all that: dead letters for an operator |
//!
//! What can go wrong: a run that dies anywhere has changed only what is right to change by itself, and the next one finds
//! the rest where it was. Two runs at once do the same things twice, which the store takes for once; the first to keep
//! the state wins, and the other's wakeups were wakeups too many. A pass that cannot ask the store is told in the report and
//! ends; the others go on. So is one that the store did not answer in time, when the run ends: `PassesBroken` counts both.
//! A notifier that takes nothing costs time: what is due stays due, and is notified at its next age.

pub(crate) mod dead_letters;
mod passes;
mod reminders;
mod report;
mod request;
mod sweep;
mod wakeups;

pub use dead_letters::{DeadLettersAnswer, DeadLettersRequest};
pub use report::{PassReport, Report, StoreReport};
pub use request::{MaintenanceRequest, PassName, RequestError};

use crate::budget::Budget;
use crate::config::MaintenanceSettings;
use crate::notifier::BoundedNotifier;
use cosmos::Clock;
use duroxide::providers::ProviderError;
use duroxide_cosmos::{BacklogQuery, CosmosProvider, Retention};
use passes::PassSchedule;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use sweep::ms;
use wakeups::RunWakeups;

/// Kept back at the end of a run, to wakeup what was found, to keep the state and to count.
const RESERVE: Duration = Duration::from_secs(3);
/// The last of it, in which nothing new is begun.
const LAST: Duration = Duration::from_millis(200);

/// The numbers of the store are missing then, and their alarms are silent: the report's own error is the alarm.
const NOT_COUNTED: &str = "there was no time to count what is in the store";

/// What an invocation is answered, as JSON.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Answer {
    /// Of a run.
    Report(Report),
    /// Of an operator's request.
    Letters(DeadLettersAnswer),
}

/// Why an invocation fails.
#[derive(Debug, thiserror::Error)]
pub enum MaintenanceError {
    /// Nothing was done.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// Dead letters could not be listed or read.
    #[error("dead letters cannot be asked for: {0}")]
    Store(#[from] ProviderError),
}

fn is_alone(payload: &Value) -> bool {
    payload.as_object().is_some_and(|fields| fields.len() == 1)
}

/// See the module.
#[derive(Clone)]
pub struct Maintenance {
    provider: Arc<CosmosProvider>,
    notifier: BoundedNotifier,
    clock: Arc<dyn Clock>,
    settings: MaintenanceSettings,
    /// The passes that the last run of this environment had too little time for.
    late: Arc<Mutex<BTreeSet<PassName>>>,
}

impl fmt::Debug for Maintenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Maintenance")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Maintenance {
    /// Maintains this store, and wakeups with this notifier. The clock must be the store's.
    pub fn new(
        provider: Arc<CosmosProvider>,
        notifier: BoundedNotifier,
        clock: Arc<dyn Clock>,
        settings: MaintenanceSettings,
    ) -> Maintenance {
        Maintenance {
            provider,
            notifier,
            clock,
            settings,
            late: Arc::default(),
        }
    }

    /// One invocation with this payload.
    ///
    /// # Errors
    /// When the payload is no request (nothing was changed then), or dead letters cannot be listed or read.
    pub async fn handle(&self, payload: &Value, budget: Budget) -> Result<Answer, MaintenanceError> {
        if let Some(asked) = payload.get("deadLetters").filter(|_| is_alone(payload)) {
            let request = DeadLettersRequest::read(asked)?;
            return Ok(Answer::Letters(self.dead_letters(request, budget).await?));
        }
        let request = MaintenanceRequest::from_payload(payload)?;
        let retention = request.retention.unwrap_or(self.settings.retention);
        let is_named = request.passes.len() < PassName::ALL.len() && request.passes.contains(&PassName::Retention);
        if is_named && retention == Retention::default() {
            let reason = "names retention, which is off: send retention with deleteAfterDays or keepExecutions, or set \
                          RETENTION_DELETE_AFTER_DAYS or RETENTION_KEEP_EXECUTIONS";
            request::refused("passes", reason)?;
        }
        Ok(Answer::Report(self.run(request, budget).await))
    }

    /// One run. It ends within the budget, and says what it did and whether something is left.
    pub async fn run(&self, request: MaintenanceRequest, budget: Budget) -> Report {
        let until = budget.end_less(LAST);
        let calls = RunWakeups::new(self, until);
        let mut rounds = PassSchedule::new(self, &request, calls);
        rounds.go(budget.end_less(RESERVE)).await;
        rounds.note_late(&mut self.late.lock().unwrap_or_else(PoisonError::into_inner));
        rounds.keep_state(until).await;
        let mut report = rounds.into_report();
        if request.passes.contains(&PassName::Report) {
            let (counted, store) = self.count(budget).await;
            report.passes.insert(PassName::Report, counted);
            report.store = store;
        }
        report.left_over = report.passes.values().any(|pass| pass.left_over);
        report
    }

    /// How the store is, if there is time to ask.
    async fn count(&self, budget: Budget) -> (PassReport, Option<StoreReport>) {
        let mut pass = PassReport {
            left_over: true,
            ..PassReport::default()
        };
        if !budget.fits(2 * LAST) {
            pass.error = Some(NOT_COUNTED.to_owned());
            return (pass, None);
        }
        let now_ms = self.clock.now_ms();
        let ask = BacklogQuery {
            overdue_ms: now_ms.saturating_sub(ms(self.settings.overdue)),
            stuck_ms: now_ms.saturating_sub(ms(self.settings.stuck())),
        };
        pass.pages = 1;
        match tokio::time::timeout_at(budget.end_less(LAST), self.provider.backlog(&ask)).await {
            Ok(Ok(backlog)) => {
                pass.left_over = false;
                return (pass, Some(StoreReport::new(&backlog, now_ms)));
            }
            Ok(Err(error)) => pass.error = Some(error.to_string()),
            Err(_) => pass.error = Some(NOT_COUNTED.to_owned()),
        }
        (pass, None)
    }
}
