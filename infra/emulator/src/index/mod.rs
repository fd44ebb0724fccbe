//! An index for queries of one physical partition.
//!
//! Microsoft's emulator has no index. It copies every document of a physical partition for each query, and converts a whole document
//! for each property that the query names, so a query of 100,000 documents takes seconds. This module keeps a second copy of a
//! container's documents, with ordered indexes, and answers the queries that it knows completely; the emulator answers all others. Both
//! give the same results in the same order: a test compares them.
//!
//! ```text
//!   write --> [gate, shared] note the ids that it may change --> emulator
//!   query --> parse (query) --> the emulator's reply without documents: errors, consistency token, headers
//!         --> [gate, alone] read again what was noted (documents)
//!         --> candidates by an index (seek) --> evaluate each (eval) --> page
//! ```
//!
//! **Invariant.** The copy is read from the emulator, and never computed from a request. It is brought up to date before each query while
//! no write is in progress. So a query sees every acknowledged write, and a batch as a whole or not at all. Nothing is copied, or noted,
//! before the first query that the index can answer. A container that changes, or is deleted, is copied again.
//!
//! A small container is left to the emulator: reading documents again takes longer than looking at all of them.

mod documents;
mod eval;
mod found;
mod hash;
mod query;
mod seek;
mod value;

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError, RwLock};

use hyper::header::HeaderValue;
use hyper::{Method, header::HeaderMap};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::Value;

use documents::{Document, Documents, Partition, Place};
pub(crate) use found::Found;

use crate::emulator::{Emulator, Region};
use crate::http::{CONTINUATION, Call, PARTITION_KEY, RANGE_ID, Reply};
use crate::kind::RequestKind;

/// What the emulator says about the size of a physical partition.
const USAGE: &str = "x-ms-resource-usage";
const DOCUMENTS: &str = "documentsCount=";
/// Queries of physical partitions with fewer documents are left to the emulator.
const SMALL: usize = 200;

const START_KEY: &str = "x-ms-start-epk";
const END_KEY: &str = "x-ms-end-epk";
const KEY_TYPE: &str = "x-ms-read-key-type";

/// The indexes of an account.
#[derive(Default)]
pub(crate) struct Indexes {
    /// Writes share it; bringing a copy up to date has it alone.
    gate: tokio::sync::RwLock<()>,
    containers: RwLock<HashMap<String, Container>>,
    /// For each container with a copy, the documents that may have changed since.
    noted: Mutex<HashMap<String, HashSet<Noted>>>,
    /// The containers with a physical partition that is, or was, not small.
    large: Mutex<HashSet<String>>,
    #[cfg(test)]
    serves_small: std::sync::atomic::AtomicBool,
}

/// What the index knows about a container.
enum Container {
    Copied(Documents),
    /// Its partition keys are not plain text.
    NotServed,
}

/// A document that may have changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Noted {
    /// The header with its partition key.
    key: String,
    id: String,
}

#[derive(Deserialize)]
struct Body {
    query: String,
    #[serde(default)]
    parameters: Vec<Parameter>,
}

#[derive(Deserialize)]
struct Parameter {
    name: String,
    value: Value,
}

#[derive(Deserialize)]
struct Named {
    id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Operation {
    id: Option<String>,
    resource_body: Option<Named>,
}

impl Indexes {
    /// Notes what a request may change. It must be carried out before the guard is dropped.
    pub(crate) async fn writing(&self, call: &Call) -> tokio::sync::RwLockReadGuard<'_, ()> {
        let guard = self.gate.read().await;
        let Some(name) = name_of(call) else { return guard };
        let mut noted = lock(&self.noted);
        if let Some(changed) = noted.get_mut(&name) {
            match (call.header(PARTITION_KEY), ids_of(call)) {
                (Some(key), Some(ids)) => {
                    let key = key.to_owned();
                    changed.extend(ids.into_iter().map(|id| Noted { key: key.clone(), id }));
                }
                // Nobody knows what it changes: the next query copies everything.
                _ => {
                    noted.remove(&name);
                }
            }
        }
        guard
    }

    /// Takes the size of a physical partition from the reply to a write.
    pub(crate) fn note_size(&self, call: &Call, reply: &Reply) {
        let usage = reply.header(USAGE).and_then(|usage| usage.split_once(DOCUMENTS));
        let count = usage.and_then(|(_, count)| count.split(';').next()?.parse::<usize>().ok());
        if let (true, Some(name)) = (count.is_some_and(|count| count >= SMALL), name_of(call)) {
            lock(&self.large).insert(name);
        }
    }

    /// Whether a container is, or was, large enough.
    fn is_large(&self, name: &str) -> bool {
        #[cfg(test)]
        if self.serves_small.load(std::sync::atomic::Ordering::SeqCst) {
            return true;
        }
        lock(&self.large).contains(name)
    }

