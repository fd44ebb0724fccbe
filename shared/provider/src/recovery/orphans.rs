//! Orphans: what a commit staged and never decided.

use super::roll_forward::{StagedOps, publish};
use crate::batch;
use crate::due::Due;
use crate::error::Failure;
use crate::model::StagedHead;
use crate::store::{Fence, Store};
use cosmos::PartitionKey;
use serde_json::value::RawValue;

/// Recovers a staged commit, found by its head or by one of its parts: publishes it if it was decided, removes what it
/// staged if it was not. Returns who has something to do now; `None` when nothing was done.
///
/// The instance document names a decided commit as unfinished until its parts and its head are gone. So a part that exists
/// in a state no older than that document belongs to an undecided commit, and the removal prevents its decision by writing
/// the document.
pub(super) async fn recover_staged(
    store: &Store,
    pk: &PartitionKey,
    commit: &str,
    id: &str,
) -> Result<Option<Vec<Due>>, Failure> {
    // Read before the part: see above.
    let fence = store.fence(pk).await?;
    let Some(met) = store.container.read::<Box<RawValue>>(pk, id).await? else {
        return Ok(None);
    };
    let leftovers = if id == StagedHead::id(commit) {
        serde_json::from_str::<StagedHead>(met.doc.get())?.everything()
    } else {
        vec![id.to_owned()]
    };
    let Some(fence) = fence else {
        // The response may have been stale. Only if there is no document was the instance deleted, and with it every
        // version that could still decide.
        let deleted = store.newest_fence(pk).await?.is_none();
        if deleted {
            batch::discard_all(store, pk, leftovers).await?;
        }
        return Ok(deleted.then(Vec::new));
    };
    let unfinished = fence.doc.lock.unfinished.as_ref();
    if unfinished.is_some_and(|unfinished| unfinished.commit == commit) {
        let published = publish(store, pk, fence, StagedOps::default()).await?;
        return Ok(Some(published.due));
    }
    let by_maker = fence.doc.lock.is_claimed_by(commit);
    if by_maker && fence.doc.lock.until > store.now() {
        return Ok(None);
    }
    tracing::info!(
        instance = pk.as_str(),
        commit,
        "removing what an undecided commit has staged"
    );
    let doc = if by_maker {
        fence.doc.with(|lock| lock.release(false))
    } else {
        fence.doc
    };
    let fence = Fence { doc, etag: fence.etag };
    let discarded = batch::discard_fenced(store, pk, fence, leftovers).await?;
    Ok(discarded.map(|_| Vec::new()))
}
