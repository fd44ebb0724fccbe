//! The outbox: delivering due intents, with backoff, and giving up in the end.
//!
//! ```text
//!   due ──> deliver ──> delivered, now or before ──> remove the intent, wake the target
//!              ├─> failed ──> attempts + 1, due again after base x 2^(attempts - 1), at most the cap (If-Match)
//!              └─> can never succeed, or failed too often ──> ONE batch: remove the intent, write a dead letter
//! ```
//!
//! Of several processes that meet the same intent only one writes its failure: the others lose the race for its version.
//! A crash after a delivery leaves the intent due, and the next delivery finds the message or its receipt. A delivery
//! that the caller's deadline interrupts does not count as an attempt.

use super::deliver::{AT_ONCE, deliver_one, forget};
use crate::config::Outbox;
use crate::due::Due;
use crate::error::Failure;
use crate::model::sql::{INTENT, REPAIR};
use crate::model::{DeadLetterDoc, DeadLetterKind, GivenUp, IntentDoc, Listed};
use crate::page::{PageRequest, PassOutcome};
use crate::store::{Store, millis};
use cosmos::{Batch, Etag, PartitionKey, Query, Retry};
use duroxide::providers::WorkItem;
use futures::future::join_all;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use tokio::time::Instant;

/// How much of an error is kept.
const MOST_ERROR_CHARS: usize = 600;

/// What follows a failed delivery.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Retry { due_at: u64 },
    GiveUp { reason: String },
}

/// Delivers one page of due intents. Targets that hang for the whole of a page come first again in the next one.
pub(crate) async fn outbox_page(store: &Store, request: PageRequest) -> Result<PassOutcome, Failure> {
    let place = request.place(store);
    if Instant::now() >= request.deadline {
        return Ok(PassOutcome::untouched(place));
    }
    let query = Query::new(format!(
        "SELECT * FROM c WHERE c.queue = {REPAIR} AND c.type = {INTENT} AND c.dueAt <= @now \
         ORDER BY c.queue, c.type, c.dueAt"
    ))
    .param("@now", place.now_ms);
    let page = store
        .container
        .within(request.deadline)
        .sweep::<Box<RawValue>, _, _>(&query, request.most, place.sweep.clone(), |raw| due_at(raw))
        .await?;
    let mut pass = PassOutcome::default();
    let intents = readable(&page.items, &mut pass);
    for group in intents.chunks(AT_ONCE) {
        pass.found += group.len() as u64;
        pass.add(deliver_found(store, group, Some(request.deadline)).await);
        // Also after the last group: the deadline may have interrupted it.
        if Instant::now() >= request.deadline {
            pass.cursor = Some(place);
            return Ok(pass);
        }
    }
    pass.cursor = place.after(page.cursor);
    Ok(pass)
}

/// Delivers the starts of children that an instance still owes. Fails when one is not delivered now: its child would begin later.
/// Returns who has something to do.
pub(crate) async fn deliver_starts(store: &Store, pk: &PartitionKey) -> Result<Vec<Due>, Failure> {
    deliver_owed(store, pk, |intent| intent.message.starts().is_some()).await
}

/// Delivers what an instance still owes, as far as it is wanted. Fails when something is not delivered now. Returns who has something
/// to do.
pub(super) async fn deliver_owed(
    store: &Store,
    pk: &PartitionKey,
    wanted: impl Fn(&IntentDoc) -> bool,
) -> Result<Vec<Due>, Failure> {
    let query = Query::new(format!("SELECT * FROM c WHERE c.type = {INTENT}"));
    let listed = store.container.query::<Listed<IntentDoc>>(pk, &query).await?;
    let mut intents: Vec<IntentDoc> = listed.into_iter().filter_map(Listed::known).collect();
    intents.retain(wanted);
    let mut due = Vec::new();
    for group in intents.chunks(AT_ONCE) {
        let delivered = deliver_found(store, group, None).await;
        if delivered.done < group.len() as u64 {
            return Err(Failure::busy(pk));
        }
        due.extend(delivered.due);
    }
    Ok(due)
}

