//! The events of a turn, as history documents. Pure.

use super::Planner;
use crate::error::Failure;
use crate::model::{CompletedAttempts, ExecutionState, HistoryDoc, HistoryPart, StagedOp};
use crate::store::MAX_DOCUMENT;
use duroxide::{Event, EventKind};
use serde_json::value::RawValue;

/// History documents are cut well below the limit, so that two of them still share a batch.
const HISTORY_PART: usize = 900 * 1024;

/// At most so many bytes of a history document are one attempt of an activity.
const ATTEMPT_BYTES: usize = 100;

/// A history document to be.
#[derive(Default)]
struct PendingPart {
    events: Vec<Box<RawValue>>,
    attempts: Vec<CompletedAttempts>,
}

impl Planner<'_> {
    /// Appends the events, cut into documents that fit.
    pub(super) fn history(&self, state: &mut ExecutionState, events: &[Event]) -> Result<Vec<StagedOp>, Failure> {
        let instance = || self.pk().to_owned();
        let prev = state.head.clone();
        let part = HistoryPart {
            pk: self.pk(),
            execution: state.execution,
            commit: self.context.commit,
            prev: &prev,
        };
        let mut ops = Vec::new();
        let mut pending = PendingPart::default();
        let (mut bytes, mut offset) = (0, state.events);
        for event in events {
            let id = event.event_id();
            if id == 0 {
                return Err(Failure::EventWithoutId { instance: instance() });
            }
            if id <= state.last_event_id {
                return Err(Failure::DuplicateEvent {
                    instance: instance(),
                    execution: state.execution,
                    event: id,
                });
            }
            state.last_event_id = id;
            let raw = serde_json::value::to_raw_value(event)?;
            let size = raw.get().len();
            if size > MAX_DOCUMENT - 1024 {
                let what = format!("event {id} ({})", kind_of(event));
                return Err(Failure::TooLarge {
                    what,
                    instance: instance(),
                    bytes: size,
                    limit: MAX_DOCUMENT,
                });
            }
            if bytes + size > HISTORY_PART && !pending.events.is_empty() {
                offset += self.cut(&part, offset, &mut pending, &mut ops)?;
                bytes = 0;
            }
            bytes += size;
            state.event_bytes += size as u64;
            if let Some(attempts) = self.attempts_for(state.execution, event) {
                bytes += ATTEMPT_BYTES * (1 + attempts.log.attempts().len());
                pending.attempts.push(attempts.clone());
            }
            pending.events.push(raw);
        }
        if !pending.events.is_empty() {
            offset += self.cut(&part, offset, &mut pending, &mut ops)?;
        }
        if offset > state.events {
            state.events = offset;
            state.head = self.context.commit.to_owned();
        }
        Ok(ops)
    }

    fn cut(
        &self,
        part: &HistoryPart<'_>,
        offset: u64,
        pending: &mut PendingPart,
        ops: &mut Vec<StagedOp>,
    ) -> Result<u64, Failure> {
        let PendingPart { events, attempts } = std::mem::take(pending);
        let doc = HistoryDoc::new(part, offset, events).with_attempts(attempts);
        ops.push(StagedOp::create(&doc.id, &doc)?);
        Ok(doc.events.len() as u64)
    }

    /// The attempts of the activity whose completion the event is.
    fn attempts_for(&self, execution: u64, event: &Event) -> Option<&CompletedAttempts> {
        if !matches!(
            event.kind,
            EventKind::ActivityCompleted { .. } | EventKind::ActivityFailed { .. }
        ) {
            return None;
        }
        let messages = self.turn.messages.iter();
        messages
            .filter_map(|message| message.attempts.as_ref())
            .find(|of| (of.execution, Some(of.activity)) == (execution, event.source_event_id))
    }
}

/// The variant's name, for error texts.
fn kind_of(event: &Event) -> String {
    let shown = format!("{:?}", event.kind);
    shown.chars().take_while(|c| c.is_alphanumeric()).collect()
}
