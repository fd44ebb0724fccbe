//! Where one side runs one workload: a fresh server, a counted listener for the provider, and a second listener, not counted,
//! for whoever prepares and watches.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use cosmos::{Key, StaticKey, Throughput};
use duroxide::providers::Provider;
use duroxide_cdb::{CosmosDBProvider, CosmosDBProviderConfig};
use duroxide_cosmos::{CosmosConfig, CosmosProvider};
use cosmos_emulator::{CosmosServer, Listener, ServerOptions};
use serde::Serialize;

use crate::amend::Amend;

const DATABASE: &str = "bench";
const CONTAINER: &str = "workflows";
/// The dispatchers of each kind, on both sides.
pub const DISPATCHERS: u32 = 8;

/// Who runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// `CosmosProvider`.
    Ours,
    /// `duroxide-cdb`.
    Peer,
}

/// A server with an empty container.
pub struct Arena {
    side: Side,
    /// Between how many dispatchers the peer divides its queue.
    peer_slots: u32,
    counted: Gate,
    uncounted: Gate,
    // Dropped last: the listeners close with it.
    _server: CosmosServer,
}

struct Gate {
    listener: Listener,
    proxy: Amend,
}

impl Gate {
    async fn of(listener: Listener) -> Result<Gate> {
        let proxy = Amend::start(listener.address()).await.context("the proxy did not start")?;
        Ok(Gate { listener, proxy })
    }
}

impl Arena {
    /// Starts a server for one side.
    pub async fn open(side: Side, peer_slots: u32) -> Result<Arena> {
        let server = CosmosServer::start(ServerOptions::default()).await?;
        Ok(Arena {
            side,
            peer_slots,
            counted: Gate::of(server.listener().clone()).await?,
            uncounted: Gate::of(server.open_listener().await?).await?,
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

    /// A provider whose requests are not counted, and which does nothing on its own.
    pub async fn watcher(&self) -> Result<Arc<dyn Provider>> {
        self.connect(&self.uncounted, Duration::from_secs(24 * 3600)).await
    }

    /// Our provider, for the calls that the peer does not have.
    pub async fn ours(&self) -> Result<Arc<CosmosProvider>> {
        ours(&self.counted).await
    }

    async fn connect(&self, gate: &Gate, reconciler_interval: Duration) -> Result<Arc<dyn Provider>> {
        match self.side {
            Side::Ours => Ok(ours(gate).await?),
            Side::Peer => {
                let config = CosmosDBProviderConfig {
                    endpoint: gate.proxy.endpoint(),
                    key: gate.listener.key(),
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

async fn ours(gate: &Gate) -> Result<Arc<CosmosProvider>> {
    let key = StaticKey::new(Key::from_base64(&gate.listener.key())?);
    let config = CosmosConfig::builder(gate.proxy.endpoint(), key)
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
