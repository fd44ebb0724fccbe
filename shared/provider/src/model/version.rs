//! The schema version of a document, stored as `v`, and the fields that this build does not know.
//!
//! Several releases may share one store: during a deployment, and after a rollback. Two rules keep the older one from
//! destroying what the newer one wrote:
//!
//! - A field that may be ignored is added without a new version. An older build keeps it when it rewrites the document.
//! - A field that must not be ignored, such as a guard, comes with a higher [`VERSION`]. An older build cannot decode such
//!   a document, and therefore neither rewrites nor consumes it; it reports that the newer release is needed.
//!
//! The higher version belongs to the *document* that has the guard, as long as it has it, and to no other ([`Schema::guard`]): a
//! paused instance and its work items have [`GUARDED`], and [`VERSION`] again when it is resumed. So a release that does not know
//! the guard goes on with everything else beside this one, and a rollback loses nothing but what is paused at that time.
//!
//! A list is decoded one document at a time ([`Listed`]), so that a newer one hides no other. Where nothing can go on
//! without it, the failure names it ([`Foreign`]). The fields of an instance and of its current execution are one document:
//! when the execution ends, both keep those that this build does not know.
//!
//! Deletions must not destroy what a newer release wrote either:
//!
//! | who deletes | a newer document |
//! |---|---|
//! | deletion of instances | refuses the group before it decides. After the decision it deletes only versions that it has listed and checked, and leaves a partition with a newer one to the newer release |
//! | pruning | leaves that execution, and prunes the others |
//! | a commit, a roll-forward, removal of what was staged | cannot meet one: the fence has the version of whoever wrote last, and staged documents that of their head, which is decoded first |
//! | consumed messages, completed activities, expired sessions | are deleted in the version that was decoded (`If-Match`) |
//! | a turn that cancels an activity | removes it, even if a newer worker has claimed it meanwhile: the turn owns its activities, and a cancelled one is gone in every release. A release that changes this must change the instance's version |
//! | removal of a delivered intent | removes it: the message is delivered, and a second delivery has no effect |
//! | an operator who discards a dead letter | removes it: that is the order, and the TTL would do the same |

use crate::error::Failure;
use cosmos::PartitionKey;
use serde::de::{DeserializeOwned, Error as _};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// The version that this build writes, except for documents with a guard.
const VERSION: u64 = 1;
/// The version of documents with a guard (they are paused), and the newest that this build reads.
const GUARDED: u64 = 2;

/// A part of every document (`#[serde(flatten)]`, as its last field).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Schema {
    /// The document has a field that no build may ignore.
    guarded: bool,
    /// The fields that this build does not know.
    unknown: Map<String, Value>,
}

impl Schema {
    /// Keeps releases that do not know the document's guard from using it, or ends that.
    pub(crate) fn guard(&mut self, guarded: bool) {
        self.guarded = guarded;
    }

    fn version(&self) -> u64 {
        match self.guarded {
            true => GUARDED.max(written()),
            false => written(),
        }
    }
}

impl Serialize for Schema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("v", &self.version())?;
        for (name, value) in &self.unknown {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Schema {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut unknown = Map::deserialize(deserializer)?;
        let version = unknown.remove("v");
        check(version.as_ref()).map_err(D::Error::custom)?;
        let guarded = version.and_then(|version| version.as_u64()) >= Some(GUARDED);
        // What the service adds is not ours to write.
        unknown.retain(|name, _| !name.starts_with('_'));
        Ok(Schema { guarded, unknown })
    }
}

/// The schema version of the documents that this build writes, except for those with a guard.
pub(crate) fn schema_version() -> u64 {
    written()
}

/// The newest schema version that this build reads.
pub(crate) fn newest_version() -> u64 {
    newest()
}

/// Refuses the version of a document that is not decoded as a whole.
pub(crate) fn check_version(pk: &PartitionKey, id: &str, found: Option<&Value>) -> Result<(), Failure> {
    check(found).map_err(|reason| {
        let id = id.to_owned();
        Foreign { id, reason }.in_partition(pk)
    })
}

fn check(found: Option<&Value>) -> Result<(), String> {
    let known = newest();
    match found {
        None => Ok(()),
        Some(version) if version.as_u64().is_some_and(|version| version <= known) => Ok(()),
        Some(version) => Err(format!(
            "a newer release wrote this document (schema version {version}, this build knows {known}): deploy the newer \
             release everywhere"
        )),
    }
}

/// A document in a list: one that this build cannot decode hides no other.
#[derive(Clone, Debug)]
pub(crate) enum Listed<T> {
    Known(T),
    Foreign(Foreign),
}

/// A document that this build cannot decode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Foreign {
    pub id: String,
    /// Why, and what to do.
    pub reason: String,
}

impl Foreign {
    pub(crate) fn of(raw: &RawValue, error: &serde_json::Error) -> Foreign {
        #[derive(Deserialize)]
        struct Named {
            id: String,
        }
        let id =
            serde_json::from_str::<Named>(raw.get()).map_or_else(|_| "(without an id)".to_owned(), |named| named.id);
        Foreign {
            id,
            reason: error.to_string(),
        }
    }

    /// The failure of an operation that cannot do without the document.
    pub(crate) fn in_partition(self, pk: &PartitionKey) -> Failure {
        Failure::Foreign {
            instance: pk.as_str().to_owned(),
            id: self.id,
            reason: self.reason,
        }
    }
}

