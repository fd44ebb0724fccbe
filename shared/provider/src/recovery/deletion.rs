//! Group deletions that another process may have begun: deciding, aborting and finishing them. See `model::deletion`
//! for the protocol.

use super::erase::{ATTEMPTS, carry_out, unmark};
use super::roll_forward::Progress;
use crate::error::Failure;
use crate::model::DeletionDoc;
use crate::store::{Fence, Store};
use cosmos::{PartitionKey, Retry};
use std::time::Duration;

/// Between two reads of a decision that a lagging replica does not show.
const PAUSE: Duration = Duration::from_millis(25);
const UNREADABLE: &str = "the decision about its deletion cannot be read yet";

/// Writes the decision. Fails when the deletion was aborted meanwhile.
pub(crate) async fn decide(store: &Store, decision: &DeletionDoc) -> Result<(), Failure> {
    let own = PartitionKey::new(&decision.pk)?;
    match store.container.create(&own, decision, Retry::Idempotent).await {
        Ok(_) => Ok(()),
        Err(error) if error.is_conflict() => {
            if error.after_ambiguity() {
                match store.container.read::<DeletionDoc>(&own, &decision.id).await? {
                    Some(found) if !found.doc.aborted => return Ok(()),
                    Some(_) => {}
                    None => {
                        return Err(Failure::stale(&own, UNREADABLE));
                    }
                }
            }
            Err(Failure::Refused(
                "the deletion took too long and was aborted: try again".to_owned(),
            ))
        }
        Err(error) => Err(error.into()),
    }
}

/// Aborts an undecided deletion. If it was decided meanwhile, carries out that decision.
pub(crate) async fn abort(store: &Store, decision: &DeletionDoc) -> Result<(), Failure> {
    let own = PartitionKey::new(&decision.pk)?;
    let aborted = decision.abort();
    match store.container.create(&own, &aborted, Retry::Idempotent).await {
        Ok(_) => return carry_out(store, &aborted).await.map(|_| ()),
        Err(error) if error.is_conflict() => {}
        Err(error) => return Err(error.into()),
    }
    // There is a decision, even if a lagging replica does not show it yet.
    for _ in 0..ATTEMPTS {
        if let Some(found) = store.container.read::<DeletionDoc>(&own, &decision.id).await? {
            return carry_out(store, &found.doc).await.map(|_| ());
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(Failure::stale(&own, UNREADABLE))
}

/// Continues the deletion that has marked an instance.
pub(super) async fn finish(store: &Store, pk: &PartitionKey, fence: &Fence) -> Result<Progress, Failure> {
    let Some(mark) = &fence.doc.lock.deleting else {
        return Ok(Progress::Clean);
    };
    let own = PartitionKey::new(&mark.group)?;
    match store
        .container
        .read::<DeletionDoc>(&own, &DeletionDoc::id(&mark.group))
        .await?
    {
        Some(decision) => {
            carry_out(store, &decision.doc).await?;
            if decision.doc.aborted {
                unmark(store, pk, &mark.group).await?;
            }
            Ok(Progress::Changed { due: Vec::new() })
        }
        None if mark.expires > store.now() => Ok(Progress::Underway { until_ms: mark.expires }),
        // Another process has carried out the decision and removed it since the mark was read: nothing is left to abort.
        None if !is_still_marked(store, pk, &mark.group).await? => Ok(Progress::Changed { due: Vec::new() }),
        None => {
            let only = [pk.as_str().to_owned()];
            abort(store, &DeletionDoc::new(&mark.group, store.repair_due(), &only)).await?;
            Ok(Progress::Changed { due: Vec::new() })
        }
    }
}

async fn is_still_marked(store: &Store, pk: &PartitionKey, group: &str) -> Result<bool, Failure> {
    let fence = store.fence(pk).await?;
    Ok(fence.is_some_and(|fence| fence.doc.lock.is_marked(group)))
}
