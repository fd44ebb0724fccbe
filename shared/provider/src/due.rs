//! Who has something to do after a write: the one place that decides it. No I/O.
//!
//! [`TurnDecision::due`] and the functions beside it depend on the decision alone, not on what the store answered. So
//! the list exists even when the outcome of a commit is unknown: a caller that wakes somebody for nothing costs one
//! request, and a caller that wakes nobody costs the time until maintenance runs.
//!
//! The polling runtime turns the list into candidates, the functions turn it into wakeups.

use crate::model::{BATCHES, Status, WorkDoc, schema_version, target_of};
use cosmos::Etag;
use duroxide::providers::{ExecutionMetadata, ScheduledActivityIdentifier, WorkItem};
use duroxide::{AppErrorKind, ErrorDetails, Event, EventKind};
use std::collections::HashSet;

/// What the runtime decided in one turn.
#[derive(Clone, Debug, Default)]
pub struct TurnDecision {
    /// The execution that the turn belongs to.
    pub execution: u64,
    /// Events to append to its history.
    pub events: Vec<Event>,
    /// Activities to schedule.
    pub work: Vec<WorkItem>,
    /// Messages to this instance and to others.
    pub messages: Vec<WorkItem>,
    /// Name, version, status and output, as far as the turn changes them.
    pub metadata: ExecutionMetadata,
    /// Activities to cancel.
    pub cancelled: Vec<ScheduledActivityIdentifier>,
    /// Why the orchestration is given up, if it is without duroxide's word: its messages become a dead letter.
    pub given_up: Option<String>,
}

/// Somebody who has something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// Who.
    pub target: Target,
    /// From when on (Unix ms); `None`: at once.
    pub at_ms: Option<u64>,
    /// The execution that a turn is expected to belong to, if it is known.
    pub execution: Option<u64>,
}

/// The next step of an instance: a turn, or one of its activities. Or that of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// The next turn of an instance.
    Turn {
        /// Its id.
        instance: String,
    },
    /// One activity.
    Work(WorkTarget),
    /// The next step of a batch, which changes many instances.
    Batch {
        /// Its id.
        id: String,
    },
}

/// One activity. Only instance, execution and activity name it; the rest saves its worker requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkTarget {
    /// The instance that scheduled it.
    pub instance: String,
    /// The execution that scheduled it.
    pub execution: u64,
    /// The id of its event.
    pub activity: u64,
    /// The activity's name.
    pub name: Option<String>,
    /// Its tag, which decides who may run it.
    pub tag: Option<String>,
    /// Its affinity session, which is claimed before it.
    pub session: Option<String>,
    /// The version in which its work item was written. A worker that knows it claims the item without reading it first.
    pub written: Option<WorkVersion>,
}

/// The version of a work item that nobody has claimed since it was written.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkVersion {
    /// Its ETag.
    pub etag: Etag,
    /// The schema version that its writer writes. A build that writes another one reads the item before it claims it.
    pub schema: u64,
}

impl WorkVersion {
    /// The version that this build has just written.
    pub(crate) fn of(etag: Etag) -> Self {
        let schema = schema_version();
        WorkVersion { etag, schema }
    }

    /// Whether this build may claim the item blindly: it writes the same schema version, and the ETag names one version
    /// of a document (`*` would be any).
    pub(crate) fn is_usable(&self) -> bool {
        let quoted = self
            .etag
            .as_str()
            .strip_prefix('"')
            .and_then(|tag| tag.strip_suffix('"'));
        let is_tag = |tag: &str| !tag.is_empty() && tag.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"');
        self.schema == schema_version() && quoted.is_some_and(is_tag)
    }
}

impl Target {
    /// The instance that it is about; of a batch, its partition.
    pub fn instance(&self) -> &str {
        match self {
            Target::Turn { instance } => instance,
            Target::Work(work) => &work.instance,
            Target::Batch { .. } => BATCHES,
        }
    }

    /// The activity's id, if it is one.
    pub fn activity(&self) -> Option<u64> {
        match self {
            Target::Turn { .. } | Target::Batch { .. } => None,
            Target::Work(work) => Some(work.activity),
        }
    }

    /// The activity's name, if it is one and the name is known.
    pub fn activity_name(&self) -> Option<&str> {
        match self {
            Target::Turn { .. } | Target::Batch { .. } => None,
            Target::Work(work) => work.name.as_deref(),
        }
    }

    /// The same without the version of a work item: somebody may have written it since.
    pub fn without_version(&self) -> Target {
        let mut target = self.clone();
        if let Target::Work(work) = &mut target {
            work.written = None;
        }
        target
    }
}

impl WorkTarget {
    /// The activity as duroxide names it.
    pub fn identifier(&self) -> ScheduledActivityIdentifier {
        ScheduledActivityIdentifier {
            instance: self.instance.clone(),
            execution_id: self.execution,
            activity_id: self.activity,
        }
    }
}

