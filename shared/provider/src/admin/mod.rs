//! Administration: lists, infos, metrics, pause, restart, rewind, deletion, pruning. One file per operation; `provider::admin` delegates to them.
//!
//! An instance whose execution continued as new has not ended: unlike duroxide's SQLite provider, deletion without force
//! refuses such an instance, and bulk deletion skips it.

mod delete;
mod fork;
mod guard;
mod info;
mod list;
mod pause;
mod prune;
mod prune_plan;
mod prune_run;
mod restart;
mod rewind;
mod search;
mod summary;

pub(crate) use delete::{delete_bulk, delete_expired, delete_group};
pub(crate) use fork::fork;
pub use fork::{ForkOutcome, ForkPlan, ForkRequest, ForkResult};
pub(crate) use info::{execution_info, instance_info, known_instance};
pub(crate) use list::{
    any_dead_letters, any_runs, children_of, existing, list_executions, list_instances, queue_depths, system_metrics,
    tree_of,
};
pub use pause::{PauseOutcome, PauseResult};
pub(crate) use pause::{Verb as PauseVerb, change as change_pause};
pub(crate) use prune::{prune, prune_bulk, prune_until};
pub use restart::{RestartRequest, Restarted};
pub(crate) use restart::{as_new as restart_as_new, in_place as restart_in_place};
pub(crate) use rewind::rewind;
pub use rewind::{PlannedStep, RewindOutcome, RewindPlan, RewindRequest, RewindResult, StepKind};
pub use search::{Attention, Count, InstanceCounts, InstanceFilter, InstancePage, SearchError};
pub(crate) use search::{Marked, SearchFailure, counts, instance_counts, search};
pub use summary::{InstanceStatus, InstanceSummary, SummaryChange};
pub(crate) use summary::{Marks, instance_summary, instance_summary_if_changed};
