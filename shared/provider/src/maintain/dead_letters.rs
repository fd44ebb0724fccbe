//! Dead letters, for people: listed newest first, counted, read, discarded.
//!
//! The list shows what happened and not the items, which may be large. Its continuation is the place of the last dead letter in
//! the order of all (see `model::dead`): plain data, good for as long as anybody keeps it.

use crate::error::Failure;
use crate::model::{DeadLetterDoc, DeadLetterKind, Death};
use crate::store::Store;
use cosmos::{Found, PartitionKey, Query, Retry};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::cmp::Reverse;

/// The most that one page has, whatever is asked for.
const MOST: u32 = 1_000;

/// Greater than the key of any dead letter.
const BEGINNING: &str = "9";

/// Which dead letter.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeadLetterId {
    /// The instance that it is about.
    pub instance: String,
    /// Its own id there.
    pub id: String,
}

/// A dead letter without its items.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetterSummary {
    /// Which it is.
    #[serde(flatten)]
    pub id: DeadLetterId,
    /// What was given up.
    pub kind: DeadLetterKind,
    /// Why, in words for people.
    pub reason: String,
    /// How often it was tried.
    pub attempts: u32,
    /// When it was given up (Unix ms).
    pub at_ms: u64,
    /// The execution of the instance, where one is known.
    pub execution: Option<u64>,
    /// The name of the orchestration or activity, where one is known.
    pub name: Option<String>,
    /// The instance that an undeliverable message was for.
    pub target: Option<String>,
}

/// A dead letter.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetter {
    /// What happened.
    #[serde(flatten)]
    pub summary: DeadLetterSummary,
    /// The work items that were given up, as duroxide's JSON.
    pub items: Vec<Box<RawValue>>,
    /// How many of them were too large to be kept here.
    pub omitted: u32,
}

/// Which dead letters: those that match all that is given. The default matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadLetterFilter {
    /// Only what was given up for this reason.
    pub kind: Option<DeadLetterKind>,
    /// Only dead letters about this instance.
    pub instance: Option<String>,
}

/// Where the list goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DeadLetterCursor(String);

impl TryFrom<String> for DeadLetterCursor {
    type Error = &'static str;

    /// Of a text that people kept: anything else than a place in the list would be taken for its beginning or its end.
    fn try_from(text: String) -> Result<Self, Self::Error> {
        let is_place = DeadLetterDoc::is_sort_key(&text) || text == BEGINNING;
        is_place
            .then_some(DeadLetterCursor(text))
            .ok_or("this is no place in the list of dead letters")
    }
}

impl From<DeadLetterCursor> for String {
    fn from(cursor: DeadLetterCursor) -> String {
        cursor.0
    }
}

impl DeadLetterCursor {
    /// Before the newest dead letter: no key is greater.
    pub(super) fn beginning() -> Self {
        DeadLetterCursor(BEGINNING.to_owned())
    }
}

/// A part of the list.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetterPage {
    /// The dead letters, the newest first.
    pub dead_letters: Vec<DeadLetterSummary>,
    /// Where the next page starts; `None` when this is the last.
    pub next: Option<DeadLetterCursor>,
}

/// What the list's query gives.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    id: String,
    pk: String,
    due_at: u64,
    sort_key: String,
    cause: DeadLetterKind,
    reason: String,
    attempts: u32,
    execution: Option<u64>,
    name: Option<String>,
    target: Option<String>,
}

impl Store {
    pub(crate) async fn dead_letters(
        &self,
        filter: &DeadLetterFilter,
        most: u32,
        after: Option<&DeadLetterCursor>,
    ) -> Result<DeadLetterPage, Failure> {
        let (dead_letters, more) = self.search(filter, most, after).await?;
        let last = dead_letters.last().filter(|_| more);
        Ok(DeadLetterPage {
            next: last.map(|last| DeadLetterCursor(last.sort_key.clone())),
            dead_letters: dead_letters.into_iter().map(summary_of_listed).collect(),
        })
    }

