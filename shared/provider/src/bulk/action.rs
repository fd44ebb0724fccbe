//! What a batch does, as it is asked for and stored, and what that means for an instance in a certain state. No I/O.
//!
//! A new action is a variant of [`BatchAction`], a line in [`BatchAction::foreseen`], and one in `apply::apply`; the compiler shows the rest.

use crate::admin::{InstanceFilter, InstanceStatus};
use serde::{Deserialize, Serialize};

/// What a batch does with each instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum BatchAction {
    /// Cancels it.
    Cancel {
        /// Why.
        reason: String,
    },
    /// Pauses it.
    Pause {
        /// Why.
        reason: Option<String>,
        /// Also its descendants.
        children: bool,
    },
    /// Resumes it.
    Resume {
        /// Also its descendants.
        children: bool,
    },
    /// Raises an event.
    Raise {
        /// Its name.
        event: String,
        /// Its data.
        data: String,
    },
    /// Deletes it, with its children.
    Delete {
        /// Also if it has not ended.
        force: bool,
    },
    /// Lets it go on from before its failure.
    Rewind {
        /// Why.
        reason: Option<String>,
        /// Also a child, whose parent has its failure.
        alone: bool,
        /// Run activities again whose results were obtained after the failure was decided.
        discard_results: bool,
    },
    /// Restarts it with the same input.
    Restart {
        /// As its next execution, not as a new instance.
        in_place: bool,
        /// Also a child, whose parent does not wait for it any more.
        alone: bool,
        /// The version; `None`: the newest.
        version: Option<String>,
    },
}

/// What becomes of one instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// The action is applied, by this step or by an earlier attempt of it.
    Changed,
    /// There is nothing to do.
    Unchanged,
    /// There is no such instance any more.
    Gone,
    /// It is refused, or cannot be done.
    Failed(String),
    /// The store did not answer in time: once more, later.
    Retry(String),
}

pub(super) const NOT_ENDED: &str = "it has not ended";
pub(super) const NOT_FAILED: &str = "it has not failed";

/// Why a child is not restarted in place, or not rewound.
pub(super) fn is_child(parent: &str) -> String {
    format!("it is a child of instance '{parent}'")
}

impl BatchAction {
    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            BatchAction::Cancel { .. } => "cancel",
            BatchAction::Pause { .. } => "pause",
            BatchAction::Resume { .. } => "resume",
            BatchAction::Raise { .. } => "raise",
            BatchAction::Delete { .. } => "delete",
            BatchAction::Rewind { .. } => "rewind",
            BatchAction::Restart { .. } => "restart",
        }
    }

    /// What becomes of an instance with this status and parent, if it stays so: the answer of a dry run.
    pub(super) fn foreseen(&self, status: &InstanceStatus, parent: Option<&str>) -> Effect {
        let changed_if = |is_changed: bool| match is_changed {
            true => Effect::Changed,
            false => Effect::Unchanged,
        };
        match self {
            BatchAction::Cancel { .. } | BatchAction::Raise { .. } => changed_if(!status.is_finished()),
            BatchAction::Pause { .. } => changed_if(!status.is_finished() && *status != InstanceStatus::Paused),
            BatchAction::Resume { .. } => changed_if(*status == InstanceStatus::Paused),
            BatchAction::Delete { force } => match parent {
                // It goes with its root.
                Some(_) => Effect::Unchanged,
                None if *force || status.is_finished() => Effect::Changed,
                None => Effect::Failed(NOT_ENDED.to_owned()),
            },
            BatchAction::Rewind { alone, .. } => match parent.filter(|_| !alone) {
                _ if !matches!(status, InstanceStatus::Failed | InstanceStatus::Cancelled) => {
                    Effect::Failed(NOT_FAILED.to_owned())
                }
                Some(parent) => Effect::Failed(is_child(parent)),
                None => Effect::Changed,
            },
            BatchAction::Restart { in_place: false, .. } => Effect::Changed,
            BatchAction::Restart { alone, .. } => match parent.filter(|_| !alone) {
                _ if !status.is_finished() => Effect::Failed(NOT_ENDED.to_owned()),
                Some(parent) => Effect::Failed(is_child(parent)),
                None => Effect::Changed,
            },
        }
    }
}

/// What to do with which instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchRequest {
    /// Which instances. Only those that were accepted before the batch are handled.
    pub filter: InstanceFilter,
    /// What to do.
    pub action: BatchAction,
    /// Only say what would be done.
    pub dry_run: bool,
    /// How many instances to handle in a second, at most.
    pub rate: u32,
    /// Who asks for it.
    pub by: Option<String>,
}

/// The same as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RequestDoc {
    filter: FilterDoc,
    pub(super) action: BatchAction,
    pub(super) dry_run: bool,
    pub(super) rate: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct FilterDoc {
    status: Option<String>,
    name: Option<String>,
    version: Option<String>,
    prefix: Option<String>,
    tags: Vec<(String, String)>,
    created_from: Option<u64>,
    created_to: Option<u64>,
    completed_from: Option<u64>,
    completed_to: Option<u64>,
    parent: Option<String>,
}

