//! The instance document (id `instance`) and the documents of earlier executions (id `x:{execution}`).
//!
//! The instance document has the state of the current execution. When a newer execution begins, that state is copied
//! into an execution document, so that earlier executions keep their times, outputs and counts, and an ordinary turn
//! writes only the instance document.
//!
//! It is also the fence of its partition (`lock`), so it is there before the first turn: from the start on, or from the
//! first message or deletion that comes without one. The instance *exists* from its first commit on. Each batch that
//! changes anything carries the document, so it stays small: a longer output or custom status has a document of its own
//! (`text`), and the input is only in the history.

use super::paused::{self, PausePhase, Paused};
use super::{Blocked, ForkedFrom, InstanceUsage, Kind, Lock, Orchestration, Rewinds, Schema, Tags, TextDoc};
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;

/// The status of an execution, in duroxide's words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub(crate) enum Status {
    /// No turn has been committed.
    Pending,
    Running,
    Completed,
    Failed,
    ContinuedAsNew,
    /// Of a newer duroxide.
    Other(String),
}

impl Status {
    /// Whether the execution has ended.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_over() || *self == Status::ContinuedAsNew
    }

    /// Whether the instance has ended. One that continued as new has not: its next execution is about to begin.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self, Status::Completed | Status::Failed)
    }
}

impl From<String> for Status {
    fn from(text: String) -> Self {
        match text.as_str() {
            "Pending" => Status::Pending,
            "Running" => Status::Running,
            "Completed" => Status::Completed,
            "Failed" => Status::Failed,
            "ContinuedAsNew" => Status::ContinuedAsNew,
            _ => Status::Other(text),
        }
    }
}

impl From<Status> for String {
    fn from(status: Status) -> String {
        match status {
            Status::Other(text) => text,
            known => format!("{known:?}"),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from(self.clone()))
    }
}

/// What is known of one execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExecutionState {
    pub execution: u64,
    pub status: Status,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// The output is too long for this document, and in one of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub long_output: bool,
    pub started_at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<u64>,
    /// How many events the execution has: a shorter history was read from a stale replica.
    pub events: u64,
    pub event_bytes: u64,
    pub last_event_id: u64,
    /// The commit that wrote the newest history documents: the end of their chain.
    #[serde(default)]
    pub head: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<semver::Version>,
    /// Unconsumed events that the execution inherited from the one before.
    #[serde(default)]
    pub carried: u64,
    /// It has failed because it was cancelled. duroxide has no status of its own for that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancelled: bool,
    /// The timers whose messages wait, by the ids of their events: the last turn deletes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open_timers: Vec<u64>,
}

/// How many open timers an execution keeps track of, so that its document stays small. Messages of further ones outlast it.
const MOST_OPEN_TIMERS: usize = 500;

impl ExecutionState {
    /// A running execution without events.
    pub(crate) fn new(execution: u64, now_ms: u64) -> Self {
        ExecutionState {
            execution,
            status: Status::Running,
            output: None,
            long_output: false,
            started_at: now_ms,
            completed_at: None,
            events: 0,
            event_bytes: 0,
            last_event_id: 0,
            head: String::new(),
            pinned: None,
            carried: 0,
            cancelled: false,
            open_timers: Vec::new(),
        }
    }

    /// Notes a timer whose message is about to be written.
    pub(crate) fn open_timer(&mut self, timer: u64) {
        if self.open_timers.len() < MOST_OPEN_TIMERS && !self.open_timers.contains(&timer) {
            self.open_timers.push(timer);
        }
    }

    /// Sets the output. Returns the document that holds it, if it is long.
    pub(crate) fn set_output(&mut self, pk: &str, output: Option<&str>) -> Option<TextDoc> {
        let long = output.filter(|text| TextDoc::is_long(text));
        self.long_output = long.is_some();
        self.output = output.filter(|_| long.is_none()).map(str::to_owned);
        long.map(|text| TextDoc::output(pk, self.execution, text))
    }
}

/// The call in a parent that a child answers when it ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ParentCall {
    /// The execution of the parent; `None` when the start did not name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<u64>,
    /// The id of the event that scheduled the child.
    pub id: u64,
}

