//! Changes that are kept: applied and appended to the journal in one step.

use std::sync::Arc;

use hyper::{Method, StatusCode};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Service, manage, unavailable};
use crate::expiry;
use crate::http::{Call, PARTITION_KEY, Reply};
use crate::kind::RequestKind;
use crate::storage::{Change, Record, Storage, canonical_key};
use crate::strict::Checked;

impl Service {
    /// Does what a request asks for; with a data directory, keeps it before it is answered.
    pub(super) async fn change(self: &Arc<Self>, call: &Call, checked: &Checked) -> Reply {
        let Some(storage) = &self.storage else {
            return self.apply(call, checked).await;
        };
        let (service, keeper) = (Arc::clone(self), Arc::clone(storage));
        let (call, checked) = (call.clone(), checked.clone());
        // A client that hangs up ends its request wherever that waits. Today nothing waits between applying and keeping, but
        // that is the emulator's business: as a task of its own the change is finished in any case.
        let task = tokio::spawn(async move { service.apply_and_keep(&keeper, &call, &checked).await });
        task.await.unwrap_or_else(|error| {
            let why = format!("a change was not finished ({error})");
            storage.fail(&why);
            Reply::error(StatusCode::INTERNAL_SERVER_ERROR, None, &why)
        })
    }

    async fn apply_and_keep(&self, storage: &Arc<Storage>, call: &Call, checked: &Checked) -> Reply {
        let mut turn = match storage.turn().await {
            Ok(turn) => turn,
            Err(why) => return unavailable(&why),
        };
        let reply = self.apply(call, checked).await;
        if !reply.is_success() {
            return reply;
        }
        let kept = self
            .changes(call, checked)
            .map_err(|error| {
                let why = format!("a change could not be put down ({error})");
                storage.fail(&why);
                why
            })
            .and_then(|changes| {
                let at = expiry::now();
                // A batch of reads alone leaves nothing to keep.
                if changes.is_empty() {
                    Ok(())
                } else {
                    turn.append(&Record { at, changes })
                }
            });
        match kept {
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

    /// What a request that succeeded has changed.
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
                let reworded = checked.batch.as_ref().and_then(|plan| plan.body.as_ref());
                let operations: Vec<Operation> = serde_json::from_slice(reworded.unwrap_or(&call.body))?;
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
        debug_assert!(manage::is_change(call), "only changes are kept");
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
    /// What an operation changes, if it is no read.
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
