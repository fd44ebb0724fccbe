//! What a fetch learned and the commit needs, kept between the two.
//!
//! The token alone is enough to commit: when this process does not remember it (another process fetched), the same
//! documents are read again, at the price of one more request. Forgotten holds are dropped when their time is over.

use crate::due::Orchestration;
use crate::error::Failure;
use crate::finish::Finish;
use crate::model::{InstanceDoc, KvDoc, LockDoc, MessageDoc, Scope, is_terminal};
use crate::store::{Locked, Store, millis};
use cosmos::{PartitionKey, Query};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How often, and how long apart, to try for an instance whose turn is under way.
const HOLD_ATTEMPTS: u32 = 60;
const HOLD_WAIT: Duration = Duration::from_millis(50);
/// How long a change that is no turn may take.
const HOLD_TIME: Duration = Duration::from_secs(30);

/// Lost tokens that are remembered.
const MOST_LOST: usize = 1000;

/// A message of the held turn.
#[derive(Clone, Debug)]
pub(crate) struct HeldMessage {
    pub id: String,
    pub etag: String,
    pub receipt: bool,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct HeldTurn {
    pub pk: PartitionKey,
    pub nonce: String,
    pub lock: Locked,
    pub instance: Option<InstanceDoc>,
    pub kv: Vec<KvDoc>,
    pub messages: Vec<HeldMessage>,
    /// More messages were due than the turn took.
    pub more: bool,
    /// The orchestration that the turn belongs to, as far as the fetch has read it.
    pub orchestration: Option<Orchestration>,
    /// When the lock ends, by this machine's steady clock; a renewal moves it.
    pub expires: Instant,
}

impl HeldTurn {
    /// Whose keys the turn sees.
    pub(crate) fn scope(instance: Option<&InstanceDoc>) -> Scope {
        instance.map_or(
            Scope {
                execution: 1,
                terminal: false,
            },
            |instance| Scope {
                execution: instance.current.execution,
                terminal: is_terminal(&instance.current.status),
            },
        )
    }
}

/// The turns that this process holds, by nonce, and the instances whose turn it is about to claim.
#[derive(Debug, Default)]
pub(crate) struct HeldTurns {
    held: Mutex<HashMap<String, Arc<HeldTurn>>>,
    opening: Mutex<HashSet<String>>,
    /// Told whenever an instance is about to be claimed no more.
    opened: Notify,
    /// Tokens that were told to be lost: the runtime then tries to commit a failure with them, which must not succeed
    /// even if the lock is still theirs.
    lost: Mutex<VecDeque<String>>,
}

/// Keeps the dispatchers of one process from racing for the same instance, until it is dropped.
#[derive(Debug)]
pub(crate) struct Opening<'a> {
    turns: &'a HeldTurns,
    instance: &'a str,
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.turns
            .opening
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(self.instance);
        self.turns.opened.notify_waiters();
    }
}

impl HeldTurns {
    pub(crate) fn put(&self, turn: HeldTurn, now_ms: u64) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|_, turn| turn.lock.doc.until > now_ms);
        held.insert(turn.nonce.clone(), Arc::new(turn));
    }

    pub(crate) fn get(&self, nonce: &str) -> Option<Arc<HeldTurn>> {
        self.held
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(nonce)
            .cloned()
    }

    pub(crate) fn forget(&self, nonce: &str) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).remove(nonce);
    }

    /// Notes that the token is of no use any more.
    pub(crate) fn lose(&self, nonce: &str) {
        self.forget(nonce);
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        lost.push_back(nonce.to_owned());
        if lost.len() > MOST_LOST {
            lost.pop_front();
        }
    }

    /// Whether the token was told to be lost.
    pub(crate) fn is_lost(&self, nonce: &str) -> bool {
        self.lost
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .any(|lost| lost == nonce)
    }

    /// Notes the lock's newest version, after a renewal.
    pub(crate) fn relock(&self, nonce: &str, lock: &Locked, expires: Instant) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = held.get_mut(nonce) {
            let turn = Arc::make_mut(turn);
            turn.lock = lock.clone();
            turn.expires = expires;
        }
    }

    /// Reserves the instance for one dispatcher of this process; `None` when another has it.
    pub(crate) fn open<'a>(&'a self, instance: &'a str, now_ms: u64) -> Option<Opening<'a>> {
        let reserved = self
            .opening
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(instance.to_owned());
        let opening = reserved.then_some(Opening { turns: self, instance })?;
        (!self.is_held(instance, now_ms)).then_some(opening)
    }

    /// Whether a turn of this instance is under way here, or about to be.
    pub(crate) fn is_running(&self, instance: &str, now_ms: u64) -> bool {
        self.is_opening(instance) || self.is_held(instance, now_ms)
    }

    /// Waits until nobody here is about to claim this instance: it is claimed then, or free.
    pub(crate) async fn opened(&self, instance: &str) {
        loop {
            // Listening comes before looking, or a change in between would be missed.
            let changed = self.opened.notified();
            if !self.is_opening(instance) {
                return;
            }
            changed.await;
        }
    }

    fn is_opening(&self, instance: &str) -> bool {
        self.opening
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(instance)
    }

    fn is_held(&self, instance: &str, now_ms: u64) -> bool {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.values()
            .any(|turn| turn.pk.as_str() == instance && turn.lock.doc.until > now_ms)
    }
}