/// See the module.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InstanceDoc {
    id: String,
    pub pk: String,
    #[serde(rename = "type")]
    kind: Kind,
    sort_key: String,
    /// The orchestration that a start has asked for, before the first turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_name: Option<String>,
    /// `None` until a turn has set it: for duroxide an instance exists from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_call: Option<ParentCall>,
    /// When its start was accepted.
    pub created_at: u64,
    pub updated_at: u64,
    #[serde(flatten)]
    pub current: ExecutionState,
    /// Executions that are kept, the current one included, and the events of the earlier ones.
    pub executions: u64,
    #[serde(default)]
    pub earlier_events: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_status: Option<String>,
    /// The custom status is too long for this document, and in one of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub long_custom_status: bool,
    #[serde(default)]
    pub custom_status_version: u64,
    /// Counts the commits that changed a key; the newest key document has the same number.
    #[serde(default)]
    pub kv_rev: u64,
    /// Why the last turn could not be committed, until one is.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "listed")]
    pub blocked: Option<Blocked>,
    /// An operator has paused it. It is set by methods, because it changes the schema version.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "paused::listed")]
    paused: Option<Paused>,
    /// What was undone by operators: see `rewind`.
    #[serde(default, skip_serializing_if = "Rewinds::is_empty")]
    pub rewinds: Rewinds,
    /// The call of a rewind whose children are not settled yet. It is set by methods, because it changes the schema version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rewinding: Option<String>,
    /// Its parent is not told of its end. It is set by methods, because it changes the schema version.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    detached: bool,
    /// How many results a rewind has kept for activities that are scheduled again. It is set by methods, because it changes the
    /// schema version.
    #[serde(default, skip_serializing_if = "is_none")]
    kept_results: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkedFrom>,
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
    /// The instance whose input it repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarted_from: Option<String>,
    /// What it has used in all its executions, as far as it is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Box<InstanceUsage>>,
    #[serde(flatten)]
    pub lock: Lock,
    #[serde(flatten)]
    schema: Schema,
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

/// Adds `listed: true`, by which an index finds what is blocked in the order of acceptance. It is inside of `blocked` so that it goes
/// with it: a release that does not know it can neither keep it too long nor make it wrong.
fn listed<S: Serializer>(blocked: &Option<Blocked>, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Listed<'a> {
        #[serde(flatten)]
        blocked: &'a Blocked,
        listed: bool,
    }
    let listed = blocked.as_ref().map(|blocked| Listed { blocked, listed: true });
    listed.serialize(serializer)
}

impl InstanceDoc {
    pub(crate) const ID: &str = "instance";

    /// The orchestration that it runs, once a turn has said so.
    pub(crate) fn orchestration(&self) -> Option<Orchestration> {
        let (name, version) = (self.name.clone()?, self.version.clone()?);
        Some(Orchestration { name, version })
    }

    /// What fences a partition without an instance.
    pub(crate) fn absent(pk: &str, now_ms: u64) -> Self {
        InstanceDoc {
            id: Self::ID.to_owned(),
            pk: pk.to_owned(),
            kind: Kind::Instance,
            sort_key: "2".to_owned(),
            start_name: None,
            name: None,
            version: None,
            parent: None,
            parent_call: None,
            created_at: now_ms,
            updated_at: now_ms,
            current: ExecutionState {
                status: Status::Pending,
                ..ExecutionState::new(duroxide::INITIAL_EXECUTION_ID, now_ms)
            },
            executions: 1,
            earlier_events: 0,
            custom_status: None,
            long_custom_status: false,
            custom_status_version: 0,
            kv_rev: 0,
            blocked: None,
            paused: None,
            rewinds: Rewinds::default(),
            rewinding: None,
            detached: false,
            kept_results: 0,
            forked_from: None,
            tags: Tags::default(),
            restarted_from: None,
            usage: None,
            lock: Lock::default(),
            schema: Schema::default(),
        }
    }

    /// An instance whose start was accepted.
    pub(crate) fn pending(pk: &str, name: &str, now_ms: u64) -> Self {
        InstanceDoc {
            start_name: Some(name.to_owned()),
            ..Self::absent(pk, now_ms)
        }
    }

    /// The same with a start that was accepted now: this was only the fence.
    pub(crate) fn accepted(&self, name: &str, tags: &Tags, now_ms: u64) -> Self {
        InstanceDoc {
            start_name: Some(name.to_owned()),
            tags: tags.clone(),
            created_at: now_ms,
            updated_at: now_ms,
            ..self.clone()
        }
    }

    /// Whether an instance has this id, begun or not.
    pub(crate) fn is_taken(&self) -> bool {
        self.exists() || self.start_name.is_some() || self.name.is_some()
    }

    /// Whether a turn was committed.
    pub(crate) fn exists(&self) -> bool {
        !self.lock.commits.is_empty()
    }

    /// Whether the document says nothing: no instance, no start, and nobody who works on the partition.
    pub(crate) fn is_blank(&self) -> bool {
        !self.exists() && self.start_name.is_none() && self.lock.is_free()
    }

    /// The instance at the beginning of its first turn.
    pub(crate) fn begun(&self, execution: u64, now_ms: u64) -> Self {
        InstanceDoc {
            created_at: if self.start_name.is_some() {
                self.created_at
            } else {
                now_ms
            },
            start_name: None,
            current: ExecutionState::new(execution, now_ms),
            ..self.clone()
        }
    }

