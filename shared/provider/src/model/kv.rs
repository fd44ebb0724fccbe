//! Keys: id `kv:{hash of the key}`, one document per key of an instance.
//!
//! duroxide shows a turn the keys as they were before its execution, and a client the newest values. So a document has
//! `base` (from earlier executions) and `delta` (from the execution that it names). When that execution has ended, its
//! delta counts as base: nothing is written when an execution ends. A cleared key stays as a delta without a value, so
//! that the newest `rev` can always be found and a stale read noticed, until its execution has ended and a later change
//! has a newer `rev`.

use super::{Kind, Schema, digest};
use duroxide::providers::KvEntry;
use serde::{Deserialize, Serialize};

/// A value and when it was set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KvValue {
    pub value: String,
    pub at: u64,
}

/// What one execution did to the key: set it, or cleared it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KvDelta {
    pub execution: u64,
    pub value: Option<KvValue>,
}

/// See the module.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KvDoc {
    pub id: String,
    pub pk: String,
    #[serde(rename = "type")]
    kind: Kind,
    sort_key: String,
    pub key: String,
    pub rev: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base: Option<KvValue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    delta: Option<KvDelta>,
    #[serde(flatten)]
    schema: Schema,
}

/// Which values are visible: a running execution sees those from before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope {
    pub execution: u64,
    pub terminal: bool,
}

impl KvDoc {
    /// A key without a value.
    pub(crate) fn new(pk: &str, key: &str) -> Self {
        KvDoc {
            id: Self::id(key),
            pk: pk.to_owned(),
            kind: Kind::Kv,
            // Before the history, in the order of a turn's query.
            sort_key: "0".to_owned(),
            key: key.to_owned(),
            rev: 0,
            base: None,
            delta: None,
            schema: Schema::default(),
        }
    }

    pub(crate) fn id(key: &str) -> String {
        format!("kv:{}", digest(key))
    }

    /// The newest value, as a client sees it.
    pub(crate) fn newest(&self) -> Option<&str> {
        match &self.delta {
            Some(delta) => delta.value.as_ref().map(|set| set.value.as_str()),
            None => self.base.as_ref().map(|set| set.value.as_str()),
        }
    }

    /// The value that a turn starts from.
    pub(crate) fn snapshot(&self, scope: Scope) -> Option<KvEntry> {
        let seen = match &self.delta {
            Some(delta) if scope.is_over(delta) => delta.value.as_ref(),
            _ => self.base.as_ref(),
        };
        seen.map(|set| KvEntry {
            value: set.value.clone(),
            last_updated_at_ms: set.at,
        })
    }

    /// Whether this execution has changed the key.
    pub(crate) fn is_changed_by(&self, execution: u64) -> bool {
        self.delta.as_ref().is_some_and(|delta| delta.execution == execution)
    }

    /// Has this value from before the current execution.
    pub(crate) fn begin_with(&mut self, value: &str, at: u64) {
        let value = value.to_owned();
        self.base = Some(KvValue { value, at });
    }

    /// Takes back what its newest execution did to the key: the value is that from before it.
    pub(crate) fn undo(&mut self) {
        self.delta = None;
    }

    /// Whether the key was cleared by an execution that has ended.
    pub(crate) fn is_gone(&self, scope: Scope) -> bool {
        self.delta
            .as_ref()
            .is_some_and(|delta| delta.value.is_none() && scope.is_over(delta))
    }

    /// Sets or clears the key in the scope's execution.
    pub(crate) fn write(&mut self, scope: Scope, value: Option<(&str, u64)>) {
        if let Some(delta) = self.delta.take_if(|delta| scope.is_over(delta)) {
            self.base = delta.value;
        }
        let value = value.map(|(value, at)| KvValue {
            value: value.to_owned(),
            at,
        });
        self.delta = Some(KvDelta {
            execution: scope.execution,
            value,
        });
    }
}

impl Scope {
    fn is_over(self, delta: &KvDelta) -> bool {
        delta.execution < self.execution || (self.terminal && delta.execution == self.execution)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Scope = Scope {
        execution: 1,
        terminal: false,
    };
    const FIRST_OVER: Scope = Scope {
        execution: 1,
        terminal: true,
    };
    const SECOND: Scope = Scope {
        execution: 2,
        terminal: false,
    };

    fn value(entry: Option<KvEntry>) -> Option<String> {
        entry.map(|entry| entry.value)
    }

    #[test]
    fn a_running_execution_does_not_see_its_own_writes_in_the_snapshot() {
        let mut doc = KvDoc::new("i", "k");
        doc.write(FIRST, Some(("a", 1)));
        assert_eq!(value(doc.snapshot(FIRST)), None);
        assert_eq!(doc.newest(), Some("a"));
    }

    #[test]
    fn the_next_execution_sees_what_the_last_one_left() {
        let mut doc = KvDoc::new("i", "k");
        doc.write(FIRST, Some(("a", 1)));
        assert_eq!(value(doc.snapshot(FIRST_OVER)).as_deref(), Some("a"));
        doc.write(SECOND, Some(("b", 2)));
        assert_eq!(value(doc.snapshot(SECOND)).as_deref(), Some("a"));
        assert_eq!(doc.newest(), Some("b"));
    }

    #[test]
    fn a_cleared_key_hides_the_older_value() {
        let mut doc = KvDoc::new("i", "k");
        doc.write(FIRST, Some(("a", 1)));
        doc.write(SECOND, None);
        assert_eq!(doc.newest(), None);
        assert_eq!(value(doc.snapshot(SECOND)).as_deref(), Some("a"));
        assert_eq!(
            value(doc.snapshot(Scope {
                execution: 2,
                terminal: true
            })),
            None
        );
    }

    #[test]
    fn strange_keys_make_plain_ids() {
        assert_ne!(KvDoc::id("a/b"), KvDoc::id("a\\b"));
        assert!(KvDoc::id("日本 \u{1F600}").is_ascii());
    }
}
