//! Lines of duroxide that are not written, because the gate writes what really happened.
//!
//! The gate stops an activity by failing a renewal of its lock. duroxide can only conclude that the lock was stolen and the
//! orchestration terminated, where in fact the time was over. It has no limit of attempts either, and counts down to one.
//!
//! It also writes "Orchestration failed" before the turn is committed: of one that was cancelled, that the gate blocks instead, or
//! whose commit another process wins. The invocation writes how a turn has ended ("an orchestration failed", "an orchestration was
//! cancelled", "this build cannot go on") once it has.

/// The beginnings of these lines, each with its target.
const SUPERSEDED: [(&str, &str); 4] = [
    (
        "duroxide::runtime::worker",
        "Lock renewal failed, signaling activity cancellation",
    ),
    (
        "duroxide::runtime",
        "Orchestration terminated, waiting for activity grace period",
    ),
    ("duroxide::runtime", "Activity not registered, abandoning"),
    ("duroxide::runtime", "Orchestration failed"),
];

/// Whether the gate writes a better line.
pub(super) fn is_superseded(target: &str, message: &str) -> bool {
    SUPERSEDED
        .iter()
        .any(|(of, beginning)| target == *of && message.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_these_lines_of_duroxide_are_superseded() {
        let stolen = "Lock renewal failed, signaling activity cancellation (lock was stolen or expired)";
        assert!(is_superseded("duroxide::runtime::worker", stolen));
        assert!(!is_superseded("duroxide_lambda::gate", stolen));
        let failed = "Orchestration failed (application error)";
        assert!(is_superseded("duroxide::runtime", failed));
        assert!(!is_superseded("duroxide_lambda::invocation", failed));
        assert!(!is_superseded(
            "duroxide::runtime",
            "Activity failed (application error)"
        ));
    }
}