impl<T> Listed<T> {
    /// The document; a foreign one is logged.
    pub(crate) fn known(self) -> Option<T> {
        match self {
            Listed::Known(doc) => Some(doc),
            Listed::Foreign(Foreign { id, reason }) => {
                tracing::error!(id, reason, "a document cannot be decoded; it stays as it is");
                None
            }
        }
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Listed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Ok(match serde_json::from_str(raw.get()) {
            Ok(doc) => Listed::Known(doc),
            Err(error) => Listed::Foreign(Foreign::of(&raw, &error)),
        })
    }
}

/// The newest version that this build reads.
#[cfg(not(feature = "testing"))]
fn newest() -> u64 {
    GUARDED
}

/// The version that this build writes.
#[cfg(not(feature = "testing"))]
fn written() -> u64 {
    VERSION
}

#[cfg(feature = "testing")]
fn newest() -> u64 {
    testing::BUILD.try_with(|version| *version).unwrap_or(GUARDED)
}

#[cfg(feature = "testing")]
fn written() -> u64 {
    let build = testing::BUILD.try_with(|version| *version);
    build.ok().filter(|build| *build > GUARDED).unwrap_or(VERSION)
}

/// Several builds in one process, for tests.
#[cfg(feature = "testing")]
pub mod testing {
    tokio::task_local! {
        pub(super) static BUILD: u64;
    }

    /// The same as the given work, done by a build that is so many schema versions ahead of this one.
    pub async fn newer_build<T>(ahead: u64, work: impl Future<Output = T>) -> T {
        BUILD.scope(super::GUARDED + ahead, work).await
    }

    /// The same, done by a build that does not know what a paused instance is.
    pub async fn build_without_pause<T>(work: impl Future<Output = T>) -> T {
        BUILD.scope(super::VERSION, work).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{InstanceDoc, KvDoc, MessageDoc, SessionDoc, WorkDoc};
    use serde_json::json;

    fn with(doc: &impl Serialize, name: &str, value: Value) -> String {
        let mut doc = serde_json::to_value(doc).unwrap();
        assert_eq!(doc["v"], VERSION);
        doc[name] = value;
        doc["_ts"] = json!(7);
        doc.to_string()
    }

    /// The document again, after this build has read and written it.
    fn rewritten<T: Serialize + DeserializeOwned>(text: &str) -> Result<Value, serde_json::Error> {
        let doc: T = serde_json::from_str(text)?;
        serde_json::from_str(&serde_json::to_string(&doc)?)
    }

    fn kept<T: Serialize + DeserializeOwned>(doc: &T) {
        let guard = json!({"paused": [1, "x", null]});
        let back = rewritten::<T>(&with(doc, "guard", guard.clone())).unwrap();
        let mut before = serde_json::to_value(doc).unwrap();
        before["guard"] = guard;
        assert_eq!(
            back, before,
            "nothing is lost, and what the service adds is not written"
        );
        let newer = rewritten::<T>(&with(doc, "v", json!(GUARDED + 1)))
            .unwrap_err()
            .to_string();
        assert!(newer.contains("deploy the newer release everywhere"), "{newer}");
        assert!(rewritten::<T>(&with(doc, "v", json!("two"))).is_err());
    }

    fn message() -> MessageDoc {
        serde_json::from_value(
            json!({"id": "m:1", "pk": "i", "type": "message", "queue": "turn", "dueAt": 1,
            "queuedAt": 1, "sortKey": "3:1", "item": {"some": [1.50, "item"]}}),
        )
        .unwrap()
    }

    #[test]
    fn unknown_fields_are_kept_and_newer_versions_are_refused() {
        kept(&InstanceDoc::pending("i", "Hello", 1));
        kept(&InstanceDoc::absent("i", 1).with(|lock| lock.claim("t", 1, &["m:1".to_owned()])));
        kept(&KvDoc::new("i", "k"));
        kept(&SessionDoc::new("s", "owner", 2, 1));
        let work = json!({"id": "w:1:2", "pk": "i", "type": "work", "queue": "work", "dueAt": 1, "queuedAt": 1, "sortKey": "1", "item": {}});
        kept(&serde_json::from_value::<WorkDoc>(work).unwrap());
        kept(&message());
    }

    #[test]
    fn a_guard_raises_the_version_of_its_document_until_it_ends() {
        let mut schema = Schema::default();
        let version = |schema: &Schema| serde_json::to_value(schema).unwrap()["v"].clone();
        assert_eq!(version(&schema), VERSION);
        schema.guard(true);
        assert_eq!(version(&schema), GUARDED);
        let mut again: Schema = serde_json::from_value(json!({ "v": GUARDED, "other": 1 })).unwrap();
        assert_eq!(version(&again), GUARDED, "it stays until this build ends it");
        again.guard(false);
        assert_eq!(
            serde_json::to_value(&again).unwrap(),
            json!({ "v": VERSION, "other": 1 })
        );
    }

    #[test]
    fn an_item_stays_as_it_was_written() {
        let text = r#"{"id":"m:1","pk":"i","type":"message","queue":"turn","dueAt":1,"queuedAt":1,"sortKey":"3:1","item":{"b": 1.50, "a":2}}"#;
        let doc: MessageDoc = serde_json::from_str(text).unwrap();
        assert_eq!(doc.item.get(), r#"{"b": 1.50, "a":2}"#);
        assert!(
            serde_json::to_string(&doc)
                .unwrap()
                .contains(r#""item":{"b": 1.50, "a":2}"#)
        );
    }
}
