//! Changes with a data directory: each is applied to the emulator and committed to the storage file, one request at a time.

use std::sync::Arc;

use hyper::{Method, StatusCode};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Service, manage, unavailable};
use crate::expiry;
use crate::http::{Call, PARTITION_KEY, Reply};
use crate::kind::RequestKind;
use crate::storage::{Change, Storage, canonical_key};
use crate::strict::Checked;

impl Service {
    /// Carries out a request that changes something; with a data directory, commits it before the reply.
    pub(super) async fn change(self: &Arc<Self>, call: &Call, checked: &Checked) -> Reply {
        let Some(storage) = &self.storage else {
            return self.apply(call, checked).await;
        };
        let (service, owned) = (Arc::clone(self), Arc::clone(storage));
        let (call, checked) = (call.clone(), checked.clone());
        // A client that disconnects cancels its request at the next await. A task of its own always finishes the change, so that
        // memory and file agree.
        let task = tokio::spawn(async move { service.apply_and_commit(&owned, &call, &checked).await });
        task.await.unwrap_or_else(|error| {
            let why = format!("a change was interrupted ({error})");
            storage.fail(&why);
            Reply::error(StatusCode::INTERNAL_SERVER_ERROR, None, &why)
        })
    }

    async fn apply_and_commit(&self, storage: &Storage, call: &Call, checked: &Checked) -> Reply {
        let mut writer = match storage.writer().await {
            Ok(writer) => writer,
            Err(why) => return unavailable(&why),
        };
        let reply = self.apply(call, checked).await;
        if !reply.is_success() {
            return reply;
        }
        let committed = match self.changes(call, checked) {
            // A batch of reads alone.
            Ok(changes) if changes.is_empty() => Ok(()),
            Ok(changes) => writer.commit(expiry::now(), &changes),
            Err(error) => {
                let why = format!("a change could not be stored ({error})");
                storage.fail(&why);
                Err(why)
            }
        };
        match committed {
            Ok(()) => reply,
            Err(why) => Reply::error(
                StatusCode::INTERNAL_SERVER_ERROR,
                None,
                &format!("The write is lost: {why}."),
            ),
        }
    }

    async fn apply(&self, call: &Call, checked: &Checked) -> Reply {
        if call.kind.is_write() {
            self.write(call, checked).await
        } else {
            self.manage(call).await
        }
    }

    /// What a successful request has changed.
    fn changes(&self, call: &Call, checked: &Checked) -> Result<Vec<Change>, serde_json::Error> {
        if !call.kind.is_write() {
            return self.managed(call);
        }
        let Some((db, container)) = call.container() else {
            return Ok(Vec::new());
        };
        let place = Place {
            db,
            container,
            key: canonical_key(call.header(PARTITION_KEY).unwrap_or("[]"))?,
        };
        match (call.kind, call.document()) {
            (RequestKind::Delete, id) => Ok(vec![place.delete(id.unwrap_or_default())]),
            (RequestKind::Batch, _) => {
                let rewritten = checked.batch.as_ref().and_then(|plan| plan.body.as_ref());
                let operations: Vec<Operation> = serde_json::from_slice(rewritten.unwrap_or(&call.body))?;
                operations
                    .into_iter()
                    .filter_map(|operation| place.operation(operation).transpose())
                    .collect()
            }
            (_, old) => {
                let document: Box<RawValue> = serde_json::from_slice(&call.body)?;
                // A replace may give a document another id.
                let renamed = old.filter(|old| id_of(&document).is_ok_and(|id| id != *old));
                let mut changes: Vec<Change> = renamed.map(|old| place.delete(old)).into_iter().collect();
                changes.push(place.put(document)?);
                Ok(changes)
            }
        }
    }

    fn managed(&self, call: &Call) -> Result<Vec<Change>, serde_json::Error> {
        let segments: Vec<&str> = call.segments.iter().map(String::as_str).collect();
        let definition = || serde_json::from_slice::<Box<RawValue>>(&call.body);
        let change = match (&call.method, segments.as_slice()) {
            (&Method::POST, ["dbs"]) => Change::Database {
                id: id_of(&definition()?)?,
                definition: definition()?,
            },
            (&Method::DELETE, ["dbs", id]) => Change::DropDatabase { id: (*id).to_owned() },
            (&Method::POST, ["dbs", db, "colls"]) | (&Method::PUT, ["dbs", db, "colls", _]) => Change::Container {
                db: (*db).to_owned(),
                id: id_of(&definition()?)?,
                definition: definition()?,
                partitions: self.partitions,
            },
            (&Method::DELETE, ["dbs", db, "colls", id]) => Change::DropContainer {
                db: (*db).to_owned(),
                id: (*id).to_owned(),
            },
            _ => return Ok(Vec::new()),
        };
        debug_assert!(manage::is_change(call), "only changes are stored");
        Ok(vec![change])
    }
}

/// The logical partition that a request is about.
struct Place<'a> {
    db: &'a str,
    container: &'a str,
    key: String,
}

/// One operation of a batch.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Operation {
    operation_type: String,
    id: Option<String>,
    resource_body: Option<Box<RawValue>>,
}

impl Place<'_> {
    /// What an operation changes; `None` for a read.
    fn operation(&self, operation: Operation) -> Result<Option<Change>, serde_json::Error> {
        match (operation.operation_type.as_str(), operation.resource_body) {
            ("Read", _) => Ok(None),
            ("Delete", _) => Ok(Some(self.delete(operation.id.as_deref().unwrap_or_default()))),
            (_, Some(document)) => self.put(document).map(Some),
            (kind, None) => Err(serde::de::Error::custom(format!("a {kind} without a document"))),
        }
    }

    fn put(&self, document: Box<RawValue>) -> Result<Change, serde_json::Error> {
        Ok(Change::Put {
            db: self.db.to_owned(),
            container: self.container.to_owned(),
            key: self.key.clone(),
            id: id_of(&document)?,
            document,
        })
    }

    fn delete(&self, id: &str) -> Change {
        Change::Delete {
            db: self.db.to_owned(),
            container: self.container.to_owned(),
            key: self.key.clone(),
            id: id.to_owned(),
        }
    }
}

fn id_of(document: &RawValue) -> Result<String, serde_json::Error> {
    #[derive(Deserialize)]
    struct Named {
        id: String,
    }
    Ok(serde_json::from_str::<Named>(document.get())?.id)
}
