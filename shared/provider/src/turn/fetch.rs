//! Fetching the turn of one instance: one request if it needs no claim, one more if it does. One when there is nothing to do.
//!
//! A turn is deterministic and has no effects before its commit, so it needs no claim: the commit replaces the instance
//! document in the version that was read here, and of several that run the same turn one can write. A claim is for those
//! who must be counted or alone: see [`TurnRequest::claims`], and messages that were fetched before.

use super::block::{Pause, block, pause_of};
use super::claimed::ClaimedTurns;
use super::item::{Claim, assemble, decode, supports};
use super::oversized::{self, Load, give_up};
use super::paused::{Hold, hold_of};
use super::release::unclaim;
use crate::error::Failure;
use crate::model::{Block, BlockCause, InstanceDoc, MessageDoc, Status, is_start};
use crate::read::{self, Asked, Past, View};
use crate::recovery::{self, Progress, roll_forward};
use crate::store::{Fence, Store, millis};
use crate::types::{Fetched, TurnItem};
use cosmos::PartitionKey;
use duroxide::providers::{DispatcherCapabilityFilter, WorkItem};
use std::sync::Arc;
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
    /// The execution that the turn is expected to belong to.
    pub execution: Option<u64>,
    /// Claim the instance in any case, and count the attempt.
    pub claims: bool,
}

/// What is due for a turn that may be claimed: what was read, and the decoded messages.
#[derive(Debug)]
pub(crate) struct DueTurn {
    view: View,
    items: Vec<(MessageDoc, WorkItem)>,
    /// Why its history is not read: a turn that cancels the instance, or of one that has ended, needs none.
    unread: Option<String>,
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
    match look(store, pk, request, turns).await? {
        Looked::Due(due) if request.claims || due.needs_claim(store.history_limit) => {
            claim(store, pk, *due, request.lock_timeout, turns).await
        }
        Looked::Due(due) => or_foreign(begin(store, pk, *due, request.lock_timeout, turns).await),
        Looked::NotDue(fetched) => Ok(*fetched),
    }
}

/// What only a newer release can read is no failure of the fetch.
fn or_foreign(fetched: Result<Fetched<TurnItem>, Failure>) -> Result<Fetched<TurnItem>, Failure> {
    match fetched {
        Err(failure @ Failure::Foreign { .. }) => Ok(Fetched::Foreign {
            why: failure.to_string(),
        }),
        fetched => fetched,
    }
}

/// Another process was faster: it sees the messages.
fn busy_if_raced(failure: Failure) -> Result<Fetched<TurnItem>, Failure> {
    match failure {
        Failure::Raced { .. } => Ok(Fetched::Busy { until_ms: 0 }),
        failure => Err(failure),
    }
}

impl DueTurn {
    /// Whether the turn must be counted, or is more than one batch: it was fetched before, or is to be given up. A
    /// partition without an instance document has no version that a commit could rely on.
    fn needs_claim(&self, history_limit: u64) -> bool {
        let Some(fence) = &self.view.fence else { return true };
        let attempts = &fence.doc.lock.attempts;
        let is_repeated = self.items.iter().any(|(message, _)| attempts.contains_key(&message.id));
        let is_oversized = Load::of(&fence.doc.current, history_limit) == Load::Nothing;
        is_repeated || is_oversized || self.unread.is_some()
    }
}

