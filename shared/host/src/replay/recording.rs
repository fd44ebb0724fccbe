//! What is replayed: the history of one execution, as it is saved in a file and sent to a binary.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::fmt;

/// The first field of a saved history.
pub const FORMAT: &str = "duroxide-lambda-history";
/// The version of the format.
pub const VERSION: u32 = 1;

/// The history of one execution. Fields may be added; a change that an older release must not ignore raises `v`.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recording {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub v: u32,
    /// The instance.
    pub instance: String,
    /// The execution.
    pub execution: u64,
    /// The name of the orchestration.
    pub orchestration: String,
    /// Its version.
    pub version: String,
    /// What the instance was when the history was read.
    pub status: String,
    /// When the history was read (RFC 3339).
    pub saved_at: String,
    /// The keys that the execution found when it began; `None` if they are not known.
    pub keys: Option<Vec<SavedKey>>,
    /// The events, as duroxide records them.
    pub events: Vec<Box<RawValue>>,
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording")
            .field("instance", &self.instance)
            .field("execution", &self.execution)
            .field("events", &self.events.len())
            .finish_non_exhaustive()
    }
}

/// A key that an earlier execution has set.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SavedKey {
    /// The key.
    pub key: String,
    /// Its value.
    pub value: String,
    /// When it was set (Unix ms).
    pub set_at_ms: u64,
}

impl fmt::Debug for SavedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SavedKey")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// Why a text is no recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// It has another form.
    #[error("it is no saved history: {0}")]
    Form(#[from] serde_json::Error),
    /// It is another document.
    #[error("it is no saved history: its `format` is not `{FORMAT}`")]
    Format,
    /// It was saved by a newer release.
    #[error("it was saved by a newer release (format version {0}; this one reads up to {VERSION})")]
    Newer(u32),
}

impl Recording {
    /// Reads a saved history.
    ///
    /// # Errors
    /// When the text is none, or of a newer release.
    pub fn parse(text: &str) -> Result<Recording, RecordingError> {
        #[derive(Deserialize)]
        struct Head {
            format: String,
            v: u32,
        }
        // First, because a newer release may have changed the rest.
        let head: Head = serde_json::from_str(text)?;
        if head.format != FORMAT {
            return Err(RecordingError::Format);
        }
        if head.v > VERSION {
            return Err(RecordingError::Newer(head.v));
        }
        Ok(serde_json::from_str(text)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn saved() -> serde_json::Value {
        json!({
            "format": FORMAT, "v": 1, "instance": "a/b", "execution": 2, "orchestration": "Order", "version": "1.0.0",
            "status": "Running", "savedAt": "2026-11-17T20:00:00.000Z", "keys": [{"key": "k", "value": "v", "setAtMs": 7}],
            "events": [{"event_id": 1, "any": "thing"}], "later": true,
        })
    }

    #[test]
    fn a_recording_is_read_as_it_was_written_and_unknown_fields_are_ignored() {
        let read = Recording::parse(&saved().to_string()).unwrap();
        let again = Recording::parse(&serde_json::to_string(&read).unwrap()).unwrap();
        assert_eq!((again.instance.as_str(), again.execution), ("a/b", 2));
        assert_eq!(again.events[0].get(), r#"{"any":"thing","event_id":1}"#);
        assert_eq!(again.keys.unwrap()[0].set_at_ms, 7);
        assert!(!format!("{read:?}").contains("thing"), "payloads are not shown");
    }

    #[test]
    fn other_documents_and_newer_formats_are_told_apart() {
        let mut other = saved();
        other["format"] = json!("something");
        assert!(matches!(
            Recording::parse(&other.to_string()),
            Err(RecordingError::Format)
        ));
        let mut newer = saved();
        newer["v"] = json!(2);
        newer["events"] = json!("changed");
        assert!(matches!(
            Recording::parse(&newer.to_string()),
            Err(RecordingError::Newer(2))
        ));
        for broken in ["", "{", "[]", "{\"format\": \"duroxide-lambda-history\"}"] {
            assert!(
                matches!(Recording::parse(broken), Err(RecordingError::Form(_))),
                "{broken}"
            );
        }
    }
}
