//! The numbers of a report, derived from a look and two more queries per physical range.
//!
//! A look has what is due and what comes soon. It cannot have dead letters (they are never due), nor what is due later than its
//! end: far timers, intents whose delivery was put off for long. The timers may be many, so the service counts them. The others
//! are few, unless something is wrong, so one query lists them; when they are many, they are counted as well. If the look
//! itself is not whole, everything is counted (`backlog`). So the price is 3 requests per range, the look included, for a store in
//! which nothing is due, however many timers wait; and it never grows with what is stored.
//!
//! The numbers are as old as the look. The caller looks again when it has changed something since.

use super::backlog::{
    Backlog, BacklogQuery, MOST_STUCK, backlog, claimed_instances, count_intents, count_pending, oldest_intent,
};
use super::dead_letters::dead_letter_count;
use super::due::Listing;
use super::look::{Look, Waiting};
use crate::error::Failure;
use crate::model::Kind;
use crate::model::sql::{DEAD, REPAIR};
use crate::store::Store;
use cosmos::Query;
use serde::Deserialize;
use std::collections::{BTreeSet, HashSet};

/// Up to so many dead letters and documents of recovery are listed; more are counted.
const MOST_LISTED: u32 = 32;

/// A dead letter, or something for recovery.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Exception {
    #[serde(rename = "type")]
    kind: Kind,
    queue: Listing,
    /// Dead letters have none.
    due_at: Option<u64>,
    queued_at: Option<u64>,
}

/// What a look cannot have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Rest {
    dead_letters: u64,
    pending: u64,
    intents: u64,
    oldest_intent_ms: Option<u64>,
}

/// The numbers of a report, as of a look.
pub(crate) async fn backlog_of_look(store: &Store, look: &Look, ask: &BacklogQuery) -> Result<Backlog, Failure> {
    if !look.is_whole() {
        return backlog(store, ask).await;
    }
    let rest = rest(store, look).await?;
    let late = late_instances(look, ask.stuck_ms);
    let claimed: HashSet<String> = match late.is_empty() {
        true => HashSet::new(),
        false => claimed_instances(store, look.now_ms).await?.into_iter().collect(),
    };
    let stuck = late.iter().filter(|instance| !claimed.contains(**instance));
    let mut backlog = derive(look, ask.overdue_ms, rest);
    backlog.stuck_instances = (stuck.count() as u64).min(MOST_STUCK.into());
    Ok(backlog)
}

/// Everything but the stuck instances.
fn derive(look: &Look, overdue_ms: u64, rest: Rest) -> Backlog {
    let in_queue = |queue: Listing| look.waiting.iter().filter(move |one| one.queue == Some(queue));
    let is_due = |one: &&Waiting| one.due_at <= look.now_ms;
    let count = |number: usize| number as u64;
    let intents = || in_queue(Listing::Repair).filter(|one| one.kind == Kind::Intent);
    let due = look.waiting.iter().filter(is_due);
    let oldest_due = due.filter(|one| matches!(one.queue, Some(queue) if queue != Listing::Repair));
    let overdue = in_queue(Listing::Turn).filter(|one| one.is_timer && one.due_at < overdue_ms);
    let queued = intents().filter_map(|one| one.queued_at);
    Backlog {
        outbox: count(intents().count()) + rest.intents,
        oldest_intent_ms: queued.chain(rest.oldest_intent_ms).min(),
        turns_due: count(in_queue(Listing::Turn).filter(is_due).count()),
        works_due: count(in_queue(Listing::Work).filter(is_due).count()),
        oldest_due_ms: oldest_due.map(|one| one.due_at).min(),
        overdue_timers: count(overdue.count()),
        stuck_instances: 0,
        dead_letters: rest.dead_letters,
        timers_pending: count(in_queue(Listing::Turn).filter(|one| !is_due(one)).count()) + rest.pending,
    }
}

/// The instances with something that has been due since before then.
fn late_instances(look: &Look, before_ms: u64) -> BTreeSet<&str> {
    let before_ms = before_ms.min(look.now_ms);
    let late = look.waiting.iter().filter(|one| {
        let is_queued = matches!(one.queue, Some(Listing::Turn | Listing::Work));
        is_queued && one.due_at < before_ms
    });
    late.map(|one| one.pk.as_str()).collect()
}

/// What the look cannot have.
async fn rest(store: &Store, look: &Look) -> Result<Rest, Failure> {
    let (pending, exceptions) = futures::try_join!(count_pending(store, look.until_ms), exceptions(store, look))?;
    Ok(Rest { pending, ..exceptions })
}

/// Lists dead letters and far intents, or has them counted.
async fn exceptions(store: &Store, look: &Look) -> Result<Rest, Failure> {
    let query = Query::new(format!(
        "SELECT c.type, c.queue, c.dueAt, c.queuedAt FROM c WHERE c.queue IN ({DEAD}, {REPAIR})"
    ));
    // In any order: the numbers have none.
    let found = store.container.first::<Exception, _, _>(&query, MOST_LISTED, |_| ());
    let (found, more) = found.await?;
    if !more {
        return Ok(listed(&found, look.until_ms));
    }
    let (dead_letters, intents, oldest_intent_ms) = futures::try_join!(
        dead_letter_count(store),
        count_intents(store, look.until_ms),
        oldest_intent(store),
    )?;
    Ok(Rest {
        dead_letters,
        intents,
        oldest_intent_ms,
        ..Rest::default()
    })
}

