//! Pausing and resuming instances.

use super::{CosmosProvider, Operation as _};
use crate::admin::{self, PauseResult, PauseVerb};
use crate::due::Due;
use crate::polling::WorkCandidate;
use duroxide::providers::ProviderError;

impl CosmosProvider {
    /// Pauses an instance that has not ended, with its descendants if `children`: no turn of it is taken and no activity begins until
    /// it is resumed. What arrives is kept in order; activities that run complete. A turn under way is thrown away and runs again
    /// after [`resume`](Self::resume). A cancellation takes effect at once. It can be repeated.
    ///
    /// # Errors
    /// When the store cannot be reached, or others keep writing the instance, or a tree takes too long: a part of it is paused then,
    /// from the root downwards, and another call continues.
    pub async fn pause(
        &self,
        instance: &str,
        reason: Option<&str>,
        children: bool,
    ) -> Result<PauseResult, ProviderError> {
        let result = Box::pin(admin::change_pause(
            &self.store,
            instance,
            PauseVerb::Pause { reason, call: None },
            children,
        ))
        .await;
        let result = result.of("pause")?;
        self.add_resumed(&result.due);
        Ok(result)
    }

    /// Resumes an instance, and its descendants if `children`, whoever has paused them. Everything that waits is due again: timers
    /// that fell due meanwhile fire, once. The result names whom to wake, also of an instance that was not paused: a
    /// repetition replaces wakeups that were lost.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    pub async fn resume(&self, instance: &str, children: bool) -> Result<PauseResult, ProviderError> {
        let result = Box::pin(admin::change_pause(&self.store, instance, PauseVerb::Resume, children)).await;
        let result = result.of("resume")?;
        self.add_resumed(&result.due);
        Ok(result)
    }

    // A runtime that polls in this process need not wait for a sweep.
    pub(super) fn add_resumed(&self, due: &[Due]) {
        let works = due.iter().filter_map(WorkCandidate::of_due);
        works.for_each(|work| self.work_candidates.push(work));
        self.add_turn_candidates(due.to_vec());
    }
}