    /// Serves containers of any size.
    #[cfg(test)]
    pub(crate) fn serve_small(&self) {
        self.serves_small.store(true, std::sync::atomic::Ordering::SeqCst);
    }

    /// Drops all copies, because a container has changed.
    pub(crate) fn forget(&self) {
        lock(&self.noted).clear();
        self.containers.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The documents that a query may find; `None` if the index does not serve it, and a reply if the service refuses it.
    pub(crate) async fn find(&self, emulator: &Emulator, call: &Call) -> Option<Result<Found, Reply>> {
        let is_eligible = call.kind == RequestKind::CrossPartitionQuery && call.is_query();
        let is_limited = [PARTITION_KEY, START_KEY, END_KEY]
            .iter()
            .any(|name| call.headers.contains_key(*name));
        if !is_eligible || is_limited {
            return None;
        }
        let range = call.header(RANGE_ID)?;
        let name = name_of(call).filter(|name| self.is_large(name))?;
        let body: Body = serde_json::from_slice(&call.body).ok()?;
        let parameters = body.parameters.into_iter().map(|one| (one.name, one.value));
        let query = query::parse(&body.query, &parameters.collect::<Vec<_>>())?;
        let after = match call.header(CONTINUATION) {
            None => None,
            Some(token) if query.order.is_empty() => Some(found::place_of(token)?),
            // How the emulator continues an order is its own business.
            Some(_) => return None,
        };
        let partition = partition(emulator, call, range).await?;
        let reply = without_documents(emulator, call, partition).await;
        if !reply.is_success() {
            return Some(Err(reply));
        }
        self.bring_up_to_date(emulator, call, &name).await?;
        self.build_missing(&name, &query)?;
        let containers = self.containers.read().unwrap_or_else(PoisonError::into_inner);
        let Container::Copied(documents) = containers.get(&name)? else {
            return None;
        };
        let candidates = documents.candidates(&query, partition, after.as_ref())?;
        Found::new(query, candidates, reply).map(Ok)
    }

    fn build_missing(&self, name: &str, query: &query::Query) -> Option<()> {
        let containers = self.containers.read().unwrap_or_else(PoisonError::into_inner);
        let missing = match containers.get(name)? {
            Container::Copied(documents) => documents.missing(query),
            Container::NotServed => return None,
        };
        drop(containers);
        if missing.is_empty() {
            return Some(());
        }
        let mut containers = self.containers.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(Container::Copied(documents)) = containers.get_mut(name) {
            missing.into_iter().for_each(|paths| documents.build(paths));
        }
        Some(())
    }

    /// Makes the copy what the emulator has now; `None` if there is none.
    async fn bring_up_to_date(&self, emulator: &Emulator, call: &Call, name: &str) -> Option<()> {
        let state = |noted: &HashMap<String, HashSet<Noted>>| noted.get(name).map(HashSet::len);
        let is_served = || {
            let containers = self.containers.read().unwrap_or_else(PoisonError::into_inner);
            match containers.get(name) {
                Some(Container::Copied(documents)) => Some(documents.len()),
                Some(Container::NotServed) => None,
                None => Some(0),
            }
        };
        is_served()?;
        if state(&lock(&self.noted)) == Some(0) {
            return Some(());
        }
        let _alone = self.gate.write().await;
        let stored = is_served()?;
        let container = call.path.strip_suffix("/docs")?;
        // They stay noted until the copy has them: this request may be cancelled at any await.
        let known = lock(&self.noted).get(name).cloned();
        // Reading many documents one by one takes longer than reading all of them.
        let changes = match known.filter(|changed| changed.len() <= 100 + stored / 2) {
            Some(changed) => read_again(emulator, container, changed).await,
            None => None,
        };
        if let Some(changes) = changes
            && self.apply(name, changes)
        {
            lock(&self.noted).insert(name.to_owned(), HashSet::new());
            return Some(());
        }
        let copy = copy(emulator, container).await;
        let is_served = copy.is_some();
        let container = copy.map_or(Container::NotServed, Container::Copied);
        lock(&self.noted).insert(name.to_owned(), HashSet::new());
        let mut containers = self.containers.write().unwrap_or_else(PoisonError::into_inner);
        containers.insert(name.to_owned(), container);
        is_served.then_some(())
    }

    /// Changes the copy of a container; false if there is none.
    fn apply(&self, name: &str, changes: Vec<Result<Document, Place>>) -> bool {
        let mut containers = self.containers.write().unwrap_or_else(PoisonError::into_inner);
        let Some(Container::Copied(documents)) = containers.get_mut(name) else {
            return false;
        };
        for change in changes {
            match change {
                Ok(document) => documents.put(document),
                Err(place) => documents.remove(&place),
            }
        }
        true
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The name of a container among all of the account.
fn name_of(call: &Call) -> Option<String> {
    let (db, container) = call.container()?;
    Some(format!("{db}/{container}"))
}

/// The ids of the documents that a write may change; `None` if they are not known.
fn ids_of(call: &Call) -> Option<Vec<String>> {
    let mut ids: Vec<String> = call.document().map(str::to_owned).into_iter().collect();
    match call.kind {
        RequestKind::Delete => {}
        RequestKind::Batch => {
            for operation in serde_json::from_slice::<Vec<Operation>>(&call.body).ok()? {
                ids.extend(operation.id);
                ids.extend(operation.resource_body.and_then(|body| body.id));
            }
        }
        _ => ids.extend(serde_json::from_slice::<Named>(&call.body).ok()?.id),
    }
    Some(ids)
}

/// The text in the header of a partition key.
fn key_of(header: &str) -> Option<String> {
    let [key] = serde_json::from_str::<[String; 1]>(header).ok()?;
    Some(key)
}

fn get(path: &str) -> Call {
    Call::new(Method::GET, path, HeaderMap::new(), Default::default())
}

/// Each document as it is now, or its place if it is gone; `None` if that cannot be said.
async fn read_again(
    emulator: &Emulator,
    container: &str,
    changed: HashSet<Noted>,
) -> Option<Vec<Result<Document, Place>>> {
    let mut changes = Vec::with_capacity(changed.len());
    for Noted { key, id } in changed {
        let text = key_of(&key)?;
        let mut read = get(&format!(
            "{container}/docs/{}",
            utf8_percent_encode(&id, NON_ALPHANUMERIC)
        ));
        read.set_header(PARTITION_KEY, HeaderValue::from_str(&key).ok()?);
        let reply = emulator.carry_out(Region::Write, &read).await;
        changes.push(match reply.status.as_u16() {
            200 => Ok(Document::new(&text, serde_json::from_slice(&reply.body).ok()?)?),
            404 => Err((hash::of_text(&text), id)),
            _ => return None,
        });
    }
    Some(changes)
}

/// All documents of a container; `None` if its keys are not plain text.
async fn copy(emulator: &Emulator, container: &str) -> Option<Documents> {
    let definition = emulator.carry_out(Region::Write, &get(container)).await;
    let definition: Value = serde_json::from_slice(&definition.body).ok()?;
    let key = &definition["partitionKey"];
    if key["kind"] != "Hash" || key["version"] != 2 || key["paths"].as_array()?.len() != 1 {
        return None;
    }
    let name = key["paths"][0].as_str()?.strip_prefix('/')?;
    if name.contains(['/', '"']) {
        return None;
    }
    let mut documents = Documents::default();
    let mut list = get(&format!("{container}/docs"));
    loop {
        let reply = emulator.carry_out(Region::Write, &list).await;
        let mut page: Value = serde_json::from_slice(&reply.body).ok()?;
        for body in page.get_mut("Documents")?.as_array_mut()?.drain(..) {
            let key = body.get(name)?.as_str()?.to_owned();
            documents.put(Document::new(&key, body)?);
        }
        match reply.headers.get(CONTINUATION) {
            Some(next) => list.set_header(CONTINUATION, next.clone()),
            None => return Some(documents),
        }
    }
}

/// The bounds of a physical partition; `None` if there is none with this id.
async fn partition(emulator: &Emulator, call: &Call, range: &str) -> Option<Partition> {
    let container = call.path.strip_suffix("/docs")?;
    let reply = emulator
        .carry_out(Region::Write, &get(&format!("{container}/pkranges")))
        .await;
    let body: Value = serde_json::from_slice(&reply.body).ok()?;
    let ranges = body["PartitionKeyRanges"].as_array()?;
    let found = ranges.iter().find(|found| found["id"] == range)?;
    Some(Partition {
        from: hash::from_hex(found["minInclusive"].as_str()?)?,
        to: hash::from_hex(found["maxExclusive"].as_str()?)?,
    })
}

/// The emulator's reply to a query of a part of the partition that has no documents.
async fn without_documents(emulator: &Emulator, call: &Call, partition: Partition) -> Reply {
    let mut probe = call.clone();
    // Longer than a hash: between the first one of the partition and all others.
    let nowhere = format!("{}01", hash::to_hex(&partition.from));
    let nowhere = HeaderValue::from_str(&nowhere).expect("hexadecimal digits make a header value");
    probe.headers.remove(CONTINUATION);
    probe.set_header(START_KEY, nowhere.clone());
    probe.set_header(END_KEY, nowhere);
    probe.set_header(KEY_TYPE, HeaderValue::from_static("EffectivePartitionKeyRange"));
    emulator.carry_out(Region::Write, &probe).await
}
