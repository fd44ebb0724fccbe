//! The service behind all doors: the emulator, and the service's behaviour where the emulator's differs.
//!
//! | the service | the emulator alone |
//! |---|---|
//! | the account names the door that was asked as its only endpoint | names its own made-up hosts |
//! | a new container has several physical partitions | has one |
//! | `If-Match: *` asks for existence | is compared with the ETag |
//! | an upsert with `If-Match` never creates | creates |
//! | a query has pages (`paging`) | has one, as long as it takes |

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hyper::header::HeaderValue;
use hyper::{Method, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::catalog::Catalog;
use super::emulator::{Emulator, Region};
use super::http::{ACTIVITY_ID, Call, IS_QUERY, IS_UPSERT, Refusal, Reply};
use super::kind::RequestKind;
use super::options::{ServerOptions, StartError};
use super::paging::Pages;
use super::replica::Replicas;
use super::signature;
use super::strict::{self, Checked, Known, PlanCache};

/// One account: the store, and all that the doors share.
pub(crate) struct Service {
    emulator: Arc<Emulator>,
    replicas: Option<Replicas>,
    catalog: Catalog,
    plans: PlanCache,
    pages: Pages,
    key: String,
    key_bytes: Vec<u8>,
    partitions: u32,
    /// Looking whether a container exists and making it is one step.
    creating: Mutex<()>,
    activities: AtomicU64,
}

impl Service {
    pub(crate) fn new(options: &ServerOptions) -> Result<Self, StartError> {
        let emulator = Arc::new(Emulator::new(options.lag.is_some())?);
        let replicas = options.lag.map(|lag| Replicas::start(Arc::clone(&emulator), lag));
        Ok(Self {
            emulator,
            replicas,
            catalog: Catalog::default(),
            plans: PlanCache::default(),
            pages: Pages::default(),
            key: options.key.clone(),
            key_bytes: STANDARD.decode(&options.key)?,
            partitions: options.partitions,
            creating: Mutex::new(()),
            activities: AtomicU64::new(0),
        })
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Refuses what the service would refuse.
    pub(crate) async fn check(&self, call: &Call) -> Result<Checked, Refusal> {
        signature::check(call, &self.key_bytes)?;
        let known = Known {
            emulator: &self.emulator,
            catalog: &self.catalog,
            plans: &self.plans,
            lagging: self.replicas.is_some(),
        };
        strict::check(&known, call).await
    }

    /// Answers a request that passed the checks; `stale` sends a read to the lagging region, if there is one.
    pub(crate) async fn answer(&self, call: &Call, checked: &Checked, stale: bool, endpoint: &str) -> Reply {
        match (&self.replicas, call.kind) {
            (Some(replicas), kind) if kind.is_write() => {
                let _still = replicas.enter().await;
                self.write(call, checked).await
            }
            (Some(replicas), kind) if kind.is_read() && stale => {
                let _still = replicas.enter().await;
                self.read(call, replicas.serving()).await
            }
            (_, kind) if kind.is_write() => self.write(call, checked).await,
            (_, kind) if kind.is_read() => self.read(call, Region::Write).await,
            _ => self.manage(call, endpoint).await,
        }
    }

    pub(crate) async fn split(&self, db: &str, container: &str, partition_id: u32) {
        match &self.replicas {
            Some(replicas) => replicas.split(db, container, partition_id).await,
            None => self.emulator.split(db, container, partition_id).await,
        }
    }

    pub(crate) async fn catch_up(&self) {
        if let Some(replicas) = &self.replicas {
            replicas.catch_up().await;
        }
    }

    /// The ids of a container's physical partitions; none if there is no such container.
    pub(crate) async fn partition_ids(&self, db: &str, container: &str) -> Vec<u32> {
        let path = format!("/dbs/{}/colls/{}/pkranges", escaped(db), escaped(container));
        let ask = Call::new(Method::GET, &path, Default::default(), Bytes::new());
        let reply = self.emulator.execute(Region::Write, &ask).await;
        let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        let ranges = body["PartitionKeyRanges"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        ranges
            .iter()
            .filter_map(|range| range["id"].as_str()?.parse().ok())
            .collect()
    }

    /// Gives every answer the id of its activity, as the service does.
    pub(crate) fn stamp(&self, call: &Call, reply: &mut Reply) {
        if reply.headers.contains_key(ACTIVITY_ID) {
            return;
        }
        let activity = call.headers.get(ACTIVITY_ID).cloned().unwrap_or_else(|| {
            let number = self.activities.fetch_add(1, Ordering::Relaxed);
            HeaderValue::from_str(&format!("00000000-0000-4000-8000-{number:012x}"))
                .expect("hexadecimal digits and dashes make a header value")
        });
        reply.headers.insert(ACTIVITY_ID, activity);
    }

    async fn read(&self, call: &Call, region: Region) -> Reply {
        if call.kind == RequestKind::Read {
            return self.emulator.execute(region, call).await;
        }
        self.pages.page(&self.emulator, region, call).await
    }

    async fn write(&self, call: &Call, checked: &Checked) -> Reply {
        if let Some(plan) = &checked.batch {
            let reply = match &plan.body {
                Some(body) => {
                    let reworded = Call {
                        body: body.clone(),
                        ..call.clone()
                    };
                    self.emulator.execute(Region::Write, &reworded).await
                }
                None => self.emulator.execute(Region::Write, call).await,
            };
            return plan.restore(reply);
        }
        let Some(etag) = call.header("if-match") else {
            return self.emulator.execute(Region::Write, call).await;
        };
        let mut plain = call.clone();
        if etag == "*" {
            plain.headers.remove("if-match");
        }
        if call.kind != RequestKind::Upsert {
            return self.emulator.execute(Region::Write, &plain).await;
        }
        // A conditional upsert is a replace that misses with another status.
        let id = serde_json::from_slice::<Value>(&call.body)
            .ok()
            .and_then(|document| document["id"].as_str().map(escaped))
            .unwrap_or_default();
        plain.headers.remove(IS_UPSERT);
        let replace = Call::new(
            Method::PUT,
            &format!("{}/{id}", call.path),
            plain.headers,
            call.body.clone(),
        );
        let reply = self.emulator.execute(Region::Write, &replace).await;
        if reply.status == StatusCode::NOT_FOUND {
            let message = "One of the specified pre-condition is not met.";
            return Reply::error(StatusCode::PRECONDITION_FAILED, None, message);
        }
        reply
    }

    async fn manage(&self, call: &Call, endpoint: &str) -> Reply {
        let segments: Vec<&str> = call.segments.iter().map(String::as_str).collect();
        match (&call.method, segments.as_slice()) {
            (&Method::GET, []) => with_endpoint(self.emulator.execute(Region::Write, call).await, endpoint),
            (&Method::POST, ["dbs", db, "colls"]) if !call.flag(IS_QUERY) => self.create_container(call, db).await,
            (&Method::PUT | &Method::DELETE, ["dbs", ..]) => {
                let reply = self.emulator.execute(Region::Write, call).await;
                self.catalog.forget();
                reply
            }
            _ => self.emulator.execute(Region::Write, call).await,
        }
    }

    /// Makes a container with our number of partitions, then gives it the rest of its definition.
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
        if let Err(message) = self
            .emulator
            .create_container(db, name, &definition["partitionKey"], self.partitions)
        {
            return Reply::error(StatusCode::BAD_REQUEST, None, &message);
        }
        let mut complete = Call::new(Method::PUT, &path, call.headers.clone(), call.body.clone());
        complete.headers.remove("if-match");
        let mut reply = self.emulator.execute(Region::Write, &complete).await;
        self.catalog.forget();
        if reply.status == StatusCode::OK {
            reply.status = StatusCode::CREATED;
        }
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

fn escaped(id: &str) -> String {
    utf8_percent_encode(id, NON_ALPHANUMERIC).to_string()
}
