//! Maintenance: a scheduled function that repairs what a crash, a lost wakeup or a half-finished delivery left behind.
//!
//! A scheduled run begins with one *look* at everything that waits: one query per physical partition. Only passes that have
//! something to do send requests (`needs`), so an idle run costs 3 requests per partition and 2 for its state.
//!
//! Then a run takes one *page* of each *pass* in turn, until no pass has anything left or the budget is nearly spent. Each page
//! gets an equal share of the time that is left, so neither a long queue nor a slow answer of one pass starves the others.
//! The passes themselves, and what makes them idempotent, are the store's (`duroxide_cosmos`); here is their order, their
//! time, and the wakeups:
//!
//! ```text
//!   payload ─> request ─> look ─> pages of: outbox │ unfinished │ sessions │ sweep │ retention ─> keep state ─> count ─> report
//!                                             └──── targets ────┴──> wakeups <──┘
//! ```
//!
//! | module | role |
//! |---|---|
//! | `request` | the payload: the schedule's event, or passes and limits |
//! | `look`, `needs` | the look and the state at the beginning; pure: which passes need a page |
//! | `passes`, `progress` | the pages of all passes in turn; how far one pass has come and how much time it gets |
//! | `sweep`, `reminders` | the sweep's phases; pure: the reminder schedule |
//! | `queues`, `queue_view` | depth and probes of the queues; pure: which wakeups a queue may still hold |
//! | `wakeups` | the wakeups of one run |
//! | `report` | the answer and the metrics |
//! | `dead_letters` | the other kind of request: list, read, redrive, discard |
//! | `on_request` | a run for a client of the HTTP API |
//!
//! Failures: a run that dies anywhere leaves only changes that are right by themselves, and the next run finds the rest.
//! Two runs at once do the same things twice, which the store treats as one; the first to keep its state wins, and the
//! other's wakeups were duplicates. A pass that gets an error from the store ends, with the error in the report; the others
//! continue. A pass that got no answer in the whole run has an error too: [`PassesFailed`](crate::metrics::Metric) counts
//! both. Without a look the passes search by themselves. When wakeups cannot be sent, the items stay due and are woken by
//! a later run.

pub(crate) mod dead_letters;
pub(crate) mod look;
mod needs;
mod on_request;
mod passes;
mod progress;
mod queue_view;
mod queues;
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
use duroxide_cosmos::{Backlog, BacklogQuery, CosmosProvider, Look, Retention};
use passes::Passes;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use sweep::ms;
use tokio::time::Instant;
use tracing::Instrument as _;
use wakeups::RunWakeups;

/// Reserved at the end of a run, to send wakeups, to keep the state and to count.
const RESERVE: Duration = Duration::from_secs(3);
/// The end of the reserve, in which nothing new begins.
const LAST: Duration = Duration::from_millis(200);

/// Without the numbers of the store their alarms stay silent, so the report has an error.
const NOT_COUNTED: &str = "no time was left to count the items in the store: give the function a longer timeout";

/// The answer to an invocation, as JSON.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Answer {
    /// The report of a run.
    Report(Report),
    /// The answer to a request about dead letters.
    DeadLetters(DeadLettersAnswer),
}