impl Store {
    /// The held turn of a token that another process (or a former life of this one) fetched.
    pub(crate) async fn recall(&self, pk: &PartitionKey, nonce: &str) -> Result<HeldTurn, Failure> {
        let lost = || Failure::LockLost {
            instance: pk.as_str().to_owned(),
        };
        // No message is due at the beginning of time: those of the hold are asked for by name.
        let view = self.view(pk, 0).await?;
        if !view.is_coherent() {
            return Err(Failure::Stale {
                instance: pk.as_str().to_owned(),
                reason: "instance and lock differ".into(),
            });
        }
        let lock = view.lock.filter(|lock| lock.doc.is_held_by(nonce)).ok_or_else(lost)?;
        let expires = self.expiry(lock.doc.until);
        let execution = view.instance.as_ref().map_or(0, |instance| instance.current.execution);
        let past = self.past(pk, execution).await?;
        if view
            .instance
            .as_ref()
            .is_some_and(|instance| !past.has_keys_of(instance))
        {
            return Err(Failure::Stale {
                instance: pk.as_str().to_owned(),
                reason: "keys are missing".into(),
            });
        }
        let held = lock
            .doc
            .holder
            .as_ref()
            .map(|holder| holder.messages.clone())
            .unwrap_or_default();
        let messages = self.messages_of(pk, &held).await?;
        Ok(HeldTurn {
            pk: pk.clone(),
            nonce: nonce.to_owned(),
            lock,
            instance: view.instance,
            kv: past.kv,
            messages,
            more: false,
            orchestration: None,
            expires,
        })
    }

    /// The held messages, every one of them.
    async fn messages_of(&self, pk: &PartitionKey, held: &[String]) -> Result<Vec<HeldMessage>, Failure> {
        if held.is_empty() {
            return Ok(Vec::new());
        }
        let query = Query::new("SELECT * FROM c WHERE c.queue = 'turn' AND ARRAY_CONTAINS(@ids, c.id)");
        let found = self
            .container
            .query::<MessageDoc>(pk, &query.param("@ids", held))
            .await?;
        if found.len() != held.len() {
            let reason = format!("{} of {} held messages show", found.len(), held.len());
            return Err(Failure::Stale {
                instance: pk.as_str().to_owned(),
                reason,
            });
        }
        let messages = found.into_iter();
        Ok(messages
            .map(|doc| HeldMessage {
                id: doc.id,
                etag: doc.etag,
                receipt: doc.receipt,
            })
            .collect())
    }

    /// Holds an instance without taking messages, for changes that are not a turn. Waits a little for a turn that is
    /// under way.
    pub(crate) async fn hold(&self, pk: &PartitionKey) -> Result<HeldTurn, Failure> {
        for _ in 0..HOLD_ATTEMPTS {
            let seen = self.lock(pk).await?;
            if let Some(lock) = &seen {
                let held = lock.doc.held_at(self.now()).is_some();
                if held || self.finish(pk, lock).await? != Finish::Clean {
                    tokio::time::sleep(HOLD_WAIT).await;
                    continue;
                }
            }
            let nonce = self.ids.unique();
            let next = seen
                .as_ref()
                .map_or_else(|| LockDoc::new(pk.as_str()), |lock| lock.doc.clone());
            let next = next.claimed(&nonce, self.now().saturating_add(millis(HOLD_TIME)), &[]);
            if let Some(lock) = self.swap_lock(pk, seen.as_ref().map(|lock| &lock.etag), next).await? {
                let held = self.recall(pk, &nonce).await;
                if held.is_err() {
                    self.unclaim(pk, &lock).await;
                }
                return held;
            }
        }
        Err(Failure::Busy(pk.as_str().to_owned()))
    }
}
