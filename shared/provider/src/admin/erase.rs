//! Carrying out a decided deletion: erasing each partition, or taking the marks off again.
//!
//! Each partition is done for itself, some at a time. All of it is idempotent: whoever meets a decision that was not
//! carried out to its end does the same.

use crate::error::Failure;
use crate::model::{DeletionDoc, InstanceDoc, IntentDoc, Kind, LockDoc};
use crate::store::{Locked, Store};
use cosmos::{PartitionKey, Query, Retry};
use duroxide::providers::DeleteInstanceResult;
use futures::future::try_join_all;
use serde::Deserialize;
use std::collections::HashSet;

/// How often a lock may change under a mark before the deletion is refused as busy.
pub(super) const ATTEMPTS: u32 = 20;
/// Instances that are marked, checked or erased at once.
pub(super) const AT_ONCE: usize = 16;
/// How often a partition is looked at again while it is erased.
const ERASURES: u32 = 100;

/// A document of a partition that is being erased.
#[derive(Debug, Deserialize)]
pub(super) struct Remains {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: Kind,
}

impl Store {
    /// Does what was decided, in every partition, and then forgets the decision (but not that it was given up).
    pub(crate) async fn carry_out(&self, decision: &DeletionDoc) -> Result<DeleteInstanceResult, Failure> {
        let group: HashSet<&str> = decision.instances.iter().map(String::as_str).collect();
        let mut total = DeleteInstanceResult::default();
        for some in decision.instances.chunks(AT_ONCE) {
            let each = some.iter().map(|id| async {
                let pk = PartitionKey::new(id)?;
                if decision.given_up {
                    self.unmark(&pk, &decision.group).await?;
                    return Ok(DeleteInstanceResult::default());
                }
                self.erase(&pk, &decision.group, &group).await
            });
            let done: Result<Vec<DeleteInstanceResult>, Failure> = try_join_all(each).await;
            done?.iter().for_each(|one| add(&mut total, one));
        }
        if !decision.given_up {
            self.discard_all(&PartitionKey::new(&decision.pk)?, vec![decision.id.clone()])
                .await?;
        }
        Ok(total)
    }

    pub(super) async fn unmark(&self, pk: &PartitionKey, group: &str) -> Result<(), Failure> {
        for _ in 0..ATTEMPTS {
            let Some(lock) = self.settled_lock(pk).await?.filter(|lock| lock.is_marked(group)) else {
                return Ok(());
            };
            let mut next = lock.doc.clone();
            next.deleting = None;
            next.owe(None);
            if self.swap_lock(pk, Some(&lock.etag), next).await?.is_some() {
                return Ok(());
            }
        }
        Err(Failure::Busy(pk.as_str().to_owned()))
    }

    /// Deletes a marked partition's documents, the lock last. A partition without the mark is left alone: it was
    /// erased already, or the group was given up. Each step is fenced by the lock, so one that erases late cannot touch
    /// an instance that was started under the same id since.
    async fn erase(
        &self,
        pk: &PartitionKey,
        group: &str,
        members: &HashSet<&str>,
    ) -> Result<DeleteInstanceResult, Failure> {
        let Some(mut lock) = self.settled_lock(pk).await?.filter(|lock| lock.is_marked(group)) else {
            return Ok(DeleteInstanceResult::default());
        };
        let instance = self.instance(pk).await?;
        self.deliver_outside(pk, members).await?;
        let mut total = tally(instance.as_ref(), &[]);
        // An activity may complete while its instance is erased, and leave one more message: look until none is left.
        for _ in 0..ERASURES {
            let remains = self.remains(pk).await?;
            let ids: Vec<String> = remains
                .iter()
                .filter(|doc| doc.kind != Kind::Lock)
                .map(|doc| doc.id.clone())
                .collect();
            let written = if ids.is_empty() {
                match self
                    .container
                    .delete(pk, LockDoc::ID, Some(&lock.etag), Retry::Idempotent)
                    .await
                {
                    Ok(()) => return Ok(total),
                    Err(error) if error.is_not_found() => return Ok(total),
                    Err(error) if error.is_precondition_failed() => None,
                    Err(error) => return Err(error.into()),
                }
            } else {
                total.queue_messages_deleted += tally(None, &remains).queue_messages_deleted;
                self.discard_fenced(pk, lock, ids).await?
            };
            lock = match written {
                Some(written) => written,
                // Somebody else erases it too: go on while there is something left.
                None => match self.settled_lock(pk).await?.filter(|lock| lock.is_marked(group)) {
                    Some(newer) => newer,
                    None => return Ok(total),
                },
            };
        }
        Err(Failure::Busy(pk.as_str().to_owned()))
    }

    /// Pays what the instance owes to others that stay.
    async fn deliver_outside(&self, pk: &PartitionKey, members: &HashSet<&str>) -> Result<(), Failure> {
        let query = Query::new("SELECT * FROM c WHERE c.type = 'intent'");
        let mut intents = self.container.query::<IntentDoc>(pk, &query).await?;
        intents.retain(|intent| !members.contains(intent.message.pk.as_str()));
        let delivered = self.deliver(pk, &intents).await;
        if delivered.len() < intents.len() {
            return Err(Failure::Busy(pk.as_str().to_owned()));
        }
        Ok(())
    }

    /// All that belongs to the instance. Receipts stay until their TTL, so that a late redelivery cannot start the
    /// instance again; sessions, deletions and what maintenance remembers may share the partition and are
    /// not the instance's.
    pub(super) async fn remains(&self, pk: &PartitionKey) -> Result<Vec<Remains>, Failure> {
        let query = Query::new(
            "SELECT c.id, c.type FROM c WHERE NOT (c.type IN ('receipt', 'session', 'deletion', 'maintenance'))",
        );
        Ok(self.container.query::<Remains>(pk, &query).await?)
    }
}

pub(super) fn add(total: &mut DeleteInstanceResult, one: &DeleteInstanceResult) {
    total.instances_deleted += one.instances_deleted;
    total.executions_deleted += one.executions_deleted;
    total.events_deleted += one.events_deleted;
    total.queue_messages_deleted += one.queue_messages_deleted;
}

impl Locked {
    /// Whether this deletion has marked it.
    fn is_marked(&self, group: &str) -> bool {
        self.doc.deleting.as_ref().is_some_and(|mark| mark.group == group)
    }
}

pub(super) fn tally(instance: Option<&InstanceDoc>, remains: &[Remains]) -> DeleteInstanceResult {
    let queued = remains
        .iter()
        .filter(|doc| matches!(doc.kind, Kind::Message | Kind::Work))
        .count();
    let known = instance.filter(|instance| instance.name.is_some());
    DeleteInstanceResult {
        instances_deleted: u64::from(known.is_some()),
        executions_deleted: instance.map_or(0, |instance| instance.executions),
        events_deleted: instance.map_or(0, |instance| instance.earlier_events + instance.current.events),
        queue_messages_deleted: queued as u64,
    }
}
