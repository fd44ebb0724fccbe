//! Batches as documents: begun, read, listed, cancelled.
//!
//! A batch that is begun with an idempotency key has an id that derives from it, so a repetition meets the batch itself and is compared with
//! it, as long as the batch is kept.

use super::action::{BatchRequest, RequestDoc};
use super::view::{Batch, BatchCursor, BatchFailurePage, BatchPage};
use crate::error::Failure;
use crate::model::sql::BATCH_JOB;
use crate::model::{BATCHES, BatchFailuresDoc, BatchJobDoc, BatchState, Listed, digest};
use crate::store::{Store, check_size};
use cosmos::{Found, PageOptions, PartitionKey, Query, Retry};

/// How many digits of a digest an id has that is derived from a key.
const ID_DIGITS: usize = 32;
/// The longest id of a batch: it is a part of the name of a rewind, which has at most 100 characters.
const MOST_ID: usize = 90;
/// How often a batch is read again that another process writes.
const ATTEMPTS: u32 = 50;

/// What became of a request to begin a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchStarted {
    /// It was begun.
    Accepted,
    /// The same request has begun it before.
    Repeated,
    /// Another request has begun a batch with the same key.
    KeyReused,
}

/// What became of a request to cancel a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchCancelled {
    /// It ends with its next step, or was cancelled before.
    Accepted(Box<Batch>),
    /// It has ended.
    Ended(Box<Batch>),
    /// There is no such batch.
    NotFound,
}

/// The id of a batch that is begun with a key.
pub fn batch_id_of_key(key: &str) -> String {
    format!("key-{}", &digest(key)[..ID_DIGITS])
}

pub(super) fn partition() -> Result<PartitionKey, Failure> {
    Ok(PartitionKey::new(BATCHES)?)
}

/// Whether a text can be the id of a batch: others are those of no batch.
fn is_id(id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=MOST_ID).contains(&id.len()) && id.bytes().all(is_plain)
}

/// Begins a batch: one request, unless there is one with this id.
pub(crate) async fn start(store: &Store, id: &str, request: &BatchRequest) -> Result<BatchStarted, Failure> {
    if !is_id(id) {
        return Err(Failure::Refused(format!(
            "'{id}' cannot be the id of a batch: it has 1 to {MOST_ID} letters, digits, '-' and '_'"
        )));
    }
    let stored = serde_json::to_value(RequestDoc::of(request))?;
    let mut job = BatchJobDoc::new(id, stored, request.by.clone(), store.now());
    job.nonce = store.ids.unique();
    check_size("the request", BATCHES, &job)?;
    let pk = partition()?;
    let error = match store.container.create(&pk, &job, Retry::Idempotent).await {
        Ok(_) => return Ok(BatchStarted::Accepted),
        Err(error) if error.is_conflict() => error,
        Err(error) => return Err(error.into()),
    };
    match read(store, id).await? {
        Some(found) if found.doc.nonce == job.nonce => Ok(BatchStarted::Accepted),
        Some(found) if found.doc.request == job.request => Ok(BatchStarted::Repeated),
        Some(_) => Ok(BatchStarted::KeyReused),
        None => Err(error.into()),
    }
}

pub(super) async fn read(store: &Store, id: &str) -> Result<Option<Found<BatchJobDoc>>, Failure> {
    if !is_id(id) {
        return Ok(None);
    }
    store.read::<BatchJobDoc>(&partition()?, &BatchJobDoc::id(id)).await
}

/// One batch.
pub(crate) async fn batch(store: &Store, id: &str) -> Result<Option<Batch>, Failure> {
    let found = read(store, id).await?;
    found.map(|found| Batch::of(&found.doc)).transpose()
}