impl TurnDecision {
    /// Who has something to do once the decision is committed.
    pub fn due(&self) -> Vec<Due> {
        let cancelled: HashSet<String> = self.cancelled.iter().map(WorkDoc::id_of).collect();
        let messages = self.messages.iter().filter(|item| !self.is_void(item));
        let messages = messages.filter_map(|item| {
            let due = Due::message(item)?;
            // The next execution begins with a turn that still sees this one.
            let execution = match item {
                WorkItem::ContinueAsNew { .. } => Some(self.execution),
                _ => due.execution,
            };
            Some(Due { execution, ..due })
        });
        let work = self.work.iter().filter_map(Due::activity);
        let wanted = |due: &Due| match &due.target {
            Target::Turn { .. } | Target::Batch { .. } => true,
            Target::Work(work) => !cancelled.contains(&WorkDoc::id_of(&work.identifier())),
        };
        messages.chain(work).filter(wanted).collect()
    }

    /// Whether the execution ends with this turn.
    fn ends(&self) -> bool {
        let status = self.metadata.status.clone().map(Status::from);
        status.is_some_and(|status| status.is_terminal())
    }

    /// Whether the orchestration ends because it was cancelled: for duroxide it has failed.
    pub fn is_cancelled(&self) -> bool {
        is_cancellation(&self.events)
    }

    /// Whether nobody will wait for this message: it is a timer of the execution that ends with this turn.
    pub(crate) fn is_void(&self, item: &WorkItem) -> bool {
        self.ends() && matches!(item, WorkItem::TimerFired { execution_id, .. } if *execution_id == self.execution)
    }
}

/// Whether an orchestration ends with these events because it was cancelled.
pub(crate) fn is_cancellation(events: &[Event]) -> bool {
    events.iter().any(|event| {
        matches!(
            &event.kind,
            EventKind::OrchestrationFailed {
                details: ErrorDetails::Application {
                    kind: AppErrorKind::Cancelled { .. },
                    ..
                }
            }
        )
    })
}

impl Due {
    /// The next turn of an instance is due now.
    pub fn turn(instance: &str) -> Due {
        Due {
            target: Target::Turn {
                instance: instance.to_owned(),
            },
            at_ms: None,
            execution: None,
        }
    }

    /// The next step of a batch is due then.
    pub fn batch(id: &str, at_ms: Option<u64>) -> Due {
        Due {
            target: Target::Batch { id: id.to_owned() },
            at_ms,
            execution: None,
        }
    }

    /// Who has something to do when a turn or an activity makes this message: a timer is due when it fires. `None` for an
    /// activity, which is no message.
    pub fn message(item: &WorkItem) -> Option<Due> {
        let at_ms = match item {
            WorkItem::TimerFired { fire_at_ms, .. } => Some(*fire_at_ms),
            _ => None,
        };
        Due::enqueued(item, at_ms)
    }

    /// Who has something to do when this message is enqueued from outside a turn, visible from `visible_ms` on (`None`: at
    /// once, even a timer). `None` for an activity, which is no message.
    pub fn enqueued(item: &WorkItem, visible_ms: Option<u64>) -> Option<Due> {
        Some(Due {
            target: Target::Turn {
                instance: target_of(item)?.to_owned(),
            },
            at_ms: visible_ms,
            execution: execution_of(item),
        })
    }

    /// Who has something to do when this activity is queued; `None` for a message.
    pub fn activity(item: &WorkItem) -> Option<Due> {
        let WorkItem::ActivityExecute {
            instance,
            execution_id,
            id,
            name,
            session_id,
            tag,
            ..
        } = item
        else {
            return None;
        };
        Some(Due {
            target: Target::Work(WorkTarget {
                instance: instance.clone(),
                execution: *execution_id,
                activity: *id,
                name: Some(name.clone()),
                tag: tag.clone(),
                session: session_id.clone(),
                written: None,
            }),
            at_ms: None,
            execution: None,
        })
    }
}