/// Delivers intents that their makers did not deliver; defers or gives up those that fail.
pub(super) async fn deliver_found(store: &Store, intents: &[IntentDoc], deadline: Option<Instant>) -> PassOutcome {
    let patience = Instant::now() + store.outbox.patience;
    let limit = deadline.map_or(patience, |deadline| deadline.min(patience));
    let container = store.container.within(limit);
    let outcomes = join_all(intents.iter().map(|intent| deliver_one(store, &container, intent))).await;
    let is_over = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
    let (mut pass, mut delivered, mut failing) = (PassOutcome::default(), BTreeMap::new(), Vec::new());
    for (intent, outcome) in intents.iter().zip(outcomes) {
        match outcome {
            Ok(()) => {
                pass.done += 1;
                pass.due.push(Due::turn(&intent.message.pk));
                let ids: &mut Vec<String> = delivered.entry(intent.pk.as_str()).or_default();
                ids.push(intent.id.clone());
            }
            // Interrupted by the deadline: this is not counted as an attempt.
            Err(failure) if failure.is_transient() && is_over() => pass.failed += 1,
            Err(failure) => failing.push((intent, failure)),
        }
    }
    let follow_up = async {
        let removals = delivered.into_iter().map(|(pk, ids)| forget(store, pk, ids));
        let failures = failing
            .iter()
            .map(|(intent, failure)| after_failure(store, intent, failure));
        let ((), given_up) = futures::join!(async { drop(join_all(removals).await) }, join_all(failures));
        given_up
    };
    let given_up = match deadline {
        Some(deadline) => tokio::time::timeout_at(deadline, follow_up).await.unwrap_or_default(),
        None => follow_up.await,
    };
    pass.dead = given_up.iter().filter(|given_up| **given_up).count() as u64;
    pass.failed += failing.len() as u64 - pass.dead;
    pass
}

/// Defers an intent, or gives it up. Returns whether it was given up; when even that fails, the intent stays due.
async fn after_failure(store: &Store, intent: &IntentDoc, failure: &Failure) -> bool {
    let next = judge(&store.outbox, intent, failure, store.now());
    tracing::warn!(instance = intent.pk, target = intent.message.pk, %failure, ?next, "an intent was not delivered");
    let written = match next {
        Next::Retry { due_at } => defer(store, intent, due_at, failure).await.map(|()| false),
        Next::GiveUp { reason } => give_up(store, intent, reason).await,
    };
    written.unwrap_or_else(|error| {
        tracing::warn!(instance = intent.pk, id = intent.id, %error, "an undelivered intent stays due as it is");
        false
    })
}

async fn defer(store: &Store, intent: &IntentDoc, due_at: u64, failure: &Failure) -> Result<(), Failure> {
    let (pk, etag) = (PartitionKey::new(&intent.pk)?, Etag::new(intent.etag.clone()));
    let later = intent.deferred(due_at, shortened(failure));
    match store
        .container
        .replace(&pk, &intent.id, &later, Some(&etag), Retry::Idempotent)
        .await
    {
        // Another process has delivered, deferred or given it up.
        Err(error) if error.is_precondition_failed() || error.is_not_found() => Ok(()),
        done => Ok(done.map(drop)?),
    }
}

