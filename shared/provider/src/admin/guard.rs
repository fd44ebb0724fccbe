//! What a deletion may take: decided from the instance document alone, before the marks and again under them.

use crate::error::Failure;
use crate::model::{ExecutionState, InstanceDoc};

/// What a deletion may take.
#[derive(Clone, Copy, Debug)]
pub(super) enum Guard {
    /// Whatever is there.
    Any,
    /// What is over, or was never known.
    Over,
    /// What is over; the first must be known and have ended before then. An instance that was deleted and started again
    /// under its name since it was found is another.
    Expired { before: u64 },
}

impl Guard {
    /// Refuses an instance that must not be deleted.
    pub(super) fn check(self, id: &str, is_root: bool, instance: Option<&InstanceDoc>) -> Result<(), Failure> {
        let state = instance.map(|instance| &instance.current);
        let over = |state: &ExecutionState| matches!(state.status.as_str(), "Completed" | "Failed");
        match (self, state) {
            (Guard::Any, _) | (Guard::Over, None) => Ok(()),
            (Guard::Expired { .. }, None) => Err(Failure::NoInstance(id.to_owned())),
            (_, Some(state)) if !over(state) => Err(Failure::Refused(format!(
                "instance '{id}' is {}: cancel it and let it end, or delete it with force",
                state.status
            ))),
            (Guard::Expired { before }, Some(state)) if is_root && state.completed_at.is_none_or(|at| at >= before) => {
                Err(Failure::NoInstance(id.to_owned()))
            }
            (Guard::Over | Guard::Expired { .. }, Some(_)) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPIRED: Guard = Guard::Expired { before: 100 };

    fn ended(status: &str, at: u64) -> InstanceDoc {
        let mut instance = InstanceDoc::new("i", 1, 0);
        instance.current.status = status.to_owned();
        instance.current.completed_at = Some(at);
        instance
    }

    #[test]
    fn only_force_takes_what_is_not_over() {
        for status in ["Running", "ContinuedAsNew"] {
            let instance = ended(status, 1);
            assert!(Guard::Any.check("i", true, Some(&instance)).is_ok());
            for guard in [Guard::Over, EXPIRED] {
                let refused = guard.check("i", false, Some(&instance));
                assert!(matches!(refused, Err(Failure::Refused(_))), "{guard:?} {status}");
            }
        }
    }

    #[test]
    fn what_expired_must_be_there_and_its_root_old_enough() {
        assert!(Guard::Over.check("i", true, None).is_ok());
        assert!(matches!(EXPIRED.check("i", false, None), Err(Failure::NoInstance(_))));
        assert!(EXPIRED.check("i", true, Some(&ended("Failed", 99))).is_ok());
        let young = ended("Completed", 100);
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
