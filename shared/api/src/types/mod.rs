//! Requests and answers. Fields may be added, not renamed: clients must ignore fields that they do not know.
//!
//! Times are RFC 3339 in UTC. Inputs and outputs are texts for duroxide; here they are a [`Payload`].

mod attention;
mod batch;
mod dashboard;
mod dead_letter;
mod doctor;
mod explain;
mod fork;
mod history;
mod instance;
mod maintenance;
mod message;
mod payload;
mod problem;
mod rewind;
mod start;
pub mod time;
mod usage;

pub use attention::{
    Count, Counts, Health, OverdueItem, OverdueKind, OverdueList, Overview, StatusCount, StoreStats, Throughput,
    ThroughputHour,
};
pub use batch::{
    Batch, BatchCounts, BatchFailure, BatchFailureList, BatchFilter, BatchList, BatchRequest, BatchSample, BatchState,
    BatchVerb, RestartRequest, Restarted,
};
pub use dashboard::{AuthMode, DashboardConfig, Me, Role, SignIn};
pub use dead_letter::{DeadLetter, DeadLetterList, DeadLetterSummary, Discarded, Redriven};
pub use doctor::{Check, CheckState, Diagnosis, DoctorRequest, FunctionFacts, OperationCost, QueueFinding};
pub use explain::{ChainLink, Evidence, Explanation, Next, Similar, Wait};
pub use fork::{EditedResult, ForkRequest, Forked};
pub use history::{
    ActivityAttempts, EndedAttempt, Execution, ExecutionList, History, KeyValue, KeyValueList, Stats, Tree,
};
pub use instance::{Blocked, Instance, InstanceList, Paused, Status, StatusError};
pub use maintenance::{Look, MaintenanceReport, MaintenanceRequest, Pass, PassReport, RetentionRequest, StoreReport};
pub use message::{
    Accepted, CancelRequest, Deleted, EventRequest, PauseChanged, PauseRequest, PruneRequest, Pruned, ResumeRequest,
};
pub use payload::Payload;
pub use problem::{Problem, ProblemType};
pub use rewind::{ForkedFrom, Rewind, RewindRequest, Rewound, Step};
pub use start::{StartRequest, Started};
pub use usage::{Decimal, Usage};
