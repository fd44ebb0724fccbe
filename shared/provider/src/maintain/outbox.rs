//! The outbox: delivering what is owed and overdue, with backoff, and giving up in the end.
//!
//! ```text
//!   due ──> deliver ──> reached, or was there already ──> remove the intent, wakeup the target
//!              ├─> failed ──> attempts + 1, due again after base x 2^(attempts - 1), at most the cap (If-Match)
//!              └─> hopeless, or failed too often ──> ONE batch: remove the intent, write a dead letter
//! ```
//!
//! Only one of several that meet the same intent writes its failure: the others lose the race for its version, which
//! they take for done. A crash after a delivery leaves the intent due, and the next delivery finds the message, or its
//! receipt, there. A delivery that the caller's deadline cut short is not counted.

use super::{Cursor, PageRequest, PassOutcome};
use crate::config::Outbox;
use crate::deliver::AT_ONCE;
use crate::error::Failure;
use crate::model::{DeadLetterDoc, DeadLetterKind, Death, IntentDoc};
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

/// What became of some intents.
#[derive(Debug, Default)]
pub(crate) struct Paid {
    pub targets: Vec<String>,
    pub failed: u64,
    pub dead: u64,
}

/// What becomes of an intent that was not delivered.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Later { due_at: u64 },
    Dead { reason: String },
}

impl Store {
    pub(crate) async fn outbox_pass(&self, request: PageRequest) -> Result<PassOutcome, Failure> {
        let place = request.cursor.unwrap_or_else(|| Cursor::begin(self.now()));
        if Instant::now() >= request.deadline {
            return Ok(PassOutcome::untouched(place));
        }
        let query = Query::new(
            "SELECT * FROM c WHERE c.queue = 'repair' AND c.type = 'intent' AND c.dueAt <= @now ORDER BY c.dueAt",
        )
        .param("@now", place.now_ms);
        let page = self
            .container
            .within(request.deadline)
            .sweep::<Box<RawValue>, _, _>(&query, request.most, place.sweep.clone(), |raw| due_at(raw))
            .await?;
        let mut pass = PassOutcome::default();
        let intents = readable(&page.items, &mut pass);
        for group in intents.chunks(AT_ONCE) {
            let paid = self.pay(group, Some(request.deadline)).await;
            pass.found += group.len() as u64;
            pass.done += paid.targets.len() as u64;
            pass.failed += paid.failed;
            pass.dead += paid.dead;
            pass.targets.extend(paid.targets);
            // Also after the last group: it may have been cut short.
            if Instant::now() >= request.deadline {
                pass.cursor = Some(place);
                return Ok(pass);
            }
        }
        pass.cursor = place.after(page.cursor);
        Ok(pass)
    }

    /// Delivers intents that their makers did not deliver, and settles those that fail.
    pub(crate) async fn pay(&self, intents: &[IntentDoc], deadline: Option<Instant>) -> Paid {
        let patience = Instant::now() + self.outbox.patience;
        let limit = deadline.map_or(patience, |deadline| deadline.min(patience));
        let container = self.container.within(limit);
        let outcomes = join_all(intents.iter().map(|intent| self.deliver_one(&container, intent))).await;
        let is_over = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let (mut paid, mut reached, mut failing) = (Paid::default(), BTreeMap::new(), Vec::new());
        for (intent, outcome) in intents.iter().zip(outcomes) {
            match outcome {
                Ok(()) => {
                    paid.targets.push(intent.message.pk.clone());
                    let ids: &mut Vec<String> = reached.entry(intent.pk.as_str()).or_default();
                    ids.push(intent.id.clone());
                }
                // The time was too short for it: nobody's fault.
                Err(failure) if failure.is_transient() && is_over() => paid.failed += 1,
                Err(failure) => failing.push((intent, failure)),
            }
        }
        let settling = async {
            let removals = reached.into_iter().map(|(pk, ids)| self.forget_intents(pk, ids));
            let failures = failing
                .iter()
                .map(|(intent, failure)| self.settle_failure(intent, failure));
            let ((), verdicts) = futures::join!(async { drop(join_all(removals).await) }, join_all(failures));
            verdicts
        };
        let verdicts = match deadline {
            Some(deadline) => tokio::time::timeout_at(deadline, settling).await.unwrap_or_default(),
            None => settling.await,
        };
        let dead = verdicts.iter().filter(|dead| **dead).count() as u64;
        paid.dead += dead;
        paid.failed += failing.len() as u64 - dead;
        paid
    }

    async fn forget_intents(&self, pk: &str, ids: Vec<String>) {
        let removed = async { self.discard_all(&PartitionKey::new(pk)?, ids).await };
        if let Err(error) = removed.await {
            tracing::warn!(instance = pk, %error,
                "delivered intents could not be removed; they will be delivered again, without effect");
        }
    }

