//! `ProviderAdmin`: the `impl` only delegates; one file per verb behind it.
//!
//! An execution that continued as new is not the end of its instance: unlike duroxide's SQLite provider, deletion without
//! force refuses such an instance, and bulk deletion leaves it alone.

mod delete;
mod erase;
mod guard;
mod info;
mod list;
mod prune;

use crate::error::Failure;
use crate::provider::CosmosProvider;
use async_trait::async_trait;
use cosmos::PartitionKey;
use duroxide::Event;
use duroxide::providers::{
    DeleteInstanceResult, ExecutionInfo, InstanceFilter, InstanceInfo, InstanceTree, ProviderAdmin, ProviderError,
    PruneOptions, PruneResult, QueueDepths, SystemMetrics,
};

fn key(instance: &str) -> Result<PartitionKey, Failure> {
    PartitionKey::new(instance).map_err(|_| Failure::NoInstance(instance.to_owned()))
}

#[async_trait]
impl ProviderAdmin for CosmosProvider {
    async fn list_instances(&self) -> Result<Vec<String>, ProviderError> {
        self.store
            .list_instances(None)
            .await
            .map_err(|failure| failure.of("list_instances"))
    }

    async fn list_instances_by_status(&self, status: &str) -> Result<Vec<String>, ProviderError> {
        self.store
            .list_instances(Some(status))
            .await
            .map_err(|failure| failure.of("list_instances_by_status"))
    }

    async fn list_executions(&self, instance: &str) -> Result<Vec<u64>, ProviderError> {
        let Ok(pk) = key(instance) else { return Ok(Vec::new()) };
        self.store
            .list_executions(&pk)
            .await
            .map_err(|failure| failure.of("list_executions"))
    }

    async fn read_history_with_execution_id(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<Vec<Event>, ProviderError> {
        let read = async { self.store.history_of(&key(instance)?, execution_id).await };
        read.await
            .map_err(|failure| failure.of("read_history_with_execution_id"))
    }

    async fn read_history(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
        let read = async { self.store.latest_history(&key(instance)?).await };
        read.await.map_err(|failure| failure.of("read_history"))
    }

    async fn latest_execution_id(&self, instance: &str) -> Result<u64, ProviderError> {
        let found = async { self.store.known_instance(&key(instance)?).await };
        let instance = found.await.map_err(|failure| failure.of("latest_execution_id"))?;
        Ok(instance.current.execution)
    }

    async fn get_instance_info(&self, instance: &str) -> Result<InstanceInfo, ProviderError> {
        let info = async { self.store.instance_info(&key(instance)?).await };
        info.await.map_err(|failure| failure.of("get_instance_info"))
    }

    async fn get_execution_info(&self, instance: &str, execution_id: u64) -> Result<ExecutionInfo, ProviderError> {
        let info = async { self.store.execution_info(&key(instance)?, execution_id).await };
        info.await.map_err(|failure| failure.of("get_execution_info"))
    }

    async fn get_system_metrics(&self) -> Result<SystemMetrics, ProviderError> {
        self.store
            .system_metrics()
            .await
            .map_err(|failure| failure.of("get_system_metrics"))
    }

    async fn get_queue_depths(&self) -> Result<QueueDepths, ProviderError> {
        self.store
            .queue_depths()
            .await
            .map_err(|failure| failure.of("get_queue_depths"))
    }

    async fn list_children(&self, instance_id: &str) -> Result<Vec<String>, ProviderError> {
        let children = self.store.children_of(&[instance_id.to_owned()]).await;
        children.map_err(|failure| failure.of("list_children"))
    }

    async fn get_parent_id(&self, instance_id: &str) -> Result<Option<String>, ProviderError> {
        let found = async { self.store.known_instance(&key(instance_id)?).await };
        Ok(found.await.map_err(|failure| failure.of("get_parent_id"))?.parent)
    }

    async fn get_instance_tree(&self, instance_id: &str) -> Result<InstanceTree, ProviderError> {
        let all_ids = self
            .store
            .tree_of(instance_id)
            .await
            .map_err(|failure| failure.of("get_instance_tree"))?;
        Ok(InstanceTree {
            root_id: instance_id.to_owned(),
            all_ids,
        })
    }

    async fn delete_instances_atomic(
        &self,
        ids: &[String],
        force: bool,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        self.store
            .delete_group(ids, force)
            .await
            .map_err(|failure| failure.of("delete_instances_atomic"))
    }

    async fn delete_instance_bulk(&self, filter: InstanceFilter) -> Result<DeleteInstanceResult, ProviderError> {
        self.store
            .delete_bulk(&filter)
            .await
            .map_err(|failure| failure.of("delete_instance_bulk"))
    }

    async fn prune_executions(&self, instance_id: &str, options: PruneOptions) -> Result<PruneResult, ProviderError> {
        let pruned = async { self.store.prune(&key(instance_id)?, &options).await };
        pruned.await.map_err(|failure| failure.of("prune_executions"))
    }

    async fn prune_executions_bulk(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Result<PruneResult, ProviderError> {
        self.store
            .prune_bulk(&filter, &options)
            .await
            .map_err(|failure| failure.of("prune_executions_bulk"))
    }
}
