//! Fetching the turn of one instance: at most three requests in two round trips, one when there is nothing to do.

use super::claimed::ClaimedTurns;
use super::item::{Claim, assemble, decode, supports};
use super::oversized::{Load, give_up};
use super::release::unclaim;
use crate::error::Failure;
use crate::model::{InstanceDoc, LockDoc, MessageDoc, is_start};
use crate::read::{self, Past, View};
use crate::recovery::{self, Progress, roll_forward};
use crate::store::{Locked, Store, millis};
use crate::types::{Fetched, TurnItem};
use cosmos::PartitionKey;
use duroxide::providers::{DispatcherCapabilityFilter, WorkItem};
use std::time::Duration;

/// How often an incomplete past is read again before the turn is released.
const REREADS: u32 = 20;
/// The first wait for a replica to catch up; it doubles.
const REREAD_WAIT: Duration = Duration::from_millis(5);
/// How often a fetch rolls an earlier commit forward before it reports the instance as busy.
const ROLL_FORWARDS: u32 = 4;

/// How to fetch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TurnRequest<'a> {
    pub lock_timeout: Duration,
    pub filter: Option<&'a DispatcherCapabilityFilter>,
}

/// What is due for a turn that may be claimed: what was read, and the decoded messages.
#[derive(Debug)]
pub(crate) struct DueTurn {
    view: View,
    items: Vec<(MessageDoc, WorkItem)>,
}

/// The result of a look before the claim.
#[derive(Debug)]
pub(crate) enum Looked {
    Due(Box<DueTurn>),
    /// There is nothing to claim: the result of the fetch.
    NotDue(Box<Fetched<TurnItem>>),
}

impl Looked {
    fn not_due(fetched: Fetched<TurnItem>) -> Self {
        Looked::NotDue(Box::new(fetched))
    }
}

/// Claims the next turn of `pk`.
pub(crate) async fn fetch(
    store: &Store,
    pk: &PartitionKey,
    request: TurnRequest<'_>,
    turns: &ClaimedTurns,
) -> Result<Fetched<TurnItem>, Failure> {
    match look(store, pk, request.filter).await? {
        Looked::Due(due) => claim(store, pk, *due, request.lock_timeout, turns).await,
        Looked::NotDue(fetched) => Ok(*fetched),
    }
}

/// Whether there is a turn to claim. It claims nothing yet, so it may be dropped at any time.
pub(crate) async fn look(
    store: &Store,
    pk: &PartitionKey,
    filter: Option<&DispatcherCapabilityFilter>,
) -> Result<Looked, Failure> {
    for _ in 0..ROLL_FORWARDS {
        let now = store.now();
        let view = read::view(store, pk, now).await?;
        if let Some(why) = view.foreign {
            return Ok(Looked::not_due(Fetched::Foreign { why }));
        }
        if let Some(lock) = &view.lock {
            if lock.doc.claim_at(now).is_some() {
                let until_ms = lock.doc.until;
                return Ok(Looked::not_due(Fetched::Busy { until_ms }));
            }
            match roll_forward(store, pk, lock).await? {
                Progress::Clean => {}
                Progress::Changed => continue,
                Progress::Underway { until_ms } => return Ok(Looked::not_due(Fetched::Busy { until_ms })),
            }
        }
        let items = decode(pk, &view.messages);
        let begins = view.instance.is_some() || items.iter().any(|(_, item)| is_start(item));
        if let Some(lock) = view.lock.as_ref().filter(|lock| begins && lock.doc.aside) {
            recovery::put_back(store, pk, lock).await?;
            continue;
        }
        if let Some(why) = foreign(filter, &view, items.len(), begins) {
            return Ok(Looked::not_due(Fetched::Foreign { why }));
        }
        if items.is_empty() {
            return Ok(Looked::not_due(Fetched::Nothing));
        }
        if !begins {
            return wait_for_start(store, pk, &view).await.map(Looked::not_due);
        }
        return Ok(Looked::Due(Box::new(DueTurn { view, items })));
    }
    Ok(Looked::not_due(Fetched::Busy { until_ms: store.now() }))
}

