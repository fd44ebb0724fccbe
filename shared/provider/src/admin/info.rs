//! The description of one instance or execution, as duroxide defines it.

use crate::error::Failure;
use crate::model::InstanceDoc;
use crate::read;
use crate::store::Store;
use cosmos::PartitionKey;
use duroxide::providers::{ExecutionInfo, InstanceInfo};

/// The instance, if it exists in duroxide's sense: a turn has set its name.
pub(crate) async fn known_instance(store: &Store, pk: &PartitionKey) -> Result<InstanceDoc, Failure> {
    let found = read::instance(store, pk).await?;
    found
        .filter(|instance| instance.name.is_some())
        .ok_or_else(|| Failure::NoInstance(pk.as_str().to_owned()))
}

pub(crate) async fn instance_info(store: &Store, pk: &PartitionKey) -> Result<InstanceInfo, Failure> {
    let instance = known_instance(store, pk).await?;
    let output = read::output(store, pk, &instance.current).await?;
    Ok(InstanceInfo {
        instance_id: instance.pk,
        orchestration_name: instance.name.unwrap_or_default(),
        orchestration_version: instance.version.unwrap_or_else(|| "unknown".to_owned()),
        current_execution_id: instance.current.execution,
        status: instance.current.status.into(),
        output,
        created_at: instance.created_at,
        updated_at: instance.updated_at,
        parent_instance_id: instance.parent,
    })
}

pub(crate) async fn execution_info(store: &Store, pk: &PartitionKey, execution: u64) -> Result<ExecutionInfo, Failure> {
    let state = read::execution_state(store, pk, execution)
        .await?
        .ok_or_else(|| Failure::NoExecution {
            instance: pk.as_str().to_owned(),
            execution,
        })?;
    let output = read::output(store, pk, &state).await?;
    Ok(ExecutionInfo {
        execution_id: state.execution,
        status: state.status.into(),
        output,
        started_at: state.started_at,
        completed_at: state.completed_at,
        event_count: usize::try_from(state.events).unwrap_or(usize::MAX),
    })
}
