//! The state between runs of maintenance: read when a run begins, saved when it ends.

use crate::error::Failure;
use crate::model::{MaintenanceDoc, QueueState, Schema, UnfinishedSweep};
use crate::store::Store;
use cosmos::{Etag, PartitionKey, Retry};
use std::collections::BTreeMap;

/// The state between runs of maintenance. Plain data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MaintenanceState {
    /// When the last run began (Unix ms).
    pub last_run_ms: u64,
    /// Wakeups for timers that are due up to then were sent ahead (Unix ms).
    pub notified_until_ms: u64,
    /// When the last run began that completed retention (Unix ms); 0 for never.
    pub retained_ms: u64,
    /// When the last run began that searched for all expired affinity sessions (Unix ms); 0 for never.
    pub sessions_ms: u64,
    /// The sweep that the last run did not finish.
    pub sweep: Option<UnfinishedSweep>,
    /// What is known of the queues of wakeups, by name.
    pub queues: BTreeMap<String, QueueState>,
    /// The version that was read; `None` when there was none.
    etag: Option<Etag>,
    schema: Schema,
}

pub(crate) async fn maintenance_state(store: &Store) -> Result<MaintenanceState, Failure> {
    let pk = PartitionKey::new(MaintenanceDoc::PK)?;
    let found = store.container.read::<MaintenanceDoc>(&pk, MaintenanceDoc::ID).await?;
    Ok(found.map_or_else(MaintenanceState::default, |found| MaintenanceState {
        last_run_ms: found.doc.last_run_ms,
        notified_until_ms: found.doc.notified_until_ms,
        retained_ms: found.doc.retained_ms,
        sessions_ms: found.doc.sessions_ms,
        sweep: found.doc.sweep,
        queues: found.doc.queues,
        etag: Some(found.etag),
        schema: found.doc.schema,
    }))
}

pub(crate) async fn keep_maintenance_state(store: &Store, state: MaintenanceState) -> Result<bool, Failure> {
    let pk = PartitionKey::new(MaintenanceDoc::PK)?;
    let mut doc = MaintenanceDoc::new(store.ids.unique());
    doc.last_run_ms = state.last_run_ms;
    doc.notified_until_ms = state.notified_until_ms;
    doc.retained_ms = state.retained_ms;
    doc.sessions_ms = state.sessions_ms;
    doc.sweep = state.sweep;
    doc.queues = state.queues;
    doc.schema = state.schema;
    let written = match &state.etag {
        Some(etag) => {
            store
                .container
                .replace(&pk, MaintenanceDoc::ID, &doc, Some(etag), Retry::Idempotent)
                .await
        }
        None => store.container.create(&pk, &doc, Retry::Idempotent).await,
    };
    match written {
        Ok(_) => Ok(true),
        Err(error) if error.is_conflict() || error.is_precondition_failed() || error.is_not_found() => {
            if !error.after_ambiguity() {
                return Ok(false);
            }
            // The conflict may come from our own first attempt.
            let found = store.container.read::<MaintenanceDoc>(&pk, MaintenanceDoc::ID).await?;
            Ok(found.is_some_and(|found| found.doc.nonce == doc.nonce))
        }
        Err(error) => Err(error.into()),
    }
}