/// Claims a turn that [`look`] has found.
pub(crate) async fn claim(
    store: &Store,
    pk: &PartitionKey,
    due: DueTurn,
    lock_timeout: Duration,
    turns: &ClaimedTurns,
) -> Result<Fetched<TurnItem>, Failure> {
    let DueTurn { view, items } = due;
    let nonce = store.ids.unique();
    let ids: Vec<String> = items.iter().map(|(message, _)| message.id.clone()).collect();
    let seen = view.lock.as_ref();
    let until = store.now().saturating_add(millis(lock_timeout));
    let next = seen.map_or_else(|| LockDoc::new(pk.as_str()), |lock| lock.doc.clone());
    let next = next.claimed(&nonce, until, &ids);

    let (claimed, past) = futures::join!(store.swap_lock(pk, seen.map(|lock| &lock.etag), next), async {
        match &view.instance {
            Some(instance) => Load::read(store, pk, &instance.current).await,
            None => Ok(Past::default()),
        }
    });
    let Some(lock) = claimed? else {
        // Another process was faster, or the view was stale. Either way the process with the claim sees the messages.
        return Ok(Fetched::Busy { until_ms: store.now() });
    };
    let loaded = load_coherent(store, pk, &lock, &view, past).await;
    let claim = Claim {
        pk,
        nonce,
        expires: store.expiry(lock.doc.until),
        lock: lock.clone(),
        more: view.more,
    };
    let fetched = match loaded {
        Ok((Some(instance), _)) if Load::of(&instance.current, store.history_limit) == Load::Nothing => {
            let given_up = give_up(store, turns, claim, instance, &items).await;
            given_up.map(Fetched::GivenUp)
        }
        loaded => loaded
            .and_then(|(instance, past)| assemble(claim, instance, past, items))
            .map(|(item, turn)| {
                turns.put(turn, store.now());
                Fetched::Ready(item)
            }),
    };
    match fetched {
        Ok(fetched) => Ok(fetched),
        Err(failure) => {
            unclaim(store, pk, &lock).await;
            Err(failure)
        }
    }
}

/// Why this caller cannot run what is due.
fn foreign(filter: Option<&DispatcherCapabilityFilter>, view: &View, decoded: usize, begins: bool) -> Option<String> {
    if view.messages.is_empty() {
        return view.foreign_message.clone();
    }
    // What cannot be decoded may be the start of an instance that does not exist yet.
    let is_unreadable = view.unreadable || decoded < view.messages.len();
    if decoded == 0 || (is_unreadable && !begins) {
        return Some(
            "its messages cannot be decoded: a newer release wrote them, deploy that release everywhere".to_owned(),
        );
    }
    let instance = view.instance.as_ref();
    (!supports(filter, instance)).then(|| {
        let pinned = instance.and_then(|instance| instance.current.pinned.as_ref());
        let pinned = pinned.map_or_else(|| "no version".to_owned(), ToString::to_string);
        format!("its execution is pinned to duroxide {pinned}, which this build does not replay: deploy one that does")
    })
}

/// Reads again until instance, history and keys are as new as the claim proves they must be.
async fn load_coherent(
    store: &Store,
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
            .is_none_or(|instance| Load::of(&instance.current, store.history_limit).is_read(&past, instance));
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
            instance = read::instance(store, pk).await?;
        }
        if let Some(instance) = &instance {
            past = Load::read(store, pk, &instance.current).await?;
        }
    }
    Err(Failure::stale(pk, "history or keys stay incomplete"))
}

/// There is neither instance nor start: the messages wait for it, out of the way.
async fn wait_for_start(store: &Store, pk: &PartitionKey, view: &View) -> Result<Fetched<TurnItem>, Failure> {
    let is_newest = view.is_coherent() && recovery::set_aside(store, pk, view.lock.as_ref(), &view.messages).await?;
    Ok(if is_newest && !view.more {
        Fetched::Nothing
    } else {
        Fetched::Busy { until_ms: store.now() }
    })
}
