//! A document that an examination of the store writes and deletes again: id `scratch:{n}`, in a partition of its own.
//!
//! No query but that of its own partition finds it: it has no `dueAt` and is no instance. If the process ends before it is
//! deleted, it expires by its `ttl`.

use super::{Kind, Schema};
use serde::{Deserialize, Serialize};

/// How long it may live, in seconds.
const TTL: u32 = 600;

/// About as long as a small history document of a turn.
const TEXT_BYTES: usize = 600;

/// See the module.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ScratchDoc {
    pub id: String,
    pub pk: String,
    #[serde(rename = "type")]
    kind: Kind,
    ttl: u32,
    text: String,
    #[serde(flatten)]
    schema: Schema,
}

impl ScratchDoc {
    pub(crate) fn new(pk: &str, number: usize) -> Self {
        ScratchDoc {
            id: ScratchDoc::id(number),
            pk: pk.to_owned(),
            kind: Kind::Scratch,
            ttl: TTL,
            text: "x".repeat(TEXT_BYTES),
            schema: Schema::default(),
        }
    }

    pub(crate) fn id(number: usize) -> String {
        format!("scratch:{number}")
    }

    /// The partition of one examination.
    pub(crate) fn partition(unique: &str) -> String {
        format!("duroxide:doctor:{unique}")
    }
}
