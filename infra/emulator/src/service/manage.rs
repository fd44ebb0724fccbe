//! The account, databases and containers.

use bytes::Bytes;
use hyper::header::HeaderMap;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use super::{Service, escaped, plan};
use crate::emulator::Region;
use crate::http::{Call, IS_QUERY, IS_QUERY_PLAN, Reply};

/// A container to be created.
pub(super) struct NewContainer<'a> {
    pub(super) db: &'a str,
    pub(super) name: &'a str,
    pub(super) definition: Bytes,
    pub(super) partitions: u32,
    pub(super) headers: HeaderMap,
}

/// Whether a metadata request changes anything.
pub(super) fn is_change(call: &Call) -> bool {
    let asks = call.flag(IS_QUERY) || call.flag(IS_QUERY_PLAN);
    matches!(call.method, Method::POST | Method::PUT | Method::DELETE) && !asks
}

impl Service {
    /// Answers a metadata request that changes nothing.
    pub(super) async fn look_up(&self, call: &Call, endpoint: &str) -> Reply {
        let reply = self.emulator.execute(Region::Write, call).await;
        if call.segments.is_empty() {
            return with_endpoint(reply, endpoint);
        }
        if call.flag(IS_QUERY_PLAN) {
            return plan::with_rewritten_query(call, reply);
        }
        reply
    }

    /// Creates, redefines or deletes a database or a container.
    pub(super) async fn manage(&self, call: &Call) -> Reply {
        let segments: Vec<&str> = call.segments.iter().map(String::as_str).collect();
        if let (&Method::POST, ["dbs", db, "colls"]) = (&call.method, segments.as_slice()) {
            return self.create_container(call, db).await;
        }
        let mut call = call.clone();
        if let (&Method::PUT, ["dbs", _, "colls", _]) = (&call.method, segments.as_slice()) {
            call.body = without_no_unique_keys(call.body);
        }
        let reply = self.emulator.execute(Region::Write, &call).await;
        if call.method == Method::POST || !reply.is_success() {
            return reply;
        }
        self.catalog.forget();
        self.footprints.forget();
        match segments.as_slice() {
            ["dbs", db] => self.expiry.forget(db, None),
            ["dbs", db, "colls", container] => {
                self.expiry.forget(db, Some(container));
                self.note_all_expiring(db, container).await;
            }
            _ => {}
        }
        reply
    }

    async fn create_container(&self, call: &Call, db: &str) -> Reply {
        let definition: Value = serde_json::from_slice(&call.body).unwrap_or_default();
        let name = definition["id"].as_str().unwrap_or_default();
        let path = format!("{}/{}", call.path, escaped(name));
        let _one_at_a_time = self.creating.lock().await;
        let exists = |path: &str| Call::new(Method::GET, path, Default::default(), Bytes::new());
        let database = self
            .emulator
            .execute(Region::Write, &exists(&format!("/dbs/{}", escaped(db))))
            .await;
        let container = self.emulator.execute(Region::Write, &exists(&path)).await;
        if !database.is_success() || container.is_success() {
            // The emulator itself replies with 404 or 409.
            return self.emulator.execute(Region::Write, call).await;
        }
        let new = NewContainer {
            db,
            name,
            definition: call.body.clone(),
            partitions: self.partitions,
            headers: call.headers.clone(),
        };
        let mut reply = self.make_container(new).await;
        if reply.status == StatusCode::OK {
            reply.status = StatusCode::CREATED;
        }
        reply
    }

    /// Creates a container with its number of partitions, then sets the rest of its definition. If that fails, the container is
    /// removed.
    pub(super) async fn make_container(&self, new: NewContainer<'_>) -> Reply {
        let definition: Value = serde_json::from_slice(&new.definition).unwrap_or_default();
        let made = self
            .emulator
            .create_container(new.db, new.name, &definition["partitionKey"], new.partitions);
        if let Err(message) = made {
            return Reply::error(StatusCode::BAD_REQUEST, None, &message);
        }
        let path = format!("/dbs/{}/colls/{}", escaped(new.db), escaped(new.name));
        let definition = without_no_unique_keys(new.definition);
        let mut complete = Call::new(Method::PUT, &path, new.headers, definition);
        complete.headers.remove("if-match");
        let reply = self.emulator.execute(Region::Write, &complete).await;
        if !reply.is_success() {
            // Otherwise it would exist in memory and not in the data directory, and its documents could not be loaded again.
            let undo = Call::new(Method::DELETE, &path, HeaderMap::new(), Bytes::new());
            self.emulator.execute(Region::Write, &undo).await;
        }
        self.catalog.forget();
        self.footprints.forget();
        reply
    }
}

/// Removes a `uniqueKeyPolicy` of null. To the service it means no policy; to the emulator it is a forbidden change.
fn without_no_unique_keys(definition: Bytes) -> Bytes {
    match serde_json::from_slice::<Value>(&definition) {
        Ok(Value::Object(mut fields)) if fields.get("uniqueKeyPolicy").is_some_and(Value::is_null) => {
            fields.remove("uniqueKeyPolicy");
            Bytes::from(Value::Object(fields).to_string())
        }
        _ => definition,
    }
}

/// Makes the reply about the account name this listener as its only endpoint.
fn with_endpoint(mut reply: Reply, endpoint: &str) -> Reply {
    if let Ok(mut account) = serde_json::from_slice::<Value>(&reply.body) {
        let locations = json!([{ "name": "West Europe", "databaseAccountEndpoint": format!("{endpoint}/") }]);
        account["writableLocations"] = locations.clone();
        account["readableLocations"] = locations;
        reply.body = Bytes::from(account.to_string());
    }
    reply
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::ServerOptions;

    #[tokio::test]
    async fn a_container_that_cannot_be_created_completely_is_not_created() {
        let service = Service::start(&ServerOptions::default()).await.unwrap();
        let status_of = |method: Method, path: &str, body: &'static str| {
            let call = Call::new(method, path, HeaderMap::new(), Bytes::from_static(body.as_bytes()));
            let service = &service;
            async move { service.emulator.execute(Region::Write, &call).await.status }
        };
        assert_eq!(
            status_of(Method::POST, "/dbs", r#"{"id":"db"}"#).await,
            StatusCode::CREATED
        );
        let new = NewContainer {
            db: "db",
            name: "half",
            // The first step ignores the id, the second checks it.
            definition: Bytes::from_static(
                br#"{"id":"whole","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#,
            ),
            partitions: 2,
            headers: HeaderMap::new(),
        };
        let reply = service.make_container(new).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST);
        let left = status_of(Method::GET, "/dbs/db/colls/half", "").await;
        assert_eq!(left, StatusCode::NOT_FOUND);
    }
}
