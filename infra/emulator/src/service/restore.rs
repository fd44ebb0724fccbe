//! The journal's state, put into the emulator before the listener opens.

use bytes::Bytes;
use hyper::Method;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::manage::NewContainer;
use super::{Service, escaped};
use crate::emulator::Region;
use crate::expiry::Hint;
use crate::http::{Call, IS_UPSERT, PARTITION_KEY, Reply};
use crate::options::StartError;
use crate::storage::{Container, Document, State};
use crate::strict;

impl Service {
    /// Makes everything that there was. ETags and times are new; when a document expires is not.
    pub(super) async fn restore(&self, state: State) -> Result<(), StartError> {
        for (db, database) in state.databases {
            let body = Bytes::from(String::from(database.definition.get()));
            let make = Call::new(Method::POST, "/dbs", HeaderMap::new(), body);
            done(&self.emulator.execute(Region::Write, &make).await, &db)?;
            for (name, container) in database.containers {
                self.restore_container(&db, &name, container).await?;
            }
        }
        Ok(())
    }

    async fn restore_container(&self, db: &str, name: &str, container: Container) -> Result<(), StartError> {
        let new = NewContainer {
            db,
            name,
            definition: Bytes::from(String::from(container.definition.get())),
            partitions: container.partitions,
            headers: HeaderMap::new(),
        };
        done(&self.make_container(new).await, name)?;
        let path = format!("/dbs/{}/colls/{}/docs", escaped(db), escaped(name));
        for ((key, id), document) in container.documents {
            self.restore_document(&path, &key, &id, document).await?;
        }
        Ok(())
    }

    async fn restore_document(&self, path: &str, key: &str, id: &str, document: Document) -> Result<(), StartError> {
        let header = ascii(key);
        let mut headers = HeaderMap::new();
        headers.insert(HeaderName::from_static(IS_UPSERT), HeaderValue::from_static("True"));
        let value = HeaderValue::from_str(&header).map_err(|error| StartError::Restore {
            what: id.to_owned(),
            message: error.to_string(),
        })?;
        headers.insert(HeaderName::from_static(PARTITION_KEY), value);
        let body = Bytes::from(String::from(document.body.get()));
        let call = Call::new(Method::POST, path, headers, body);
        let reply = self.emulator.execute(Region::Write, &call).await;
        done(&reply, id)?;
        let Some(container) = self.catalog.container(&self.emulator, &call).await else {
            return Ok(());
        };
        if container.default_ttl.is_none() {
            return Ok(());
        }
        let body: Value = serde_json::from_str(document.body.get()).unwrap_or_default();
        let lifetime = strict::lifetime(&container, &body).ok().flatten();
        if let (Some(lifetime), Some((db, container))) = (lifetime, call.container()) {
            self.expiry.add(Hint {
                at: document.at.saturating_add(lifetime * 1_000),
                db: db.to_owned(),
                container: container.to_owned(),
                key: header,
                id: id.to_owned(),
                etag: reply.header("etag").unwrap_or_default().to_owned(),
            });
        }
        Ok(())
    }
}

fn done(reply: &Reply, what: &str) -> Result<(), StartError> {
    if reply.is_success() {
        return Ok(());
    }
    Err(StartError::Restore {
        what: what.to_owned(),
        message: format!("{} {}", reply.status, String::from_utf8_lossy(&reply.body)),
    })
}

/// The key of a document as a header: a JSON array in pure ASCII.
pub(super) fn key_header(keys: &[Option<&Value>]) -> String {
    let keys: Vec<Value> = keys
        .iter()
        .map(|key| key.cloned().unwrap_or_else(|| json!({})))
        .collect();
    ascii(&Value::Array(keys).to_string())
}

/// JSON with everything beyond ASCII escaped.
fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        // Delete is ASCII, but no header may hold it.
        if c.is_ascii() && c != '\u{7f}' {
            text.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            text.push_str(&format!("\\u{unit:04x}"));
        }
    }
    text
}
