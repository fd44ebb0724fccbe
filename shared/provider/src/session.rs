//! Affinity sessions: the activities of one session go to one owner at a time.
//!
//! A session and the work items that name it live in different partitions, so a claim has two steps: first the session
//! (create, or replace with `If-Match`), then the item. A crash in between leaves a claimed session without work until it
//! expires. `maintain::sessions` removes expired ones.

use crate::error::Failure;
use crate::model::sql::SESSION;
use crate::model::{Listed, SessionDoc};
use crate::store::{Store, millis};
use cosmos::{Etag, PartitionKey, Query, Retry};
use duroxide::providers::SessionFetchConfig;
use std::time::Duration;

/// How often a session may change during its claim or renewal.
const RENEWALS: u32 = 5;

/// The result of a claim.
#[derive(Debug)]
pub(crate) enum SessionClaim {
    /// The caller has it until then.
    Owned {
        until_ms: u64,
        /// The version that the claim wrote, if nobody had the session before.
        taken: Option<Etag>,
    },
    /// Another owner has it until then. The owner is unknown when the session changes too fast.
    Busy { until_ms: u64, owner: Option<String> },
}

/// Claims the session, or extends it when it is the caller's already.
pub(crate) async fn claim(store: &Store, session: &str, config: &SessionFetchConfig) -> Result<SessionClaim, Failure> {
    let pk = PartitionKey::new(session)?;
    let mut now = store.now();
    for _ in 0..RENEWALS {
        now = store.now();
        let seen = store.container.read::<SessionDoc>(&pk, SessionDoc::ID).await?;
        if let Some(seen) = &seen
            && seen.doc.is_owned_by_other(&config.owner_id, now)
        {
            return Ok(SessionClaim::Busy {
                until_ms: seen.doc.until,
                owner: Some(seen.doc.owner.clone()),
            });
        }
        let until = now.saturating_add(millis(config.lock_timeout));
        let next = match &seen {
            Some(seen) => seen.doc.claimed(&config.owner_id, until, now),
            None => SessionDoc::new(session, &config.owner_id, until, now),
        };
        let written = match &seen {
            Some(seen) => {
                store
                    .container
                    .replace(&pk, SessionDoc::ID, &next, Some(&seen.etag), Retry::Idempotent)
                    .await
            }
            None => store.container.create(&pk, &next, Retry::Idempotent).await,
        };
        match written {
            Ok(etag) => {
                let is_taken = seen.is_none_or(|seen| seen.doc.until <= now);
                return Ok(SessionClaim::Owned {
                    until_ms: until,
                    taken: is_taken.then_some(etag),
                });
            }
            // Another slot of the same owner recorded its use, another owner was faster, or our own first attempt was
            // applied: read again.
            Err(error) if error.is_conflict() || error.is_precondition_failed() || error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(SessionClaim::Busy {
        until_ms: now,
        owner: None,
    })
}

/// Releases a session in the version in which it was taken: nobody has used it since. Best effort: it expires by itself.
pub(crate) async fn release(store: &Store, session: &str, taken: &Etag) {
    let released = async {
        let pk = PartitionKey::new(session)?;
        let deleted = store
            .container
            .delete(&pk, SessionDoc::ID, Some(taken), Retry::Idempotent);
        match deleted.await {
            // It was used or removed since.
            Err(error) if error.is_precondition_failed() || error.is_not_found() => Ok(()),
            deleted => deleted.map_err(Failure::from),
        }
    };
    if let Err(error) = released.await {
        tracing::debug!(session, %error, "a session was not released; it will expire");
    }
}

/// Records that the session was used. Best effort: without it an idle session expires a little earlier.
pub(crate) async fn touch(store: &Store, session: &str) {
    if let Err(error) = try_touch(store, session).await {
        tracing::debug!(session, %error, "the use of a session was not recorded");
    }
}

async fn try_touch(store: &Store, session: &str) -> Result<(), Failure> {
    let pk = PartitionKey::new(session)?;
    let now = store.now();
    let Some(seen) = store.container.read::<SessionDoc>(&pk, SessionDoc::ID).await? else {
        return Ok(());
    };
    // An expired session may have another owner by now.
    if seen.doc.until > now {
        let next = seen.doc.touched(now);
        store
            .container
            .replace(&pk, SessionDoc::ID, &next, Some(&seen.etag), Retry::Idempotent)
            .await?;
    }
    Ok(())
}

/// Extends the sessions of these owners that are neither expired nor idle. `note` gets each of them.
pub(crate) async fn renew_all(
    store: &Store,
    owners: &[&str],
    extend_for: Duration,
    idle: Duration,
    note: impl Fn(&SessionDoc),
) -> Result<usize, Failure> {
    if owners.is_empty() {
        return Ok(0);
    }
    let now = store.now();
    let query = Query::new(format!(
        "SELECT * FROM c WHERE c.type = {SESSION} AND ARRAY_CONTAINS(@owners, c.owner) AND c.until > @now"
    ))
    .param("@owners", owners)
    .param("@now", now);
    let (mut renewed, mut failed) = (0, None);
    let sessions = store.container.scan::<Listed<SessionDoc>>(&query).await?;
    for session in sessions.into_iter().filter_map(Listed::known) {
        let until = now.saturating_add(millis(extend_for));
        match renew(store, session, owners, until, millis(idle)).await {
            Ok(Some(session)) => {
                note(&session);
                renewed += 1;
            }
            Ok(None) => {}
            Err(failure) => failed = Some(failure),
        }
    }
    match failed {
        Some(failure) if renewed == 0 => Err(failure),
        Some(failure) => {
            tracing::warn!(%failure, "a session was not renewed; it expires unless the next renewal succeeds");
            Ok(renewed)
        }
        None => Ok(renewed),
    }
}

/// Extends one session, if it is not idle and still belongs to one of the owners. Returns it.
async fn renew(
    store: &Store,
    mut session: SessionDoc,
    owners: &[&str],
    until: u64,
    idle: u64,
) -> Result<Option<SessionDoc>, Failure> {
    let pk = PartitionKey::new(&session.pk)?;
    for _ in 0..RENEWALS {
        let now = store.now();
        let live = session.until > now && session.active_at.saturating_add(idle) > now;
        if !live || !owners.contains(&session.owner.as_str()) {
            return Ok(None);
        }
        let etag = Etag::new(session.etag.clone());
        session = session.extended(until);
        match store
            .container
            .replace(&pk, SessionDoc::ID, &session, Some(&etag), Retry::Idempotent)
            .await
        {
            Ok(_) => return Ok(Some(session)),
            // Its use was recorded at the same moment, or another owner claimed it: read again.
            Err(error) if error.is_precondition_failed() || error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
        match store.container.read::<SessionDoc>(&pk, SessionDoc::ID).await? {
            Some(found) => session = found.doc,
            None => return Ok(None),
        }
    }
    Ok(None)
}
