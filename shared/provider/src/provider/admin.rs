//! `impl ProviderAdmin`: it only delegates, and names the operation in each error.

use super::{CosmosProvider, Operation as _, pk_of};
use crate::admin;
use crate::read;
use async_trait::async_trait;
use duroxide::providers::{
    DeleteInstanceResult, ExecutionInfo, InstanceFilter, InstanceInfo, InstanceTree, ProviderAdmin, ProviderError,
    PruneOptions, PruneResult, QueueDepths, SystemMetrics,
};
use duroxide::{Event, INITIAL_EXECUTION_ID};

#[async_trait]
impl ProviderAdmin for CosmosProvider {
    async fn list_instances(&self) -> Result<Vec<String>, ProviderError> {
        admin::list_instances(&self.store, None).await.of("list_instances")
    }

    async fn list_instances_by_status(&self, status: &str) -> Result<Vec<String>, ProviderError> {
        admin::list_instances(&self.store, Some(status))
            .await
            .of("list_instances_by_status")
    }

    async fn list_executions(&self, instance: &str) -> Result<Vec<u64>, ProviderError> {
        let Ok(pk) = pk_of(instance) else { return Ok(Vec::new()) };
        admin::list_executions(&self.store, &pk).await.of("list_executions")
    }

    async fn read_history_with_execution_id(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<Vec<Event>, ProviderError> {
        let read = async { read::history_of(&self.store, &pk_of(instance)?, execution_id).await };
        read.await.of("read_history_with_execution_id")
    }

    async fn read_history(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
        let read = async { read::latest_history(&self.store, &pk_of(instance)?).await };
        read.await.of("read_history")
    }

    async fn latest_execution_id(&self, instance: &str) -> Result<u64, ProviderError> {
        // An instance that does not exist would begin with its first execution.
        let Ok(pk) = pk_of(instance) else {
            return Ok(INITIAL_EXECUTION_ID);
        };
        let found = read::instance(&self.store, &pk).await.of("latest_execution_id")?;
        Ok(found.map_or(INITIAL_EXECUTION_ID, |instance| instance.current.execution))
    }

    async fn get_instance_info(&self, instance: &str) -> Result<InstanceInfo, ProviderError> {
        let info = async { admin::instance_info(&self.store, &pk_of(instance)?).await };
        info.await.of("get_instance_info")
    }

    async fn get_execution_info(&self, instance: &str, execution_id: u64) -> Result<ExecutionInfo, ProviderError> {
        let info = async { admin::execution_info(&self.store, &pk_of(instance)?, execution_id).await };
        info.await.of("get_execution_info")
    }

    async fn get_system_metrics(&self) -> Result<SystemMetrics, ProviderError> {
        admin::system_metrics(&self.store).await.of("get_system_metrics")
    }

    async fn get_queue_depths(&self) -> Result<QueueDepths, ProviderError> {
        admin::queue_depths(&self.store).await.of("get_queue_depths")
    }

    async fn list_children(&self, instance_id: &str) -> Result<Vec<String>, ProviderError> {
        let children = admin::children_of(&self.store, &[instance_id.to_owned()]).await;
        children.of("list_children")
    }

    async fn get_parent_id(&self, instance_id: &str) -> Result<Option<String>, ProviderError> {
        let found = async { admin::known_instance(&self.store, &pk_of(instance_id)?).await };
        Ok(found.await.of("get_parent_id")?.parent)
    }

    async fn get_instance_tree(&self, instance_id: &str) -> Result<InstanceTree, ProviderError> {
        let all_ids = admin::tree_of(&self.store, instance_id).await.of("get_instance_tree")?;
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
        admin::delete_group(&self.store, ids, force)
            .await
            .of("delete_instances_atomic")
    }

    async fn delete_instance_bulk(&self, filter: InstanceFilter) -> Result<DeleteInstanceResult, ProviderError> {
        admin::delete_bulk(&self.store, &filter)
            .await
            .of("delete_instance_bulk")
    }

    async fn prune_executions(&self, instance_id: &str, options: PruneOptions) -> Result<PruneResult, ProviderError> {
        let pruned = async { admin::prune(&self.store, &pk_of(instance_id)?, &options).await };
        pruned.await.of("prune_executions")
    }

    async fn prune_executions_bulk(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Result<PruneResult, ProviderError> {
        admin::prune_bulk(&self.store, &filter, &options)
            .await
            .of("prune_executions_bulk")
    }
}
