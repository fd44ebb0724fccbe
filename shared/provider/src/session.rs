//! Session affinity: the activities of one session go to one owner at a time.
//!
//! A session and the work items that name it live in different partitions. Claiming is therefore two steps: first the
//! session (create, or replace with `If-Match`), then the item. A crash in between leaves a session that its owner
//! holds without work, until it expires. Nothing else depends on their order. Who removes expired ones is
//! `maintain::sessions`.

use crate::error::Failure;
use crate::model::SessionDoc;
use crate::store::{Store, millis};
use cosmos::{Etag, PartitionKey, Query, Retry};
use duroxide::providers::SessionFetchConfig;
use std::time::Duration;

/// How often a session may change under its claim or renewal.
const RENEWALS: u32 = 5;

/// What became of a claim.
#[derive(Debug)]
pub(crate) enum SessionClaim {
    Owned,
    /// Another owner has it until then.
    Closed {
        until_ms: u64,
    },
}

impl Store {
    /// Claims the session, or refreshes it when it is the caller's already.
    pub(crate) async fn claim_session(
        &self,
        session: &str,
        config: &SessionFetchConfig,
    ) -> Result<SessionClaim, Failure> {
        let pk = PartitionKey::new(session)?;
        let mut now = self.now();
        for _ in 0..RENEWALS {
            now = self.now();
            let seen = self.container.read::<SessionDoc>(&pk, SessionDoc::ID).await?;
            if let Some(seen) = &seen
                && seen.doc.is_closed_to(&config.owner_id, now)
            {
                return Ok(SessionClaim::Closed {
                    until_ms: seen.doc.until,
                });
            }
            let until = now.saturating_add(millis(config.lock_timeout));
            let next = SessionDoc::new(session, &config.owner_id, until, now);
            let written = match &seen {
                Some(seen) => {
                    self.container
                        .replace(&pk, SessionDoc::ID, &next, Some(&seen.etag), Retry::Idempotent)
                        .await
                }
                None => self.container.create(&pk, &next, Retry::Idempotent).await,
            };
            match written {
                Ok(_) => return Ok(SessionClaim::Owned),
                // Another slot of the same owner noted its use, another owner was faster, or it is the echo of our own
                // write: the document tells.
                Err(error) if error.is_conflict() || error.is_precondition_failed() || error.is_not_found() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(SessionClaim::Closed { until_ms: now })
    }

    /// Notes that the session was used. Best effort: a missed note lets an idle session expire a little earlier.
    pub(crate) async fn touch_session(&self, session: &str) {
        if let Err(error) = self.try_touch_session(session).await {
            tracing::debug!(session, %error, "the use of a session was not noted");
        }
    }

    async fn try_touch_session(&self, session: &str) -> Result<(), Failure> {
        let pk = PartitionKey::new(session)?;
        let now = self.now();
        let Some(seen) = self.container.read::<SessionDoc>(&pk, SessionDoc::ID).await? else {
            return Ok(());
        };
        // One that has expired may be another's by now.
        if seen.doc.until > now {
            let mut next = seen.doc;
            next.active_at = now;
            self.container
                .replace(&pk, SessionDoc::ID, &next, Some(&seen.etag), Retry::Idempotent)
                .await?;
        }
        Ok(())
    }

    /// Extends the sessions of these owners that are neither expired nor idle.
    pub(crate) async fn renew_sessions(
        &self,
        owners: &[&str],
        extend_for: Duration,
        idle: Duration,
    ) -> Result<usize, Failure> {
        if owners.is_empty() {
            return Ok(0);
        }
        let now = self.now();
        let query = Query::new(
            "SELECT * FROM c WHERE c.type = 'session' AND ARRAY_CONTAINS(@owners, c.owner) AND c.until > @now",
        )
        .param("@owners", owners)
        .param("@now", now);
        let (mut renewed, mut failed) = (0, None);
        for session in self.container.scan::<SessionDoc>(&query).await? {
            let until = now.saturating_add(millis(extend_for));
            match self.renew_session(session, owners, until, millis(idle)).await {
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

    /// Extends one session, if it is neither idle nor another's by now.
    async fn renew_session(
        &self,
        mut session: SessionDoc,
        owners: &[&str],
        until: u64,
        idle: u64,
    ) -> Result<bool, Failure> {
        let pk = PartitionKey::new(&session.pk)?;
        for _ in 0..RENEWALS {
            let now = self.now();
            let live = session.until > now && session.active_at.saturating_add(idle) > now;
            if !live || !owners.contains(&session.owner.as_str()) {
                return Ok(false);
            }
            let etag = Etag::new(session.etag.clone());
            session.until = until;
            match self
                .container
                .replace(&pk, SessionDoc::ID, &session, Some(&etag), Retry::Idempotent)
                .await
            {
                Ok(_) => return Ok(true),
                // Its use was noted this very moment, or it was taken over: look again.
                Err(error) if error.is_precondition_failed() || error.is_not_found() => {}
                Err(error) => return Err(error.into()),
            }
            match self.container.read::<SessionDoc>(&pk, SessionDoc::ID).await? {
                Some(found) => session = found.doc,
                None => return Ok(false),
            }
        }
        Ok(false)
    }
}
