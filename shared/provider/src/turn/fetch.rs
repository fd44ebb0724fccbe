//! Fetching the turn of one instance: at most three requests in two round trips, one when there is nothing to do.

use super::HeldTurns;
use super::item::{Claimed, Grip, assemble, begins, decode, supports};
use super::load::{Past, View};
use crate::error::Failure;
use crate::finish::Finish;
use crate::model::{InstanceDoc, LockDoc, MessageDoc};
use crate::provider::{Fetched, TurnItem};
use crate::store::{Locked, Store, millis};
use cosmos::{Etag, PartitionKey, Retry};
use duroxide::providers::{DispatcherCapabilityFilter, WorkItem};
use std::time::Duration;

/// How often a past that came short is read again before the turn is given back.
const REREADS: u32 = 20;
/// How long to wait for a replica to catch up, the first time; it doubles.
const REREAD_WAIT: Duration = Duration::from_millis(5);
/// How often unfinished business of an earlier commit is met and finished before the fetch gives up as busy.
const FINISHES: u32 = 4;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TurnRequest<'a> {
    pub lock_timeout: Duration,
    pub filter: Option<&'a DispatcherCapabilityFilter>,
}

/// Why something that is due cannot be run by this caller.
fn foreign(filter: Option<&DispatcherCapabilityFilter>, view: &View, decoded: usize) -> Option<String> {
    if view.messages.is_empty() {
        return None;
    }
    if decoded == 0 {
        return Some(
            "its messages cannot be decoded: they are of a newer release, deploy that one everywhere".to_owned(),
        );
    }
    let pinned = view
        .instance
        .as_ref()
        .and_then(|instance| instance.current.pinned.as_ref());
    (!supports(filter, view.instance.as_ref())).then(|| {
        let pinned = pinned.map_or_else(|| "no version".to_owned(), ToString::to_string);
        format!("its execution is pinned to duroxide {pinned}, which this build does not replay: deploy one that does")
    })
}

impl Store {
    /// Claims the next turn of `pk`.
    pub(crate) async fn fetch_turn(
        &self,
        pk: &PartitionKey,
        request: TurnRequest<'_>,
        held: &HeldTurns,
    ) -> Result<Fetched<TurnItem>, Failure> {
        for _ in 0..FINISHES {
            let now = self.now();
            let view = self.view(pk, now).await?;
            if let Some(lock) = &view.lock {
                if let Some(until) = lock.doc.held_at(now).map(|_| lock.doc.until) {
                    return Ok(Fetched::Busy { until_ms: until });
                }
                match self.finish(pk, lock).await? {
                    Finish::Clean => {}
                    Finish::Changed => continue,
                    Finish::Underway { until_ms } => return Ok(Fetched::Busy { until_ms }),
                }
            }
            return self.claim(pk, view, request, held).await;
        }
        Ok(Fetched::Busy { until_ms: self.now() })
    }

    async fn claim(
        &self,
        pk: &PartitionKey,
        view: View,
        request: TurnRequest<'_>,
        held: &HeldTurns,
    ) -> Result<Fetched<TurnItem>, Failure> {
        let items = decode(pk, &view.messages);
        if let Some(why) = foreign(request.filter, &view, items.len()) {
            return Ok(Fetched::Foreign { why });
        }
        if items.is_empty() {
            return Ok(Fetched::Nothing);
        }
        if view.instance.is_none() && !items.iter().any(|(_, item)| begins(item)) {
            self.drop_orphans(pk, &view, &items).await?;
            return Ok(Fetched::Nothing);
        }
        let nonce = self.ids.unique();
        let ids: Vec<String> = items.iter().map(|(message, _)| message.id.clone()).collect();
        let seen = view.lock.as_ref();
        let until = self.now().saturating_add(millis(request.lock_timeout));
        let next = seen.map_or_else(|| LockDoc::new(pk.as_str()), |lock| lock.doc.clone());
        let next = next.claimed(&nonce, until, &ids);

        let execution = view.instance.as_ref().map(|instance| instance.current.execution);
        let (claimed, past) = futures::join!(self.swap_lock(pk, seen.map(|lock| &lock.etag), next), async {
            match execution {
                Some(execution) => self.past(pk, execution).await,
                None => Ok(Past::default()),
            }
        });
        let Some(lock) = claimed? else {
            // Somebody was faster, or the view was old. Either way its holder will see the messages.
            return Ok(Fetched::Busy { until_ms: self.now() });
        };
        let loaded = self.settle(pk, &lock, &view, past).await;
        let expires = self.expiry(lock.doc.until);
        let grip = Grip {
            pk,
            nonce,
            lock: lock.clone(),
            more: view.more,
            expires,
        };
        match loaded.and_then(|(instance, past)| assemble(grip, instance, past, items)) {
            Ok(Claimed { item, held: turn }) => {
                held.put(turn, self.now());
                Ok(Fetched::Ready(item))
            }
            Err(failure) => {
                self.unclaim(pk, &lock).await;
                Err(failure)
            }
        }
    }

