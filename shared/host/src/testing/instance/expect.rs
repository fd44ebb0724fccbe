//! The outcome of an instance, and what a test expects of it.

use super::Instance;
use crate::testing::simulation::from_text;
use duroxide::ErrorDetails;
use serde::de::DeserializeOwned;

/// How it stands with an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It has completed with this output.
    Completed(String),
    /// It has failed, or was cancelled.
    Failed(ErrorDetails),
    /// This build cannot go on with it: an unknown name, nondeterminism, a panic of its code. The functions block it, too, until another
    /// build serves it.
    Blocked(String),
    /// It waits for these.
    Waiting(Vec<String>),
}

/// Outcome.
impl Instance {
    /// How it stands.
    pub fn outcome(&self) -> Outcome {
        self.seen().outcome.clone()
    }

    /// The output of an instance that has completed.
    ///
    /// # Panics
    /// When it has not, with its history, and with what it waits for.
    #[track_caller]
    pub fn expect_completed(&self) -> String {
        match self.outcome() {
            Outcome::Completed(output) => output,
            _ => self.disappoint("completed"),
        }
    }

    /// The same as JSON.
    ///
    /// # Panics
    /// When it has not completed, or with something else.
    #[track_caller]
    pub fn expect_completed_typed<T: DeserializeOwned>(&self) -> T {
        let output = self.expect_completed();
        match from_text(&output) {
            Ok(output) => output,
            Err(error) => panic!("the output {output:?} of `{}` does not fit: {error}", self.id),
        }
    }

    /// The error of an instance that has failed or was cancelled.
    ///
    /// # Panics
    /// When it has not.
    #[track_caller]
    pub fn expect_failed(&self) -> String {
        match self.outcome() {
            Outcome::Failed(details) => details.display_message(),
            _ => self.disappoint("failed"),
        }
    }

    /// Why an instance is blocked.
    ///
    /// # Panics
    /// When it is not.
    #[track_caller]
    pub fn expect_blocked(&self) -> String {
        match self.outcome() {
            Outcome::Blocked(reason) => reason,
            _ => self.disappoint("blocked"),
        }
    }

    /// What an instance waits for: `event approval`, `queue orders`, `activity charge`, `child ship (sub::2)`, `timer due in 3d`.
    /// A timer that has lost a race is listed until it is due: duroxide does not record that nobody waits for it.
    ///
    /// # Panics
    /// When it has ended, or is blocked. Also when the simulation has stopped before it could know: an activity does not end, or the
    /// simulation has run as many turns as it may.
    #[track_caller]
    pub fn expect_waiting(&self) -> Vec<String> {
        match self.outcome() {
            Outcome::Waiting(waits) if self.snapshot.stopped.is_none() => waits,
            _ => self.disappoint("waiting"),
        }
    }

    /// Replays every recorded execution on the code that has made it. Each turn is a replay anyway, so this adds the last turns, and
    /// differences that duroxide does not notice.
    ///
    /// # Panics
    /// When the code does something else this time, with the place.
    #[track_caller]
    pub fn expect_deterministic(&self) {
        for replayed in self.replay_on(&self.snapshot.orchestrations) {
            if let Some(fault) = replayed.fault {
                panic!(
                    "execution {} of `{}` is not deterministic (event {}): {}\n\n{}",
                    replayed.execution,
                    self.id,
                    fault.event.unwrap_or_default(),
                    fault.reason,
                    self.history()
                );
            }
        }
    }

    #[track_caller]
    fn disappoint<T>(&self, expected: &str) -> T {
        let found = match &self.seen().outcome {
            Outcome::Completed(output) => format!("has completed with {output:?}"),
            Outcome::Failed(details) => format!("has failed: {}", details.display_message()),
            Outcome::Blocked(reason) => format!("is blocked: {reason}"),
            Outcome::Waiting(waits) => match &self.snapshot.stopped {
                Some(reason) => format!("has not gone on: {reason}"),
                None => self.waiting(waits),
            },
        };
        let unused = self.snapshot.unused.iter();
        let unused: String = unused.map(|planned| format!("\nnot happened: {planned}")).collect();
        panic!(
            "`{}` is not {expected}: it {found}{unused}\n\n{}",
            self.id,
            self.history()
        )
    }

    fn waiting(&self, waits: &[String]) -> String {
        let waits = match waits {
            [] if self.seen().executions.is_empty() => "its first turn".to_owned(),
            [] => "something that duroxide has not recorded: a future that is not of its context?".to_owned(),
            waits => waits.join(", "),
        };
        let mut found = format!("waits for {waits}");
        // The cause may be a child, or one of its children.
        for child in self.children() {
            match child.outcome() {
                Outcome::Waiting(waits) => found.push_str(&format!("; `{}` {}", child.id, child.waiting(&waits))),
                Outcome::Blocked(reason) => found.push_str(&format!("; `{}` is blocked: {reason}", child.id)),
                Outcome::Completed(_) | Outcome::Failed(_) => {}
            }
        }
        found
    }
}
