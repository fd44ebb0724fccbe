//! Giving a work item back, and holding it longer.

use super::{HeldWork, HeldWorks};
use crate::error::Failure;
use crate::model::WorkDoc;
use crate::store::{Store, millis};
use crate::token::Token;
use cosmos::{PartitionKey, Retry};
use std::time::Duration;

/// How often the item's version may have moved before it counts as lost.
const ATTEMPTS: u32 = 4;

impl Store {
    /// Holds the item until `extend_for` from now.
    pub(crate) async fn renew_work(&self, token: &str, extend_for: Duration, held: &HeldWorks) -> Result<(), Failure> {
        let (token, pk, id) = Token::decode_work(token)?;
        let renewed = self
            .rewrite_work(&token, &pk, &id, held, |store, doc| {
                let live = doc.until > store.now();
                live.then(|| doc.renewed(store.now().saturating_add(millis(extend_for))))
            })
            .await?;
        if let Some(session) = renewed.doc.session.clone() {
            self.touch_session(&session).await;
        }
        held.put(&token.nonce, renewed, self.now());
        Ok(())
    }

    /// Gives the item back, due again after `delay`. Answers the released item.
    pub(crate) async fn release_work(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
        held: &HeldWorks,
    ) -> Result<WorkDoc, Failure> {
        let (token, pk, id) = Token::decode_work(token)?;
        let released = self
            .rewrite_work(&token, &pk, &id, held, |store, doc| {
                let due_at = store.now().saturating_add(delay.map_or(0, millis));
                Some(doc.released(due_at, ignore_attempt))
            })
            .await?;
        held.forget(&token.nonce);
        Ok(released.doc)
    }

    /// Writes the next version of a held item. `next` answers `None` when it is too late.
    async fn rewrite_work(
        &self,
        token: &Token,
        pk: &PartitionKey,
        id: &str,
        held: &HeldWorks,
        next: impl Fn(&Store, &WorkDoc) -> Option<WorkDoc>,
    ) -> Result<HeldWork, Failure> {
        let lost = || Failure::WorkLost {
            instance: token.instance.clone(),
            work: id.to_owned(),
        };
        let mut work = match held.get(&token.nonce) {
            Some(work) => work,
            None => self.own_work(pk, id, &token.nonce).await?.ok_or_else(lost)?,
        };
        for _ in 0..ATTEMPTS {
            let doc = next(self, &work.doc).ok_or_else(lost)?;
            match self
                .container
                .replace(pk, id, &doc, Some(&work.etag), Retry::Idempotent)
                .await
            {
                Ok(etag) => return Ok(HeldWork { doc, etag }),
                Err(error) if error.is_precondition_failed() || error.is_not_found() => {
                    let ambiguous = error.after_ambiguity();
                    let found = self.container.read::<WorkDoc>(pk, id).await?.ok_or_else(lost)?;
                    let now = HeldWork {
                        doc: found.doc,
                        etag: found.etag,
                    };
                    // The echo of our own first attempt.
                    if ambiguous && now.doc.holder == doc.holder && now.doc.due_at == doc.due_at {
                        return Ok(now);
                    }
                    if !now.doc.is_held_by(&token.nonce) {
                        return Err(lost());
                    }
                    work = now;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(lost())
    }
}
