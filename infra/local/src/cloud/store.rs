//! Opens the store of a cloud and provisions its container.

use super::options::{CloudError, CloudOptions, Store};
use super::variables::Account;
use cosmos::{Key, StaticKey, Throughput};
use cosmos_emulator::CosmosServer;
use duroxide_cosmos::{CosmosConfig, CosmosProvider};
use std::time::Duration;

/// The limit for provisioning. A person waits, so an account that does not answer is reported soon.
const PROVISION_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) async fn open(options: &CloudOptions) -> Result<(Option<CosmosServer>, Account), CloudError> {
    match &options.store {
        Store::Account { endpoint, key } => {
            let account = Account {
                endpoint: endpoint.clone(),
                key: key.clone(),
            };
            Ok((None, account))
        }
        Store::Embedded(server) => {
            let server = CosmosServer::start(server.clone()).await?;
            let account = Account {
                endpoint: server.listener().endpoint(),
                key: server.listener().key(),
            };
            Ok((Some(server), account))
        }
    }
}

/// Creates database and container, or verifies them.
pub(super) async fn provision(options: &CloudOptions, account: &Account) -> Result<(), CloudError> {
    let failed = |reason: String| CloudError::Store {
        endpoint: account.endpoint.clone(),
        reason,
    };
    let key = Key::from_base64(&account.key).map_err(|error| failed(error.to_string()))?;
    let config = CosmosConfig::builder(&account.endpoint, StaticKey::new(key))
        .database(&options.database)
        .container(&options.container)
        .create_with(Throughput::Serverless)
        .operation_timeout(PROVISION_TIMEOUT)
        .build();
    let connected = CosmosProvider::connect(config).await;
    connected.map(drop).map_err(|error| failed(error.to_string()))
}
