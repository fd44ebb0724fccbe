//! What is inside a running cloud, and how it does.

use crate::lambda::{EnvironmentStatus, Function, FunctionCounts};
use crate::sqs::{Depth, QueueCounts, Sqs};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The parts that others look at.
#[derive(Debug)]
pub(crate) struct Inside {
    pub(crate) functions: BTreeMap<&'static str, Arc<Function>>,
    pub(crate) sqs: Arc<Sqs>,
}

/// How a cloud does.
#[derive(Clone, Debug, Serialize)]
pub struct CloudStatus {
    /// By name.
    pub functions: BTreeMap<String, FunctionStatus>,
    /// By name.
    pub queues: BTreeMap<String, QueueStatus>,
}

/// How a function does.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FunctionStatus {
    /// Since the start.
    #[serde(flatten)]
    pub counts: FunctionCounts,
    /// Processes that were killed on purpose.
    pub killed: u64,
    /// Those that live.
    pub environments: Vec<EnvironmentStatus>,
}

/// How a queue does.
#[derive(Clone, Debug, Serialize)]
pub struct QueueStatus {
    /// Messages in it.
    #[serde(flatten)]
    pub depth: Depth,
    /// Messages since the start.
    #[serde(flatten)]
    pub counts: QueueCounts,
}

impl Inside {
    pub(crate) fn function(&self, name: &str) -> Option<&Arc<Function>> {
        self.functions.get(name)
    }

    pub(crate) fn status(&self) -> CloudStatus {
        let functions = self.functions.iter().map(|(name, function)| {
            let status = FunctionStatus {
                counts: function.counts(),
                killed: function.killed(),
                environments: function.environments(),
            };
            ((*name).to_owned(), status)
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
