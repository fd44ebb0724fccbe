//! Kept results: id `kept:{commit}:{n}`, the result of an activity whose scheduling a rewind has undone.
//!
//! The code that runs again schedules the activity again, with the same name and input. Its turn then queues this result in place of a
//! work item, and removes the document, in the same commit: the activity does not run a second time. Several results of the same
//! call are used in their old order. The instance document counts them, so that other instances look for none; while it counts any,
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
    /// A digest of the activity's name and input.
    call: String,
    pub result: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<CompletedAttempts>,
    #[serde(flatten)]
    schema: Schema,
}

/// Of what, and when it was obtained.
#[derive(Debug)]
pub(crate) struct KeptCall<'a> {
    pub execution: u64,
    pub name: &'a str,
    pub input: &'a str,
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
            call: call_of(call.name, call.input),
            result: result.to_owned(),
            attempts: None,
            schema: Schema::default(),
        }
    }

    /// Whether it is a result of this activity.
    pub(crate) fn is_of(&self, name: &str, input: &str) -> bool {
        self.call == call_of(name, input)
    }
}

fn call_of(name: &str, input: &str) -> String {
    digest(&format!("{}:{name}{input}", name.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_belongs_to_its_name_and_input() {
        let call = KeptCall {
            execution: 1,
            name: "ab",
            input: "c",
            order: [7, 1],
        };
        let kept = KeptResultDoc::new("i", "x:0", &call, "r");
        assert!(kept.is_of("ab", "c"));
        assert!(!kept.is_of("a", "bc") && !kept.is_of("ab", "d"));
    }
}
