//! Expired sessions: removed, unless a queued activity names them.
//!
//! A page of them, oldest first, is checked with one query for queued activities, and removed one by one, each only in
//! the version that was seen: one that is claimed again meanwhile stays. An activity that is queued between the check and
//! the removal loses nothing: whoever fetches it claims its session anew.

use super::{Cursor, PageRequest, PassOutcome};
use crate::deliver::AT_ONCE;
use crate::error::Failure;
use crate::model::SessionDoc;
use crate::store::Store;
use cosmos::{Container, Etag, PartitionKey, Query, Retry};
use futures::future::join_all;
use std::collections::HashSet;
use std::time::Duration;
use tokio::time::Instant;

/// How many sessions are asked about at once.
const ASKED_AT_ONCE: usize = 200;
/// How many sessions of each range one page has when nobody says otherwise.
const PAGE: u32 = 200;
/// How long a whole cleanup may take: far longer than anybody waits, for it ends when nothing is left.
const LONG: Duration = Duration::from_secs(3_600);

impl Store {
    pub(crate) async fn sessions_pass(&self, request: PageRequest) -> Result<PassOutcome, Failure> {
        let place = request.cursor.unwrap_or_else(|| Cursor::begin(self.now()));
        if Instant::now() >= request.deadline {
            return Ok(PassOutcome::untouched(place));
        }
        let query = Query::new("SELECT * FROM c WHERE c.type = 'session' AND c.until < @now ORDER BY c.until")
            .param("@now", place.now_ms);
        let container = self.container.within(request.deadline);
        let page = container
            .sweep::<SessionDoc, _, _>(&query, request.most, place.sweep.clone(), |session| session.until)
            .await?;
        let mut pass = PassOutcome::default();
        for group in page.items.chunks(ASKED_AT_ONCE) {
            let pending = named_by_work(&container, group).await?;
            let idle: Vec<&SessionDoc> = group.iter().filter(|session| !pending.contains(&session.pk)).collect();
            pass.found += (group.len() - idle.len()) as u64;
            for some in idle.chunks(AT_ONCE) {
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
                // Also after the last group: it may have been cut short.
                if Instant::now() >= request.deadline {
                    pass.cursor = Some(place);
                    return Ok(pass);
                }
            }
        }
        pass.cursor = place.after(page.cursor);
        Ok(pass)
    }

    /// Removes all expired sessions that no queued activity names.
    pub(crate) async fn remove_orphaned_sessions(&self) -> Result<usize, Failure> {
        let (mut removed, mut cursor) = (0, None);
        let deadline = Instant::now() + LONG;
        loop {
            let request = PageRequest {
                most: PAGE,
                cursor,
                deadline,
            };
            let pass = self.sessions_pass(request).await?;
            removed += usize::try_from(pass.done).unwrap_or(usize::MAX);
            cursor = pass.cursor;
            if cursor.is_none() || Instant::now() >= deadline {
                return Ok(removed);
            }
        }
    }
}

/// Which of these sessions queued activities name.
async fn named_by_work(container: &Container, sessions: &[SessionDoc]) -> Result<HashSet<String>, Failure> {
    let names: Vec<&str> = sessions.iter().map(|session| session.pk.as_str()).collect();
    let query = Query::new(
        "SELECT DISTINCT VALUE c.session FROM c WHERE c.queue = 'work' AND ARRAY_CONTAINS(@names, c.session)",
    )
    .param("@names", &names);
    Ok(container.scan::<String>(&query).await?.into_iter().collect())
}

/// Removes a session unless it has changed. Answers whether it did.
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
