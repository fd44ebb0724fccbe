//! A fresh server for one workload on one side, with a listener whose requests are counted, for the provider, and another
//! listener, to prepare and watch.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use cosmos::{Key, StaticKey, Throughput};
use cosmos_emulator::{CosmosServer, Listener, ServerOptions};
use duroxide::providers::Provider;
use duroxide::providers::sqlite::SqliteProvider;
use duroxide_cdb::{CosmosDBProvider, CosmosDBProviderConfig};
use duroxide_cosmos::{CosmosConfig, CosmosProvider};
use serde::Serialize;

use crate::processor;
use crate::proxy::BatchProxy;

const DATABASE: &str = "bench";
const CONTAINER: &str = "workflows";
/// The dispatchers of each kind, on both sides.
pub const DISPATCHERS: u32 = 8;

/// Which provider runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// `CosmosProvider`.
    Ours,
    /// `duroxide-cdb`.
    Peer,
    /// duroxide's SQLite provider, in the memory of the process: no requests, so only its time counts.
    Sqlite,
}

/// A server with an empty container.
pub struct Arena {
    side: Side,
    /// Into how many parts the peer divides its queue.
    peer_slots: u32,
    counted: Endpoint,
    uncounted: Endpoint,
    sqlite: Option<Arc<SqliteProvider>>,
    // Dropped last: the listeners close with it.
    _server: CosmosServer,
}

struct Endpoint {
    listener: Listener,
    proxy: BatchProxy,
}

impl Endpoint {
    async fn of(listener: Listener) -> Result<Endpoint> {
        let proxy = BatchProxy::start(listener.address())
            .await
            .context("the proxy did not start")?;
        Ok(Endpoint { listener, proxy })
    }
}

impl Arena {
    /// Starts a server for one side, on the emulator's own runtime.
    pub async fn open(side: Side, peer_slots: u32) -> Result<Arena> {
        processor::of_emulator().spawn(Arena::start(side, peer_slots)).await?
    }

    async fn start(side: Side, peer_slots: u32) -> Result<Arena> {
        // The peer has queries that no index serves. What they examine is not part of the estimated charge.
        let options = ServerOptions {
            allow_scans: true,
            ..ServerOptions::default()
        };
        let server = CosmosServer::start(options).await?;
        let sqlite = match side {
            Side::Sqlite => Some(Arc::new(SqliteProvider::new_in_memory().await?)),
            Side::Ours | Side::Peer => None,
        };
        Ok(Arena {
            side,
            peer_slots,
            counted: Endpoint::of(server.listener().clone()).await?,
            uncounted: Endpoint::of(server.open_listener().await?).await?,
            sqlite,
            _server: server,
        })
    }

    /// The listener whose requests are counted.
    pub fn listener(&self) -> &Listener {
        &self.counted.listener
    }

    /// A provider whose requests are counted.
    pub async fn provider(&self) -> Result<Arc<dyn Provider>> {
        self.connect(&self.counted, Duration::from_secs(2)).await
    }

    /// A provider whose requests are not counted and which does nothing by itself.
    pub async fn watcher(&self) -> Result<Arc<dyn Provider>> {
        self.connect(&self.uncounted, Duration::from_secs(24 * 3600)).await
    }

    /// Our provider, for directed calls, which the peer does not have.
    pub async fn ours(&self) -> Result<Arc<CosmosProvider>> {
        ours(&self.counted).await
    }

    async fn connect(&self, endpoint: &Endpoint, reconciler_interval: Duration) -> Result<Arc<dyn Provider>> {
        match self.side {
            Side::Sqlite => Ok(Arc::clone(self.sqlite.as_ref().context("SQLite was not opened")?) as Arc<dyn Provider>),
            Side::Ours => Ok(ours(endpoint).await?),
            Side::Peer => {
                let config = CosmosDBProviderConfig {
                    endpoint: endpoint.proxy.endpoint(),
                    key: endpoint.listener.key(),
                    database: DATABASE.to_owned(),
                    container: CONTAINER.to_owned(),
                    orch_concurrency: self.peer_slots,
                    worker_concurrency: self.peer_slots,
                    reconciler_interval,
                    ..CosmosDBProviderConfig::default()
                };
                let peer = CosmosDBProvider::new_with_config(config)
                    .await
                    .context("the peer did not connect")?;
                Ok(Arc::new(peer))
            }
        }
    }
}

async fn ours(endpoint: &Endpoint) -> Result<Arc<CosmosProvider>> {
    let key = StaticKey::new(Key::from_base64(&endpoint.listener.key())?);
    let config = CosmosConfig::builder(endpoint.proxy.endpoint(), key)
        .database(DATABASE)
        .container(CONTAINER)
        .create_with(Throughput::Serverless)
        .build();
    Ok(Arc::new(
        CosmosProvider::connect(config)
            .await
            .context("our provider did not connect")?,
    ))
}