/// The intent becomes a dead letter: both in one batch.
async fn give_up(store: &Store, intent: &IntentDoc, reason: String) -> Result<bool, Failure> {
    let pk = PartitionKey::new(&intent.pk)?;
    let given_up = GivenUp {
        cause: DeadLetterKind::Undeliverable,
        reason,
        attempts: intent.attempts.saturating_add(1),
        execution: None,
        name: name_of(&intent.message.item),
        target: Some(intent.message.pk.clone()),
        message: Some(intent.message.clone()),
        items: Vec::new(),
        omitted: 0,
    };
    let dead_letter = DeadLetterDoc::new(&intent.pk, intent.name(), store.now(), store.dead_letter_ttl, given_up);
    let mut batch = Batch::new();
    batch.delete(&intent.id, Some(Etag::new(intent.etag.clone())))?;
    batch.upsert(&dead_letter.id, &dead_letter)?;
    match store.container.batch(&pk, &batch, Retry::Idempotent).await {
        Ok(_) => Ok(true),
        // Another process was faster, or the response to our own batch was lost.
        Err(error) if error.is_not_found() => Ok(error.after_ambiguity()),
        Err(error) if error.is_precondition_failed() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Decides what follows a failure.
fn judge(outbox: &Outbox, intent: &IntentDoc, failure: &Failure, now_ms: u64) -> Next {
    let attempts = intent.attempts.saturating_add(1);
    let error = shortened(failure);
    let target = &intent.message.pk;
    if failure.can_never_succeed() {
        let reason = format!("a message to instance '{target}' can never be delivered: {error}");
        return Next::GiveUp { reason };
    }
    if attempts >= outbox.max_attempts {
        let reason = format!("a message to instance '{target}' could not be delivered in {attempts} attempts: {error}");
        return Next::GiveUp { reason };
    }
    Next::Retry {
        due_at: now_ms.saturating_add(millis(outbox.wait_after(attempts))),
    }
}

fn shortened(failure: &Failure) -> String {
    failure.to_string().chars().take(MOST_ERROR_CHARS).collect()
}

/// The name of what an item starts.
fn name_of(item: &RawValue) -> Option<String> {
    match serde_json::from_str(item.get()) {
        Ok(WorkItem::StartOrchestration { orchestration, .. }) => Some(orchestration),
        _ => None,
    }
}

fn due_at(raw: &RawValue) -> u64 {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Due {
        due_at: u64,
    }
    // The query has compared it already.
    serde_json::from_str::<Due>(raw.get()).map_or(0, |due| due.due_at)
}

/// The intents of a page. One that cannot be decoded (of a newer version) counts as failed and hides no other.
fn readable(items: &[Box<RawValue>], pass: &mut PassOutcome) -> Vec<IntentDoc> {
    let mut intents = Vec::with_capacity(items.len());
    for raw in items {
        match serde_json::from_str(raw.get()) {
            Ok(intent) => intents.push(intent),
            Err(error) => {
                tracing::error!(%error, "an intent cannot be decoded; it stays as it is");
                pass.found += 1;
                pass.failed += 1;
            }
        }
    }
    intents
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Envelope, MessageDoc, Receipt};

    fn intent(attempts: u32) -> IntentDoc {
        let item = WorkItem::CancelInstance {
            instance: "b".to_owned(),
            reason: String::new(),
        };
        let envelope = Envelope {
            id: "n".to_owned(),
            queued_at: 0,
            arrival: "s".to_owned(),
            due_at: 0,
            receipt: Receipt::Long,
        };
        let message = MessageDoc::new("b", envelope, &item).unwrap();
        let mut intent = IntentDoc::new("a", "n", 0, message);
        intent.attempts = attempts;
        intent
    }

    fn too_large() -> Failure {
        cosmos::Error::ItemTooLarge {
            id: "m".to_owned(),
            bytes: 3,
            limit: 2,
        }
        .into()
    }

    #[test]
    fn each_failure_defers_longer_until_the_intent_is_given_up() {
        let (outbox, busy) = (Outbox::default(), Failure::Busy("b".to_owned()));
        let waits: Vec<u64> = (0..11)
            .map(|attempts| match judge(&outbox, &intent(attempts), &busy, 1_000) {
                Next::Retry { due_at } => due_at - 1_000,
                Next::GiveUp { reason } => panic!("too early: {reason}"),
            })
            .collect();
        assert_eq!(waits[..4], [10_000, 20_000, 40_000, 80_000]);
        assert_eq!(waits[10], 3_600_000);
        let Next::GiveUp { reason } = judge(&outbox, &intent(11), &busy, 1_000) else {
            panic!("twelve failures are enough");
        };
        assert!(reason.contains("'b'") && reason.contains("12 attempts"), "{reason}");
    }

    #[test]
    fn an_intent_that_can_never_be_delivered_is_given_up_at_once() {
        let Next::GiveUp { reason } = judge(&Outbox::default(), &intent(0), &too_large(), 0) else {
            panic!("it can never be delivered");
        };
        assert!(reason.contains("can never be delivered"), "{reason}");
    }
}
