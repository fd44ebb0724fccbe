//! Rewinding and forking instances.

use super::{CosmosProvider, Operation as _};
use crate::admin::{self, ForkRequest, ForkResult, RewindRequest, RewindResult};
use crate::read::{self, Undone};
use cosmos::PartitionKey;
use duroxide::providers::ProviderError;

impl CosmosProvider {
    /// Rewinds an instance that has failed or was cancelled: the same execution goes on from before its failure. Failed activities are
    /// scheduled again, failed children are rewound, results that were obtained are kept. What is undone stays readable
    /// ([`undone_history`](Self::undone_history)). A dry run only says what would happen.
    ///
    /// It can be repeated: with the same [`call`](RewindRequest::call) it happens once, whatever became of the instance since.
    ///
    /// # Errors
    /// When the store cannot be reached, or others keep writing the instance. What was begun is completed by another call, by a fetch or
    /// by maintenance.
    pub async fn rewind(&self, request: &RewindRequest<'_>) -> Result<RewindResult, ProviderError> {
        let result = admin::rewind(&self.store, request).await.of("rewind")?;
        self.add_resumed(&result.due);
        Ok(result)
    }

    /// Makes a new instance from a point of another one's history, with edited results, input or version, and lets it run: what is open
    /// there runs again in the fork. The source is only read. A dry run only says what would run.
    ///
    /// # Errors
    /// When the store cannot be reached, or others work on the new id. Nothing of a half-made fork is visible.
    pub async fn fork(&self, request: &ForkRequest<'_>) -> Result<ForkResult, ProviderError> {
        let result = admin::fork(&self.store, request).await.of("fork")?;
        self.add_resumed(&result.due);
        Ok(result)
    }

    /// The events that a rewind has undone, by its [number](crate::Rewind::number); `None` when the instance does not exist, has no such
    /// rewind, or remembers it no more (it remembers the last ten).
    ///
    /// # Errors
    /// When the store cannot be reached, or an event cannot be decoded.
    pub async fn undone_history(&self, instance: &str, number: u64) -> Result<Option<Undone>, ProviderError> {
        let Ok(pk) = PartitionKey::new(instance) else {
            return Ok(None);
        };
        read::undone(&self.store, &pk, number).await.of("undone_history")
    }
}
