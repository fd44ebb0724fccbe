//! The services of a running cloud, and their status.

use crate::lambda::{EnvironmentStatus, Function, FunctionCounts};
use crate::sqs::{Depth, QueueCounts, Sqs};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Functions and queues, shared by the endpoint, the mappings and the schedule.
#[derive(Debug)]
pub(crate) struct Services {
    pub(crate) functions: BTreeMap<String, Arc<Function>>,
    pub(crate) sqs: Arc<Sqs>,
}

/// Counts and current state of a cloud.
#[derive(Clone, Debug, Serialize)]
pub struct CloudStatus {
    /// Functions by name.
    pub functions: BTreeMap<String, FunctionStatus>,
    /// Queues by name.
    pub queues: BTreeMap<String, QueueStatus>,
}

/// Counts and environments of a function.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FunctionStatus {
    /// Counts since the cloud started.
    #[serde(flatten)]
    pub counts: FunctionCounts,
    /// Processes killed on purpose.
    pub killed: u64,
    /// Environments whose process is alive.
    pub environments: Vec<EnvironmentStatus>,
}

/// Depth and counts of a queue.
#[derive(Clone, Debug, Serialize)]
pub struct QueueStatus {
    /// Messages in the queue.
    #[serde(flatten)]
    pub depth: Depth,
    /// Messages since the cloud started.
    #[serde(flatten)]
    pub counts: QueueCounts,
}

impl Services {
    pub(crate) fn function(&self, name: &str) -> Option<&Arc<Function>> {
        self.functions.get(name)
    }

    /// Ends all functions and waits until their processes are gone.
    pub(crate) async fn close(&self) {
        futures::future::join_all(self.functions.values().map(|function| function.close())).await;
    }

    pub(crate) fn status(&self) -> CloudStatus {
        let functions = self.functions.iter().map(|(name, function)| {
            let status = FunctionStatus {
                counts: function.counts(),
                killed: function.killed(),
                environments: function.environments(),
            };
            (name.clone(), status)
        });
        let queues = self.sqs.names().into_iter().filter_map(|name| {
            let status = QueueStatus {
                depth: self.sqs.depth(&name).ok()?,
                counts: self.sqs.counts(&name).ok()?,
            };
            Some((name, status))
        });
        CloudStatus {
            functions: functions.collect(),
            queues: queues.collect(),
        }
    }
}
