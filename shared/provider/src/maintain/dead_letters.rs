//! Dead letters for operators: listed newest first, counted, read, discarded.
//!
//! The list has summaries without the items, which may be large. Its cursor is the sort key of the last dead letter (see
//! `model::dead`): plain data that stays valid.

use crate::error::Failure;
use crate::model::sql::{DEAD, DEAD_LETTER};
use crate::model::{DeadLetterDoc, DeadLetterKind, GivenUp};
use crate::store::Store;
use cosmos::{Found, PartitionKey, Query, Retry};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::cmp::Reverse;

/// The most that one page can have.
const MOST: u32 = 1_000;

/// Greater than the sort key of any dead letter.
const BEGINNING: &str = "9";

/// Which dead letter.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeadLetterId {
    /// The instance that it belongs to.
    pub instance: String,
    /// Its id in that instance's partition.
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
    /// Why, as a sentence.
    pub reason: String,
    /// How often it was tried.
    pub attempts: u32,
    /// When it was given up (Unix ms).
    pub at_ms: u64,
    /// The execution of the instance, if known.
    pub execution: Option<u64>,
    /// The name of the orchestration or activity, if known.
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
    /// How many of them were too large to keep.
    pub omitted: u32,
}

/// Selects dead letters that match every given field. The default matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadLetterFilter {
    /// Only dead letters of this kind.
    pub kind: Option<DeadLetterKind>,
    /// Only dead letters of this instance.
    pub instance: Option<String>,
}

/// Where the list continues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DeadLetterCursor(String);

impl TryFrom<String> for DeadLetterCursor {
    type Error = &'static str;

    /// Accepts only a cursor of this list: any other text would silently mean its beginning or its end.
    fn try_from(text: String) -> Result<Self, Self::Error> {
        let is_place = DeadLetterDoc::is_sort_key(&text) || text == BEGINNING;
        is_place
            .then_some(DeadLetterCursor(text))
            .ok_or("this is not a cursor of the list of dead letters")
    }
}

impl From<DeadLetterCursor> for String {
    fn from(cursor: DeadLetterCursor) -> String {
        cursor.0
    }
}

impl DeadLetterCursor {
    /// Before the newest dead letter.
    pub(super) fn beginning() -> Self {
        DeadLetterCursor(BEGINNING.to_owned())
    }
}

/// One page of the list.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetterPage {
    /// The dead letters, the newest first.
    pub dead_letters: Vec<DeadLetterSummary>,
    /// Where the next page starts; `None` when this is the last.
    pub next: Option<DeadLetterCursor>,
}

/// What the list's query returns.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    id: String,
    pk: String,
    given_up_at: u64,
    sort_key: String,
    cause: DeadLetterKind,
    reason: String,
    attempts: u32,
    execution: Option<u64>,
    name: Option<String>,
    target: Option<String>,
}

/// One page of the list.
pub(crate) async fn dead_letters(
    store: &Store,
    filter: &DeadLetterFilter,
    most: u32,
    after: Option<&DeadLetterCursor>,
) -> Result<DeadLetterPage, Failure> {
    let (dead_letters, more) = search(store, filter, most, after).await?;
    let last = dead_letters.last().filter(|_| more);
    Ok(DeadLetterPage {
        next: last.map(|last| DeadLetterCursor(last.sort_key.clone())),
        dead_letters: dead_letters.into_iter().map(summary_of_listed).collect(),
    })
}

/// The ids of dead letters that match, each with its cursor, and whether there are more.
pub(super) async fn list_dead_letters(
    store: &Store,
    filter: &DeadLetterFilter,
    most: u32,
    after: Option<&DeadLetterCursor>,
) -> Result<(Vec<(DeadLetterId, DeadLetterCursor)>, bool), Failure> {
    let (dead_letters, more) = search(store, filter, most, after).await?;
    let places = dead_letters.into_iter().map(|listed| {
        let place = DeadLetterCursor(listed.sort_key.clone());
        (summary_of_listed(listed).id, place)
    });
    Ok((places.collect(), more))
}

async fn search(
    store: &Store,
    filter: &DeadLetterFilter,
    most: u32,
    after: Option<&DeadLetterCursor>,
) -> Result<(Vec<Listed>, bool), Failure> {
    let place = after.map_or("", |_| " AND c.sortKey < @after");
    // Each order is that of a composite index.
    let (kind, order) = match filter.kind {
        Some(_) => ("c.givenUp.cause = @kind".to_owned(), "c.givenUp.cause"),
        None => (format!("c.type = {DEAD_LETTER}"), "c.type"),
    };
    let mut query = Query::new(format!(
        "SELECT c.id, c.pk, c.givenUpAt, c.sortKey, c.givenUp.cause, c.givenUp.reason, c.givenUp.attempts, \
         c.givenUp.execution, c.givenUp.name, c.givenUp.target \
         FROM c WHERE c.queue = {DEAD} AND {kind}{place} ORDER BY c.queue DESC, {order} DESC, c.sortKey DESC"
    ));
    if let Some(after) = after {
        query = query.param("@after", &after.0);
    }
    if let Some(kind) = filter.kind {
        query = query.param("@kind", kind);
    }
    let key = |listed: &Listed| Reverse(listed.sort_key.clone());
    let most = most.clamp(1, MOST);
    if let Some(instance) = &filter.instance {
        let pk = PartitionKey::new(instance)?;
        let mut found = store.container.query::<Listed>(&pk, &query).await?;
        let more = found.len() > most as usize;
        found.truncate(most as usize);
        return Ok((found, more));
    }
    Ok(store.container.first::<Listed, _, _>(&query, most, key).await?)
}

pub(crate) async fn dead_letter_count(store: &Store) -> Result<u64, Failure> {
    let query = format!("SELECT VALUE COUNT(1) FROM c WHERE c.queue = {DEAD}");
    Ok(store.sum(Query::new(query)).await? as u64)
}

pub(crate) async fn dead_letter(store: &Store, id: &DeadLetterId) -> Result<Option<DeadLetter>, Failure> {
    Ok(dead_letter_doc(store, id).await?.map(|found| dead_letter_of(found.doc)))
}

pub(crate) async fn discard_dead_letter(store: &Store, id: &DeadLetterId) -> Result<bool, Failure> {
    let pk = address(id)?;
    match store.container.delete(&pk, &id.id, None, Retry::Idempotent).await {
        Ok(()) => Ok(true),
        Err(error) if error.is_not_found() => Ok(error.after_ambiguity()),
        Err(error) => Err(error.into()),
    }
}

pub(super) async fn dead_letter_doc(store: &Store, id: &DeadLetterId) -> Result<Option<Found<DeadLetterDoc>>, Failure> {
    let pk = address(id)?;
    Ok(store.container.read::<DeadLetterDoc>(&pk, &id.id).await?)
}

/// The partition of a dead letter. Ids come from operators: the id of another document must not be discarded.
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
        at_ms: listed.given_up_at,
        execution: listed.execution,
        name: listed.name,
        target: listed.target,
    }
}

fn dead_letter_of(doc: DeadLetterDoc) -> DeadLetter {
    let GivenUp {
        cause,
        reason,
        attempts,
        execution,
        name,
        target,
        message,
        mut items,
        omitted,
    } = doc.given_up;
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
            at_ms: doc.at,
            execution,
            name,
            target,
        },
        items,
        omitted,
    }
}
