//! What paused instances hold: maintenance neither wakes nor counts it.
//!
//! Pausing has parked everything that waited then, so no sweep finds it. What comes later is found once: the sweep, before it sends
//! reminders, asks which instances are paused, and parks what these hold. That is after half a minute, before a report calls anything
//! overdue or stuck.

use crate::due::Target;
use crate::error::Failure;
use crate::recovery::{self, Late};
use crate::store::Store;
use cosmos::{PartitionKey, Query};
use futures::StreamExt as _;
use futures::future::BoxFuture;
use std::collections::{BTreeSet, HashSet};
use tokio::time::Instant;

/// How many instances are written at once.
const AT_ONCE: usize = 16;

/// The instances that are paused: one request per physical range, and the service reads an index entry of each.
async fn paused_instances(store: &Store) -> Result<Vec<String>, Failure> {
    // Only what is paused has the path.
    let query = Query::new("SELECT VALUE c.pk FROM c WHERE c.paused.listed = true");
    Ok(store.container.scan::<String>(&query).await?)
}

/// Parks what the paused ones among these hold. Returns the instances of which nothing must be woken: they are paused, and no message
/// cancels them. One that cannot be parked before the deadline, or at all, is among them: a later run tries again.
pub(crate) async fn park_overdue(
    store: &Store,
    targets: &[Target],
    deadline: Instant,
) -> Result<HashSet<String>, Failure> {
    let overdue: BTreeSet<&str> = targets.iter().map(Target::instance).collect();
    if overdue.is_empty() {
        return Ok(HashSet::new());
    }
    let mut paused: HashSet<String> = paused_instances(store).await?.into_iter().collect();
    paused.retain(|instance| overdue.contains(instance.as_str()));
    let parked: Vec<BoxFuture<'_, (String, bool)>> = paused
        .into_iter()
        .map(|instance| -> BoxFuture<'_, (String, bool)> {
            Box::pin(async move {
                let late = tokio::time::timeout_at(deadline, park(store, &instance)).await;
                let is_held = match late {
                    Ok(Ok(late)) => late == Late::Parked,
                    Ok(Err(error)) => {
                        tracing::warn!(instance, %error, "what a paused instance holds was not parked; the next run tries again");
                        true
                    }
                    Err(_) => true,
                };
                (instance, is_held)
            })
        })
        .collect();
    let held = futures::stream::iter(parked).buffer_unordered(AT_ONCE);
    let held = held.filter_map(|(instance, is_held)| async move { is_held.then_some(instance) });
    Ok(held.collect().await)
}

async fn park(store: &Store, instance: &str) -> Result<Late, Failure> {
    recovery::park_late(store, &PartitionKey::new(instance)?).await
}
