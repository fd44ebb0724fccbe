//! Carrying out a decision about a deletion: erasing each partition, or removing the marks of an aborted deletion.
//!
//! Each partition is independent; some are erased at a time. All of it is idempotent, so that any process can continue a
//! decision that was not carried out completely.

use super::deliver::deliver;
use crate::batch;
use crate::error::Failure;
use crate::model::sql::{DELETION, INTENT, MAINTENANCE, RECEIPT, SESSION};
use crate::model::{DeletionDoc, InstanceDoc, IntentDoc, Kind, LockDoc, check_version};
use crate::read;
use crate::store::Store;
use cosmos::{PartitionKey, Query, Retry};
use duroxide::providers::DeleteInstanceResult;
use futures::future::try_join_all;
use serde::Deserialize;
use std::collections::HashSet;

/// How often a lock may change while it is marked or unmarked before the deletion fails as busy.
pub(crate) const ATTEMPTS: u32 = 20;
/// Instances that are marked, checked or erased at once.
pub(crate) const AT_ONCE: usize = 16;
/// How often the documents of a partition are listed again while it is erased.
const ERASURES: u32 = 100;

/// A document of a partition that is being erased.
#[derive(Debug, Deserialize)]
pub(crate) struct Remains {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: Kind,
    #[serde(default)]
    v: Option<serde_json::Value>,
}

/// Carries out a decision in every partition, then removes it (an aborted one stays until its TTL).
pub(crate) async fn carry_out(store: &Store, decision: &DeletionDoc) -> Result<DeleteInstanceResult, Failure> {
    let group: HashSet<&str> = decision.instances.iter().map(String::as_str).collect();
    let mut total = DeleteInstanceResult::default();
    for some in decision.instances.chunks(AT_ONCE) {
        let each = some.iter().map(|id| async {
            let pk = PartitionKey::new(id)?;
            if decision.aborted {
                unmark(store, &pk, &decision.group).await?;
                return Ok(DeleteInstanceResult::default());
            }
            erase(store, &pk, &decision.group, &group).await
        });
        let done: Result<Vec<DeleteInstanceResult>, Failure> = try_join_all(each).await;
        done?.iter().for_each(|one| add(&mut total, one));
    }
    if !decision.aborted {
        batch::discard_all(store, &PartitionKey::new(&decision.pk)?, vec![decision.id.clone()]).await?;
    }
    Ok(total)
}

pub(super) async fn unmark(store: &Store, pk: &PartitionKey, group: &str) -> Result<(), Failure> {
    for _ in 0..ATTEMPTS {
        let Some(lock) = store.newest_lock(pk).await?.filter(|lock| lock.doc.is_marked(group)) else {
            return Ok(());
        };
        let mut next = lock.doc.clone();
        next.deleting = None;
        next.mark_due(None);
        if store.swap_lock(pk, Some(&lock.etag), next).await?.is_some() {
            return Ok(());
        }
    }
    Err(Failure::busy(pk))
}

/// Deletes the documents of a marked partition, the lock last. A partition without the mark is left alone: it was erased
/// already, or the deletion was aborted. The lock fences each step, so that a slow eraser cannot touch an instance that
/// was started under the same id since.
async fn erase(
    store: &Store,
    pk: &PartitionKey,
    group: &str,
    members: &HashSet<&str>,
) -> Result<DeleteInstanceResult, Failure> {
    let Some(mut lock) = store.newest_lock(pk).await?.filter(|lock| lock.doc.is_marked(group)) else {
        return Ok(DeleteInstanceResult::default());
    };
    let instance = read::instance(store, pk).await?;
    deliver_outside(store, pk, members).await?;
    let mut total = tally(instance.as_ref(), &[]);
    // An activity may complete while its instance is erased, and leave one more message: list until nothing is left.
    for _ in 0..ERASURES {
        let remains = remains(store, pk).await?;
        let ids: Vec<String> = remains
            .iter()
            .filter(|doc| doc.kind != Kind::Lock)
            .map(|doc| doc.id.clone())
            .collect();
        let written = if ids.is_empty() {
            match store
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
            batch::discard_fenced(store, pk, lock, ids).await?
        };
        lock = match written {
            Some(written) => written,
            // Another process erases it too: continue while something is left.
            None => match store.newest_lock(pk).await?.filter(|lock| lock.doc.is_marked(group)) {
                Some(newer) => newer,
                None => return Ok(total),
            },
        };
    }
    Err(Failure::busy(pk))
}

/// Delivers the intents whose targets are not deleted.
async fn deliver_outside(store: &Store, pk: &PartitionKey, members: &HashSet<&str>) -> Result<(), Failure> {
    let query = Query::new(format!("SELECT * FROM c WHERE c.type = {INTENT}"));
    let mut intents = store.container.query::<IntentDoc>(pk, &query).await?;
    intents.retain(|intent| !members.contains(intent.message.pk.as_str()));
    let delivered = deliver(store, pk, &intents).await;
    if delivered.len() < intents.len() {
        return Err(Failure::busy(pk));
    }
    Ok(())
}

/// The documents of the instance. Receipts stay until their TTL, so that a late redelivery cannot start the instance
/// again. Affinity sessions, deletions and the maintenance state may share the partition and do not belong to the
/// instance.
pub(crate) async fn remains(store: &Store, pk: &PartitionKey) -> Result<Vec<Remains>, Failure> {
    let others = format!("{RECEIPT}, {SESSION}, {DELETION}, {MAINTENANCE}");
    let query = Query::new(format!(
        "SELECT c.id, c.type, c.v FROM c WHERE NOT (c.type IN ({others}))"
    ));
    let remains = store.container.query::<Remains>(pk, &query).await?;
    remains.iter().try_for_each(|doc| check_version(doc.v.as_ref()))?;
    Ok(remains)
}

pub(crate) fn add(total: &mut DeleteInstanceResult, one: &DeleteInstanceResult) {
    total.instances_deleted += one.instances_deleted;
    total.executions_deleted += one.executions_deleted;
    total.events_deleted += one.events_deleted;
    total.queue_messages_deleted += one.queue_messages_deleted;
}

pub(crate) fn tally(instance: Option<&InstanceDoc>, remains: &[Remains]) -> DeleteInstanceResult {
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
