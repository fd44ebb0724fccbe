//! What the strict checks need to know about a container: the path of its partition key, its index policy, and its default time to
//! live.
//!
//! It is read from the emulator when a container is first used, and dropped when the container changes. A container that does
//! not exist is looked up again each time.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use hyper::Method;
use serde::Deserialize;
use serde_json::Value;

use crate::emulator::{Emulator, Region};
use crate::http::Call;
use crate::strict::{IndexPolicy, IndexTree};

/// A container's definition, as far as requests are checked against it.
#[derive(Debug)]
pub(crate) struct Container {
    /// The names that lead to the partition key, one list for each level of a hierarchical key.
    pub(crate) key_paths: Vec<Vec<String>>,
    pub(crate) index: IndexPolicy,
    /// The same policy, for the entries of a document.
    pub(crate) index_tree: IndexTree,
    /// How long a document without a `ttl` lives, in seconds; -1 is for ever. Without a default nothing expires.
    pub(crate) default_ttl: Option<i64>,
}

impl Container {
    /// The values of a document by which the container is partitioned.
    pub(crate) fn keys_of<'d>(&self, document: &'d Value) -> Vec<Option<&'d Value>> {
        self.key_paths
            .iter()
            .map(|path| path.iter().try_fold(document, |value, name| value.get(name)))
            .collect()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Definition {
    partition_key: KeyDefinition,
    #[serde(default)]
    indexing_policy: IndexPolicy,
    default_ttl: Option<i64>,
}

#[derive(Deserialize)]
struct KeyDefinition {
    paths: Vec<String>,
}

/// The containers seen so far, by path.
#[derive(Default)]
pub(crate) struct Catalog {
    containers: RwLock<HashMap<String, Arc<Container>>>,
}

impl Catalog {
    /// The container of a request; `None` when there is no such container.
    pub(crate) async fn container(&self, emulator: &Emulator, call: &Call) -> Option<Arc<Container>> {
        let (db, name) = call.container()?;
        let key = format!("{db}/{name}");
        let known = self
            .containers
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&key)
            .map(Arc::clone);
        if known.is_some() {
            return known;
        }
        let path = call.path.splitn(6, '/').take(5).collect::<Vec<_>>().join("/");
        let read = Call::new(Method::GET, &path, Default::default(), Default::default());
        let reply = emulator.execute(Region::Write, &read).await;
        if !reply.is_success() {
            return None;
        }
        let definition: Definition = serde_json::from_slice(&reply.body).ok()?;
        let container = Arc::new(Container {
            key_paths: definition
                .partition_key
                .paths
                .iter()
                .map(|path| path.trim_start_matches('/').split('/').map(unquoted).collect())
                .collect(),
            index_tree: IndexTree::of(&definition.indexing_policy),
            index: definition.indexing_policy,
            default_ttl: definition.default_ttl,
        });
        self.containers
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key, Arc::clone(&container));
        Some(container)
    }

    /// Drops everything. Definitions change so rarely that a finer invalidation is not worth its risk.
    pub(crate) fn forget(&self) {
        self.containers.write().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

fn unquoted(segment: &str) -> String {
    segment.trim_matches('"').to_owned()
}