    /// Puts an intent off, or buries it. Answers whether it is dead now; trouble with that leaves it due.
    async fn settle_failure(&self, intent: &IntentDoc, failure: &Failure) -> bool {
        let verdict = judge(&self.outbox, intent, failure, self.now());
        tracing::warn!(instance = intent.pk, target = intent.message.pk, %failure, ?verdict, "an intent is not delivered");
        let settled = match verdict {
            Verdict::Later { due_at } => self.put_off(intent, due_at, failure).await.map(|()| false),
            Verdict::Dead { reason } => self.bury(intent, reason).await,
        };
        settled.unwrap_or_else(|error| {
            tracing::warn!(instance = intent.pk, id = intent.id, %error, "an undelivered intent stays due as it is");
            false
        })
    }

    async fn put_off(&self, intent: &IntentDoc, due_at: u64, failure: &Failure) -> Result<(), Failure> {
        let (pk, etag) = (PartitionKey::new(&intent.pk)?, Etag::new(intent.etag.clone()));
        let later = intent.put_off(due_at, shortened(failure));
        match self
            .container
            .replace(&pk, &intent.id, &later, Some(&etag), Retry::Idempotent)
            .await
        {
            // Somebody else has delivered it, put it off or given it up.
            Err(error) if error.is_precondition_failed() || error.is_not_found() => Ok(()),
            done => Ok(done.map(drop)?),
        }
    }

    /// The intent becomes a dead letter: both in one batch.
    async fn bury(&self, intent: &IntentDoc, reason: String) -> Result<bool, Failure> {
        let pk = PartitionKey::new(&intent.pk)?;
        let death = Death {
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
        let dead_letter = DeadLetterDoc::new(&intent.pk, intent.name(), self.now(), self.dead_letter_ttl, death);
        let mut batch = Batch::new();
        batch.delete(&intent.id, Some(Etag::new(intent.etag.clone())))?;
        batch.upsert(&dead_letter.id, &dead_letter)?;
        match self.container.batch(&pk, &batch, Retry::Idempotent).await {
            Ok(_) => Ok(true),
            // Somebody else was faster, or the answer to our own batch was lost.
            Err(error) if error.is_not_found() => Ok(error.after_ambiguity()),
            Err(error) if error.is_precondition_failed() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Decides about a failure.
fn judge(outbox: &Outbox, intent: &IntentDoc, failure: &Failure, now_ms: u64) -> Verdict {
    let attempts = intent.attempts.saturating_add(1);
    let error = shortened(failure);
    let target = &intent.message.pk;
    if failure.is_hopeless() {
        let reason = format!("a message to instance '{target}' can never be delivered: {error}");
        return Verdict::Dead { reason };
    }
    if attempts >= outbox.max_attempts {
        let reason = format!("a message to instance '{target}' could not be delivered in {attempts} attempts: {error}");
        return Verdict::Dead { reason };
    }
    Verdict::Later {
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
    // The query has compared it already; what is no number comes first and is passed by.
    serde_json::from_str::<Due>(raw.get()).map_or(0, |due| due.due_at)
}

/// The intents of a page. One that cannot be read (of a newer version) is counted, and hides nothing.
fn readable(items: &[Box<RawValue>], pass: &mut PassOutcome) -> Vec<IntentDoc> {
    let mut intents = Vec::with_capacity(items.len());
    for raw in items {
        match serde_json::from_str(raw.get()) {
            Ok(intent) => intents.push(intent),
            Err(error) => {
                tracing::error!(%error, "an intent cannot be read, and is left as it is");
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
    use crate::model::{Envelope, MessageDoc};

    fn intent(attempts: u32) -> IntentDoc {
        let item = WorkItem::CancelInstance {
            instance: "b".to_owned(),
            reason: String::new(),
        };
        let envelope = Envelope {
            id: "n".to_owned(),
            sort_key: "s".to_owned(),
            due_at: 0,
            receipt: true,
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
    fn a_failure_is_put_off_farther_each_time_until_there_were_too_many() {
        let (outbox, busy) = (Outbox::default(), Failure::Busy("b".to_owned()));
        let waits: Vec<u64> = (0..11)
            .map(|attempts| match judge(&outbox, &intent(attempts), &busy, 1_000) {
                Verdict::Later { due_at } => due_at - 1_000,
                Verdict::Dead { reason } => panic!("too early: {reason}"),
            })
            .collect();
        assert_eq!(waits[..4], [10_000, 20_000, 40_000, 80_000]);
        assert_eq!(waits[10], 3_600_000);
        let Verdict::Dead { reason } = judge(&outbox, &intent(11), &busy, 1_000) else {
            panic!("twelve failures are enough");
        };
        assert!(reason.contains("'b'") && reason.contains("12 attempts"), "{reason}");
    }

    #[test]
    fn what_can_never_succeed_is_given_up_at_once() {
        let Verdict::Dead { reason } = judge(&Outbox::default(), &intent(0), &too_large(), 0) else {
            panic!("it can never be delivered");
        };
        assert!(reason.contains("can never be delivered"), "{reason}");
    }
}
