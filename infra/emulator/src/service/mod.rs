//! The account behind all listeners: the emulator, plus the service's behaviour where the emulator differs.
//!
//! | the service | the emulator alone |
//! |---|---|
//! | the account names the endpoint of the request as its only one | names invented hosts |
//! | a new container has several physical partitions | has one |
//! | `If-Match: *` means that the document exists | is compared with the ETag |
//! | an upsert with `If-Match` never creates | creates |
//! | a query has pages (`paging`) | has one page of any size |
//! | a document expires (`expire`) | lives for ever |
//! | a PATCH has a condition, and a batch may have patches (`patch`) | ignores the one, refuses the other |
//! | an aggregate over partitions has a query for each of them (`plan`) | has none |
//! | a request has a price (`charge`) | has another |
//!
//! | file | role |
//! |---|---|
//! | `write` | writes of documents |
//! | `patch` | patches, which become writes |
//! | `manage` | the account, databases and containers |
//! | `plan` | aggregates over several partitions |
//! | `durable` | persistence: applies a change and commits it to the data directory |
//! | `restore` | loads the data directory into the emulator at start |
//! | `expire` | deletes expired documents |
//! | `full` | which writes a full partition refuses |

mod durable;
mod expire;
mod full;
mod manage;
mod patch;
mod plan;
mod restore;
mod write;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hyper::header::HeaderValue;
use hyper::{Method, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::sync::Mutex;

use super::catalog::Catalog;
use super::charge::{self, Footprints, QueryPage};
use super::emulator::{Emulator, Region};
use super::expiry::{self, Expiry};
use super::http::{ACTIVITY_ID, CONTINUATION, Call, ITEM_COUNT, MAX_ITEM_COUNT, RANGE_ID, Refusal, Reply};
use super::kind::RequestKind;
use super::options::{ServerOptions, StartError};
use super::paging::Pages;
use super::replica::Replicas;
use super::signature::{self, Trusted};
use super::storage::{Recovered, Storage};
use super::strict::{self, Checked, Known, PlanCache};
use super::token::TokenIssuer;

/// One account: everything that its listeners share.
pub(crate) struct Service {
    emulator: Arc<Emulator>,
    replicas: Option<Replicas>,
    catalog: Catalog,
    plans: PlanCache,
    pages: Pages,
    footprints: Footprints,
    key: String,
    key_bytes: Vec<u8>,
    tokens: TokenIssuer,
    tokens_only: AtomicBool,
    partitions: u32,
    keep_log: bool,
    allow_scans: bool,
    count_examined: bool,
    /// Makes the check whether a container exists and its creation one step.
    creating: Mutex<()>,
    activities: AtomicU64,
    expiry: Expiry,
    storage: Option<Arc<Storage>>,
    recovered: Option<Recovered>,
}

impl Service {
    /// Creates the account, with the contents of its data directory.
    pub(crate) async fn start(options: &ServerOptions) -> Result<Arc<Self>, StartError> {
        let key_bytes = STANDARD.decode(&options.key)?;
        let emulator = Arc::new(Emulator::new(options.lag.is_some())?);
        let mut service = Self {
            emulator,
            replicas: None,
            catalog: Catalog::default(),
            plans: PlanCache::default(),
            pages: Pages::default(),
            footprints: Footprints::default(),
            key: options.key.clone(),
            tokens: TokenIssuer::new(&key_bytes),
            tokens_only: AtomicBool::new(false),
            key_bytes,
            partitions: options.partitions,
            keep_log: options.keep_log,
            allow_scans: options.allow_scans,
            count_examined: options.count_examined,
            creating: Mutex::new(()),
            activities: AtomicU64::new(0),
            expiry: Expiry::default(),
            storage: None,
            recovered: None,
        };
        if let Some(path) = &options.data {
            let (storage, contents) = Storage::open(path)?;
            service.recovered = Some(Recovered {
                containers: contents.containers.len() as u64,
                documents: contents.documents.len() as u64,
            });
            service.restore(contents).await?;
            service.storage = Some(storage);
        }
        if let Some(lag) = options.lag {
            let replicas = Replicas::start(Arc::clone(&service.emulator), lag);
            // A stale read must see a recent state, not the empty account before the restart.
            replicas.catch_up().await;
            service.replicas = Some(replicas);
        }
        Ok(Arc::new(service))
    }

    /// What the data directory held; `None` without one.
    pub(crate) fn recovered(&self) -> Option<Recovered> {
        self.recovered
    }

    /// Forces everything to the disk and releases the data directory.
    pub(crate) async fn close(&self) -> std::io::Result<()> {
        match &self.storage {
            Some(storage) => storage.close().await,
            None => Ok(()),
        }
    }

    /// Whether the listeners keep a record of every request.
    pub(crate) fn keeps_log(&self) -> bool {
        self.keep_log
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// The issuer of the tokens that the account accepts.
    pub(crate) fn tokens(&self) -> &TokenIssuer {
        &self.tokens
    }

    /// Refuses the key from now on.
    pub(crate) fn accept_tokens_only(&self) {
        self.tokens_only.store(true, Ordering::SeqCst);
    }

    /// Refuses requests that the service refuses.
    pub(crate) async fn check(&self, call: &Call) -> Result<Checked, Refusal> {
        let trusted = Trusted {
            key: &self.key_bytes,
            tokens_only: self.tokens_only.load(Ordering::SeqCst),
            issuer: &self.tokens,
        };
        signature::check(call, &trusted)?;
        strict::check(&self.known(), call).await
    }

    fn known(&self) -> Known<'_> {
        Known {
            emulator: &self.emulator,
            catalog: &self.catalog,
            plans: &self.plans,
            lagging: self.replicas.is_some(),
            allow_scans: self.allow_scans,
        }
    }

    /// Answers a request that passed the checks; `stale` sends a read to the lagging region, if there is one.
    pub(crate) async fn answer(self: &Arc<Self>, call: &Call, checked: &Checked, stale: bool, endpoint: &str) -> Reply {
        if let Some(why) = self.storage.as_ref().and_then(|storage| storage.failure()) {
            return unavailable(why);
        }
        if call.kind.is_document() && self.expiry.is_due() {
            self.expire(expiry::now()).await;
        }
        let mut reply = self.carry_out(call, checked, stale, endpoint).await;
        self.charge(call, &mut reply).await;
        reply
    }

    async fn carry_out(self: &Arc<Self>, call: &Call, checked: &Checked, stale: bool, endpoint: &str) -> Reply {
        match (&self.replicas, call.kind) {
            (Some(replicas), kind) if kind.is_read() && stale => {
                let _no_update = replicas.enter().await;
                self.read(call, replicas.serving()).await
            }
            (_, kind) if kind.is_read() => self.read(call, Region::Write).await,
            (_, kind) if kind.is_write() => match (&checked.patch, &checked.batch) {
                (Some(patch), _) => self.patch(call, patch).await,
                (None, Some(batch)) if batch.patches => self.patch_batch(call).await,
                _ => self.change(call, checked).await,
            },
            _ if manage::is_change(call) => self.change(call, checked).await,
            _ => self.look_up(call, endpoint).await,
        }
    }

    /// Sets the price of a request. A successful write and a batch have theirs already: it depends on the documents before.
    async fn charge(&self, call: &Call, reply: &mut Reply) {
        match call.kind {
            RequestKind::Read => charge::charge_read(reply),
            RequestKind::Query | RequestKind::CrossPartitionQuery => {
                charge::charge_query(reply, self.query_page(call, 0).await);
            }
            RequestKind::PkRanges | RequestKind::Metadata => charge::charge_nothing(reply),
            RequestKind::Batch => {}
            _ if reply.is_success() => {}
            _ => charge::charge_failed_write(reply),
        }
    }

    /// Adds the documents that a query has examined to its price.
    pub(crate) async fn charge_examined(&self, call: &Call, reply: &mut Reply, examined: u64) {
        let examined = usize::try_from(examined).unwrap_or(usize::MAX);
        charge::charge_query(reply, self.query_page(call, examined).await);
    }

    async fn query_page(&self, call: &Call, examined: usize) -> QueryPage {
        let is_over_all = call.kind == RequestKind::CrossPartitionQuery && !call.headers.contains_key(RANGE_ID);
        let partitions = match call.container() {
            Some((db, container)) if is_over_all => self.partition_ids(db, container).await.len(),
            _ => 1,
        };
        QueryPage {
            partitions: partitions.max(1),
            examined,
            ..QueryPage::default()
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
        let list = Call::new(Method::GET, &path, Default::default(), Bytes::new());
        let reply = self.emulator.execute(Region::Write, &list).await;
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

    /// Adds the activity id to a reply, as the service does.
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

    /// How many documents a page of a query over several partitions examines; 0 when they are not counted. Where a page examines more
    /// than it returns, the first page counts for all.
    pub(crate) async fn examined(&self, call: &Call, checked: &Checked, reply: &Reply) -> u64 {
        let (Some(seek), true) = (&checked.seek, self.count_examined) else {
            return 0;
        };
        if seek.is_exact() {
            return reply
                .header(ITEM_COUNT)
                .and_then(|count| count.parse().ok())
                .unwrap_or_default();
        }
        if call.headers.contains_key(CONTINUATION) {
            return 0;
        }
        let Ok(mut body) = serde_json::from_slice::<Value>(&call.body) else {
            return 0;
        };
        body["query"] = Value::from(seek.counting());
        let mut count = call.clone();
        count.body = Bytes::from(body.to_string());
        count.headers.remove(MAX_ITEM_COUNT);
        let reply = self.emulator.execute(Region::Write, &count).await;
        let found: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        // Over the whole container the emulator returns one sum, in one physical partition as well.
        found["Documents"][0].as_u64().unwrap_or_default()
    }

    async fn read(&self, call: &Call, region: Region) -> Reply {
        if call.kind == RequestKind::Read {
            return self.emulator.execute(region, call).await;
        }
        if let Some(part) = Some(call).filter(|call| call.is_query()).and_then(plan::Part::of) {
            return part.restore(self.emulator.execute(region, &part.call).await);
        }
        self.pages.page(&self.emulator, region, call).await
    }
}

/// 503: the store has stopped, and nothing was done.
fn unavailable(why: &str) -> Reply {
    Reply::error(
        StatusCode::SERVICE_UNAVAILABLE,
        None,
        &format!("The store has stopped: {why}."),
    )
}

fn escaped(id: &str) -> String {
    utf8_percent_encode(id, NON_ALPHANUMERIC).to_string()
}