/// Whether there is a turn to claim. It claims nothing yet, so it may be dropped at any time.
pub(crate) async fn look(
    store: &Store,
    pk: &PartitionKey,
    request: TurnRequest<'_>,
    turns: &ClaimedTurns,
) -> Result<Looked, Failure> {
    for _ in 0..ROLL_FORWARDS {
        let now = store.now();
        let asked = match turns.known.get(pk.as_str()) {
            Some(known) => Asked::After(known),
            None => Asked::Execution(request.execution.unwrap_or(duroxide::INITIAL_EXECUTION_ID)),
        };
        let mut view = read::view(store, pk, now, asked.clone()).await?;
        if let Some(foreign) = view.foreign {
            return Ok(Looked::not_due(Fetched::Foreign { why: foreign.reason }));
        }
        if let Some(fence) = &view.fence {
            if fence.doc.lock.claim_at(now).is_some() {
                let until_ms = fence.doc.lock.until;
                return Ok(Looked::not_due(Fetched::Busy { until_ms }));
            }
            if let Some(until_ms) = fence.doc.lock.publishing_until(now) {
                return Ok(Looked::not_due(Fetched::Busy { until_ms }));
            }
            match roll_forward(store, pk, fence).await? {
                Progress::Clean => {}
                Progress::Changed { due } if due.is_empty() => continue,
                Progress::Changed { due } => return Ok(Looked::not_due(Fetched::RolledForward { due })),
                Progress::Underway { until_ms } => return Ok(Looked::not_due(Fetched::Busy { until_ms })),
            }
        }
        view = match hold_of(store, pk, view, asked.clone(), now).await? {
            Hold::Yes { is_late } => return Ok(Looked::not_due(Fetched::Paused { is_late })),
            Hold::Changed => continue,
            Hold::Cancelled(view) => *view,
            Hold::No(view) => match pause_of(store, pk, *view, asked, now).await? {
                Pause::Over(view) => *view,
                Pause::Until(until_ms) => return Ok(Looked::not_due(Fetched::StillBlocked { until_ms })),
                Pause::Changed => continue,
            },
        };
        let items = decode(pk, &view.messages);
        let begins = view.instance().is_some() || items.iter().any(|(_, item)| is_start(item));
        if let Some(fence) = view.fence.as_ref().filter(|fence| begins && fence.doc.lock.aside) {
            recovery::put_back(store, pk, fence).await?;
            continue;
        }
        if let Some(fence) = view
            .fence
            .as_ref()
            .filter(|_| store.build.get().is_some() && !items.is_empty())
            && let Some(reason) = unsupported(request.filter, &view)
        {
            if cancels(&items) || fence.doc.current.status.is_over() {
                let unread = Some(reason);
                return Ok(Looked::Due(Box::new(DueTurn { view, items, unread })));
            }
            let cause = BlockCause::History;
            let blocked = block(store, pk, fence, &view.messages, &Block { cause, reason }).await;
            return blocked
                .map(Fetched::Blocked)
                .or_else(busy_if_raced)
                .map(Looked::not_due);
        }
        if let Some(why) = foreign(request.filter, &view, items.len(), begins) {
            return Ok(Looked::not_due(Fetched::Foreign { why }));
        }
        if items.is_empty() {
            return Ok(Looked::not_due(Fetched::Nothing));
        }
        if let Some(until_ms) = successor_due(store, pk, &view, &items).await? {
            return Ok(Looked::not_due(Fetched::Busy { until_ms }));
        }
        if !begins {
            return wait_for_start(store, pk, &view).await.map(Looked::not_due);
        }
        let unread = None;
        return Ok(Looked::Due(Box::new(DueTurn { view, items, unread })));
    }
    Ok(Looked::not_due(Fetched::Busy { until_ms: store.now() }))
}

/// Begins a turn that [`look`] has found, without a claim.
async fn begin(
    store: &Store,
    pk: &PartitionKey,
    due: DueTurn,
    time: Duration,
    turns: &ClaimedTurns,
) -> Result<Fetched<TurnItem>, Failure> {
    let DueTurn { view, items, .. } = due;
    let (Some(fence), past) = (view.fence, view.past) else {
        return Ok(Fetched::Busy { until_ms: store.now() });
    };
    let until = store.now().saturating_add(millis(time));
    let past = load_whole(store, pk, existing(&fence), past).await?;
    let claim = Claim {
        pk,
        nonce: store.ids.unique(),
        fence,
        more: view.more,
        until,
        expires: store.expiry(until),
        spending: Arc::clone(&store.spending),
    };
    let (item, turn) = assemble(claim, past, None, items, &turns.known)?;
    turns.put(turn, store.now());
    Ok(Fetched::Ready(item))
}

