//! The documents of one container, and indexes of the paths by which queries have looked for them.
//!
//! An index is built by the first query that needs it. It leaves out documents without its first property.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::eval::property;
use super::hash::{self, HashedKey};
use super::query::{Path, Query};
use super::seek::{self, Entry, Range};
use super::value::Key;

/// More indexes than this are not kept: every write has to change all of them.
const MOST_INDEXES: usize = 64;

/// One document as it is stored.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) key: HashedKey,
    pub(super) id: String,
    /// Its number among all documents that were ever created: it decides where an order is a tie.
    number: u64,
    pub(super) body: Value,
}

/// Where a document stands without an order: by the hash of its partition key, then by its id.
pub(super) type Place = (HashedKey, String);

/// The documents of one container.
#[derive(Debug, Default)]
pub(super) struct Documents {
    all: BTreeMap<Place, Arc<Document>>,
    indexes: HashMap<Vec<Path>, Index>,
}

#[derive(Debug, Default)]
struct Index {
    entries: BTreeMap<Entry, Arc<Document>>,
    /// How many entries have an array or an object, which no index orders.
    unordered: usize,
}

/// The physical partition of a query: from the first key to before the second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Partition {
    pub(super) from: HashedKey,
    pub(super) to: HashedKey,
}

impl Document {
    /// `None` if this is not a document of the emulator with this partition key.
    pub(super) fn new(partition_key: &str, body: Value) -> Option<Document> {
        Some(Document {
            key: hash::of_text(partition_key),
            id: body.get("id")?.as_str()?.to_owned(),
            number: number_of(body.get("_rid")?.as_str()?)?,
            body,
        })
    }

    fn place(&self) -> Place {
        (self.key, self.id.clone())
    }

    /// The entry of this document in an index; none without its first property.
    fn entry(&self, paths: &[Path]) -> Option<Entry> {
        let keys: Vec<Key> = paths.iter().map(|path| Key::of(property(&self.body, path))).collect();
        (keys.first() != Some(&Key::Undefined)).then_some((keys, self.number))
    }
}

/// The number of a document in its `_rid`.
fn number_of(rid: &str) -> Option<u64> {
    let bytes = STANDARD.decode(rid.replace('-', "/")).ok()?;
    Some(u64::from_le_bytes(bytes.get(8..16)?.try_into().ok()?))
}

impl Documents {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn put(&mut self, document: Document) {
        let document = Arc::new(document);
        self.remove(&document.place());
        for (paths, index) in &mut self.indexes {
            index.insert(paths, &document);
        }
        self.all.insert(document.place(), document);
    }

    pub(super) fn remove(&mut self, place: &Place) {
        let Some(document) = self.all.remove(place) else { return };
        for (paths, index) in &mut self.indexes {
            index.remove(paths, &document);
        }
    }

    /// The indexes that a query needs and that do not exist yet.
    pub(super) fn missing(&self, query: &Query) -> Vec<Vec<Path>> {
        let mut needed = needed(query);
        needed.retain(|paths| !self.indexes.contains_key(paths));
        needed.truncate(MOST_INDEXES - self.indexes.len().min(MOST_INDEXES));
        needed
    }

    pub(super) fn build(&mut self, paths: Vec<Path>) {
        let mut index = Index::default();
        for document in self.all.values() {
            index.insert(&paths, document);
        }
        self.indexes.insert(paths, index);
    }

    /// Every document of a partition that the query may find, in the order of its results; `None` if no index has that order.
    pub(super) fn candidates(
        &self,
        query: &Query,
        partition: Partition,
        after: Option<&Place>,
    ) -> Option<Vec<Arc<Document>>> {
        if !query.order.is_empty() {
            return self.in_order(query, partition);
        }
        let found = match self.most_selective(query) {
            Some((index, range)) => {
                let mut found: Vec<_> = partition.of(index.entries.range(range).map(|(_, document)| document));
                found.sort_by(|one, other| one.key.cmp(&other.key).then_with(|| one.id.cmp(&other.id)));
                found
            }
            None => {
                let from = (partition.from, String::new());
                let to = (partition.to, String::new());
                let range = (Bound::Included(from), Bound::Excluded(to));
                self.all
                    .range(range)
                    .map(|(_, document)| Arc::clone(document))
                    .collect()
            }
        };
        let Some((key, id)) = after else { return Some(found) };
        let is_before =
            |document: &Arc<Document>| document.key.cmp(key).then_with(|| document.id.cmp(id)) != Ordering::Greater;
        let begin = found.partition_point(is_before);
        Some(found[begin..].to_vec())
    }

    fn in_order(&self, query: &Query, partition: Partition) -> Option<Vec<Arc<Document>>> {
        let paths = order_of(query)?;
        let index = self.indexes.get(&paths).filter(|index| index.unordered == 0)?;
        let entries = index.entries.range(seek::range(query, &paths)?);
        let documents = entries.map(|(_, document)| document);
        match query.order[0].descending {
            true => Some(partition.of(documents.rev())),
            false => Some(partition.of(documents)),
        }
    }

    /// The index and the range with the fewest documents; `None` if it is better to look at all of the partition.
    fn most_selective(&self, query: &Query) -> Option<(&Index, Range)> {
        let mut best = None;
        let mut fewest = self.all.len() / 8;
        for path in seek::paths(query) {
            let paths = vec![path];
            let Some((index, range)) = self.indexes.get(&paths).zip(seek::range(query, &paths)) else {
                continue;
            };
            let count = index.entries.range(range.clone()).take(fewest + 1).count();
            if count <= fewest {
                fewest = count;
                best = Some((index, range));
            }
        }
        best
    }
}

impl Index {
    fn insert(&mut self, paths: &[Path], document: &Arc<Document>) {
        if let Some(entry) = document.entry(paths) {
            self.unordered += usize::from(entry.0.contains(&Key::Complex));
            self.entries.insert(entry, Arc::clone(document));
        }
    }

    fn remove(&mut self, paths: &[Path], document: &Document) {
        if let Some(entry) = document.entry(paths) {
            self.unordered -= usize::from(entry.0.contains(&Key::Complex));
            self.entries.remove(&entry);
        }
    }
}

impl Partition {
    fn of<'d>(&self, documents: impl Iterator<Item = &'d Arc<Document>>) -> Vec<Arc<Document>> {
        let inside = documents.filter(|document| self.from <= document.key && document.key < self.to);
        inside.map(Arc::clone).collect()
    }
}

/// The paths of an `ORDER BY` that goes in one direction; `None` if an index does not have this order.
fn order_of(query: &Query) -> Option<Vec<Path>> {
    let descending = query.order.first()?.descending;
    let is_uniform = query.order.iter().all(|order| order.descending == descending);
    let paths: Vec<Path> = query.order.iter().map(|order| order.path.clone()).collect();
    (is_uniform && seek::range(query, &paths).is_some()).then_some(paths)
}

fn needed(query: &Query) -> Vec<Vec<Path>> {
    match query.order.is_empty() {
        true => seek::paths(query).into_iter().map(|path| vec![path]).collect(),
        false => order_of(query).into_iter().collect(),
    }
}