    /// The instance with its ended execution archived and the next one about to begin: without events, running. Keys and tags stay, as
    /// when it continues as new; what the ended execution said of itself goes.
    pub(crate) fn restarted(&self, now_ms: u64) -> (Self, ExecutionDoc) {
        let mut next = self.clone();
        next.executions += 1;
        next.earlier_events += self.current.events;
        let archived = ExecutionDoc::archived(self);
        next.current = ExecutionState::new(self.current.execution + 1, now_ms);
        if next.custom_status.is_some() || next.long_custom_status {
            next.set_custom_status(None);
            next.custom_status_version += 1;
        }
        next.parent_call = None;
        // What a rewind has noted was for the ended execution. Its start names no parent.
        next.set_kept_results(0);
        next.set_detached(false);
        next.updated_at = now_ms;
        (next, archived)
    }

    /// The same with another lock.
    pub(crate) fn with(&self, change: impl FnOnce(&mut Lock)) -> Self {
        let mut next = self.clone();
        change(&mut next.lock);
        next
    }

    /// The pause, whatever phase it is in.
    pub(crate) fn paused(&self) -> Option<&Paused> {
        self.paused.as_ref()
    }

    /// Pauses, changes the phase of a pause, or ends it. A phase that somebody must complete is due for recovery at `repair_due`.
    pub(crate) fn set_paused(&mut self, paused: Option<Paused>, repair_due: u64) {
        let is_unfinished = paused.as_ref().is_some_and(|paused| paused.phase != PausePhase::Parked);
        self.paused = paused;
        self.reguard();
        self.lock.mark_due(is_unfinished.then_some(repair_due));
    }

    /// The call of a rewind whose children are not settled yet.
    pub(crate) fn rewinding(&self) -> Option<&str> {
        self.rewinding.as_deref()
    }

    /// Begins or ends the part of a rewind that settles the children. It is due for recovery at `repair_due`.
    pub(crate) fn set_rewinding(&mut self, call: Option<String>, repair_due: u64) {
        self.lock.mark_due(call.as_ref().map(|_| repair_due));
        self.rewinding = call;
        self.reguard();
    }

    /// Whether its parent is not told of its end.
    pub(crate) fn is_detached(&self) -> bool {
        self.detached
    }

    pub(crate) fn set_detached(&mut self, detached: bool) {
        self.detached = detached;
        self.reguard();
    }

    /// How many results a rewind has kept.
    pub(crate) fn kept_results(&self) -> u64 {
        self.kept_results
    }

    pub(crate) fn set_kept_results(&mut self, count: u64) {
        self.kept_results = count;
        self.reguard();
    }

    /// No build may ignore a pause, an unfinished rewind, kept results, or that the parent must not be told.
    fn reguard(&mut self) {
        let is_rewound = self.rewinding.is_some() || self.detached || self.kept_results > 0;
        let is_guarded = self.paused.is_some() || is_rewound;
        self.schema.guard(is_guarded);
    }

    /// Sets the custom status. Returns the document that holds it, if it is long.
    pub(crate) fn set_custom_status(&mut self, status: Option<&str>) -> Option<TextDoc> {
        let long = status.filter(|text| TextDoc::is_long(text));
        self.long_custom_status = long.is_some();
        self.custom_status = status.filter(|_| long.is_none()).map(str::to_owned);
        long.map(|text| TextDoc::custom_status(&self.pk, text))
    }
}

/// An earlier execution.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExecutionDoc {
    id: String,
    pub pk: String,
    #[serde(rename = "type")]
    kind: Kind,
    #[serde(flatten)]
    pub state: ExecutionState,
    #[serde(flatten)]
    schema: Schema,
}

impl ExecutionDoc {
    pub(crate) fn new(pk: &str, state: ExecutionState) -> Self {
        ExecutionDoc {
            id: Self::id(state.execution),
            pk: pk.to_owned(),
            kind: Kind::Execution,
            state,
            schema: Schema::default(),
        }
    }

    /// The current execution of an instance, which ends. Fields that this build does not know may belong to the execution
    /// or to the instance, which is the same document until now: both keep them.
    pub(crate) fn archived(instance: &InstanceDoc) -> Self {
        let mut schema = instance.schema.clone();
        // What guards the instance is no guard of what it has done.
        schema.guard(false);
        ExecutionDoc {
            schema,
            ..Self::new(&instance.pk, instance.current.clone())
        }
    }

    /// The same execution in another state.
    pub(crate) fn with(self, state: ExecutionState) -> Self {
        ExecutionDoc { state, ..self }
    }

    /// The same without events: its history is about to be deleted.
    pub(crate) fn emptied(&self) -> Self {
        let mut empty = self.clone();
        empty.state.events = 0;
        empty.state.event_bytes = 0;
        empty.state.head = String::new();
        empty
    }

    pub(crate) fn id(execution: u64) -> String {
        format!("x:{execution}")
    }
}
