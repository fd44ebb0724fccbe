//! Carrying out a decision about a deletion: erasing each partition, or removing the marks of an aborted deletion.
//!
//! Each partition is independent; some are erased at a time, and one that fails keeps no other. All of it is idempotent, so that any process can continue a
//! decision that was not carried out completely.

use super::deliver::deliver;
use crate::batch::{self, Version};
use crate::error::Failure;
use crate::model::sql::{BATCH_FAILURES, BATCH_JOB, DELETION, INTENT, MAINTENANCE, RECEIPT, SESSION};
use crate::model::{DeletionDoc, InstanceDoc, IntentDoc, Kind, Listed, check_version, newest_version};
use crate::store::Store;
use cosmos::{Etag, PartitionKey, Query, Retry};
use duroxide::providers::DeleteInstanceResult;
use futures::future::join_all;
use serde::Deserialize;
use std::collections::HashSet;

/// How often an instance may change while it is marked or unmarked before the deletion fails as busy.
pub(crate) const ATTEMPTS: u32 = 20;
/// Instances that are marked, checked or erased at once.
pub(crate) const AT_ONCE: usize = 16;
/// How often the documents of a partition are listed again while it is erased.
const ERASURES: u32 = 100;

/// A document of a partition that is being erased.
#[derive(Debug, Deserialize)]
pub(crate) struct Remains {
    #[serde(flatten)]
    pub version: Version,
    #[serde(rename = "type")]
    pub kind: Kind,
    #[serde(default)]
    v: Option<serde_json::Value>,
}

/// Carries out a decision in every partition, then removes it (an aborted one stays until its TTL).
pub(crate) async fn carry_out(store: &Store, decision: &DeletionDoc) -> Result<DeleteInstanceResult, Failure> {
    let group: HashSet<&str> = decision.instances.iter().map(String::as_str).collect();
    let (mut total, mut failed) = (DeleteInstanceResult::default(), None);
    for some in decision.instances.chunks(AT_ONCE) {
        let each = some.iter().map(|id| async {
            let pk = PartitionKey::new(id)?;
            if decision.aborted {
                unmark(store, &pk, &decision.group).await?;
                return Ok::<_, Failure>(DeleteInstanceResult::default());
            }
            erase(store, &pk, &decision.group, &group).await
        });
        for done in join_all(each).await {
            match done {
                Ok(one) => add(&mut total, &one),
                Err(failure) => {
                    tracing::warn!(group = decision.group, %failure, "a partition of a decided deletion is left; recovery continues");
                    failed = Some(failure);
                }
            }
        }
    }
    if let Some(failure) = failed {
        return Err(failure);
    }
    if !decision.aborted {
        batch::discard_all(store, &PartitionKey::new(&decision.pk)?, vec![decision.id.clone()]).await?;
    }
    Ok(total)
}

/// Removes the mark of an aborted deletion. If the instance had been deleted before it was marked, the mark made the document, and
/// the document goes with it: nobody else would ever remove it.
pub(super) async fn unmark(store: &Store, pk: &PartitionKey, group: &str) -> Result<(), Failure> {
    for _ in 0..ATTEMPTS {
        let Some(fence) = store
            .newest_fence(pk)
            .await?
            .filter(|fence| fence.doc.lock.is_marked(group))
        else {
            return Ok(());
        };
        let mut next = fence.doc.clone();
        next.lock.deleting = None;
        next.lock.mark_due(None);
        let is_unmarked = if next.is_blank() {
            delete_fence(store, pk, &fence.etag).await?
        } else {
            store.swap_fence(pk, Some(&fence.etag), next).await?.is_some()
        };
        if is_unmarked {
            return Ok(());
        }
    }
    Err(Failure::busy(pk))
}

