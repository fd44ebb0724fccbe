//! The beginning of a run: the look and the state, in two requests at the same time, and where the sweep gets its items from.
//!
//! Neither is needed to do the right thing. Without the look each pass searches by itself, and without the state the sweep
//! reads it again as its first step. An error of the look is in the report.

use super::Maintenance;
use super::sweep::ms;
use duroxide::providers::ProviderError;
use duroxide_cosmos::{CosmosProvider, DueKinds, DuePage, DueWindow, Look, LookRequest, MaintenanceState, PageRequest};
use serde::Serialize;
use tokio::time::{Instant, timeout_at};

/// What the look of a run found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LookReport {
    /// Documents that wait: due, or coming soon.
    pub found: u64,
    /// Whether that is all. Otherwise each pass searched by itself.
    pub whole: bool,
    /// Why it failed. Each pass searched by itself then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl LookReport {
    pub(super) fn of(look: &Result<Look, ProviderError>) -> LookReport {
        match look {
            Ok(look) => LookReport {
                found: look.found() as u64,
                whole: look.is_whole(),
                error: None,
            },
            Err(error) => {
                tracing::error!(%error, "the look failed; each pass searches by itself");
                LookReport {
                    error: Some(error.to_string()),
                    ..LookReport::default()
                }
            }
        }
    }
}

impl Maintenance {
    /// Looks as far ahead as the sweep of a run that begins now.
    pub(super) async fn look(&self, most: u32, deadline: Instant) -> Result<Look, ProviderError> {
        let now_ms = self.clock.now_ms();
        let request = LookRequest {
            now_ms,
            until_ms: now_ms.saturating_add(ms(self.settings.ahead())),
            most,
            deadline,
        };
        answered("look", deadline, self.provider.look(&request)).await
    }

    /// Reads the state that the run before kept.
    pub(super) async fn state(&self, deadline: Instant) -> Result<MaintenanceState, ProviderError> {
        answered("maintenance_state", deadline, self.provider.maintenance_state()).await
    }
}

async fn answered<T>(
    operation: &'static str,
    deadline: Instant,
    answer: impl Future<Output = Result<T, ProviderError>>,
) -> Result<T, ProviderError> {
    let late = |_| ProviderError::retryable(operation, "the store did not answer in time");
    timeout_at(deadline, answer).await.map_err(late)?
}

/// Where the sweep gets its items: from the look of the run, or from the store.
#[derive(Clone, Copy, Debug)]
pub(super) struct DueSource<'a> {
    pub(super) provider: &'a CosmosProvider,
    pub(super) look: Option<&'a Look>,
}

impl DueSource<'_> {
    /// One page of what is due in one of the windows.
    pub(super) async fn due(
        &self,
        kinds: DueKinds,
        windows: &[DueWindow],
        request: PageRequest,
    ) -> Result<DuePage, ProviderError> {
        // What the store has begun it ends: a cursor, or a search for one kind only, continues there.
        let look = self.look.filter(|_| request.cursor.is_none() && kinds == DueKinds::All);
        match look.and_then(|look| look.due(windows)) {
            Some(page) => Ok(page),
            None => self.provider.due_of(kinds, windows, request).await,
        }
    }
}
