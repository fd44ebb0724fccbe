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
    Owned,
    /// Another owner has it until then.
    Busy {
        until_ms: u64,
    },
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
            Ok(_) => return Ok(SessionClaim::Owned),
            // Another slot of the same owner recorded its use, another owner was faster, or our own first attempt was
            // applied: read again.
            Err(error) if error.is_conflict() || error.is_precondition_failed() || error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(SessionClaim::Busy { until_ms: now })
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
        let mut next = seen.doc;
        next.active_at = now;
        store
            .container
            .replace(&pk, SessionDoc::ID, &next, Some(&seen.etag), Retry::Idempotent)
            .await?;
    }
    Ok(())
}

/// Extends the sessions of these owners that are neither expired nor idle.
pub(crate) async fn renew_all(
    store: &Store,
    owners: &[&str],
    extend_for: Duration,
    idle: Duration,
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
            Ok(done) => renewed += usize::from(done),
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

/// Extends one session, if it is not idle and still belongs to one of the owners.
async fn renew(
    store: &Store,
    mut session: SessionDoc,
    owners: &[&str],
    until: u64,
    idle: u64,
) -> Result<bool, Failure> {
    let pk = PartitionKey::new(&session.pk)?;
    for _ in 0..RENEWALS {
        let now = store.now();
        let live = session.until > now && session.active_at.saturating_add(idle) > now;
        if !live || !owners.contains(&session.owner.as_str()) {
            return Ok(false);
        }
        let etag = Etag::new(session.etag.clone());
        session.until = until;
        match store
            .container
            .replace(&pk, SessionDoc::ID, &session, Some(&etag), Retry::Idempotent)
            .await
        {
            Ok(_) => return Ok(true),
            // Its use was recorded at the same moment, or another owner claimed it: read again.
            Err(error) if error.is_precondition_failed() || error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
        match store.container.read::<SessionDoc>(&pk, SessionDoc::ID).await? {
            Some(found) => session = found.doc,
            None => return Ok(false),
        }
    }
    Ok(false)
}
