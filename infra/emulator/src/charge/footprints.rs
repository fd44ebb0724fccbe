//! The footprints of the documents that this account has written, by container, partition key and id.
//!
//! A lost entry costs a read of the document; a wrong one, after two writes at the same moment, makes a price imprecise.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::http::{Call, PARTITION_KEY};
use crate::storage::canonical_key;
use crate::strict::Footprint;

/// How many index entries are remembered, all documents together (8 bytes each). Beyond it everything is forgotten.
const MAX_ENTRIES: usize = 4_000_000;
/// What a document costs besides its entries.
const OF_A_DOCUMENT: usize = 8;

/// The footprints that are known.
#[derive(Default)]
pub(crate) struct Footprints {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    documents: HashMap<u64, Footprint>,
    entries: usize,
}

impl Footprints {
    pub(crate) fn get(&self, call: &Call, id: &str) -> Option<Footprint> {
        self.known().documents.get(&key(call, id)).cloned()
    }

    /// Remembers a document that was written; `None` if it was deleted.
    pub(crate) fn set(&self, call: &Call, id: &str, footprint: Option<&Footprint>) {
        let mut known = self.known();
        let key = key(call, id);
        let old = match footprint {
            Some(footprint) => {
                known.entries += footprint.entries() + OF_A_DOCUMENT;
                known.documents.insert(key, footprint.clone())
            }
            None => known.documents.remove(&key),
        };
        known.entries -= old.map_or(0, |old| old.entries() + OF_A_DOCUMENT);
        if known.entries > MAX_ENTRIES {
            *known = Known::default();
        }
    }

    pub(crate) fn forget(&self) {
        *self.known() = Known::default();
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // A panic cannot leave more than a wrong sum, which only moves the limit.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(call: &Call, id: &str) -> u64 {
    let header = call.header(PARTITION_KEY).unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    (call.container(), canonical_key(header).ok(), id).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use hyper::Method;
    use hyper::header::HeaderValue;
    use serde_json::json;

    use super::*;
    use crate::strict::{IndexPolicy, IndexTree};

    #[test]
    fn memory_is_bounded_and_a_deleted_document_is_forgotten() {
        let mut call = Call::new(
            Method::PUT,
            "/dbs/d/colls/c/docs/x",
            Default::default(),
            Default::default(),
        );
        call.set_header(PARTITION_KEY, HeaderValue::from_static("[\"k\"]"));
        let numbers: Vec<usize> = (0..100_000).collect();
        let tree = IndexTree::of(&IndexPolicy::default());
        let large = Footprint::of(&json!({ "id": "x", "numbers": numbers }), &tree);
        let footprints = Footprints::default();
        for document in 0..100 {
            footprints.set(&call, &document.to_string(), Some(&large));
            assert!(footprints.known().entries <= MAX_ENTRIES);
        }
        assert!(footprints.get(&call, "99").is_some() && footprints.get(&call, "0").is_none());
        footprints.set(&call, "99", None);
        assert!(footprints.get(&call, "99").is_none());
        for _ in 0..100 {
            footprints.set(&call, "same", Some(&large));
        }
        assert!(
            footprints.get(&call, "98").is_some(),
            "writing one document again must not use more memory"
        );
    }
}