/// Claims a turn that [`look`] has found.
pub(crate) async fn claim(
    store: &Store,
    pk: &PartitionKey,
    due: DueTurn,
    lock_timeout: Duration,
    turns: &ClaimedTurns,
) -> Result<Fetched<TurnItem>, Failure> {
    let DueTurn { view, items, unread } = due;
    let nonce = store.ids.unique();
    let ids: Vec<String> = items.iter().map(|(message, _)| message.id.clone()).collect();
    let seen = view.fence.as_ref();
    let until = store.now().saturating_add(millis(lock_timeout));
    let next = seen.map_or_else(
        || InstanceDoc::absent(pk.as_str(), store.now()),
        |fence| fence.doc.clone(),
    );
    let next = next.with(|lock| lock.claim(&nonce, until, &ids));
    let Some(fence) = store.swap_fence(pk, seen.map(|fence| &fence.etag), next).await? else {
        // Another process was faster, or the view was stale. Either way the process with the claim sees the messages.
        return Ok(Fetched::Busy { until_ms: store.now() });
    };
    let instance = existing(&fence);
    let is_oversized = instance.is_some_and(|it| Load::of(&it.current, store.history_limit) == Load::Nothing);
    let has_build = store.build.get().is_some();
    let unread = unread.or_else(|| {
        let is_cancelled = is_oversized && has_build && cancels(&items);
        is_cancelled.then(|| oversized::reason(&fence.doc, store.history_limit))
    });
    let loaded = match unread {
        Some(_) => Ok(Past::default()),
        None => load_whole(store, pk, instance, view.past).await,
    };
    let claim = Claim {
        pk,
        nonce,
        until: fence.doc.lock.until,
        expires: store.expiry(fence.doc.lock.until),
        fence: fence.clone(),
        more: view.more,
        spending: Arc::clone(&store.spending),
    };
    let fetched = match loaded {
        Ok(_) if is_oversized && has_build && unread.is_none() => {
            let reason = oversized::reason(&fence.doc, store.history_limit);
            let cause = BlockCause::History;
            let messages: Vec<MessageDoc> = items.into_iter().map(|(message, _)| message).collect();
            let blocked = block(store, pk, &fence, &messages, &Block { cause, reason }).await;
            blocked.map(Fetched::Blocked).or_else(busy_if_raced)
        }
        Ok(_) if is_oversized && unread.is_none() => {
            let given_up = give_up(store, turns, claim, &items).await;
            given_up.map(Fetched::GivenUp)
        }
        loaded => loaded
            .and_then(|past| assemble(claim, past, unread, items, &turns.known))
            .map(|(item, turn)| {
                turns.put(turn, store.now());
                Fetched::Ready(item)
            }),
    };
    match fetched {
        Ok(fetched) => Ok(fetched),
        Err(failure) => {
            unclaim(store, pk, &fence).await;
            or_foreign(Err(failure))
        }
    }
}

/// Whether a message cancels the instance.
fn cancels(items: &[(MessageDoc, WorkItem)]) -> bool {
    let mut items = items.iter().map(|(_, item)| item);
    items.any(|item| matches!(item, WorkItem::CancelInstance { .. }))
}

fn existing(fence: &Fence) -> Option<&InstanceDoc> {
    Some(&fence.doc).filter(|instance| instance.exists())
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
    unsupported(filter, view)
}

/// Why this caller cannot replay the instance.
fn unsupported(filter: Option<&DispatcherCapabilityFilter>, view: &View) -> Option<String> {
    let instance = view.instance();
    (!supports(filter, instance)).then(|| {
        let pinned = instance.and_then(|instance| instance.current.pinned.as_ref());
        let pinned = pinned.map_or_else(|| "no version".to_owned(), ToString::to_string);
        format!("its execution is pinned to duroxide {pinned}, which this build does not replay: deploy one that does")
    })
}

/// Reads again until history and keys are as new as the instance document says they must be.
async fn load_whole(
    store: &Store,
    pk: &PartitionKey,
    instance: Option<&InstanceDoc>,
    mut past: Past,
) -> Result<Past, Failure> {
    let Some(instance) = instance else {
        return Ok(past);
    };
    let load = Load::of(&instance.current, store.history_limit);
    let (mut wait, mut is_view) = (REREAD_WAIT, true);
    for _ in 0..REREADS {
        if load.is_read(&past, instance) {
            return Ok(past);
        }
        // The view was of another execution, or what this process knows is not what was committed: else a replica lags.
        if !std::mem::take(&mut is_view) {
            if let Some(foreign) = past.foreign.take() {
                return Err(foreign.in_partition(pk));
            }
            tracing::debug!(instance = pk.as_str(), "a lagging replica answered: reading again");
            tokio::time::sleep(wait).await;
            wait = wait.saturating_mul(2).min(Duration::from_millis(200));
        }
        past = Load::read(store, pk, &instance.current).await?;
    }
    Err(Failure::stale(pk, "history or keys stay incomplete"))
}

/// When the next execution can begin, if the instance has continued as new and its start is not due yet: it was put off,
/// or this clock is behind. duroxide would put off what is due now, and what comes later would overtake it.
async fn successor_due(
    store: &Store,
    pk: &PartitionKey,
    view: &View,
    items: &[(MessageDoc, WorkItem)],
) -> Result<Option<u64>, Failure> {
    let is_between = view
        .instance()
        .is_some_and(|instance| instance.current.status == Status::ContinuedAsNew);
    if !is_between || items.iter().any(|(_, item)| is_start(item)) {
        return Ok(None);
    }
    read::start_due(store, pk).await
}

/// There is neither instance nor start: the messages wait for it, out of the way.
async fn wait_for_start(store: &Store, pk: &PartitionKey, view: &View) -> Result<Fetched<TurnItem>, Failure> {
    let is_newest = recovery::set_aside(store, pk, view.fence.as_ref(), &view.messages).await?;
    Ok(if is_newest && !view.more {
        Fetched::Nothing
    } else {
        Fetched::Busy { until_ms: store.now() }
    })
}
