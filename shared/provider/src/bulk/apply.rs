//! Applies the action of a batch to one instance, once: see the table in `bulk`.

use super::action::{BatchAction, Effect, NOT_ENDED, NOT_FAILED, is_child};
use crate::admin::{
    self, InstanceStatus, PauseOutcome, PauseResult, PauseVerb, RestartRequest, Restarted, RewindOutcome,
    RewindRequest, RewindResult, tree_of,
};
use crate::due::Due;
use crate::enqueue::{self, EventTarget, Raised, Sent};
use crate::error::Failure;
use crate::model::{KeyedRequest, Planned, digest};
use crate::store::Store;
use cosmos::PartitionKey;
use futures::future::BoxFuture;

/// What became of an instance, and whom to wake.
#[derive(Debug)]
pub(super) struct Applied {
    pub effect: Effect,
    pub due: Vec<Due>,
}

impl Applied {
    fn of(effect: Effect) -> Applied {
        Applied {
            effect,
            due: Vec::new(),
        }
    }
}

/// A batch, as its actions need it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Applier<'a> {
    pub store: &'a Store,
    /// The batch's id.
    pub batch: &'a str,
    pub action: &'a BatchAction,
}

/// The prefix of the ids of new instances.
pub(super) fn new_prefix(batch: &str) -> String {
    format!("restart-{batch}-")
}

/// The id of the new instance that repeats this one.
fn new_id(batch: &str, instance: &str) -> String {
    format!("{}{}", new_prefix(batch), &digest(instance)[..32])
}

impl Applier<'_> {
    /// Applies the action. What the store does not answer is to be tried again.
    pub(super) async fn apply(&self, planned: &Planned) -> Applied {
        // Boxed, with its type erased: some are done at once, and each has the futures of all actions.
        let one: BoxFuture<'_, Result<Applied, Failure>> = Box::pin(self.one(planned));
        match one.await {
            Ok(applied) => applied,
            Err(Failure::NoInstance(_)) => Applied::of(Effect::Gone),
            Err(failure) if failure.is_transient() => Applied::of(Effect::Retry(failure.to_string())),
            Err(failure) => Applied::of(Effect::Failed(failure.to_string())),
        }
    }

    async fn one(&self, planned: &Planned) -> Result<Applied, Failure> {
        let (store, instance) = (self.store, planned.instance.as_str());
        let key = format!("batch:{}", self.batch);
        match self.action {
            BatchAction::Cancel { reason } => self.send(instance, Sent::Cancel(reason), &key).await,
            BatchAction::Raise { event, data } => {
                self.send(instance, Sent::Event(EventTarget::Event(event), data), &key)
                    .await
            }
            BatchAction::Pause { reason, children } => {
                let verb = PauseVerb::Pause {
                    reason: reason.as_deref(),
                    call: Some(&key),
                };
                let paused = admin::change_pause(store, instance, verb, *children).await?;
                Ok(changed(paused, false))
            }
            BatchAction::Resume { children } => {
                let resumed = admin::change_pause(store, instance, PauseVerb::Resume, *children).await?;
                let was_paused = planned.status == InstanceStatus::Paused.name();
                Ok(changed(resumed, was_paused))
            }
            BatchAction::Delete { force } => self.delete(instance, *force).await,
            BatchAction::Rewind {
                reason,
                alone,
                discard_results,
            } => {
                let call = format!("batch-{}", self.batch);
                let request = RewindRequest {
                    instance,
                    reason: reason.as_deref(),
                    alone: *alone,
                    discard_results: *discard_results,
                    call: Some(&call),
                    ..RewindRequest::default()
                };
                Ok(rewound(admin::rewind(store, &request).await?))
            }
            BatchAction::Restart {
                in_place,
                alone,
                version,
            } => {
                let request = RestartRequest {
                    instance,
                    version: version.as_deref(),
                    key: Some(&key),
                };
                let (restarted, due) = match in_place {
                    true => admin::restart_in_place(store, &request, *alone).await?,
                    false => {
                        let new = new_id(self.batch, instance);
                        let restarted = admin::restart_as_new(store, &request, &new).await?;
                        (restarted, vec![Due::turn(&new)])
                    }
                };
                Ok(self::restarted(restarted, due))
            }
        }
    }

    async fn send(&self, instance: &str, sent: Sent<'_>, key: &str) -> Result<Applied, Failure> {
        let raised = enqueue::send(self.store, instance, sent, Some((KeyedRequest::Batch, key))).await?;
        let effect = match raised {
            Raised::Accepted | Raised::Repeated => Effect::Changed,
            Raised::Ended => Effect::Unchanged,
            Raised::NotFound => Effect::Gone,
            Raised::KeyReused => Effect::Failed("another request had the key of this batch".to_owned()),
        };
        let due = match effect {
            Effect::Changed => vec![Due::turn(instance)],
            _ => Vec::new(),
        };
        Ok(Applied { effect, due })
    }

    /// Deletes a root with its tree, as the verb of one instance does; a child goes with its root, and is left here. What is gone was deleted by this batch, or by others meanwhile.
    async fn delete(&self, instance: &str, force: bool) -> Result<Applied, Failure> {
        let store = self.store;
        let Ok(pk) = PartitionKey::new(instance) else {
            return Ok(Applied::of(Effect::Gone));
        };
        let Some(fence) = store.fence(&pk).await?.filter(|fence| fence.doc.is_taken()) else {
            return Ok(Applied::of(Effect::Changed));
        };
        if fence.doc.parent.is_some() {
            return Ok(Applied::of(Effect::Unchanged));
        }
        if !force && !fence.doc.current.status.is_over() {
            return Ok(Applied::of(Effect::Failed(NOT_ENDED.to_owned())));
        }
        let tree = match fence.doc.exists() {
            true => tree_of(store, instance).await?,
            // For duroxide a pending instance does not exist.
            false => vec![instance.to_owned()],
        };
        match admin::delete_group(store, &tree, force).await {
            Ok(_) => Ok(Applied::of(Effect::Changed)),
            // A root that was deleted since it was read.
            Err(Failure::NoInstance(gone)) if gone == instance => Ok(Applied::of(Effect::Changed)),
            Err(failure) => Err(failure),
        }
    }
}

