//! Expired affinity sessions: removed, unless a queued activity names them.
//!
//! One query checks a page of sessions, oldest first, for queued activities. Each session is removed only in the version
//! that was seen: one that is claimed again meanwhile stays. An activity that is queued between the check and the removal
//! loses nothing: its worker claims the session again.

use crate::error::Failure;
use crate::model::sql::{SESSION, WORK};
use crate::model::{Listed, SessionDoc};
use crate::page::{PageRequest, PassOutcome};
use crate::store::Store;
use cosmos::{Container, Etag, PartitionKey, Query, Retry};
use futures::future::join_all;
use std::collections::HashSet;
use std::time::Duration;
use tokio::time::Instant;

/// How many sessions one query names.
const CHECKED_AT_ONCE: usize = 200;
/// How many sessions are removed at once.
const REMOVED_AT_ONCE: usize = 16;
/// How many sessions of each range one page of a whole cleanup has.
const PAGE: u32 = 200;
/// The limit of a whole cleanup: it ends when nothing is left.
const CLEANUP_TIME: Duration = Duration::from_secs(3_600);

/// Removes one page of expired sessions.
pub(crate) async fn sessions_page(store: &Store, request: PageRequest) -> Result<PassOutcome, Failure> {
    let place = request.place(store);
    if Instant::now() >= request.deadline {
        return Ok(PassOutcome::untouched(place));
    }
    let query = Query::new(format!(
        "SELECT * FROM c WHERE c.type = {SESSION} AND c.until < @now ORDER BY c.type, c.until"
    ))
    .param("@now", place.now_ms);
    let container = store.container.within(request.deadline);
    let page = container
        .sweep::<Listed<SessionDoc>, _, _>(&query, request.most, place.sweep.clone(), until)
        .await?;
    let all = page.items.len();
    let sessions: Vec<SessionDoc> = page.items.into_iter().filter_map(Listed::known).collect();
    let foreign = (all - sessions.len()) as u64;
    let mut pass = PassOutcome {
        found: foreign,
        failed: foreign,
        ..PassOutcome::default()
    };
    for group in sessions.chunks(CHECKED_AT_ONCE) {
        let pending = named_by_work(&container, group).await?;
        let idle: Vec<&SessionDoc> = group.iter().filter(|session| !pending.contains(&session.pk)).collect();
        pass.found += (group.len() - idle.len()) as u64;
        for some in idle.chunks(REMOVED_AT_ONCE) {
            pass.found += some.len() as u64;
            for removed in join_all(some.iter().map(|session| remove(&container, session))).await {
                match removed {
                    Ok(removed) => pass.done += u64::from(removed),
                    Err(error) => {
                        tracing::warn!(%error, "an expired session stays until the next cleanup");
                        pass.failed += 1;
                    }
                }
            }
            // Also after the last group: the deadline may have interrupted it.
            if Instant::now() >= request.deadline {
                pass.cursor = Some(place);
                return Ok(pass);
            }
        }
    }
    pass.cursor = place.after(page.cursor);
    Ok(pass)
}

/// What the pages are ordered by.
fn until(session: &Listed<SessionDoc>) -> u64 {
    match session {
        Listed::Known(session) => session.until,
        Listed::Foreign(_) => 0,
    }
}

/// Removes all expired sessions that no queued activity names.
pub(crate) async fn remove_orphaned_sessions(store: &Store) -> Result<usize, Failure> {
    let (mut removed, mut cursor) = (0, None);
    let deadline = Instant::now() + CLEANUP_TIME;
    loop {
        let request = PageRequest {
            most: PAGE,
            cursor,
            deadline,
        };
        let pass = sessions_page(store, request).await?;
        removed += usize::try_from(pass.done).unwrap_or(usize::MAX);
        cursor = pass.cursor;
        if cursor.is_none() || Instant::now() >= deadline {
            return Ok(removed);
        }
    }
}

/// Which of these sessions queued activities name.
async fn named_by_work(container: &Container, sessions: &[SessionDoc]) -> Result<HashSet<String>, Failure> {
    let names: Vec<&str> = sessions.iter().map(|session| session.pk.as_str()).collect();
    let query = Query::new(format!(
        "SELECT DISTINCT VALUE c.session FROM c WHERE c.queue = {WORK} AND ARRAY_CONTAINS(@names, c.session)"
    ))
    .param("@names", &names);
    Ok(container.scan::<String>(&query).await?.into_iter().collect())
}

/// Removes a session unless it has changed. Returns whether it was removed.
async fn remove(container: &Container, session: &SessionDoc) -> Result<bool, Failure> {
    let (pk, etag) = (PartitionKey::new(&session.pk)?, Etag::new(session.etag.clone()));
    match container
        .delete(&pk, SessionDoc::ID, Some(&etag), Retry::Idempotent)
        .await
    {
        Ok(()) => Ok(true),
        Err(error) if error.is_not_found() => Ok(error.after_ambiguity()),
        Err(error) if error.is_precondition_failed() => Ok(false),
        Err(error) => Err(error.into()),
    }
}
