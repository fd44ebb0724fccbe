//! Loads the contents of the data directory into the emulator, before the listener opens.

use hyper::Method;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::manage::NewContainer;
use super::{Service, escaped};
use crate::emulator::Region;
use crate::expiry::Deadline;
use crate::http::{Call, IS_UPSERT, PARTITION_KEY, Reply, ascii};
use crate::options::StartError;
use crate::storage::{Contents, StoredDocument};
use crate::strict;

impl Service {
    /// Creates everything that the data directory holds. ETags and `_ts` are new; expiry times are not.
    pub(super) async fn restore(&self, contents: Contents) -> Result<(), StartError> {
        for (db, definition) in contents.databases {
            let call = Call::new(Method::POST, "/dbs", HeaderMap::new(), definition);
            succeeded(&self.emulator.execute(Region::Write, &call).await, &db)?;
        }
        for container in contents.containers {
            let new = NewContainer {
                db: &container.db,
                name: &container.id,
                definition: container.definition,
                partitions: container.partitions,
                headers: HeaderMap::new(),
            };
            succeeded(&self.make_container(new).await, &container.id)?;
        }
        for document in contents.documents {
            self.restore_document(document).await?;
        }
        Ok(())
    }

    /// Writes documents without requests.
    pub(crate) async fn load(
        &self,
        db: &str,
        name: &str,
        documents: impl Iterator<Item = Value>,
    ) -> Result<(), StartError> {
        let path = format!("/dbs/{}/colls/{}/docs", escaped(db), escaped(name));
        let mut call = Call::new(Method::POST, &path, HeaderMap::new(), Default::default());
        let container = self.catalog.container(&self.emulator, &call).await;
        let container = container.ok_or_else(|| StartError::Restore {
            what: name.to_owned(),
            message: "there is no such container".to_owned(),
        })?;
        for document in documents {
            let id = document["id"].as_str().unwrap_or_default();
            let key = HeaderValue::from_str(&key_header(&container.keys_of(&document)));
            let key = key.map_err(|error| StartError::Restore {
                what: id.to_owned(),
                message: error.to_string(),
            })?;
            call.headers.insert(HeaderName::from_static(PARTITION_KEY), key);
            call.body = document.to_string().into();
            succeeded(&self.emulator.execute(Region::Write, &call).await, id)?;
        }
        Ok(())
    }

    async fn restore_document(&self, document: StoredDocument) -> Result<(), StartError> {
        let StoredDocument {
            db,
            container: name,
            key,
            id,
            at,
            body,
        } = document;
        let key = ascii(&key);
        let value = HeaderValue::from_str(&key).map_err(|error| StartError::Restore {
            what: id.clone(),
            message: error.to_string(),
        })?;
        let mut headers = HeaderMap::new();
        headers.insert(HeaderName::from_static(IS_UPSERT), HeaderValue::from_static("True"));
        headers.insert(HeaderName::from_static(PARTITION_KEY), value);
        let path = format!("/dbs/{}/colls/{}/docs", escaped(&db), escaped(&name));
        let call = Call::new(Method::POST, &path, headers, body.clone());
        let reply = self.emulator.execute(Region::Write, &call).await;
        succeeded(&reply, &id)?;
        let container = self.catalog.container(&self.emulator, &call).await;
        let Some(container) = container.filter(|container| container.default_ttl.is_some()) else {
            return Ok(());
        };
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        if let Ok(Some(lifetime)) = strict::lifetime(&container, &body) {
            self.expiry.add(Deadline {
                at: at.saturating_add(lifetime * 1_000),
                db,
                container: name,
                key,
                id,
                etag: reply.header("etag").unwrap_or_default().to_owned(),
            });
        }
        Ok(())
    }
}

fn succeeded(reply: &Reply, what: &str) -> Result<(), StartError> {
    if reply.is_success() {
        return Ok(());
    }
    Err(StartError::Restore {
        what: what.to_owned(),
        message: format!("{} {}", reply.status, String::from_utf8_lossy(&reply.body)),
    })
}

/// The partition key of a document as a header value: a JSON array in ASCII.
pub(super) fn key_header(keys: &[Option<&Value>]) -> String {
    let keys: Vec<Value> = keys
        .iter()
        .map(|key| key.cloned().unwrap_or_else(|| json!({})))
        .collect();
    ascii(&Value::Array(keys).to_string())
}