/// `was_to_change`: it was in the other state when the page was planned, so an earlier attempt has changed it.
fn changed(result: PauseResult, was_to_change: bool) -> Applied {
    let effect = match result.outcome {
        PauseOutcome::Changed => Effect::Changed,
        PauseOutcome::Unchanged if was_to_change => Effect::Changed,
        PauseOutcome::Unchanged if result.changed > 0 => Effect::Changed,
        PauseOutcome::Unchanged | PauseOutcome::Ended => Effect::Unchanged,
        PauseOutcome::NotFound => Effect::Gone,
        PauseOutcome::Deleting => Effect::Failed("it is being deleted".to_owned()),
    };
    // Resuming what was not paused lists everything that waits: there is nothing new to wake.
    let due = match effect {
        Effect::Changed => result.due,
        _ => Vec::new(),
    };
    Applied { effect, due }
}

fn rewound(result: RewindResult) -> Applied {
    let effect = match result.outcome {
        RewindOutcome::Rewound | RewindOutcome::Repeated => Effect::Changed,
        RewindOutcome::NotFound => Effect::Gone,
        RewindOutcome::Planned | RewindOutcome::NotFailed => Effect::Failed(NOT_FAILED.to_owned()),
        RewindOutcome::Deleting => Effect::Failed("it is being deleted".to_owned()),
        RewindOutcome::HasParent(parent) => Effect::Failed(is_child(&parent)),
        RewindOutcome::StartedChildren(children) => Effect::Failed(format!(
            "children exist that it has started since: {}",
            children.join(", ")
        )),
        RewindOutcome::Impossible(why) => Effect::Failed(why),
    };
    Applied {
        effect,
        due: result.due,
    }
}

fn restarted(restarted: Restarted, due: Vec<Due>) -> Applied {
    let effect = match restarted {
        Restarted::Accepted { .. } | Restarted::Repeated => {
            return Applied {
                effect: Effect::Changed,
                due,
            };
        }
        Restarted::NotFound => Effect::Gone,
        Restarted::NotEnded => Effect::Failed(NOT_ENDED.to_owned()),
        Restarted::Deleting => Effect::Failed("it is being deleted".to_owned()),
        Restarted::IsChild { parent } => Effect::Failed(is_child(&parent)),
        Restarted::Taken => Effect::Failed("another instance has the id of the new one".to_owned()),
        Restarted::KeyReused => Effect::Failed("another request had the key of this batch".to_owned()),
    };
    Applied::of(effect)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_id_is_that_of_its_batch_and_instance() {
        assert_eq!(new_id("b", "i"), new_id("b", "i"));
        assert_ne!(new_id("b", "i"), new_id("c", "i"));
        assert_ne!(new_id("b", "i"), new_id("b", "j"));
        assert!(new_id("b", "i").starts_with(&new_prefix("b")));
    }

    #[test]
    fn a_repeated_step_counts_what_the_first_has_changed() {
        let result = |outcome| PauseResult {
            outcome,
            changed: 0,
            due: vec![Due::turn("i")],
        };
        for (outcome, was_to_change, effect, due) in [
            (PauseOutcome::Changed, false, Effect::Changed, 1),
            (PauseOutcome::Unchanged, true, Effect::Changed, 1),
            (PauseOutcome::Unchanged, false, Effect::Unchanged, 0),
            (PauseOutcome::Ended, true, Effect::Unchanged, 0),
            (PauseOutcome::NotFound, true, Effect::Gone, 0),
        ] {
            let applied = changed(result(outcome), was_to_change);
            assert_eq!((applied.effect, applied.due.len()), (effect, due), "{outcome:?}");
        }
    }
}
