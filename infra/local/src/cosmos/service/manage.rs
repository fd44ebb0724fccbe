//! The account, databases and containers.

use bytes::Bytes;
use hyper::header::HeaderMap;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use super::super::emulator::Region;
use super::super::http::{Call, IS_QUERY, IS_QUERY_PLAN, Reply};
use super::{Service, escaped};

/// A container that is to be made.
pub(super) struct NewContainer<'a> {
    pub(super) db: &'a str,
    pub(super) name: &'a str,
    pub(super) definition: Bytes,
    pub(super) partitions: u32,
    pub(super) headers: HeaderMap,
}

/// Whether a request that is not about documents changes anything.
pub(super) fn is_change(call: &Call) -> bool {
    let asks = call.flag(IS_QUERY) || call.flag(IS_QUERY_PLAN);
    matches!(call.method, Method::POST | Method::PUT | Method::DELETE) && !asks
}

impl Service {
    /// Answers what changes nothing.
    pub(super) async fn look_up(&self, call: &Call, endpoint: &str) -> Reply {
        let reply = self.emulator.execute(Region::Write, call).await;
        if call.segments.is_empty() {
            return with_endpoint(reply, endpoint);
        }
        reply
    }

    /// Makes, redefines or deletes a database or a container.
    pub(super) async fn manage(&self, call: &Call) -> Reply {
        let segments: Vec<&str> = call.segments.iter().map(String::as_str).collect();
        if let (&Method::POST, ["dbs", db, "colls"]) = (&call.method, segments.as_slice()) {
            return self.create_container(call, db).await;
        }
        let reply = self.emulator.execute(Region::Write, call).await;
        if call.method == Method::POST || !reply.is_success() {
            return reply;
        }
        self.catalog.forget();
        match segments.as_slice() {
            ["dbs", db] => self.expiry.forget(db, None),
            ["dbs", db, "colls", container] => {
                self.expiry.forget(db, Some(container));
                self.note_all_mortals(db, container).await;
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
            // The emulator itself knows how to say that the one is missing or the other there.
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

    /// Makes a container with its number of partitions, then gives it the rest of its definition.
    pub(super) async fn make_container(&self, new: NewContainer<'_>) -> Reply {
        let definition: Value = serde_json::from_slice(&new.definition).unwrap_or_default();
        let made = self
            .emulator
            .create_container(new.db, new.name, &definition["partitionKey"], new.partitions);
        if let Err(message) = made {
            return Reply::error(StatusCode::BAD_REQUEST, None, &message);
        }
        let path = format!("/dbs/{}/colls/{}", escaped(new.db), escaped(new.name));
        let mut complete = Call::new(Method::PUT, &path, new.headers, new.definition);
        complete.headers.remove("if-match");
        let reply = self.emulator.execute(Region::Write, &complete).await;
        self.catalog.forget();
        reply
    }
}

/// Makes the account's answer name the door that was asked, and no other place.
fn with_endpoint(mut reply: Reply, endpoint: &str) -> Reply {
    if let Ok(mut account) = serde_json::from_slice::<Value>(&reply.body) {
        let locations = json!([{ "name": "West Europe", "databaseAccountEndpoint": format!("{endpoint}/") }]);
        account["writableLocations"] = locations.clone();
        account["readableLocations"] = locations;
        reply.body = Bytes::from(account.to_string());
    }
    reply
}
