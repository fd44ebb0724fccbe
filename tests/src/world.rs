//! One test's Cosmos DB.

use crate::log::quiet_by_default;
use cosmos::{
    ClientConfig, Clock, Container, CosmosClient, Key, PartitionKey, Query, StaticKey, SystemClock, Throughput,
};
use cosmos_emulator::{CosmosServer, Listener, ServerOptions};
use duroxide_cosmos::{CosmosConfig, CosmosConfigBuilder, CosmosProvider, Ids, RandomIds};
use duroxide_lambda::{Wakeup, WorkTarget};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;

const DATABASE: &str = "tests";

/// A container that no other test uses.
pub struct World {
    /// The server, unless the tests run against a real account.
    server: Option<CosmosServer>,
    endpoint: String,
    key: String,
    container: String,
}

impl World {
    /// A fresh container with the default number of physical partitions.
    pub async fn start() -> World {
        World::with(ServerOptions::default()).await
    }

    /// A fresh container on a server with these options, which a real account ignores.
    pub async fn with(options: ServerOptions) -> World {
        let container = format!("c{}", RandomIds.unique());
        let real = std::env::var("COSMOS_ENDPOINT")
            .ok()
            .zip(std::env::var("COSMOS_KEY").ok());
        if let Some((endpoint, key)) = real {
            quiet_by_default();
            let world = World {
                server: None,
                endpoint,
                key,
                container,
            };
            world.bootstrap().await;
            return world;
        }
        World::local(options).await
    }

    /// A fresh container on the emulator, whatever the environment says: for tests that inject faults or count requests.
    pub async fn local(options: ServerOptions) -> World {
        quiet_by_default();
        let server = CosmosServer::start(options).await.expect("the emulator starts");
        let (endpoint, key) = (server.listener().endpoint(), server.listener().key());
        let container = format!("c{}", RandomIds.unique());
        let world = World {
            server: Some(server),
            endpoint,
            key,
            container,
        };
        world.bootstrap().await;
        world.listener().reset();
        world
    }

    /// What another process needs to join this world.
    pub fn handle(&self) -> String {
        [&*self.endpoint, &*self.key, &*self.container].join("\n")
    }

    /// The world of another process.
    pub fn joined(handle: &str) -> World {
        quiet_by_default();
        let [endpoint, key, container] = handle.splitn(3, '\n').collect::<Vec<_>>()[..] else {
            panic!("this is not the handle of a world");
        };
        World {
            server: None,
            endpoint: endpoint.to_owned(),
            key: key.to_owned(),
            container: container.to_owned(),
        }
    }

    async fn bootstrap(&self) {
        let config = self.config(&self.endpoint).create_with(Throughput::Serverless).build();
        CosmosProvider::connect(config)
            .await
            .expect("database and container are created");
    }

    /// The emulator.
    pub fn server(&self) -> &CosmosServer {
        self.server.as_ref().expect("this test runs on the emulator")
    }

    /// Its first listener.
    pub fn listener(&self) -> &Listener {
        self.server().listener()
    }

    /// One more listener, with faults and counters of its own.
    pub async fn open_listener(&self) -> Listener {
        self.server().open_listener().await.expect("a listener opens")
    }

    /// One more process, with a listener of its own.
    pub async fn process_at(&self, clock: &Arc<impl Clock + 'static>) -> (Listener, Arc<CosmosProvider>) {
        let listener = self.open_listener().await;
        let clock = Arc::clone(clock) as Arc<dyn Clock>;
        let provider = connect(self.builder_through(&listener).clock(clock)).await;
        (listener, provider)
    }

    /// The database and container of this world.
    pub fn names(&self) -> (&str, &str) {
        (DATABASE, &self.container)
    }

    fn config(&self, endpoint: &str) -> CosmosConfigBuilder {
        let key = Key::from_base64(&self.key).expect("the key is base64");
        CosmosConfig::builder(endpoint, StaticKey::new(key))
            .database(DATABASE)
            .container(&self.container)
    }

    /// A configuration for this store, to be refined.
    pub fn builder(&self) -> CosmosConfigBuilder {
        self.config(&self.endpoint)
    }

    /// A configuration that goes through another listener.
    pub fn builder_through(&self, listener: &Listener) -> CosmosConfigBuilder {
        self.config(&listener.endpoint())
    }

    /// A provider with defaults.
    pub async fn provider(&self) -> Arc<CosmosProvider> {
        connect(self.builder()).await
    }

    /// A provider whose time is `clock`.
    pub async fn provider_at(&self, clock: &Arc<impl Clock + 'static>) -> Arc<CosmosProvider> {
        let clock: Arc<dyn Clock> = Arc::clone(clock) as Arc<dyn Clock>;
        connect(self.builder().clock(clock)).await
    }

    /// The container itself, without the provider.
    pub fn raw(&self) -> Container {
        let key = Key::from_base64(&self.key).expect("the key is base64");
        let config = ClientConfig::new(&self.endpoint, StaticKey::new(key)).expect("the endpoint is valid");
        let config = config.clock(Arc::new(SystemClock));
        CosmosClient::new(config).container(DATABASE, &self.container)
    }

    /// All documents of all instances.
    pub async fn documents(&self) -> Vec<Value> {
        self.raw()
            .scan(&Query::new("SELECT * FROM c"))
            .await
            .expect("the container can be scanned")
    }

    /// All documents of a type.
    pub async fn documents_of(&self, kind: &str) -> Vec<Value> {
        self.documents()
            .await
            .into_iter()
            .filter(|doc| doc["type"] == kind)
            .collect()
    }

    /// A wakeup for each activity that is queued, due or claimed.
    pub async fn work_wakeups(&self) -> Vec<Wakeup> {
        let docs = self.documents_of("work").await;
        let wakeup = |doc: &Value| {
            let id = doc["id"].as_str().expect("an id");
            let mut parts = id.split(':').skip(1).map(|part| part.parse().expect("a number"));
            Wakeup::work(WorkTarget {
                instance: doc["pk"].as_str().expect("an instance").to_owned(),
                execution: parts.next().expect("an execution"),
                activity: parts.next().expect("an activity"),
                ..WorkTarget::default()
            })
        };
        docs.iter().map(wakeup).collect()
    }

    /// One document of an instance.
    pub async fn document(&self, instance: &str, id: &str) -> Option<Value> {
        let pk = PartitionKey::new(instance).expect("a valid partition key");
        self.raw()
            .read(&pk, id)
            .await
            .expect("the document can be read")
            .map(|found| found.doc)
    }
}

/// A connected provider, ready for its first request: tests with short time limits are not about root certificates.
pub async fn connect(config: CosmosConfigBuilder) -> Arc<CosmosProvider> {
    let provider = CosmosProvider::connect(config.build())
        .await
        .expect("the provider connects");
    provider.warm();
    Arc::new(provider)
}

/// An address that refuses connections, as long as the socket lives: it is bound, so nobody else can listen there.
pub fn refused_address() -> (SocketAddr, tokio::net::TcpSocket) {
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket
        .bind(SocketAddr::from(([127, 0, 0, 1], 0)))
        .expect("a port of the machine");
    let address = socket.local_addr().expect("an address");
    (address, socket)
}