    /// Which dead letters match, each with its place, and whether there are more.
    pub(super) async fn list_dead_letters(
        &self,
        filter: &DeadLetterFilter,
        most: u32,
        after: Option<&DeadLetterCursor>,
    ) -> Result<(Vec<(DeadLetterId, DeadLetterCursor)>, bool), Failure> {
        let (dead_letters, more) = self.search(filter, most, after).await?;
        let places = dead_letters.into_iter().map(|listed| {
            let place = DeadLetterCursor(listed.sort_key.clone());
            (summary_of_listed(listed).id, place)
        });
        Ok((places.collect(), more))
    }

    async fn search(
        &self,
        filter: &DeadLetterFilter,
        most: u32,
        after: Option<&DeadLetterCursor>,
    ) -> Result<(Vec<Listed>, bool), Failure> {
        let clauses = [
            after.map(|_| " AND c.sortKey < @after"),
            filter.kind.map(|_| " AND c.death.cause = @kind"),
            filter.instance.as_ref().map(|_| " AND c.pk = @instance"),
        ];
        let clauses: String = clauses.into_iter().flatten().collect();
        let mut query = Query::new(format!(
            "SELECT c.id, c.pk, c.dueAt, c.sortKey, c.death.cause, c.death.reason, c.death.attempts, \
             c.death.execution, c.death.name, c.death.target \
             FROM c WHERE c.queue = 'dead'{clauses} ORDER BY c.sortKey DESC"
        ));
        if let Some(after) = after {
            query = query.param("@after", &after.0);
        }
        if let Some(kind) = filter.kind {
            query = query.param("@kind", kind);
        }
        if let Some(instance) = &filter.instance {
            query = query.param("@instance", instance);
        }
        let key = |listed: &Listed| Reverse(listed.sort_key.clone());
        let most = most.clamp(1, MOST);
        Ok(self.container.first::<Listed, _, _>(&query, most, key).await?)
    }

    pub(crate) async fn dead_letter_count(&self) -> Result<u64, Failure> {
        let count = self.sum(Query::new("SELECT VALUE COUNT(1) FROM c WHERE c.queue = 'dead'"));
        Ok(count.await? as u64)
    }

    pub(crate) async fn dead_letter(&self, id: &DeadLetterId) -> Result<Option<DeadLetter>, Failure> {
        Ok(self.dead_letter_doc(id).await?.map(|found| dead_letter_of(found.doc)))
    }

    pub(crate) async fn discard_dead_letter(&self, id: &DeadLetterId) -> Result<bool, Failure> {
        let pk = address(id)?;
        match self.container.delete(&pk, &id.id, None, Retry::Idempotent).await {
            Ok(()) => Ok(true),
            Err(error) if error.is_not_found() => Ok(error.after_ambiguity()),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) async fn dead_letter_doc(&self, id: &DeadLetterId) -> Result<Option<Found<DeadLetterDoc>>, Failure> {
        let pk = address(id)?;
        Ok(self.container.read::<DeadLetterDoc>(&pk, &id.id).await?)
    }
}

/// The partition of a dead letter. Ids come from people: one of another document must not be discarded as a dead letter.
pub(super) fn address(id: &DeadLetterId) -> Result<PartitionKey, Failure> {
    if !DeadLetterDoc::is_id(&id.id) {
        return Err(Failure::Refused(format!("'{}' is not the id of a dead letter", id.id)));
    }
    Ok(PartitionKey::new(&id.instance)?)
}

fn summary_of_listed(listed: Listed) -> DeadLetterSummary {
    DeadLetterSummary {
        id: DeadLetterId {
            instance: listed.pk,
            id: listed.id,
        },
        kind: listed.cause,
        reason: listed.reason,
        attempts: listed.attempts,
        at_ms: listed.due_at,
        execution: listed.execution,
        name: listed.name,
        target: listed.target,
    }
}

fn dead_letter_of(doc: DeadLetterDoc) -> DeadLetter {
    let Death {
        cause,
        reason,
        attempts,
        execution,
        name,
        target,
        message,
        mut items,
        omitted,
    } = doc.death;
    items.extend(message.map(|message| message.item));
    DeadLetter {
        summary: DeadLetterSummary {
            id: DeadLetterId {
                instance: doc.pk,
                id: doc.id,
            },
            kind: cause,
            reason,
            attempts,
            at_ms: doc.due_at,
            execution,
            name,
            target,
        },
        items,
        omitted,
    }
}
