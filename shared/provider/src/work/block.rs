//! Blocking an activity that this build does not register. Only its work item says so: the fence of the instance stays.

use super::claimed::{ClaimedWorks, own};
use crate::error::Failure;
use crate::model::{Block, Blocked, noted};
use crate::store::Store;
use crate::token::WorkToken;
use cosmos::Retry;

/// How often the item may change meanwhile (by renewals) before it counts as lost.
const ATTEMPTS: u32 = 8;

/// Gives a claimed item back, to be tried again after a pause. The attempt does not count.
pub(crate) async fn block(
    store: &Store,
    token: &WorkToken,
    block: &Block,
    works: &ClaimedWorks,
) -> Result<Blocked, Failure> {
    let build = store.build_name()?;
    let mut work = works.of(store, token).await?;
    for _ in 0..ATTEMPTS {
        let now = store.now();
        let blocked = noted(work.doc.blocked.as_ref(), block, build, now);
        let next = work.doc.blocked(now, blocked.clone());
        let replaced = store
            .container
            .replace(&token.pk, &token.id, &next, Some(&work.etag), Retry::Idempotent);
        match replaced.await {
            Ok(_) => {
                works.forget(&token.nonce);
                return Ok(blocked);
            }
            Err(error) if error.is_precondition_failed() => work = own(store, token).await?,
            Err(error) if error.is_not_found() => return Err(token.lost()),
            Err(error) => return Err(error.into()),
        }
    }
    Err(token.lost())
}
