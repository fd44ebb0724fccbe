//! Batches of the store as answers.

use crate::types::time::rfc3339;
use crate::types::{Batch, BatchCounts, BatchFailure, BatchFilter, BatchSample, BatchState, BatchVerb, Status};
use duroxide_cosmos as store;

/// A batch.
pub(crate) fn batch(batch: &store::Batch) -> Batch {
    let store::BatchCounts {
        examined,
        changed,
        unchanged,
        gone,
        failed,
    } = batch.counts;
    let filter = &batch.filter;
    Batch {
        batch: batch.id.clone(),
        state: match batch.state {
            store::BatchState::Running => BatchState::Running,
            store::BatchState::Cancelling => BatchState::Cancelling,
            store::BatchState::Completed => BatchState::Completed,
            store::BatchState::Cancelled => BatchState::Cancelled,
            store::BatchState::Failed => BatchState::Failed,
        },
        action: match &batch.action {
            store::BatchAction::Cancel { .. } => BatchVerb::Cancel,
            store::BatchAction::Pause { .. } => BatchVerb::Pause,
            store::BatchAction::Resume { .. } => BatchVerb::Resume,
            store::BatchAction::Raise { .. } => BatchVerb::Raise,
            store::BatchAction::Delete { .. } => BatchVerb::Delete,
            store::BatchAction::Rewind { .. } => BatchVerb::Rewind,
            store::BatchAction::Restart { .. } => BatchVerb::Restart,
        },
        filter: BatchFilter {
            status: filter
                .status
                .as_ref()
                .and_then(|status| status.name().parse::<Status>().ok()),
            name: filter.name.clone(),
            version: filter.version.clone(),
            prefix: filter.prefix.clone(),
            tags: filter.tags.iter().cloned().collect(),
            created_from: filter.created_from.map(rfc3339),
            created_to: filter.created_to.map(rfc3339),
            parent: filter.parent.clone(),
            all: *filter == store::InstanceFilter::default(),
        },
        dry_run: batch.dry_run,
        rate: batch.rate,
        slowed: batch.is_slowed,
        by: batch.by.clone(),
        created_at: rfc3339(batch.created_at),
        updated_at: rfc3339(batch.updated_at),
        ended_at: batch.ended_at.map(rfc3339),
        counts: BatchCounts {
            examined,
            changed,
            unchanged,
            gone,
            failed,
        },
        by_status: batch.by_status.clone(),
        sample: batch
            .sample
            .iter()
            .map(|sample| BatchSample {
                instance: sample.instance.clone(),
                status: sample.status.clone(),
            })
            .collect(),
        error: batch.error.clone(),
        repeated: false,
    }
}

/// An instance that failed.
pub(crate) fn batch_failure(failure: store::BatchFailure) -> BatchFailure {
    let store::BatchFailure { instance, reason } = failure;
    BatchFailure { instance, reason }
}
