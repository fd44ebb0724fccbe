//! What successive runs of maintenance remember: read at the beginning of a run, kept at its end.

use crate::error::Failure;
use crate::model::{MaintenanceDoc, UnfinishedSweep};
use crate::provider::CosmosProvider;
use crate::store::Store;
use cosmos::{Etag, PartitionKey, Retry};
use duroxide::providers::ProviderError;

/// What successive runs of maintenance remember. Plain data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MaintenanceState {
    /// When the last run began (Unix ms).
    pub last_run_ms: u64,
    /// Timers that are due up to then were notified ahead (Unix ms).
    pub notified_until_ms: u64,
    /// What the last run left of its sweep.
    pub sweep: Option<UnfinishedSweep>,
    /// The version that was read; `None` when there was none.
    etag: Option<Etag>,
}

impl CosmosProvider {
    /// What the run before remembered; the default when there was none.
    ///
    /// # Errors
    /// When the store cannot be asked.
    pub async fn maintenance_state(&self) -> Result<MaintenanceState, ProviderError> {
        let state = self.store.maintenance_state().await;
        state.map_err(|failure| failure.of("maintenance_state"))
    }

    /// Keeps what this run remembers, if nobody else has kept anything since `state` was read. Answers `false` when
    /// another run was faster: nothing is written then.
    ///
    /// # Errors
    /// When the store cannot be reached.
    pub async fn keep_maintenance_state(&self, state: MaintenanceState) -> Result<bool, ProviderError> {
        let kept = self.store.keep_maintenance_state(state).await;
        kept.map_err(|failure| failure.of("keep_maintenance_state"))
    }
}

impl Store {
    async fn maintenance_state(&self) -> Result<MaintenanceState, Failure> {
        let pk = PartitionKey::new(MaintenanceDoc::PK)?;
        let found = self.container.read::<MaintenanceDoc>(&pk, MaintenanceDoc::ID).await?;
        Ok(found.map_or_else(MaintenanceState::default, |found| MaintenanceState {
            last_run_ms: found.doc.last_run_ms,
            notified_until_ms: found.doc.notified_until_ms,
            sweep: found.doc.sweep,
            etag: Some(found.etag),
        }))
    }

    async fn keep_maintenance_state(&self, state: MaintenanceState) -> Result<bool, Failure> {
        let pk = PartitionKey::new(MaintenanceDoc::PK)?;
        let mut doc = MaintenanceDoc::new(self.ids.unique());
        doc.last_run_ms = state.last_run_ms;
        doc.notified_until_ms = state.notified_until_ms;
        doc.sweep = state.sweep;
        let written = match &state.etag {
            Some(etag) => {
                self.container
                    .replace(&pk, MaintenanceDoc::ID, &doc, Some(etag), Retry::Idempotent)
                    .await
            }
            None => self.container.create(&pk, &doc, Retry::Idempotent).await,
        };
        match written {
            Ok(_) => Ok(true),
            Err(error) if error.is_conflict() || error.is_precondition_failed() || error.is_not_found() => {
                if !error.after_ambiguity() {
                    return Ok(false);
                }
                // The refusal may be the echo of our own first attempt.
                let found = self.container.read::<MaintenanceDoc>(&pk, MaintenanceDoc::ID).await?;
                Ok(found.is_some_and(|found| found.doc.nonce == doc.nonce))
            }
            Err(error) => Err(error.into()),
        }
    }
}
