//! A text that is too long for the instance document: the output of an execution (id `output:{execution}`), or the custom
//! status (id `custom-status`). Its execution, and its place after the execution's history, let pruning find an output.

use super::{Kind, Schema};
use serde::{Deserialize, Serialize};

/// A longer text is long.
const INLINE: usize = 8 * 1024;

/// See the module.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TextDoc {
    pub id: String,
    pub pk: String,
    #[serde(rename = "type")]
    kind: Kind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    execution: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sort_key: Option<String>,
    pub text: String,
    #[serde(flatten)]
    schema: Schema,
}

impl TextDoc {
    pub(crate) const CUSTOM_STATUS: &str = "custom-status";

    /// Whether a text gets a document of its own.
    pub(crate) fn is_long(text: &str) -> bool {
        text.len() > INLINE
    }

    pub(crate) fn output_id(execution: u64) -> String {
        format!("output:{execution}")
    }

    pub(crate) fn output(pk: &str, execution: u64, text: &str) -> Self {
        TextDoc {
            execution: Some(execution),
            sort_key: Some(format!("1:{execution:020}:~")),
            ..Self::new(Self::output_id(execution), pk, text)
        }
    }

    pub(crate) fn custom_status(pk: &str, text: &str) -> Self {
        Self::new(Self::CUSTOM_STATUS.to_owned(), pk, text)
    }

    fn new(id: String, pk: &str, text: &str) -> Self {
        TextDoc {
            id,
            pk: pk.to_owned(),
            kind: Kind::Text,
            execution: None,
            sort_key: None,
            text: text.to_owned(),
            schema: Schema::default(),
        }
    }
}