    /// Waits until what was read is as new as the claim proves it must be.
    async fn settle(
        &self,
        pk: &PartitionKey,
        lock: &Locked,
        view: &View,
        past: Result<Past, Failure>,
    ) -> Result<(Option<InstanceDoc>, Past), Failure> {
        let mut past = past?;
        let mut instance = view.instance.clone();
        let mut wait = REREAD_WAIT;
        for _ in 0..REREADS {
            let coherent = instance.as_ref().map_or("", |instance| instance.commit.as_str()) == lock.doc.last_commit();
            let whole = instance
                .as_ref()
                .is_none_or(|instance| past.has_history_of(&instance.current) && past.has_keys_of(instance));
            if coherent && whole {
                return Ok((instance, past));
            }
            tracing::debug!(
                instance = pk.as_str(),
                coherent,
                "a lagging replica answered: reading again"
            );
            tokio::time::sleep(wait).await;
            wait = wait.saturating_mul(2).min(Duration::from_millis(200));
            if !coherent {
                instance = self
                    .container
                    .read::<InstanceDoc>(pk, InstanceDoc::ID)
                    .await?
                    .map(|found| found.doc);
            }
            if let Some(instance) = &instance {
                past = self.past(pk, instance.current.execution).await?;
            }
        }
        Err(Failure::Stale {
            instance: pk.as_str().to_owned(),
            reason: "history or keys stay incomplete".to_owned(),
        })
    }

    /// Gives a claim back that could not be completed, as if it had not been made.
    pub(crate) async fn unclaim(&self, pk: &PartitionKey, lock: &Locked) {
        let given_back = async {
            if self
                .swap_lock(pk, Some(&lock.etag), lock.doc.released(true))
                .await?
                .is_none()
                && let Some(token) = lock.doc.holder.as_ref().map(|holder| &holder.token)
            {
                // It was renewed since.
                let now = self.own_lock(pk, token).await?;
                self.swap_lock(pk, Some(&now.etag), now.doc.released(true)).await?;
            }
            Ok::<(), Failure>(())
        };
        if let Err(error) = given_back.await {
            // Nobody is hurt: the lock expires.
            tracing::warn!(instance = pk.as_str(), %error, "a claim could not be given back; it will expire");
        }
    }

    /// Removes persistent events that were sent to an instance that does not exist: duroxide does not keep them.
    /// Anything else may be racing with its start, and stays.
    async fn drop_orphans(
        &self,
        pk: &PartitionKey,
        view: &View,
        items: &[(MessageDoc, WorkItem)],
    ) -> Result<(), Failure> {
        if !view.is_coherent()
            || !items
                .iter()
                .all(|(_, item)| matches!(item, WorkItem::QueueMessage { .. }))
        {
            return Ok(());
        }
        tracing::warn!(
            instance = pk.as_str(),
            count = items.len(),
            "dropping events for an instance that never began"
        );
        for (message, _) in items {
            let etag = Etag::new(message.etag.clone());
            match self
                .container
                .delete(pk, &message.id, Some(&etag), Retry::Idempotent)
                .await
            {
                Ok(()) => {}
                Err(error) if error.is_not_found() || error.is_precondition_failed() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
