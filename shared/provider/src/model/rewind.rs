//! What the instance document says of rewinds: a part of the history was undone, and the instance goes on from before it.
//!
//! | field | meaning | an older release |
//! |---|---|---|
//! | `rewinds` | the newest rewinds: what was undone stays readable | keeps it |
//! | `rewinding` | the children of a rewound instance are not settled yet; no turn begins before that | cannot decode the document (`Schema::guard`) |
//! | `detached` | the instance was rewound without its parent, which has its failure: its end is not reported again | cannot decode the document |
//! | `forkedFrom` | the instance was made of a part of the history of another one | keeps it |
//!
//! Undone history documents stay in the store: they are not in the chain of the execution's `head` any more, but in that of the
//! head that the entry names. Pruning and deletion remove them with their execution.

use serde::{Deserialize, Serialize};

/// How many rewinds the document lists.
const MOST_REWINDS: usize = 10;
/// How many bytes of the reason and of the error are kept: the document is in every batch.
const MOST_REASON: usize = 256;
const MOST_ERROR: usize = 256;

/// One rewind of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rewind {
    /// Its number, from 1 on.
    pub number: u64,
    /// When (Unix ms).
    pub at: u64,
    /// Why, if the operator said it, shortened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The execution that was rewound.
    pub execution: u64,
    /// The id of the first event that was undone.
    pub before: u64,
    /// How many events were undone.
    pub undone: u64,
    /// The error that the instance had failed with, shortened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// It had been cancelled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancelled: bool,
    /// The end of the history that was undone, and how many events it had.
    pub(crate) head: String,
    pub(crate) events: u64,
    /// The call that did it.
    pub(crate) call: String,
}

/// Where a forked instance comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForkedFrom {
    /// The instance.
    pub instance: String,
    /// Its execution.
    pub execution: u64,
    /// The last event that was taken over.
    pub event: u64,
    /// When (Unix ms).
    pub at: u64,
}

/// The newest rewinds, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Rewinds(Vec<Rewind>);

impl Rewinds {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn all(&self) -> &[Rewind] {
        &self.0
    }

    pub(crate) fn last(&self) -> Option<&Rewind> {
        self.0.last()
    }

    /// The number of the next one.
    pub(crate) fn next(&self) -> u64 {
        self.last().map_or(1, |last| last.number + 1)
    }

    /// Whether one of them was done by this call.
    pub(crate) fn has(&self, call: &str) -> bool {
        self.0.iter().any(|rewind| rewind.call == call)
    }

    pub(crate) fn push(&mut self, mut rewind: Rewind) {
        rewind.reason = rewind.reason.map(|reason| cut(reason, MOST_REASON));
        rewind.error = rewind.error.map(|error| cut(error, MOST_ERROR));
        self.0.push(rewind);
        let surplus = self.0.len().saturating_sub(MOST_REWINDS);
        self.0.drain(..surplus);
    }
}

fn cut(text: String, most: usize) -> String {
    match text.len() > most {
        true => format!("{}…", &text[..text.floor_char_boundary(most)]),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewind(number: u64) -> Rewind {
        Rewind {
            number,
            at: 5,
            reason: Some("語".repeat(MOST_REASON)),
            execution: 1,
            before: 3,
            undone: 2,
            error: Some("x".repeat(MOST_ERROR + 1)),
            cancelled: false,
            head: "h".to_owned(),
            events: 4,
            call: format!("call-{number}"),
        }
    }

    #[test]
    fn the_newest_rewinds_are_kept_and_their_texts_are_short() {
        let mut all = Rewinds::default();
        for _ in 0..MOST_REWINDS + 5 {
            let number = all.next();
            all.push(rewind(number));
        }
        assert_eq!((all.all().len(), all.next()), (MOST_REWINDS, MOST_REWINDS as u64 + 6));
        assert!(all.has("call-15") && !all.has("call-1"));
        let size = serde_json::to_string(&all).expect("JSON").len();
        assert!(size < 10 * 1024, "the document is in every batch: {size}");
    }
}