/// The look has what is due up to its end.
fn listed(found: &[Exception], until_ms: u64) -> Rest {
    let dead_letters = found.iter().filter(|one| one.queue == Listing::Dead);
    let is_far_intent = |one: &&Exception| {
        let is_intent = one.queue == Listing::Repair && one.kind == Kind::Intent;
        is_intent && one.due_at.is_some_and(|due| due > until_ms)
    };
    let intents = || found.iter().filter(is_far_intent);
    Rest {
        dead_letters: dead_letters.count() as u64,
        intents: intents().count() as u64,
        oldest_intent_ms: intents().filter_map(|one| one.queued_at).min(),
        ..Rest::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const NOW: u64 = 1_000_000;

    fn waiting(id: &str, pk: &str, fields: Value) -> Value {
        let mut document = json!({ "id": id, "pk": pk, "isTimer": false });
        let all = document.as_object_mut().unwrap();
        all.extend(fields.as_object().unwrap().clone());
        document
    }

    fn look_at(documents: Vec<Value>) -> Look {
        let waiting = documents
            .into_iter()
            .map(|document| serde_json::from_value(document).unwrap());
        Look {
            now_ms: NOW,
            until_ms: NOW + 1_000,
            waiting: waiting.collect(),
            ..Look::default()
        }
    }

    fn message(pk: &str, due: u64, is_timer: bool) -> Value {
        let fields = json!({ "type": "message", "queue": "turn", "dueAt": due, "isTimer": is_timer });
        waiting("m:1", pk, fields)
    }

    fn work(pk: &str, due: u64) -> Value {
        waiting("w:1:2", pk, json!({ "type": "work", "queue": "work", "dueAt": due }))
    }

    fn intent(due: u64, queued: u64) -> Value {
        let fields = json!({ "type": "intent", "queue": "repair", "dueAt": due, "queuedAt": queued });
        waiting("o:1", "i", fields)
    }

    #[test]
    fn each_number_counts_its_own_documents_with_exact_boundaries() {
        let look = look_at(vec![
            message("a", NOW - 11, true),
            message("a", NOW - 10, true),
            message("b", NOW - 20, false),
            message("b", NOW, false),
            message("b", NOW + 1, true),
            work("c", NOW),
            work("c", NOW + 1),
            intent(NOW - 500, 30),
            intent(NOW + 1, 20),
            waiting(
                "instance",
                "i",
                json!({ "type": "instance", "queue": "repair", "dueAt": NOW - 900 }),
            ),
            waiting("session", "s", json!({ "type": "session", "dueAt": NOW - 900 })),
        ]);
        let rest = Rest {
            dead_letters: 5,
            pending: 7,
            intents: 9,
            oldest_intent_ms: Some(25),
        };
        assert_eq!(
            derive(&look, NOW - 10, rest),
            Backlog {
                outbox: 2 + 9,
                oldest_intent_ms: Some(20),
                turns_due: 4,
                works_due: 1,
                oldest_due_ms: Some(NOW - 20),
                overdue_timers: 1,
                stuck_instances: 0,
                dead_letters: 5,
                timers_pending: 1 + 7,
            }
        );
        let older = Rest {
            oldest_intent_ms: Some(10),
            ..rest
        };
        assert_eq!(derive(&look, 0, older).oldest_intent_ms, Some(10));
        assert_eq!(derive(&look_at(Vec::new()), NOW, Rest::default()), Backlog::default());
    }

    #[test]
    fn an_instance_is_late_with_a_message_or_activity_that_was_due_before_the_limit() {
        let look = look_at(vec![
            message("a", NOW - 11, false),
            message("a", NOW - 12, false),
            message("b", NOW - 10, false),
            work("c", NOW - 11),
            intent(NOW - 500, 1),
            message("d", NOW, false),
        ]);
        assert_eq!(late_instances(&look, NOW - 10), BTreeSet::from(["a", "c"]));
        assert_eq!(
            late_instances(&look, u64::MAX),
            BTreeSet::from(["a", "b", "c"]),
            "nothing that is not due"
        );
    }

    #[test]
    fn of_what_is_listed_only_dead_letters_and_far_intents_count() {
        let found = [
            json!({ "type": "dead-letter", "queue": "dead" }),
            json!({ "type": "intent", "queue": "repair", "dueAt": NOW + 1_000, "queuedAt": 1 }),
            json!({ "type": "intent", "queue": "repair", "dueAt": NOW + 1_001, "queuedAt": 3 }),
            json!({ "type": "intent", "queue": "repair", "dueAt": NOW + 1_002, "queuedAt": 2 }),
            json!({ "type": "message", "queue": "repair", "dueAt": NOW + 9_000, "queuedAt": 1 }),
        ];
        let found: Vec<Exception> = found
            .into_iter()
            .map(|one| serde_json::from_value(one).unwrap())
            .collect();
        let expected = Rest {
            dead_letters: 1,
            pending: 0,
            intents: 2,
            oldest_intent_ms: Some(2),
        };
        assert_eq!(listed(&found, NOW + 1_000), expected);
    }
}
