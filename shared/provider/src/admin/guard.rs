//! Which instances a deletion may delete: decided from the instance document alone, before it is marked and again after.

use crate::error::Failure;
use crate::model::InstanceDoc;

/// Which instances a deletion may delete.
#[derive(Clone, Copy, Debug)]
pub(super) enum Guard {
    /// Any (forced).
    Any,
    /// Instances that have ended, or do not exist.
    Over,
    /// Instances that have ended; the root must exist and have ended before then. This refuses an instance that was
    /// deleted and started again under the same id since it was found.
    Expired { before: u64 },
    /// Instances that have ended, or do not exist, below the root of such a tree. This refuses one that was deleted and
    /// started again as a root.
    Child,
}

impl Guard {
    /// Refuses an instance that must not be deleted.
    pub(super) fn check(self, id: &str, is_root: bool, instance: Option<&InstanceDoc>) -> Result<(), Failure> {
        let state = instance.map(|instance| &instance.current);
        match (self, state) {
            (Guard::Any, _) | (Guard::Over | Guard::Child, None) => Ok(()),
            (Guard::Expired { .. }, None) => Err(Failure::NoInstance(id.to_owned())),
            (_, Some(state)) if !state.status.is_over() => Err(Failure::Refused(format!(
                "instance '{id}' is {}: cancel it and let it end, or delete it with force",
                state.status
            ))),
            (Guard::Expired { before }, Some(state)) if is_root && state.completed_at.is_none_or(|at| at >= before) => {
                Err(Failure::NoInstance(id.to_owned()))
            }
            (Guard::Child, Some(_)) if instance.is_some_and(|instance| instance.parent.is_none()) => {
                Err(Failure::NoInstance(id.to_owned()))
            }
            (Guard::Over | Guard::Expired { .. } | Guard::Child, Some(_)) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Status;

    const EXPIRED: Guard = Guard::Expired { before: 100 };

    fn ended(status: Status, at: u64) -> InstanceDoc {
        let mut instance = InstanceDoc::absent("i", 0);
        instance.current.status = status;
        instance.current.completed_at = Some(at);
        instance
    }

    #[test]
    fn only_force_deletes_what_has_not_ended() {
        for status in [Status::Running, Status::ContinuedAsNew] {
            let instance = ended(status.clone(), 1);
            assert!(Guard::Any.check("i", true, Some(&instance)).is_ok());
            for guard in [Guard::Over, EXPIRED, Guard::Child] {
                let refused = guard.check("i", false, Some(&instance));
                assert!(matches!(refused, Err(Failure::Refused(_))), "{guard:?} {status}");
            }
        }
    }

    #[test]
    fn a_part_of_a_tree_has_only_children() {
        assert!(Guard::Child.check("i", true, None).is_ok());
        let mut instance = ended(Status::Completed, 100);
        assert!(matches!(
            Guard::Child.check("i", true, Some(&instance)),
            Err(Failure::NoInstance(_))
        ));
        instance.parent = Some("p".to_owned());
        assert!(Guard::Child.check("i", true, Some(&instance)).is_ok());
    }

    #[test]
    fn an_expired_tree_must_exist_and_its_root_be_old_enough() {
        assert!(Guard::Over.check("i", true, None).is_ok());
        assert!(matches!(EXPIRED.check("i", false, None), Err(Failure::NoInstance(_))));
        assert!(EXPIRED.check("i", true, Some(&ended(Status::Failed, 99))).is_ok());
        let young = ended(Status::Completed, 100);
        assert!(matches!(
            EXPIRED.check("i", true, Some(&young)),
            Err(Failure::NoInstance(_))
        ));
        assert!(
            EXPIRED.check("i", false, Some(&young)).is_ok(),
            "a child may end after its parent"
        );
    }
}
