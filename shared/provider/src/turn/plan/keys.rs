//! The changes of a turn to the keys of its instance, and to the tags that come from them. Pure.

use super::Planner;
use crate::error::Failure;
use crate::model::{ExecutionState, InstanceDoc, KvDoc, Scope, StagedOp};
use crate::store::check_size;
use crate::turn::claimed::ClaimedTurn;
use duroxide::{Event, EventKind};
use std::collections::{BTreeMap, HashSet};

impl Planner<'_> {
    /// Applies the turn's changes to keys.
    pub(super) fn keys(
        &mut self,
        instance: &mut InstanceDoc,
        state: &ExecutionState,
        events: &[Event],
    ) -> Result<(), Failure> {
        // Whether the execution ends with this turn does not matter: what it writes is its own.
        let over = ClaimedTurn::scope(self.turn.instance());
        let terminal = over.execution == state.execution && over.terminal;
        let scope = Scope {
            execution: state.execution,
            terminal,
        };
        let mut known: BTreeMap<&str, KvDoc> = self.turn.kv.iter().map(|doc| (doc.key.as_str(), doc.clone())).collect();
        let mut changed: HashSet<&str> = HashSet::new();
        for event in events {
            match &event.kind {
                EventKind::KeyValueSet {
                    key,
                    value,
                    last_updated_at_ms,
                } => {
                    let doc = known
                        .entry(key)
                        .or_insert_with(|| KvDoc::new(self.turn.pk.as_str(), key));
                    doc.write(scope, Some((value, *last_updated_at_ms)));
                    changed.insert(key);
                }
                EventKind::KeyValueCleared { key } => {
                    let doc = known
                        .entry(key)
                        .or_insert_with(|| KvDoc::new(self.turn.pk.as_str(), key));
                    doc.write(scope, None);
                    changed.insert(key);
                }
                EventKind::KeyValuesCleared => {
                    for (key, doc) in &mut known {
                        doc.write(scope, None);
                        changed.insert(key);
                    }
                }
                _ => {}
            }
        }
        if changed.is_empty() {
            return Ok(());
        }
        let keys = self.turn.kv.iter().filter(|doc| doc.newest().is_some());
        instance.tags = instance
            .tags
            .after(&instance.pk, events, keys.map(|doc| doc.key.as_str()));
        instance.kv_rev += 1;
        for (key, mut doc) in known {
            if !changed.contains(key) && doc.is_gone(scope) {
                self.state.push(StagedOp::discard(&doc.id));
            }
            if changed.contains(key) {
                doc.rev = instance.kv_rev;
                check_size(&format!("key '{key}'"), &doc.pk, &doc)?;
                self.state.push(StagedOp::upsert(&doc.id, &doc)?);
            }
        }
        Ok(())
    }
}