/// The execution that waits for this message, if the message names it.
fn execution_of(item: &WorkItem) -> Option<u64> {
    match item {
        WorkItem::ActivityCompleted { execution_id, .. }
        | WorkItem::ActivityFailed { execution_id, .. }
        | WorkItem::TimerFired { execution_id, .. } => Some(*execution_id),
        WorkItem::SubOrchCompleted {
            parent_execution_id, ..
        }
        | WorkItem::SubOrchFailed {
            parent_execution_id, ..
        } => Some(*parent_execution_id),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_000_000;

    fn activity(id: u64) -> WorkItem {
        WorkItem::ActivityExecute {
            instance: "i".to_owned(),
            execution_id: 3,
            id,
            name: "A".to_owned(),
            input: String::new(),
            session_id: None,
            tag: Some("gpu".to_owned()),
        }
    }

    fn timer(fire_at_ms: u64) -> WorkItem {
        WorkItem::TimerFired {
            instance: "i".to_owned(),
            execution_id: 1,
            id: 2,
            fire_at_ms,
        }
    }

    #[test]
    fn each_message_makes_its_receiver_due() {
        let details = duroxide::ErrorDetails::Application {
            kind: duroxide::AppErrorKind::ActivityFailed,
            message: String::new(),
            retryable: false,
        };
        let to = |name: &str| name.to_owned();
        let start = WorkItem::StartOrchestration {
            instance: to("child"),
            orchestration: to("O"),
            input: String::new(),
            version: None,
            parent_instance: Some(to("parent")),
            parent_id: Some(1),
            parent_execution_id: Some(1),
            execution_id: 1,
        };
        let again = WorkItem::ContinueAsNew {
            instance: to("again"),
            orchestration: to("O"),
            input: String::new(),
            version: None,
            parent_instance: Some(to("parent")),
            parent_id: None,
            parent_execution_id: None,
            carry_forward_events: Vec::new(),
            initial_custom_status: None,
        };
        let completed = WorkItem::SubOrchCompleted {
            parent_instance: to("parent"),
            parent_execution_id: 1,
            parent_id: 1,
            result: String::new(),
        };
        let failed = WorkItem::SubOrchFailed {
            parent_instance: to("failed parent"),
            parent_execution_id: 1,
            parent_id: 1,
            details,
        };
        let cancel = WorkItem::CancelInstance {
            instance: to("cancelled"),
            reason: String::new(),
        };
        let queued = WorkItem::QueueMessage {
            instance: to("mailbox"),
            name: String::new(),
            data: String::new(),
        };
        let raised = WorkItem::ExternalRaised {
            instance: to("event"),
            name: String::new(),
            data: String::new(),
        };
        let decision = TurnDecision {
            messages: vec![start, again, completed, failed, cancel, queued, raised],
            ..TurnDecision::default()
        };
        let due = decision.due();
        let names: Vec<&str> = due.iter().map(|due| due.target.instance()).collect();
        assert_eq!(
            names,
            [
                "child",
                "again",
                "parent",
                "failed parent",
                "cancelled",
                "mailbox",
                "event"
            ]
        );
        assert!(due.iter().all(|due| due.at_ms.is_none()), "all of it at once");
    }

    #[test]
    fn a_timer_of_a_turn_is_due_when_it_fires_and_an_enqueued_one_when_its_caller_says() {
        let at = |due: Option<Due>| due.and_then(|due| due.at_ms);
        assert_eq!(at(Due::message(&timer(NOW))), Some(NOW));
        assert_eq!(at(Due::enqueued(&timer(NOW), None)), None);
        assert_eq!(at(Due::enqueued(&timer(NOW), Some(NOW + 5))), Some(NOW + 5));
    }

    #[test]
    fn an_activity_is_due_with_what_its_worker_needs_to_claim_it() {
        let decision = TurnDecision {
            work: vec![activity(7)],
            ..TurnDecision::default()
        };
        let expected = Due {
            target: Target::Work(WorkTarget {
                instance: "i".to_owned(),
                execution: 3,
                activity: 7,
                name: Some("A".to_owned()),
                tag: Some("gpu".to_owned()),
                ..WorkTarget::default()
            }),
            at_ms: None,
            execution: None,
        };
        assert_eq!(decision.due(), [expected]);
    }

    #[test]
    fn an_activity_that_the_same_turn_cancels_is_not_due() {
        let decision = TurnDecision {
            work: vec![activity(7), activity(8)],
            cancelled: vec![ScheduledActivityIdentifier {
                instance: "i".to_owned(),
                execution_id: 3,
                activity_id: 7,
            }],
            ..TurnDecision::default()
        };
        let due = decision.due();
        let activities: Vec<_> = due.iter().map(|due| due.target.activity()).collect();
        assert_eq!(activities, [Some(8)]);
    }

    #[test]
    fn only_the_etag_of_one_version_and_of_this_schema_is_usable() {
        let usable = |etag: &str, schema: u64| {
            let etag = Etag::new(etag);
            WorkVersion { etag, schema }.is_usable()
        };
        let schema = schema_version();
        assert!(usable("\"0000d826-0000-0700-0000-5f2e1ee90000\"", schema));
        for etag in [
            "",
            "*",
            "\"\"",
            "\"",
            "W/\"1\"",
            "1",
            "\"1\", \"2\"",
            "\"a b\"",
            "\"\u{e9}\"",
            "\"\n\"",
        ] {
            assert!(!usable(etag, schema), "{etag}");
        }
        assert!(!usable("\"1\"", schema + 1) && !usable("\"1\"", schema - 1));
    }
}
