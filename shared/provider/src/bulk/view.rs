//! A batch as it is shown.

use super::action::{BatchAction, RequestDoc};
use crate::admin::InstanceFilter;
use crate::error::Failure;
use crate::model::{BatchCounts, BatchFailure, BatchJobDoc, BatchSample, BatchState};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// A batch. Times are Unix ms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Its id.
    pub id: String,
    /// What it is.
    pub state: BatchState,
    /// Why it cannot go on.
    pub error: Option<String>,
    /// Which instances it is about.
    pub filter: InstanceFilter,
    /// What it does with them.
    pub action: BatchAction,
    /// Whether it only says what it would do.
    pub dry_run: bool,
    /// How many instances it handles in a second, at most.
    pub rate: u32,
    /// Who has begun it.
    pub by: Option<String>,
    /// When it was begun.
    pub created_at: u64,
    /// When it last made progress.
    pub updated_at: u64,
    /// When it has ended.
    pub ended_at: Option<u64>,
    /// When its next step runs, at the earliest.
    pub next_at: Option<u64>,
    /// Whether it goes slower than it was asked to, because the store throttles or turns are late.
    pub is_slowed: bool,
    /// What became of the instances.
    pub counts: BatchCounts,
    /// How many of them had which status when they were found.
    pub by_status: BTreeMap<String, u64>,
    /// The first of them.
    pub sample: Vec<BatchSample>,
}

impl Batch {
    pub(super) fn of(job: &BatchJobDoc) -> Result<Batch, Failure> {
        let request: RequestDoc = serde_json::from_value(job.request.clone())?;
        Ok(Batch {
            id: BatchJobDoc::name_of(&job.id).to_owned(),
            state: job.state,
            error: job.error.clone(),
            filter: request.filter(),
            action: request.action,
            dry_run: request.dry_run,
            rate: request.rate,
            by: job.by.clone(),
            created_at: job.created_at,
            updated_at: job.updated_at,
            ended_at: job.ended_at,
            next_at: Some(job.next_at).filter(|_| !job.state.has_ended()),
            is_slowed: job.slowed > 0 && !job.state.has_ended(),
            counts: job.counts,
            by_status: job.by_status.clone(),
            sample: job.sample.clone(),
        })
    }
}

/// A page of batches, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchPage {
    /// The batches.
    pub batches: Vec<Batch>,
    /// Where the next page begins; `None` after the last one.
    pub next: Option<BatchCursor>,
}

/// A place in the list of batches: after so many of those that began at this time. What begins later does not move it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchCursor {
    pub(super) created_at: u64,
    pub(super) seen: u32,
}

/// The most batches of one moment that a cursor can be behind.
const MOST_SEEN: u32 = 10_000;

impl BatchCursor {
    pub(super) const NEWEST: BatchCursor = BatchCursor {
        created_at: i64::MAX as u64,
        seen: 0,
    };
}

impl fmt::Display for BatchCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.created_at, self.seen)
    }
}

impl FromStr for BatchCursor {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = || {
            let (created_at, seen) = text.split_once('-')?;
            let (created_at, seen) = (created_at.parse().ok()?, seen.parse().ok()?);
            (created_at <= Self::NEWEST.created_at && seen <= MOST_SEEN).then_some(BatchCursor { created_at, seen })
        };
        read().ok_or("it is not that of a list of batches")
    }
}

/// A page of the instances that failed in a batch, in the order in which they were handled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchFailurePage {
    /// The instances, with their reasons.
    pub failures: Vec<BatchFailure>,
    /// Where the next page begins; `None` after the last one so far.
    pub next: Option<u64>,
}
