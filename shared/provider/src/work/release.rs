//! Releasing a work item, and renewing its claim.

use super::claimed::ClaimedWorks;
use crate::error::Failure;
use crate::model::{AttemptEnd, Block, Blocked, Usage, WorkDoc, noted};
use crate::session;
use crate::store::{Store, millis};
use crate::token::WorkToken;
use cosmos::{Found, Retry};
use std::time::Duration;

/// How often the item may change during a release or a renewal before it counts as lost.
const ATTEMPTS: u32 = 4;

/// Extends the claim until `extend_for` from now.
pub(crate) async fn renew(
    store: &Store,
    token: &WorkToken,
    extend_for: Duration,
    works: &ClaimedWorks,
) -> Result<(), Failure> {
    let store = &works.step(store, token);
    let renewed = rewrite(store, token, works, |doc| {
        let is_live = doc.until > store.now();
        is_live.then(|| doc.renewed(store.now().saturating_add(millis(extend_for))))
    })
    .await?;
    if let Some(session) = &renewed.doc.session {
        session::touch(store, session).await;
    }
    works.put(store, &token.nonce, renewed, store.now());
    Ok(())
}

/// Releases the item, due again after `delay`, with the end of its attempt; without one, the attempt does not count. Returns the
/// released item.
pub(crate) async fn release(
    store: &Store,
    token: &WorkToken,
    delay: Option<Duration>,
    end: Option<AttemptEnd>,
    works: &ClaimedWorks,
) -> Result<WorkDoc, Failure> {
    let (store, used) = released_step(store, token, works);
    let released = rewrite(&store, token, works, |doc| {
        let now = store.now();
        let released = doc.released(now, now.saturating_add(delay.map_or(0, millis)), end);
        Some(released.having_used(used))
    })
    .await?;
    store.spent.spare(token.pk.as_str(), store.spending.total().less(used));
    works.forget(&token.nonce);
    Ok(released.doc)
}

/// Releases an item that this process fetched and nobody runs, and the affinity session if `owner` took it for this item.
/// If this fails, the claims expire by themselves.
pub(crate) async fn give_back(store: &Store, lock_token: &str, owner: Option<&str>, works: &ClaimedWorks) {
    let given_back = async {
        let token = WorkToken::decode(lock_token)?;
        release(store, &token, None, None, works).await
    };
    let released = match given_back.await {
        Ok(released) => released,
        Err(error) => {
            tracing::warn!(%error, "an activity that nobody runs could not be released; its claim will expire");
            return;
        }
    };
    if let (Some(session), Some(owner)) = (released.session, owner)
        && let Some(taken) = works.owners.forget(&session, owner)
    {
        session::release(store, &session, &taken).await;
    }
}

/// Blocks an activity that this build does not register: gives it back, to be tried again after a pause. The attempt does not
/// count, and only the work item says why: the fence of the instance stays. The affinity session that `owner` took for it is
/// released, because another environment may run it.
pub(crate) async fn block(
    store: &Store,
    token: &WorkToken,
    block: &Block,
    owner: Option<&str>,
    works: &ClaimedWorks,
) -> Result<Blocked, Failure> {
    let (build, now) = (store.build_name()?, store.now());
    let of = |doc: &WorkDoc| noted(doc.blocked.as_ref(), block, build, now);
    let (step, used) = released_step(store, token, works);
    let blocked = |doc: &WorkDoc| Some(doc.blocked(now, of(doc)).having_used(used));
    let written = rewrite(&step, token, works, blocked).await?;
    step.spent.spare(token.pk.as_str(), step.spending.total().less(used));
    works.forget(&token.nonce);
    if let (Some(session), Some(owner)) = (&written.doc.session, owner)
        && let Some(taken) = works.owners.forget(session, owner)
    {
        session::release(store, session, &taken).await;
    }
    written.doc.blocked.ok_or_else(|| token.lost())
}

/// The store for the end of a step that is released, and what the step has used with that: the item keeps it for the completion.
fn released_step(store: &Store, token: &WorkToken, works: &ClaimedWorks) -> (Store, Usage) {
    let store = works.step(store, token);
    let used = store.spending.total().plus(Usage::REQUEST);
    (store, used)
}

/// Writes the next version of a claimed item. `next` returns `None` when the claim has expired.
async fn rewrite(
    store: &Store,
    token: &WorkToken,
    works: &ClaimedWorks,
    next: impl Fn(&WorkDoc) -> Option<WorkDoc>,
) -> Result<Found<WorkDoc>, Failure> {
    let (pk, id) = (&token.pk, &token.id);
    let mut work = works.of(store, token).await?;
    for _ in 0..ATTEMPTS {
        let doc = next(&work.doc).ok_or_else(|| token.lost())?;
        let replaced = store
            .container
            .replace(pk, id, &doc, Some(&work.etag), Retry::Idempotent);
        match replaced.await {
            Ok(etag) => return Ok(Found { doc, etag }),
            Err(error) if error.is_precondition_failed() || error.is_not_found() => {
                let found = store.container.read::<WorkDoc>(pk, id).await?;
                let now = found.ok_or_else(|| token.lost())?;
                // Our own first attempt was applied.
                if error.after_ambiguity() && now.doc.claim == doc.claim && now.doc.due_at == doc.due_at {
                    return Ok(now);
                }
                if !now.doc.is_claimed_by(&token.nonce) {
                    return Err(token.lost());
                }
                work = now;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(token.lost())
}