/// Why an invocation fails.
#[derive(Debug, thiserror::Error)]
pub enum MaintenanceError {
    /// The payload is not a request; nothing was changed.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// Dead letters could not be listed or read.
    #[error("dead letters could not be listed or read: {0}")]
    Store(#[from] ProviderError),
}

/// See the module.
#[derive(Clone)]
pub struct Maintenance {
    provider: Arc<CosmosProvider>,
    notifier: BoundedNotifier,
    clock: Arc<dyn Clock>,
    settings: MaintenanceSettings,
    /// The passes that had too little time in the last run of this environment.
    starved: Arc<Mutex<BTreeSet<PassName>>>,
}

impl fmt::Debug for Maintenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Maintenance")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Maintenance {
    /// Maintenance of this store. The clock must be the store's.
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
            starved: Arc::default(),
        }
    }

    /// One invocation with this payload.
    ///
    /// # Errors
    /// When the payload is not a request (nothing was changed then), or dead letters cannot be listed or read.
    pub async fn handle(&self, payload: &Value, budget: Budget) -> Result<Answer, MaintenanceError> {
        if let Some(request) = dead_letters::of_payload(payload) {
            let request = DeadLettersRequest::read(request)?;
            return Ok(Answer::DeadLetters(self.dead_letters(request, budget).await?));
        }
        let request = MaintenanceRequest::from_payload(payload)?;
        let retention = request.retention.unwrap_or(self.settings.retention);
        let names_retention = request.names_passes() && request.passes.contains(&PassName::Retention);
        if names_retention && retention == Retention::default() {
            let reason = "names retention, which is off: send retention with deleteAfterDays or keepExecutions, or set \
                          RETENTION_DELETE_AFTER_DAYS or RETENTION_KEEP_EXECUTIONS";
            request::refused("passes", reason)?;
        }
        Ok(Answer::Report(self.run(request, budget).await))
    }

    /// One run. It ends within the budget, and reports what it did and whether something is left.
    pub async fn run(&self, request: MaintenanceRequest, budget: Budget) -> Report {
        let span = tracing::info_span!("maintenance", budget_ms = ms(budget.left()));
        let run = async {
            let report = self.run_passes(&request, budget).await;
            report.log();
            report
        };
        run.instrument(span).await
    }

    async fn run_passes(&self, request: &MaintenanceRequest, budget: Budget) -> Report {
        let until = budget.end_less(LAST);
        let mut passes = Passes::new(self, request, RunWakeups::new(self, until));
        passes.begin(request, budget.end_less(RESERVE)).await;
        passes.run(budget.end_less(RESERVE)).await;
        passes.note_starved(&mut self.starved.lock().unwrap_or_else(PoisonError::into_inner));
        passes.keep_state(until).await;
        let look = passes.fresh_look();
        let mut report = passes.into_report();
        if request.passes.contains(&PassName::Report) {
            let counted = self.count(look, budget).instrument(PassName::Report.span());
            let (pass, store) = counted.await;
            report.passes.insert(PassName::Report, pass);
            report.store = store;
        }
        report.left_over = report.passes.values().any(|pass| pass.left_over);
        report
    }

    /// Counts the items in the store, if there is time.
    async fn count(&self, look: Option<Look>, budget: Budget) -> (PassReport, Option<StoreReport>) {
        let mut pass = PassReport {
            left_over: true,
            ..PassReport::default()
        };
        if !budget.fits(2 * LAST) {
            pass.fail(NOT_COUNTED.to_owned());
            return (pass, None);
        }
        pass.pages = 1;
        let until = budget.end_less(LAST);
        match tokio::time::timeout_at(until, self.backlog(look, until)).await {
            Ok(Ok((backlog, now_ms))) => {
                pass.left_over = false;
                return (pass, Some(StoreReport::new(&backlog, now_ms)));
            }
            Ok(Err(error)) => pass.fail(error.to_string()),
            Err(_) => pass.fail(NOT_COUNTED.to_owned()),
        }
        (pass, None)
    }

    /// The numbers of the store and their time. They come from the look if there is one, else from a new one.
    async fn backlog(&self, look: Option<Look>, until: Instant) -> Result<(Backlog, u64), ProviderError> {
        let look = match look {
            Some(look) => look,
            None => self.look(self.settings.page, until).await?,
        };
        // When not everything fits the look, everything is counted now.
        let now_ms = if look.is_whole() {
            look.now_ms()
        } else {
            self.clock.now_ms()
        };
        let query = BacklogQuery {
            overdue_ms: now_ms.saturating_sub(ms(self.settings.overdue)),
            stuck_ms: now_ms.saturating_sub(ms(self.settings.stuck())),
        };
        let backlog = self.provider.backlog_of_look(&look, &query).await?;
        Ok((backlog, now_ms))
    }
}
