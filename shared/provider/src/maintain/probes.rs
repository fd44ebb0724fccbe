//! Probes: what shows maintenance that a queue of wakeups holds nothing any more that was sent before them.
//!
//! A run sends a wakeup with a probe, and the function that receives it notes that it came through (one request). The next
//! run reads the notes (one request, and only while it waits for some). A note that is lost counts as a lost probe.

use crate::error::Failure;
use crate::model::ProbeDoc;
use crate::model::sql::MAINTENANCE;
use crate::store::Store;
use cosmos::{PartitionKey, Query, Retry};
use serde::Deserialize;

/// A probe that came through its queue.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PassedProbe {
    /// The name of the queue.
    #[serde(rename = "probeOf")]
    pub queue: String,
    /// When it was sent (Unix ms).
    pub sent_ms: u64,
    /// When it was received (Unix ms, by the clock of the function).
    pub passed_ms: u64,
}

/// Notes that a probe came through. A second note of the same probe has no effect.
pub(crate) async fn note_probe(store: &Store, queue: &str, sent_ms: u64) -> Result<(), Failure> {
    let pk = PartitionKey::new(ProbeDoc::PK)?;
    let note = ProbeDoc::new(queue, sent_ms, store.now());
    match store.container.create(&pk, &note, Retry::Idempotent).await {
        Err(error) if !error.is_conflict() => Err(error.into()),
        _ => Ok(()),
    }
}

/// The probes that came through since `after_ms`.
pub(crate) async fn passed_probes(store: &Store, after_ms: u64) -> Result<Vec<PassedProbe>, Failure> {
    let pk = PartitionKey::new(ProbeDoc::PK)?;
    let query = Query::new(format!(
        "SELECT c.probeOf, c.sentMs, c.passedMs FROM c \
         WHERE c.type = {MAINTENANCE} AND IS_DEFINED(c.probeOf) AND c.sentMs > @after"
    ));
    Ok(store.container.query(&pk, &query.param("@after", after_ms)).await?)
}
