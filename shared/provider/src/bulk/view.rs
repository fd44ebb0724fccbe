//! A batch as it is shown.

use super::action::{BatchAction, RequestDoc};
use crate::admin::InstanceFilter;
use crate::error::Failure;
use crate::model::{BatchCounts, BatchFailure, BatchJobDoc, BatchSample, BatchState};
use std::collections::BTreeMap;

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
    pub next: Option<String>,
}

/// A page of the instances that failed in a batch, in the order in which they were handled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchFailurePage {
    /// The instances, with their reasons.
    pub failures: Vec<BatchFailure>,
    /// Where the next page begins; `None` after the last one so far.
    pub next: Option<u64>,
}
