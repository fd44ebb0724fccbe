//! An emulator with one database and one container, and a client of it.

use std::sync::Arc;

use cosmos::{
    ClientConfig, Container, ContainerSpec, CosmosClient, Ensured, IndexingPolicy, Key, StaticKey, Throughput,
};
use cosmos_emulator::{CosmosServer, ServerOptions};

use super::Recorder;

pub struct Account {
    pub server: CosmosServer,
    pub client: CosmosClient,
    pub recorder: Arc<Recorder>,
}

impl Account {
    pub async fn start(options: ServerOptions) -> Account {
        let server = CosmosServer::start(options).await.unwrap();
        let recorder = Arc::new(Recorder::default());
        let observer: Arc<dyn cosmos::Observer> = Arc::<Recorder>::clone(&recorder);
        let client = CosmosClient::new(config(&server).observer(observer));
        client.ensure_database("db", None).await.unwrap();
        assert_eq!(
            client.ensure_container("db", &spec("/pk")).await.unwrap(),
            Ensured::Created
        );
        Account {
            server,
            client,
            recorder,
        }
    }

    pub fn container(&self) -> Container {
        self.client.container("db", "things")
    }

    /// A client that has seen nothing of what the first has done.
    pub fn second_client(&self) -> CosmosClient {
        CosmosClient::new(config(&self.server))
    }
}

pub async fn account() -> Account {
    Account::start(ServerOptions::default()).await
}

pub fn config(server: &CosmosServer) -> ClientConfig {
    let key = StaticKey::new(Key::from_base64(&server.listener().key()).unwrap());
    ClientConfig::new(&server.listener().endpoint(), key).unwrap()
}

pub fn spec(partition_key_path: &str) -> ContainerSpec {
    ContainerSpec {
        name: "things".into(),
        partition_key_path: partition_key_path.into(),
        indexing: IndexingPolicy::default(),
        default_ttl: Some(-1),
        throughput: Throughput::Autoscale(4_000),
    }
}