impl RequestDoc {
    pub(super) fn of(request: &BatchRequest) -> RequestDoc {
        let filter = request.filter.clone();
        RequestDoc {
            filter: FilterDoc {
                status: filter.status.map(|status| status.name().to_owned()),
                name: filter.name,
                version: filter.version,
                prefix: filter.prefix,
                tags: filter.tags,
                created_from: filter.created_from,
                created_to: filter.created_to,
                completed_from: filter.completed_from,
                completed_to: filter.completed_to,
                parent: filter.parent,
            },
            action: request.action.clone(),
            dry_run: request.dry_run,
            rate: request.rate.max(1),
        }
    }

    /// The filter as it was asked for.
    pub(super) fn filter(&self) -> InstanceFilter {
        let filter = self.filter.clone();
        InstanceFilter {
            status: filter.status.as_deref().map(InstanceStatus::named),
            name: filter.name,
            version: filter.version,
            prefix: filter.prefix,
            tags: filter.tags,
            created_from: filter.created_from,
            created_to: filter.created_to,
            completed_from: filter.completed_from,
            completed_to: filter.completed_to,
            parent: filter.parent,
            needs_attention: false,
        }
    }

    /// The filter of the search: what was accepted after the batch is not in it.
    pub(super) fn until(&self, created_at: u64) -> InstanceFilter {
        let filter = self.filter();
        InstanceFilter {
            created_to: Some(filter.created_to.unwrap_or(u64::MAX).min(created_at)),
            ..filter
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use InstanceStatus::*;

    fn restart(in_place: bool, alone: bool) -> BatchAction {
        BatchAction::Restart {
            in_place,
            alone,
            version: None,
        }
    }

    #[test]
    fn what_becomes_of_an_instance_depends_on_its_state() {
        let cancel = BatchAction::Cancel { reason: String::new() };
        let pause = BatchAction::Pause {
            reason: None,
            children: false,
        };
        let resume = BatchAction::Resume { children: false };
        let delete = |force| BatchAction::Delete { force };
        let rewind = |alone| BatchAction::Rewind {
            reason: None,
            alone,
            discard_results: false,
        };
        let failed = |why: &str| Effect::Failed(why.to_owned());
        let (changed, unchanged) = (Effect::Changed, Effect::Unchanged);
        let child = is_child("p");
        for (action, status, parent, expected) in [
            (&cancel, Running, None, changed.clone()),
            (&cancel, Paused, Some("p"), changed.clone()),
            (&cancel, Failed, None, unchanged.clone()),
            (&pause, Pending, None, changed.clone()),
            (&pause, Blocked, None, changed.clone()),
            (&pause, Paused, None, unchanged.clone()),
            (&pause, Completed, None, unchanged.clone()),
            (&resume, Paused, None, changed.clone()),
            (&resume, Running, None, unchanged.clone()),
            (&delete(false), Cancelled, None, changed.clone()),
            (&delete(false), Running, None, failed(NOT_ENDED)),
            (&delete(true), Running, None, changed.clone()),
            (&delete(true), Completed, Some("p"), unchanged.clone()),
            (&rewind(false), Failed, None, changed.clone()),
            (&rewind(false), Cancelled, None, changed.clone()),
            (&rewind(false), Completed, None, failed(NOT_FAILED)),
            (&rewind(false), Failed, Some("p"), failed(&child)),
            (&rewind(true), Failed, Some("p"), changed.clone()),
            (&restart(false, false), Running, Some("p"), changed.clone()),
            (&restart(true, false), Failed, None, changed.clone()),
            (&restart(true, false), Failed, Some("p"), failed(&child)),
            (&restart(true, true), Failed, Some("p"), changed),
            (&restart(true, true), Running, Some("p"), failed(NOT_ENDED)),
        ] {
            assert_eq!(
                action.foreseen(&status, parent),
                expected,
                "{action:?} {status} {parent:?}"
            );
        }
    }

    #[test]
    fn a_request_survives_its_document_and_ends_at_its_beginning() {
        let request = BatchRequest {
            filter: InstanceFilter {
                status: Some(Failed),
                version: Some("1.2.0".to_owned()),
                tags: vec![("a".to_owned(), "b".to_owned())],
                ..InstanceFilter::default()
            },
            action: restart(true, false),
            dry_run: false,
            rate: 0,
            by: None,
        };
        let stored = serde_json::to_value(RequestDoc::of(&request)).unwrap();
        let read: RequestDoc = serde_json::from_value(stored).unwrap();
        assert_eq!(
            (read.filter(), &read.action, read.rate),
            (request.filter, &request.action, 1)
        );
        assert_eq!(read.until(50).created_to, Some(50));
    }
}
