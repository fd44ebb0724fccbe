//! Instances as we show them: what duroxide's own answers do not say.

use super::{CosmosProvider, Operation as _};
use crate::admin::{self, InstanceCounts, InstanceList, InstanceStatus, InstanceSummary};
use cosmos::PartitionKey;
use duroxide::providers::ProviderError;

impl CosmosProvider {
    /// One instance, from the moment that its start was accepted; `None` when there is none. One request, one more for the
    /// input of a pending instance, and one for each long text.
    pub async fn instance_summary(&self, instance: &str) -> Result<Option<InstanceSummary>, ProviderError> {
        // An id that cannot be a partition key is that of no instance.
        let Ok(pk) = PartitionKey::new(instance) else {
            return Ok(None);
        };
        admin::instance_summary(&self.store, &pk).await.of("instance_summary")
    }

    /// The newest instances, at most so many, of one status or of all. It reads a part of every instance that matches, and
    /// then those that it returns.
    pub async fn newest_instances(
        &self,
        status: Option<&InstanceStatus>,
        most: usize,
    ) -> Result<InstanceList, ProviderError> {
        let list = admin::newest_instances(&self.store, status, most).await;
        list.of("newest_instances")
    }

    /// How many instances of each status there are. It reads a part of every instance.
    pub async fn instance_counts(&self) -> Result<InstanceCounts, ProviderError> {
        admin::instance_counts(&self.store).await.of("instance_counts")
    }
}
