//! Kept results: id `kept:{commit}:{n}`, the result of an activity whose scheduling a rewind has undone, or an event whose
//! subscription it has undone.
//!
//! The code that runs again schedules the activity again, with the same name and input. Its turn then queues this result in place of a
//! work item, and removes the document, in the same commit: the activity does not run a second time. Several results of the same
//! call are used in their old order. An event is queued by the turn that subscribes again. The instance document counts them, so that other instances look for none; while it counts any,
//! a release that does not know them cannot use the instance (`Schema::guard`).

use super::{CompletedAttempts, Kind, Schema, digest};
use serde::{Deserialize, Serialize};

/// See the module.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeptResultDoc {
    pub id: String,
    pub pk: String,
    #[serde(rename = "type")]
    kind: Kind,
    pub execution: u64,
    /// The place among the results of the same call: when it was obtained, and where in the history.
    pub order: [u64; 2],
    /// A digest of the activity's name and input, or of the event's name.
    call: String,
    pub result: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<CompletedAttempts>,
    #[serde(flatten)]
    schema: Schema,
}

/// What has a kept result.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kept<'a> {
    Activity { name: &'a str, input: &'a str },
    Event { name: &'a str },
}

impl Kept<'_> {
    fn digest(self) -> String {
        match self {
            Kept::Activity { name, input } => digest(&format!("{}:{name}{input}", name.len())),
            Kept::Event { name } => digest(&format!("event:{name}")),
        }
    }
}

/// Of what, and when it was obtained.
#[derive(Debug)]
pub(crate) struct KeptCall<'a> {
    pub execution: u64,
    pub of: Kept<'a>,
    /// When it was obtained, and where in the history.
    pub order: [u64; 2],
}

impl KeptResultDoc {
    pub(crate) fn new(pk: &str, id: &str, call: &KeptCall<'_>, result: &str) -> Self {
        KeptResultDoc {
            id: format!("kept:{id}"),
            pk: pk.to_owned(),
            kind: Kind::KeptResult,
            execution: call.execution,
            order: call.order,
            call: call.of.digest(),
            result: result.to_owned(),
            attempts: None,
            schema: Schema::default(),
        }
    }

    /// Whether it belongs to this.
    pub(crate) fn is_of(&self, of: Kept<'_>) -> bool {
        self.call == of.digest()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_belongs_to_its_name_and_input() {
        let of = |name, input| Kept::Activity { name, input };
        let call = KeptCall {
            execution: 1,
            of: of("ab", "c"),
            order: [7, 1],
        };
        let kept = KeptResultDoc::new("i", "x:0", &call, "r");
        assert!(kept.is_of(of("ab", "c")));
        assert!(!kept.is_of(of("a", "bc")) && !kept.is_of(of("ab", "d")));
        assert!(!kept.is_of(Kept::Event { name: "ab" }));
    }
}
