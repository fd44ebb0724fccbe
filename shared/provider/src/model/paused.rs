//! Why an operator has paused an instance, and how far its pause or resumption has come. A part of the instance document.
//!
//! The field is a guard: a document that has it has a higher schema version (`version`), so that a release that does not know it
//! does not run the instance.

use serde::{Deserialize, Serialize, Serializer};

/// The due time of what is parked: no sweep and no turn looks so far ahead. It is the end of the year 9999 (Unix ms).
pub(crate) const PARKED_MS: u64 = 253_402_300_799_000;

/// How many bytes of a reason are kept: the instance document is in every batch.
pub(crate) const MOST_REASON: usize = 1024;

/// How far a pause has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PausePhase {
    /// What waits is being parked. No turn begins, but an activity that is not parked yet may.
    Parking,
    /// Everything that waited is parked.
    #[default]
    Parked,
    /// What is parked is being made due again. A turn waits for that, so that nothing overtakes.
    Resuming,
}

/// Who paused an instance is in the audit log of the API; when and why is here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Paused {
    /// Since when (Unix ms).
    pub since: u64,
    /// Why, if the operator said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The call that paused it: recognises its own write after a lost answer.
    #[serde(default)]
    pub(crate) call: String,
    #[serde(default)]
    pub(crate) phase: PausePhase,
}

impl Paused {
    /// A pause that begins now.
    pub(crate) fn begun(call: &str, reason: Option<&str>, now_ms: u64) -> Paused {
        let reason = reason.map(|reason| match reason.len() > MOST_REASON {
            true => format!("{}…", &reason[..reason.floor_char_boundary(MOST_REASON)]),
            false => reason.to_owned(),
        });
        Paused {
            since: now_ms,
            reason,
            call: call.to_owned(),
            phase: PausePhase::Parked,
        }
    }

    /// The same in another phase.
    pub(crate) fn in_phase(&self, phase: PausePhase) -> Paused {
        Paused { phase, ..self.clone() }
    }
}

/// Adds `listed: true`, by which an index finds what is paused in the order of acceptance.
pub(super) fn listed<S: Serializer>(paused: &Option<Paused>, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Listed<'a> {
        #[serde(flatten)]
        paused: &'a Paused,
        listed: bool,
    }
    let listed = paused.as_ref().map(|paused| Listed { paused, listed: true });
    listed.serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let paused = Paused::begun("c", Some(&"語".repeat(MOST_REASON)), 5);
        let reason = paused.reason.unwrap();
        assert!(
            reason.len() <= MOST_REASON + 3 && reason.ends_with('…'),
            "{}",
            reason.len()
        );
        assert_eq!(Paused::begun("c", Some("why"), 5).reason.as_deref(), Some("why"));
    }
}