/// Deletes the documents of a marked partition, that of the instance last. A partition without the mark is left alone: it
/// was erased already, or the deletion was aborted. Each step is fenced, so that a slow eraser cannot touch an instance that
/// was started under the same id since.
async fn erase(
    store: &Store,
    pk: &PartitionKey,
    group: &str,
    members: &HashSet<&str>,
) -> Result<DeleteInstanceResult, Failure> {
    let Some(mut fence) = store
        .newest_fence(pk)
        .await?
        .filter(|fence| fence.doc.lock.is_marked(group))
    else {
        return Ok(DeleteInstanceResult::default());
    };
    deliver_outside(store, pk, members).await?;
    let mut total = tally(Some(&fence.doc), &[]);
    // From the first batch on the instance does not exist: nobody reads half of it.
    let mut erased = InstanceDoc::absent(pk.as_str(), store.now());
    erased.lock.deleting = fence.doc.lock.deleting.clone();
    erased
        .lock
        .mark_due(fence.doc.lock.deleting.as_ref().map(|mark| mark.expires));
    fence.doc = erased;
    // An activity may complete while its instance is erased, and leave one more message: list until nothing is left.
    for _ in 0..ERASURES {
        let remains = remains(store, pk).await?;
        let listed: Vec<Version> = remains
            .iter()
            .filter(|doc| doc.kind != Kind::Instance)
            .map(|doc| doc.version.clone())
            .collect();
        let written = if listed.is_empty() {
            if delete_fence(store, pk, &fence.etag).await? {
                return Ok(total);
            }
            None
        } else {
            total.queue_messages_deleted += tally(None, &remains).queue_messages_deleted;
            batch::delete_fenced(store, pk, fence, &listed).await?
        };
        fence = match written {
            Some(written) => written,
            // Another process erases it too: continue while something is left.
            None => match store
                .newest_fence(pk)
                .await?
                .filter(|fence| fence.doc.lock.is_marked(group))
            {
                Some(newer) => newer,
                None => return Ok(total),
            },
        };
    }
    Err(Failure::busy(pk))
}

/// Deletes the document of the instance in this version. Returns whether it is gone.
async fn delete_fence(store: &Store, pk: &PartitionKey, seen: &Etag) -> Result<bool, Failure> {
    let deleted = store
        .container
        .delete(pk, InstanceDoc::ID, Some(seen), Retry::Idempotent);
    match deleted.await {
        Ok(()) => Ok(true),
        Err(error) if error.is_not_found() => Ok(true),
        Err(error) if error.is_precondition_failed() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Delivers the intents whose targets are not deleted.
async fn deliver_outside(store: &Store, pk: &PartitionKey, members: &HashSet<&str>) -> Result<(), Failure> {
    let query = Query::new(format!("SELECT * FROM c WHERE c.type = {INTENT}"));
    let listed = store.container.query::<Listed<IntentDoc>>(pk, &query).await?;
    // One that cannot be decoded keeps the others from nothing. It stays, and with it this partition: see `remains`.
    let mut intents: Vec<IntentDoc> = listed.into_iter().filter_map(Listed::known).collect();
    intents.retain(|intent| !members.contains(intent.message.pk.as_str()));
    let delivered = deliver(store, pk, &intents).await;
    if delivered.len() < intents.len() {
        return Err(Failure::busy(pk));
    }
    Ok(())
}

fn not_erased() -> String {
    format!("{RECEIPT}, {SESSION}, {DELETION}, {MAINTENANCE}, {BATCH_JOB}, {BATCH_FAILURES}")
}

/// The documents of the instance. Receipts stay until their TTL, so that a late redelivery cannot start the instance
/// again. Affinity sessions, deletions, batches and the maintenance state may share the partition and do not belong to the
/// instance. Fails if a newer release wrote one of them: this build must not delete it.
pub(crate) async fn remains(store: &Store, pk: &PartitionKey) -> Result<Vec<Remains>, Failure> {
    let others = not_erased();
    let query = Query::new(format!(
        "SELECT c.id, c._etag, c.type, c.v FROM c WHERE NOT (c.type IN ({others}))"
    ));
    let remains = store.container.query::<Remains>(pk, &query).await?;
    for doc in &remains {
        check_version(pk, &doc.version.id, doc.v.as_ref())?;
    }
    Ok(remains)
}

/// Fails if a newer release wrote a document of the instance.
pub(crate) async fn check_versions(store: &Store, pk: &PartitionKey) -> Result<(), Failure> {
    let others = not_erased();
    let query = Query::new(format!(
        "SELECT c.id, c._etag, c.type, c.v FROM c WHERE c.v > @known AND NOT (c.type IN ({others})) OFFSET 0 LIMIT 1"
    ))
    .param("@known", newest_version());
    for doc in store.container.query::<Remains>(pk, &query).await? {
        check_version(pk, &doc.version.id, doc.v.as_ref())?;
    }
    Ok(())
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
    let instance = instance.filter(|instance| instance.exists());
    let known = instance.filter(|instance| instance.name.is_some());
    DeleteInstanceResult {
        instances_deleted: u64::from(known.is_some()),
        executions_deleted: instance.map_or(0, |instance| instance.executions),
        events_deleted: instance.map_or(0, |instance| instance.earlier_events + instance.current.events),
        queue_messages_deleted: queued as u64,
    }
}
