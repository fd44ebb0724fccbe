//! Restarts, and batches: one action on many instances.

use super::{CosmosProvider, Operation as _};
use crate::admin::{self, RestartRequest, Restarted};
use crate::bulk::{
    self, Batch, BatchCancelled, BatchCursor, BatchFailurePage, BatchPage, BatchRequest, BatchStarted, BatchStep,
    StepContext,
};
use duroxide::providers::ProviderError;

impl CosmosProvider {
    /// Starts a new instance with the orchestration, the input and the tags of another one, which is only read. With a key, a repetition
    /// within a day is recognised.
    ///
    /// # Errors
    /// When the store cannot be reached, or the new id cannot be an instance's.
    pub async fn restart_as_new(&self, request: RestartRequest<'_>, new_id: &str) -> Result<Restarted, ProviderError> {
        let restarted = admin::restart_as_new(&self.store, &request, new_id).await;
        let restarted = restarted.of("restart_as_new")?;
        if matches!(restarted, Restarted::Accepted { .. }) {
            self.queued(new_id);
        }
        Ok(restarted)
    }

    /// Begins the next execution of an instance that has ended, with the same input. The ended execution stays as it is, among the earlier
    /// ones. A child is refused unless `alone`: its parent has gone on with its end, and does not hear of another one. With a key, a
    /// repetition within a day is recognised.
    ///
    /// # Errors
    /// When the store cannot be reached, or others keep writing the instance.
    pub async fn restart_in_place(&self, request: RestartRequest<'_>, alone: bool) -> Result<Restarted, ProviderError> {
        let restarted = admin::restart_in_place(&self.store, &request, alone).await;
        let (restarted, due) = restarted.of("restart_in_place")?;
        self.add_turn_candidates(due);
        Ok(restarted)
    }

    /// Begins a batch: its first step is due now ([`Target::Batch`](crate::Target::Batch)).
    ///
    /// # Errors
    /// When the store cannot be reached, or the id cannot be a batch's.
    pub async fn start_batch(&self, id: &str, request: &BatchRequest) -> Result<BatchStarted, ProviderError> {
        bulk::start(&self.store, id, request).await.of("start_batch")
    }

    /// One batch; `None` when there is none. One request.
    ///
    /// # Errors
    /// When the store cannot be read, or the batch is of a newer release.
    pub async fn batch(&self, id: &str) -> Result<Option<Batch>, ProviderError> {
        bulk::batch(&self.store, id).await.of("batch")
    }

    /// A page of batches, newest first; `cursor` continues after another page. One request.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn batches(&self, cursor: Option<BatchCursor>, limit: u32) -> Result<BatchPage, ProviderError> {
        bulk::batches(&self.store, cursor, limit).await.of("batches")
    }

    /// The instances that failed in a batch, from this page on until there are about so many; `None` when there is no such batch.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn batch_failures(
        &self,
        id: &str,
        from: u64,
        limit: usize,
    ) -> Result<Option<BatchFailurePage>, ProviderError> {
        bulk::failures(&self.store, id, from, limit).await.of("batch_failures")
    }

    /// Cancels a batch: wake it, and its next step ends it. What it has done stays done.
    ///
    /// # Errors
    /// When the store cannot be reached.
    pub async fn cancel_batch(&self, id: &str) -> Result<BatchCancelled, ProviderError> {
        bulk::cancel(&self.store, id).await.of("cancel_batch")
    }

    /// Takes the next step of a batch, if it is time for it. The result names whom to wake: the instances, and the batch itself.
    ///
    /// # Errors
    /// When the store cannot be reached: the step is to be repeated.
    pub async fn batch_step(&self, id: &str, context: StepContext<'_>) -> Result<BatchStep, ProviderError> {
        let step = bulk::step(&self.store, id, context).await.of("batch_step")?;
        self.add_turn_candidates(step.due.clone());
        Ok(step)
    }
}