/// A page of batches, newest first: one query of one partition.
pub(crate) async fn batches(store: &Store, cursor: Option<BatchCursor>, limit: u32) -> Result<BatchPage, Failure> {
    let after = cursor.unwrap_or(BatchCursor::NEWEST);
    let query = Query::new(format!(
        "SELECT * FROM c WHERE c.type = {BATCH_JOB} AND c.createdAt <= @at ORDER BY c.createdAt DESC"
    ))
    .param("@at", after.created_at);
    let limit = limit.max(1);
    let mut options = PageOptions {
        max_items: Some(limit.saturating_add(after.seen).saturating_add(1)),
        continuation: None,
    };
    let (pk, wanted) = (partition()?, limit as usize + after.seen as usize);
    let mut found: Vec<BatchJobDoc> = Vec::new();
    loop {
        let page = store
            .container
            .query_page::<Listed<BatchJobDoc>>(&pk, &query, &options)
            .await?;
        found.extend(page.items.into_iter().filter_map(Listed::known));
        options.continuation = page.continuation;
        if found.len() > wanted || options.continuation.is_none() {
            break;
        }
    }
    let of_one_moment = found.iter().take_while(|job| job.created_at == after.created_at);
    let end = after.seen.min(u32::try_from(of_one_moment.count()).unwrap_or(u32::MAX)) as usize + limit as usize;
    let is_more = found.len() > end;
    found.truncate(end);
    let next = found.last().filter(|_| is_more).map(|last| {
        let seen = found.iter().filter(|job| job.created_at == last.created_at).count();
        BatchCursor {
            created_at: last.created_at,
            seen: u32::try_from(seen).unwrap_or(u32::MAX),
        }
    });
    let shown = found.iter().skip(end.saturating_sub(limit as usize));
    Ok(BatchPage {
        batches: shown.map(Batch::of).collect::<Result<_, _>>()?,
        next,
    })
}

/// The instances that failed, from one of the documents on that have them, until there are so many; `None`: there is no such batch.
pub(crate) async fn failures(
    store: &Store,
    id: &str,
    from: u64,
    limit: usize,
) -> Result<Option<BatchFailurePage>, Failure> {
    let Some(job) = read(store, id).await? else {
        return Ok(None);
    };
    let pk = partition()?;
    let (mut page, mut at) = (BatchFailurePage::default(), from);
    while at < job.doc.failure_pages && page.failures.len() < limit {
        let found = store
            .read::<BatchFailuresDoc>(&pk, &BatchFailuresDoc::id(id, at))
            .await?;
        page.failures
            .extend(found.into_iter().flat_map(|found| found.doc.failures));
        at += 1;
    }
    page.next = (at < job.doc.failure_pages).then_some(at);
    Ok(Some(page))
}

/// Cancels a batch: a step under way counts what it has done, and ends it; else the next step does.
pub(crate) async fn cancel(store: &Store, id: &str) -> Result<BatchCancelled, Failure> {
    let pk = partition()?;
    for _ in 0..ATTEMPTS {
        let Some(found) = read(store, id).await? else {
            return Ok(BatchCancelled::NotFound);
        };
        let mut job = found.doc;
        match job.state {
            BatchState::Running => {}
            BatchState::Cancelling => return Ok(BatchCancelled::Accepted(Box::new(Batch::of(&job)?))),
            _ => return Ok(BatchCancelled::Ended(Box::new(Batch::of(&job)?))),
        }
        let now = store.now();
        job.state = BatchState::Cancelling;
        job.updated_at = now;
        job.go_on_at(now);
        let replaced = store
            .container
            .replace(&pk, &job.id, &job, Some(&found.etag), Retry::Idempotent);
        match replaced.await {
            Ok(_) => return Ok(BatchCancelled::Accepted(Box::new(Batch::of(&job)?))),
            Err(error) if error.is_precondition_failed() || error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Failure::busy(&pk))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_part_of_a_document_id() {
        assert!(is_id(&batch_id_of_key("a/b?#")) && is_id("x_1"));
        for wrong in ["", "a/b", "a b", "ä", &*"x".repeat(MOST_ID + 1)] {
            assert!(!is_id(wrong), "{wrong}");
        }
        assert_ne!(batch_id_of_key("a"), batch_id_of_key("b"));
    }
}
